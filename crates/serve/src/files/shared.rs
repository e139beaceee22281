//! Open files that all who read the same version of a file share, so that the number of descriptors
//! follows the number of files and not that of responses.

use crate::locks::lock;
use bytes::{Bytes, BytesMut};
use rustc_hash::FxHashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

/// Entries of files that are closed again are cleared away when there are so many more than of open ones.
const MAX_STALE_ENTRIES: usize = 64;

/// The attributes that tell one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change of the content.
    modified: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A version of a regular file, open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    version: Version,
    modified: SystemTime,
    /// Unique within the process.
    number: u64,
}

impl OpenFile {
    fn new(file: File, metadata: &Metadata) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            file,
            version: Version::of(metadata),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Length in bytes when the file was opened.
    pub(crate) fn size(&self) -> u64 {
        self.version.size
    }

    /// Time of the last change before the file was opened; the Unix epoch when the file system doesn't
    /// know.
    pub(crate) fn modified(&self) -> SystemTime {
        self.modified
    }

    /// A number that no other open file of this process has or had.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the version, which tells the file from other files, and from its own content at other
    /// times.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Reads exactly `length` bytes from `offset` on; the caller bounds the length.
    ///
    /// Reads on the calling thread: what is served often lies in the page cache, where a read costs
    /// less than handing it to another thread. A cold disk stalls this worker's other connections
    /// for the time of the read.
    ///
    /// # Errors
    /// The file can't be read, is too short, or has been changed in place since it was opened: bytes
    /// of two versions must never stand in one response, for its ETag names one. The response must
    /// then be cut off.
    pub(crate) fn read_at(&self, offset: u64, length: usize) -> io::Result<BytesMut> {
        let mut buffer = BytesMut::zeroed(length);
        self.file.read_exact_at(&mut buffer, offset)?;
        if Version::of(&self.file.metadata()?) != self.version {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file was changed while it was read",
            ));
        }
        Ok(buffer)
    }
}

/// The open files of one served directory, by version. An entry lives as long as somebody reads the
/// file.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Mutex<FxHashMap<Version, Weak<OpenFile>>>);

impl OpenFiles {
    /// The open file of the version that `file` is: another's, if there is one; then `file` is closed.
    pub(crate) fn share(&self, file: File, metadata: &Metadata) -> Arc<OpenFile> {
        let opened = OpenFile::new(file, metadata);
        let mut open = lock(&self.0);
        if let Some(shared) = open.get(&opened.version).and_then(Weak::upgrade) {
            return shared;
        }
        if open.len() >= MAX_STALE_ENTRIES && open.len() == open.capacity() {
            open.retain(|_, file| file.strong_count() > 0);
        }
        let opened = Arc::new(opened);
        open.insert(opened.version, Arc::downgrade(&opened));
        opened
    }
}

/// Bytes `offset` to `offset + remaining` of a file.
#[derive(Debug)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<OpenFile>,
    pub(crate) offset: u64,
    pub(crate) remaining: u64,
}

impl FileRange {
    /// Reads and passes the next bytes, `limit` at most; none at the end.
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub(crate) fn read(&mut self, limit: usize) -> io::Result<Bytes> {
        let length =
            usize::try_from(self.remaining).map_or(limit, |remaining| remaining.min(limit));
        let bytes = self.file.read_at(self.offset, length)?.freeze();
        self.skip(length);
        Ok(bytes)
    }

    /// Passes `length` bytes, at most what remains.
    pub(crate) fn skip(&mut self, length: usize) {
        self.offset += length as u64;
        self.remaining -= length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn open(file: &File) -> OpenFile {
        OpenFile::new(file.try_clone().unwrap(), &file.metadata().unwrap())
    }

    #[test]
    fn a_part_of_a_file_comes_in_pieces() {
        let content: Vec<u8> = (0..1000).map(|i| (i % 251) as u8).collect();
        let mut range = FileRange {
            file: open(&file(&content)).into(),
            offset: 5,
            remaining: 201,
        };
        let mut read = Vec::new();
        while range.remaining > 0 {
            let piece = range.read(100).unwrap();
            assert!(!piece.is_empty() && piece.len() <= 100);
            read.extend_from_slice(&piece);
        }
        assert_eq!(read, content[5..206]);
        assert!(range.read(100).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_shrank_can_not_be_read() {
        let on_disk = file(&[1; 100]);
        let opened = open(&on_disk);
        on_disk.set_len(99).unwrap();
        let error = opened.read_at(0, 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(opened.read_at(0, 10).is_err(), "it is another version");
    }

    #[test]
    fn bytes_of_a_later_version_are_not_given_out() {
        let mut on_disk = file(&[1; 100]);
        let opened = open(&on_disk);
        assert_eq!(opened.read_at(90, 10).unwrap(), [1; 10][..]);
        // The clock of a file system may stand for some milliseconds.
        let changed = || on_disk.metadata().unwrap().modified().unwrap() != opened.modified();
        while !changed() {
            on_disk.write_at(&[2; 100], 0).unwrap();
        }
        on_disk.flush().unwrap();
        let error = opened.read_at(0, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn readers_of_one_version_share_a_descriptor() {
        let on_disk = file(b"x");
        let open = OpenFiles::default();
        let share = |file: &File| open.share(file.try_clone().unwrap(), &file.metadata().unwrap());
        let first = share(&on_disk);
        assert!(Arc::ptr_eq(&first, &share(&on_disk)));
        assert!(!Arc::ptr_eq(&first, &share(&file(b"x"))), "another file");
    }

    #[test]
    fn files_that_nobody_reads_leave_no_entry_behind_for_long() {
        let open = OpenFiles::default();
        for _ in 0..2_000 {
            let file = tempfile::tempfile().unwrap();
            let metadata = file.metadata().unwrap();
            open.share(file, &metadata);
        }
        assert!(open.0.lock().unwrap().len() <= 4 * MAX_STALE_ENTRIES);
    }
}
