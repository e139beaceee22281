//! A tar archive (POSIX.1-1988, "ustar") of files, the same bytes for the same files: no owners, one time.

use std::io::{self, Write};

/// A block; all of an archive is made of them.
const BLOCK: usize = 512;

/// Bytes of a name before its prefix, and of the prefix.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// Writes files one after the other.
#[derive(Debug)]
pub(crate) struct Tar<W> {
    out: W,
    /// Seconds since 1970 that all files are said to be of.
    time: u64,
}

impl<W: Write> Tar<W> {
    pub(crate) fn new(out: W, time: u64) -> Self {
        Self { out, time }
    }

    /// Adds a file of `length` bytes, as many of which `content` must have.
    pub(crate) fn add(
        &mut self,
        name: &str,
        length: u64,
        content: &mut dyn io::Read,
    ) -> io::Result<()> {
        self.out.write_all(&header(name, length, self.time)?)?;
        let copied = io::copy(&mut io::Read::take(content, length), &mut self.out)?;
        if copied != length {
            return Err(io::Error::other(format!("{name} became shorter")));
        }
        let rest = usize::try_from(length % BLOCK as u64).expect("below a block");
        let padding = (BLOCK - rest) % BLOCK;
        self.out.write_all(&[0; BLOCK][..padding])
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

fn header(name: &str, length: u64, time: u64) -> io::Result<[u8; BLOCK]> {
    let (prefix, name) = split(name)?;
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, octal(length)?.as_bytes());
    put(136, octal(time)?.as_bytes());
    // The checksum is taken over blanks in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// Eleven digits and their end.
fn octal(number: u64) -> io::Result<String> {
    match number < 1 << 33 {
        true => Ok(format!("{number:011o}\0")),
        false => Err(io::Error::other(
            "a file of 8 GiB does not fit the archive's format",
        )),
    }
}

/// A path in two parts that fit the header.
fn split(path: &str) -> io::Result<(&str, &str)> {
    if path.len() <= NAME {
        return Ok(("", path));
    }
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let fits = |at: &usize| *at <= PREFIX && path.len() - at - 1 <= NAME;
    let at = slashes.rev().find(fits);
    let at = at.ok_or_else(|| io::Error::other(format!("the name {path} is too long")))?;
    Ok((&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = Tar::new(Vec::new(), 1_790_000_000);
        for (name, content) in files {
            tar.add(name, content.len() as u64, &mut &content[..])
                .unwrap();
        }
        tar.finish().unwrap()
    }

    #[test]
    fn tar_reads_what_was_written() {
        let long = format!("{}/{}", "folder".repeat(20), "name".repeat(20));
        let bytes = archive(&[
            ("a/empty", b""),
            ("a/block", &[b'x'; 512]),
            (&long, b"end\n"),
        ]);
        assert_eq!(bytes.len() % BLOCK, 0);
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("tar");
        command.args(["-xf", "-"]).current_dir(folder.path());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(child.wait().unwrap().success());
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        assert_eq!((read("a/empty").len(), read("a/block").len()), (0, 512));
        assert_eq!(read(&long), b"end\n");
    }

    #[test]
    fn what_the_format_has_no_room_for_is_refused() {
        assert!(split(&"x".repeat(101)).is_err());
        assert!(octal(1 << 33).is_err());
        let mut tar = Tar::new(Vec::new(), 0);
        let error = tar.add("a", 5, &mut &b"abc"[..]).unwrap_err();
        assert_eq!(error.to_string(), "a became shorter");
    }
}
