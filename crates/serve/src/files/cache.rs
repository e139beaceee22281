//! What one worker keeps of the files that it serves often, over HTTP/2 and HTTP/3: their heads,
//! made once, and their bytes.
//!
//! An entry is believed for [`FRESH`]; then the file is looked up again, and the entry stays if the
//! file has not changed. Large files are kept in chunks, so that a part of one costs no more than
//! that part. Everything is bounded in bytes; what was used longest ago goes first.

use super::{Files, path};
use crate::body::read_at;
use altway_http2::{FieldBlock, Indexing};
use altway_policy::AltSvc;
use bytes::Bytes;
use http::{HeaderMap, Response};
use lru::LruCache;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// For so long a change of a file may go unseen.
const FRESH: Duration = Duration::from_secs(1);

/// Entries of a worker; each has an open file and about 2 KiB.
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Files up to so many bytes are kept whole with their entry.
const SMALL: u64 = 16 << 10;

/// Larger files come in chunks of so many bytes.
const CHUNK: u64 = 256 << 10;

/// Chunks of a worker: 32 MiB.
const MAX_CHUNKS: NonZeroUsize = NonZeroUsize::new(128).expect("not zero");

/// A worker's cache: at most 48 MiB of files' bytes.
pub(crate) struct FileCache {
    entries: LruCache<Box<[u8]>, Rc<Entry>>,
    chunks: LruCache<(u64, u64), Bytes>,
    /// Gives entries their numbers.
    made: u64,
}

/// A file as it was when it was looked up.
pub(crate) struct Entry {
    /// Everything that a 200 response says of the file, for a connection that asks for it once.
    pub(crate) fields: FieldBlock,
    /// The same for one that asks again and again: enters its compression table.
    pub(crate) repeated: FieldBlock,
    /// Bytes.
    pub(crate) size: u64,
    /// All of it, if it is small; else empty.
    pub(crate) whole: Bytes,
    /// The fields, as they are.
    headers: HeaderMap,
    prepared: RefCell<Option<Prepared>>,
    file: File,
    modified: SystemTime,
    fresh_until: Cell<Instant>,
    /// No other entry of this worker has, or had, the same.
    pub(crate) number: u64,
}

/// A whole head of a 200 response, as it is for a second.
struct Prepared {
    second: u64,
    offer: Option<AltSvc>,
    head: Arc<Response<()>>,
}

impl Entry {
    /// The head of a 200 response at `time`. `complete` adds what is not of the file, and depends on
    /// the second and on `offer` alone.
    pub(crate) fn head(
        &self,
        time: SystemTime,
        offer: Option<AltSvc>,
        complete: impl FnOnce(&mut HeaderMap),
    ) -> Arc<Response<()>> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        let second = since.unwrap_or_default().as_secs();
        let is_current = |it: &Prepared| it.second == second && it.offer == offer;
        let mut prepared = self.prepared.borrow_mut();
        if let Some(prepared) = prepared.as_ref().filter(|it| is_current(it)) {
            return Arc::clone(&prepared.head);
        }
        let mut head = Response::new(());
        *head.headers_mut() = self.headers.clone();
        complete(head.headers_mut());
        let head = Arc::new(head);
        *prepared = Some(Prepared {
            second,
            offer,
            head: Arc::clone(&head),
        });
        head
    }

    /// Whether it may be used without looking at the file.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.fresh_until.get()
    }
}

impl Default for FileCache {
    fn default() -> Self {
        Self {
            entries: LruCache::new(MAX_ENTRIES),
            chunks: LruCache::new(MAX_CHUNKS),
            made: 0,
        }
    }
}

impl FileCache {
    /// The file that a request's target means; `None` when there is none that can be answered with
    /// 200 just so.
    pub(crate) fn find(&mut self, files: &Files, target: &[u8], now: Instant) -> Option<Rc<Entry>> {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
        if let Some(entry) = self.entries.get(path)
            && entry.is_fresh(now)
        {
            return Some(Rc::clone(entry));
        }
        let entry = self.look_up(files, path, now);
        if entry.is_none() {
            self.entries.pop(path);
        }
        entry
    }

    /// Bytes of a large file from `offset` on, to the end of a chunk or of the file.
    ///
    /// # Errors
    /// The file can't be read, or has become shorter.
    pub(crate) fn read(&mut self, entry: &Entry, offset: u64) -> io::Result<Bytes> {
        let index = offset / CHUNK;
        let within = usize::try_from(offset % CHUNK).expect("below the size of a chunk");
        let key = (entry.number, index);
        if let Some(chunk) = self.chunks.get(&key) {
            return Ok(chunk.slice(within..));
        }
        let start = index * CHUNK;
        let chunk = read_at(&entry.file, start, CHUNK.min(entry.size - start))?;
        self.chunks.put(key, chunk.clone());
        Ok(chunk.slice(within..))
    }

