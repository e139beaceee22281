//! `SHA256SUMS` of a run folder, in the format of `sha256sum`: what the files were when the run's report was
//! written, so that everybody can see whether they still are.

use crate::table::folder_error;
use crate::{Error, write_whole};
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file with the sums.
pub(crate) const CHECKSUMS: &str = "SHA256SUMS";

/// Files of a run folder that are looked at, at most.
const MAX_FILES: usize = 20_000;

/// Writes the sums of all files of a run folder.
///
/// # Errors
/// A file can't be read, or the sums can't be written.
pub fn write_checksums(run: &Path) -> Result<(), Error> {
    let mut text = String::new();
    for (name, path) in files(run)? {
        let _ = writeln!(text, "{}  {name}", sum(&path)?);
    }
    write_whole(&run.join(CHECKSUMS), text.as_bytes())
}

/// The names of files that are not what the sums say, or are gone; none where there are no sums.
///
/// # Errors
/// A file can't be read.
pub fn changed_files(run: &Path) -> Result<Vec<String>, Error> {
    let path = run.join(CHECKSUMS);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(folder_error("read", &path))?,
    };
    let there = files(run)?;
    let mut changed = Vec::new();
    for (expected, name) in text.lines().filter_map(|line| line.split_once("  ")) {
        let is_same = match there.get(name) {
            Some(path) => sum(path)? == expected,
            None => false,
        };
        if !is_same {
            changed.push(name.to_owned());
        }
    }
    Ok(changed)
}

/// The files of a run folder by their names within it, sums and unfinished files left out.
pub(crate) fn files(run: &Path) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(String::new(), run.to_owned())];
    while let Some((prefix, folder)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(folder_error("read", &folder))?;
        for entry in entries {
            let entry = entry.map_err(folder_error("read", &folder))?;
            let kind = entry.file_type().map_err(folder_error("read", &folder))?;
            let Ok(own) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{prefix}{own}");
            if kind.is_dir() {
                folders.push((format!("{name}/"), entry.path()));
            } else if kind.is_file() && name != CHECKSUMS && !name.ends_with(".part") {
                found.insert(name, entry.path());
            }
            if found.len() + folders.len() > MAX_FILES {
                let source = io::Error::other(format!("it holds more than {MAX_FILES} files"));
                return Err(folder_error("read", run)(source));
            }
        }
    }
    Ok(found)
}

/// SHA-256 of a file in hexadecimal.
pub(crate) fn sum(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(folder_error("read", path))?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer).map_err(folder_error("read", path))? {
            0 => break,
            length => context.update(&buffer[..length]),
        }
    }
    Ok(in_hexadecimal(context.finish().as_ref()))
}

/// SHA-256 of bytes in hexadecimal.
pub(crate) fn sum_of(bytes: &[u8]) -> String {
    in_hexadecimal(aws_lc_rs::digest::digest(&SHA256, bytes).as_ref())
}

fn in_hexadecimal(digest: &[u8]) -> String {
    let mut text = String::with_capacity(2 * digest.len());
    for byte in digest {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_and_one_that_is_gone_are_named() {
        let run = tempfile::tempdir().unwrap();
        let path = |name: &str| run.path().join(name);
        assert_eq!(changed_files(run.path()).unwrap(), [""; 0]);
        fs::create_dir(path("traces")).unwrap();
        for name in ["samples.csv", "traces/a", "x.part"] {
            fs::write(path(name), "abc").unwrap();
        }
        write_checksums(run.path()).unwrap();
        let text = fs::read_to_string(path(CHECKSUMS)).unwrap();
        // FIPS 180-2's own example.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, format!("{abc}  samples.csv\n{abc}  traces/a\n"));
        assert_eq!(changed_files(run.path()).unwrap(), [""; 0]);
        fs::write(path("samples.csv"), "abd").unwrap();
        fs::remove_file(path("traces/a")).unwrap();
        assert_eq!(
            changed_files(run.path()).unwrap(),
            ["samples.csv", "traces/a"]
        );
    }
}
