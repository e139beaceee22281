//! Following a run from another process: at each look only what is new is read.

use crate::Error;
use crate::folder::{SAMPLES, read_manifest};
use crate::status::{Status, StatusTotals};
use crate::table::{folder_error, is_locked};
use altway_record::{read_whole, transfers};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes that are read at once; a transfer's rows are read together, so more where they are longer.
const CHUNK: u64 = 4 << 20;

/// A run that is followed. It holds some numbers of each transfer, and none of its rows.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    totals: StatusTotals,
    /// The columns' line, with its end; empty before there was one.
    header: String,
    /// Position up to which the file was read: the end of a whole transfer.
    position: u64,
    /// Bytes that are read at once.
    chunk: u64,
}

impl Follower {
    /// Follows the run in `path` from its first transfer on.
    ///
    /// # Errors
    /// There is no run, or its manifest is damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let manifest = read_manifest(path)?;
        Ok(Self {
            path: path.into(),
            totals: StatusTotals::new(&manifest),
            header: String::new(),
            position: 0,
            chunk: CHUNK,
        })
    }

    /// Returns true if a process measures the run now.
    ///
    /// # Errors
    /// The file of its rows can't be opened.
    pub fn is_measured(&self) -> Result<bool, Error> {
        is_locked(&self.path.join(SAMPLES))
    }

    /// Reads the rows that are new, and returns the status of the run.
    ///
    /// # Errors
    /// The rows can't be read, or are damaged.
    pub fn look(&mut self) -> Result<Status, Error> {
        let path = self.path.join(SAMPLES);
        let failed = || folder_error("read", &path);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.totals.status());
            }
            other => other.map_err(failed())?,
        };
        let length = file.metadata().map_err(failed())?.len();
        if length < self.position {
            // Another run in the same folder.
            *self = Self::open(&self.path)?;
        }
        file.seek(SeekFrom::Start(self.position))
            .map_err(failed())?;
        let mut chunk = self.chunk;
        while self.position < length {
            let mut bytes = Vec::new();
            let read = (&mut file).take(chunk).read_to_end(&mut bytes);
            read.map_err(failed())?;
            let taken = self.take(&bytes)?;
            self.position += taken;
            if taken == 0 && (bytes.len() as u64) < chunk {
                break;
            }
            if taken == 0 {
                chunk *= 2;
            }
            file.seek(SeekFrom::Start(self.position))
                .map_err(failed())?;
        }
        Ok(self.totals.status())
    }

    /// Takes the whole transfers at the front of `bytes` in: how many bytes they have.
    fn take(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        let lines = bytes.iter().rposition(|byte| *byte == b'\n');
        let lines = &bytes[..lines.map_or(0, |last| last + 1)];
        let path = self.path.join(SAMPLES);
        let lines = std::str::from_utf8(lines)
            .map_err(|error| folder_error("read", &path)(io::Error::other(error)))?;
        let mut taken = 0;
        if self.header.is_empty() {
            let Some((header, _)) = lines.split_once('\n') else {
                return Ok(0);
            };
            self.header = format!("{header}\n");
            taken = self.header.len();
        }
        let text = format!("{}{}", self.header, &lines[taken..]);
        let (samples, length) =
            read_whole(&text).map_err(|source| Error::Samples { path, source })?;
        transfers(&samples).for_each(|sample| self.totals.learn(sample));
        taken += length - self.header.len();
        Ok(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::tests::manifest;
    use crate::table::tests::sample;
    use altway_record::{CSV_HEADER, Sample, csv_rows, read_samples};
    use std::fs;

    /// Six transfers, of one and of three rows in turn.
    fn text() -> String {
        let of = |ordinal: u64| {
            let requests = if ordinal.is_multiple_of(2) { 1 } else { 3 };
            let row = |request| Sample {
                ordinal,
                request,
                requests,
                block: u32::try_from(ordinal).unwrap(),
                started_unix_ms: 1_000 * i64::try_from(ordinal).unwrap(),
                ..sample()
            };
            csv_rows(&(0..requests).map(row).collect::<Vec<_>>())
        };
        format!("{CSV_HEADER}{}", (0..6).map(of).collect::<String>())
    }

    fn followed(folder: &Path, chunk: u64) -> Follower {
        fs::write(folder.join(crate::folder::MANIFEST), manifest().to_json()).unwrap();
        let mut follower = Follower::open(folder).unwrap();
        follower.chunk = chunk;
        follower
    }

    #[test]
    fn each_look_says_what_reading_all_rows_says() {
        let folder = tempfile::tempdir().unwrap();
        let (text, file) = (text(), folder.path().join(SAMPLES));
        for chunk in [1, 300, CHUNK] {
            let mut follower = followed(folder.path(), chunk);
            let _ = fs::remove_file(&file);
            assert_eq!(follower.look().unwrap().done, 0);
            for end in (0..text.len()).step_by(97).chain([text.len()]) {
                fs::write(&file, &text[..end]).unwrap();
                let expected = Status::of(&manifest(), &read_samples(&text[..end]).unwrap());
                assert_eq!(follower.look().unwrap(), expected, "{chunk}, {end}");
            }
            assert_eq!(follower.position, text.len() as u64);
        }
    }

    #[test]
    fn a_run_that_begins_anew_is_followed_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (text, file) = (text(), folder.path().join(SAMPLES));
        let mut follower = followed(folder.path(), CHUNK);
        fs::write(&file, &text).unwrap();
        let whole = follower.look().unwrap();
        fs::write(&file, CSV_HEADER).unwrap();
        assert_eq!(follower.look().unwrap().newest_unix_ms, None);
        fs::write(&file, &text).unwrap();
        assert_eq!(follower.look().unwrap(), whole);
    }

    #[test]
    fn what_is_no_run_is_said() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            Follower::open(folder.path()),
            Err(Error::NoRun(_))
        ));
        let mut follower = followed(folder.path(), CHUNK);
        fs::write(folder.path().join(SAMPLES), format!("{CSV_HEADER}no,row\n")).unwrap();
        assert!(matches!(follower.look(), Err(Error::Samples { .. })));
        fs::write(folder.path().join(SAMPLES), b"\xff\n").unwrap();
        assert!(follower.look().is_err());
    }
}