    fn look_up(&mut self, files: &Files, path: &[u8], now: Instant) -> Option<Rc<Entry>> {
        let asked = path::parse(std::str::from_utf8(path).ok()?).ok()?;
        let opened = files.look_for(&asked, None).ok()?;
        if let Some(entry) = self.entries.get(path)
            && (entry.size, entry.modified) == (opened.size, opened.modified)
        {
            entry.fresh_until.set(now + FRESH);
            return Some(Rc::clone(entry));
        }
        self.made += 1;
        let fields = super::fields_of(&opened, SystemTime::now());
        let whole = if opened.size <= SMALL {
            read_at(&opened.file, 0, opened.size).ok()?
        } else {
            Bytes::new()
        };
        let entry = Rc::new(Entry {
            fields: FieldBlock::from_headers(&fields, Indexing::Without),
            repeated: FieldBlock::from_headers(&fields, Indexing::Incremental),
            size: opened.size,
            whole,
            headers: fields,
            prepared: RefCell::new(None),
            file: opened.file,
            modified: opened.modified,
            fresh_until: Cell::new(now + FRESH),
            number: self.made,
        });
        self.entries.put(path.into(), Rc::clone(&entry));
        Some(entry)
    }
}

/// A file on its way to a client.
pub(crate) struct Reading {
    entry: Rc<Entry>,
    /// Of the next chunk.
    offset: u64,
    /// What was read and not taken.
    chunk: Bytes,
}

impl Reading {
    /// The rest of a file of which `taken` bytes, of those that it keeps whole, are on their way.
    pub(crate) fn new(entry: Rc<Entry>, taken: usize) -> Self {
        Self {
            offset: entry.whole.len() as u64,
            chunk: entry.whole.slice(taken..),
            entry,
        }
    }

    /// The next bytes, to be taken from; whether they are the last.
    ///
    /// # Errors
    /// As [`FileCache::read`].
    pub(crate) fn next(&mut self, cache: &mut FileCache) -> io::Result<(&mut Bytes, bool)> {
        if self.chunk.is_empty() && self.offset < self.entry.size {
            self.chunk = cache.read(&self.entry, self.offset)?;
            self.offset += self.chunk.len() as u64;
        }
        Ok((&mut self.chunk, self.offset >= self.entry.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn site() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("small"), "small").unwrap();
        fs::write(dir.path().join("large"), vec![7; 600_000]).unwrap();
        let files = Files::open(dir.path()).unwrap();
        (dir, files)
    }

    #[test]
    fn a_file_is_looked_up_once_while_it_is_fresh() {
        let (dir, files) = site();
        let mut cache = FileCache::default();
        let now = Instant::now();
        let entry = cache.find(&files, b"/small?x=1", now).unwrap();
        assert_eq!(entry.whole, "small");
        fs::remove_file(dir.path().join("small")).unwrap();
        let again = cache.find(&files, b"/small", now + FRESH / 2).unwrap();
        assert!(Rc::ptr_eq(&entry, &again));
        assert!(cache.find(&files, b"/small", now + FRESH).is_none());
        assert!(cache.find(&files, b"/small", now).is_none(), "forgotten");
    }

    #[test]
    fn a_change_is_seen_after_a_second() {
        let (dir, files) = site();
        let mut cache = FileCache::default();
        let now = Instant::now();
        let before = cache.find(&files, b"/small", now).unwrap();
        let kept = cache.find(&files, b"/small", now + FRESH).unwrap();
        assert!(Rc::ptr_eq(&before, &kept), "unchanged");
        fs::write(dir.path().join("small"), "changed").unwrap();
        let after = cache.find(&files, b"/small", now + 2 * FRESH).unwrap();
        assert_eq!(after.whole, "changed");
    }

    #[test]
    fn a_large_file_comes_in_chunks_from_any_offset() {
        let (_dir, files) = site();
        let mut cache = FileCache::default();
        let entry = cache.find(&files, b"/large", Instant::now()).unwrap();
        assert!(entry.whole.is_empty());
        let mut read = |offset| cache.read(&entry, offset).unwrap().len() as u64;
        assert_eq!(read(0), CHUNK);
        assert_eq!(read(1), CHUNK - 1);
        assert_eq!(read(CHUNK), CHUNK);
        assert_eq!(read(599_999), 1);
    }

    #[test]
    fn a_head_is_made_anew_with_the_second_and_with_the_offer() {
        let (_dir, files) = site();
        let mut cache = FileCache::default();
        let entry = cache.find(&files, b"/small", Instant::now()).unwrap();
        let made = Cell::new(0);
        let head = |millis, offer| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            let head = entry.head(time, offer, |_| made.set(made.get() + 1));
            head.headers()["content-length"].clone()
        };
        assert_eq!(head(1000, None), "5");
        head(1999, None);
        assert_eq!(made.get(), 1);
        head(2000, None);
        assert_eq!(made.get(), 2);
        head(2000, Some(AltSvc::Clear));
        assert_eq!(made.get(), 3);
    }

    #[test]
    fn what_is_no_plain_file_is_not_found() {
        let (dir, files) = site();
        fs::create_dir(dir.path().join("folder")).unwrap();
        let mut cache = FileCache::default();
        for path in [
            "/none", "/folder", "/folder/", "/../x", "/%zz", "small", "*",
        ] {
            let found = cache.find(&files, path.as_bytes(), Instant::now());
            assert!(found.is_none(), "{path}");
        }
    }

    #[test]
    fn memory_is_bounded_whatever_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let many = 2 * MAX_ENTRIES.get();
        for n in 0..many {
            fs::write(dir.path().join(n.to_string()), "x").unwrap();
        }
        let files = Files::open(dir.path()).unwrap();
        let mut cache = FileCache::default();
        for n in 0..many {
            let path = format!("/{n}");
            cache.find(&files, path.as_bytes(), Instant::now()).unwrap();
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES.get());
    }
}
