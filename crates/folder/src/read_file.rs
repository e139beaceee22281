//! A file that an operator names, read without being waited for.

use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The length from which a file is none that an operator means, in bytes: lists of revoked certificates have some
/// megabytes, and a device may have no end.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a file, and returns its content with the metadata of the very file that it is from.
///
/// A pipe is read until its writers have closed it. One without a writer, and a device that has nothing yet, as a terminal,
/// would keep the reader for ever: they are refused.
///
/// # Errors
/// The system's, or there is nobody to wait for, or the file is longer than 64 MiB.
pub fn read_file(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let (bytes, about) = read_file_start(path, MAX_BYTES + 1)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("it is longer than 64 MiB")),
        false => Ok((bytes, about)),
    }
}

/// Reads a file that is text, as [`read_file`] does.
///
/// # Errors
/// The errors of [`read_file`], or the file is no UTF-8.
pub fn read_text_file(path: &Path) -> io::Result<String> {
    let (bytes, _) = read_file(path)?;
    String::from_utf8(bytes).map_err(|_| {
        let text = "it is not text in UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Reads the first `limit` bytes of a file, as [`read_file`] does.
///
/// # Errors
/// The system's, or there is nobody to wait for.
pub fn read_file_start(path: &Path, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let mut file = options.open(path)?;
    let about = file.metadata()?;
    let mut bytes = Vec::new();
    if about.file_type().is_fifo() {
        bytes.resize(1, 0);
        match file.read(&mut bytes) {
            Ok(0) => return Err(io::Error::other("it is a pipe that nobody writes to")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => bytes.clear(),
            read => drop(read?),
        }
        fcntl_setfl(&file, OFlags::empty())?;
    }
    let rest = limit.saturating_sub(bytes.len() as u64);
    match file.take(rest).read_to_end(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::other("it is a device that has nothing to read"))
        }
        read => read.map(|_| (bytes, about)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::fs;
    use std::io::Write;

    fn refusal(path: &Path) -> String {
        read_file(path).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_whole_and_as_far_as_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        let (bytes, about) = read_file(&path).unwrap();
        assert_eq!((&*bytes, about.len()), (&b"text"[..], 4));
        assert_eq!(read_file_start(&path, 2).unwrap().0, b"te");
        assert_eq!(read_text_file(&path).unwrap(), "text");
        fs::write(&path, b"\xff").unwrap();
        let error = read_text_file(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let missing = read_file(&dir.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(refusal(dir.path()).contains("directory"));
    }

    #[test]
    fn a_pipe_is_read_while_it_is_written_and_refused_where_nobody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        assert_eq!(refusal(&path), "it is a pipe that nobody writes to");
        // Open for both, it needs no reader to begin; a pipe holds less than it writes.
        let mut options = File::options();
        let mut pipe = options.read(true).write(true).open(&path).unwrap();
        let writer = std::thread::spawn(move || pipe.write_all(&[b'a'; 200_000]).unwrap());
        let (bytes, _) = read_file(&path).unwrap();
        writer.join().unwrap();
        assert_eq!(bytes, vec![b'a'; 200_000]);
    }

    #[test]
    fn a_device_without_end_or_with_nothing_to_read_keeps_nobody_waiting() {
        assert_eq!(refusal(Path::new("/dev/zero")), "it is longer than 64 MiB");
        assert_eq!(read_file(Path::new("/dev/null")).unwrap().0, b"");
        // A terminal at which nobody has typed; not everywhere is one to be had.
        if File::open("/dev/ptmx").is_err() {
            return;
        }
        assert_eq!(
            refusal(Path::new("/dev/ptmx")),
            "it is a device that has nothing to read"
        );
    }
}
