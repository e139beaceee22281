//! A file of rows that only grows: kept whole, whatever becomes of the process that writes it.

use crate::Error;
use altway_record::{CSV_HEADER, Sample, csv_rows, read_whole};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file of rows that this process may write to; locked against others as long as it is open.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    file: File,
    length: u64,
    samples: Vec<Sample>,
}

impl Table {
    /// Opens the file `name` in the run folder `run`, and makes it if there is none. A row that a
    /// crash or a full disk cut off is removed.
    pub(crate) fn open(run: &Path, name: &str) -> Result<Self, Error> {
        let path = run.join(name);
        let mut file = open_locked(&path, run)?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(folder_error("read", &path))?;
        let (samples, length) = read_whole(&text).map_err(|source| Error::Samples {
            path: path.clone(),
            source,
        })?;
        let length = length as u64;
        file.set_len(length).map_err(folder_error("write", &path))?;
        file.seek(SeekFrom::End(0))
            .map_err(folder_error("write", &path))?;
        let mut table = Self {
            path,
            file,
            length,
            samples,
        };
        if length == 0 {
            table.append_text(CSV_HEADER)?;
        }
        Ok(table)
    }

    /// Adds the rows of a transfer, which get the next ordinal. On a full disk the file keeps its last
    /// whole transfer.
    ///
    /// # Errors
    /// The rows can't be written; then none of them is in the file.
    pub(crate) fn append(&mut self, mut rows: Vec<Sample>) -> Result<(), Error> {
        let ordinal = self.samples.last().map_or(0, |last| last.ordinal + 1);
        for row in &mut rows {
            row.ordinal = ordinal;
        }
        self.append_text(&csv_rows(&rows))?;
        self.samples.extend(rows);
        Ok(())
    }

    /// The rows so far.
    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    fn append_text(&mut self, text: &str) -> Result<(), Error> {
        if let Err(source) = self.file.write_all(text.as_bytes()) {
            // The length is only shortened: a full disk can't refuse it, and if it does all the
            // same, the reader leaves the cut row out.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(Error::Folder {
                action: "write",
                path: self.path.clone(),
                source,
            });
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

/// Time after which a lock is tried once more: [`is_locked`] of another process has it for a moment.
const SECOND_TRY: Duration = Duration::from_millis(20);

/// Returns true if a process has the file open as a [`Table`]; false where there is no file.
pub(crate) fn is_locked(path: &Path) -> Result<bool, Error> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(folder_error("open", path))?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(source)) => Err(folder_error("lock", path)(source)),
    }
}

fn open_locked(path: &Path, run: &Path) -> Result<File, Error> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).map_err(folder_error("open", path))?;
    let mut locked = file.try_lock();
    if matches!(locked, Err(fs::TryLockError::WouldBlock)) {
        std::thread::sleep(SECOND_TRY);
        locked = file.try_lock();
    }
    match locked {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::InUse(run.into())),
        Err(fs::TryLockError::Error(source)) => Err(Error::Folder {
            action: "lock",
            path: path.into(),
            source,
        }),
    }
}

pub(crate) fn folder_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Folder {
        action,
        path,
        source,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use altway_record::read_samples;

    /// A row of a transfer that counts.
    pub(crate) const ROW: &str = "0,0,0,1,0,1,h2,false,h2,direct,altway,altway,cubic,10,ecdsa,true,cold,plain,default,,0,0,1,0,0,0,1,1,1,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0.0,0,0,0,,,,0,,true,\n";

    pub(crate) fn sample() -> Sample {
        read_samples(&format!("{CSV_HEADER}{ROW}"))
            .unwrap()
            .remove(0)
    }

    #[test]
    fn a_table_is_locked_as_long_as_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        assert!(!is_locked(&path).unwrap());
        let table = Table::open(folder.path(), "t.csv").unwrap();
        assert!(is_locked(&path).unwrap());
        drop(table);
        assert!(!is_locked(&path).unwrap());
        Table::open(folder.path(), "t.csv").unwrap();
    }

    #[test]
    fn a_cut_row_is_removed_and_the_next_follows_with_its_own_ordinal() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::open(folder.path(), "t.csv").unwrap();
        table.append(vec![sample()]).unwrap();
        table.file.write_all(b"1,0,0,1,h").unwrap();
        drop(table);
        let mut table = Table::open(folder.path(), "t.csv").unwrap();
        table.append(vec![sample()]).unwrap();
        let text = fs::read_to_string(folder.path().join("t.csv")).unwrap();
        let second = format!("1{}", &ROW[1..]);
        assert_eq!(text, format!("{CSV_HEADER}{ROW}{second}"));
        assert_eq!(table.samples().len(), 2);
    }
}
