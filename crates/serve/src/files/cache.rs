//! The files that one worker keeps because it serves them often, over every protocol: their heads, made once, and their
//! bytes.
//!
//! An entry is believed for [`REVALIDATION_INTERVAL`]; then the file is looked up again, and the entry stays if the
//! file has not changed. It goes when nobody has asked for it for [`IDLE_ENTRY_LIFETIME`], so that deleted files give
//! their space back, and sooner when its folder is served no more, so that sites that were replaced do. Large files are kept in chunks, so that a part of one costs no more than
//! that part. What was used longest ago goes first.
//!
//! Entries go by the folder and the name of the file in it: however a request spells it, there is one.

use super::coding::{AcceptedCodings, ContentCoding};
use super::memory::SharedMemory;
use super::path::{RequestedFile, TargetPath};
use super::shared::{FileRange, OpenFile, Version};
use super::validators::Traits;
use super::variants::Variants;
use super::{Files, Reading};
use crate::files::open::{OpenedFile, Refusal};
use crate::request::fields::Offered;
use altway_http2::{FieldBlock, Indexing};
use altway_select::UnixTime;
use bytes::Bytes;
use http::header::SERVER;
use http::{HeaderMap, HeaderName, Response, StatusCode};
use lru::LruCache;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Time for which a change of a file may go unseen.
const REVALIDATION_INTERVAL: Duration = Duration::from_secs(1);

/// An entry that nobody has asked for since is dropped, and its file closed.
const IDLE_ENTRY_LIFETIME: Duration = Duration::from_secs(8);

/// Entries of a worker; each has about 2 KiB beside the file's bytes and its heads, and as much again for each of its
/// compressed forms that was asked for, three at most.
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Files up to so many bytes are kept whole with their entry.
const MAX_WHOLE_FILE: u64 = 16 << 10;

/// Heads of an entry, each about 1 KiB: a policy has about three offers for a port, and clients of the same second are
/// given different ones.
const MAX_HEADS: usize = 4;

/// Larger files come in chunks of so many bytes.
const CHUNK_BYTES: u64 = 256 << 10;

/// A piece of a file that is read for one response alone has so many bytes at most: as a DATA frame of
/// HTTP/2.
const READ_BYTES: usize = 16 << 10;

/// The number of the open file, and the chunk's place in it.
type ChunkKey = (u64, u64);

/// A worker's cache.
pub(crate) struct FileCache {
    /// Entries by the number of the folder, in eight bytes, and the file's name in it.
    entries: LruCache<Box<[u8]>, Rc<Entry>>,
    /// The key that is looked for; kept for its space.
    key: Vec<u8>,
    chunks: LruCache<ChunkKey, Bytes>,
    /// The chunk that was read last: a body is sent a frame at a time, so that the next read is mostly of
    /// the same.
    latest: Option<(ChunkKey, Bytes)>,
    memory: Arc<SharedMemory>,
    /// Entries with an open file.
    open: usize,
    max_open: usize,
}

/// A file as it was when it was looked up.
pub(crate) struct Entry {
    /// The fields of a 200 response with the file, for a connection that asks for it once.
    pub(crate) fields: FieldBlock,
    /// The same for one that asks again and again: enters its compression table.
    pub(crate) repeated: FieldBlock,
    /// The operator's Server is among the fields.
    pub(crate) has_server: bool,
    /// Bytes.
    pub(crate) size: u64,
    content: Content,
    /// The fields, as they are.
    headers: HeaderMap,
    /// Heads of the latest second, by offer: [`MAX_HEADS`] at most.
    heads: RefCell<Vec<HeadOfSecond>>,
    fresh_until: Cell<Instant>,
    /// The number of the folder that it is of.
    folder: u64,
    /// The number of the folder that is served now; nothing of the folder itself, which may be closed meanwhile.
    served: Arc<AtomicU64>,
    /// Relative to the root.
    name: PathBuf,
    version: Version,
    traits: Traits,
    /// Compressed forms of the file that were asked for.
    coded: RefCell<[Option<Rc<Entry>>; ContentCoding::ALL.len()]>,
}

/// Time until which an entry is believed, and the folder that it is of.
#[derive(Clone, Copy)]
struct Freshness {
    until: Instant,
    folder: u64,
}

/// The place of a file's bytes.
enum Content {
    Memory(Bytes),
    /// A compressed form, counted where it was made.
    Shared(Bytes),
    File(Arc<OpenFile>),
}

/// A whole head of a 200 response, as it is for a second.
struct HeadOfSecond {
    second: UnixTime,
    offer: Option<Offered>,
    head: Arc<Response<()>>,
}

impl HeadOfSecond {
    fn is_of(&self, second: UnixTime, offer: Option<Offered>) -> bool {
        self.second == second && self.offer == offer
    }
}

impl Entry {
    /// Checks whether responses with it have a field of that name.
    pub(crate) fn has_field(&self, name: &HeaderName) -> bool {
        self.headers.contains_key(name)
    }

    fn new(files: &Files, opened: &OpenedFile, content: Content, freshness: Freshness) -> Self {
        let version = opened.file.version();
        let traits = opened.traits();
        Self::of(files, (&opened.name, version, traits), content, freshness)
    }

    /// A form of the file that is made of it.
    fn made(&self, files: &Files, coding: ContentCoding, form: Bytes) -> Self {
        let traits = Traits {
            coding: Some(coding),
            ..self.traits
        };
        let file = (&*self.name, self.version, traits);
        Self::of(files, file, Content::Shared(form), self.freshness())
    }

    fn of(
        files: &Files,
        (name, version, traits): (&Path, Version, Traits),
        content: Content,
        freshness: Freshness,
    ) -> Self {
        let size = match &content {
            Content::Memory(bytes) | Content::Shared(bytes) => bytes.len() as u64,
            Content::File(file) => file.size(),
        };
        let fields = files.fields_of(name, traits, size, SystemTime::now());
        Self {
            fields: FieldBlock::from_headers(&fields, Indexing::Without),
            repeated: FieldBlock::from_headers(&fields, Indexing::Incremental),
            has_server: fields.contains_key(SERVER),
            size,
            name: name.into(),
            version,
            traits,
            coded: RefCell::default(),
            content,
            headers: fields,
            heads: RefCell::default(),
            fresh_until: Cell::new(freshness.until),
            folder: freshness.folder,
            served: files.place.shared_number(),
        }
    }

    fn freshness(&self) -> Freshness {
        Freshness {
            until: self.fresh_until.get(),
            folder: self.folder,
        }
    }

    /// The head of a 200 response in that `second`. `complete` adds what is not of the file, and depends on
    /// the second and on `offer` alone.
    pub(crate) fn head(
        &self,
        second: UnixTime,
        offer: Option<Offered>,
        complete: impl FnOnce(&mut HeaderMap),
    ) -> Arc<Response<()>> {
        let mut heads = self.heads.borrow_mut();
        if let Some(known) = heads.iter().find(|it| it.is_of(second, offer)) {
            return Arc::clone(&known.head);
        }
        heads.retain(|it| it.second == second);
        heads.truncate(MAX_HEADS - 1);
        let mut head = Response::new(());
        *head.headers_mut() = self.headers.clone();
        complete(head.headers_mut());
        let head = Arc::new(head);
        heads.push(HeadOfSecond {
            second,
            offer,
            head: Arc::clone(&head),
        });
        head
    }

    /// Returns true if the entry may be used without looking at the file: for a while, and as long as its folder is
    /// served.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.fresh_until.get() && self.is_served()
    }

    /// Returns true as long as the folder that it is of is served.
    fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire) == self.folder
    }

    /// All of the file, if it is in memory and small.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Memory(bytes) => Some(bytes),
            Content::Shared(bytes) => Some(bytes).filter(|_| self.size <= MAX_WHOLE_FILE),
            Content::File(_) => None,
        }
    }

    /// Returns the rest of the file behind its first `taken` bytes.
    pub(crate) fn reading(&self, taken: usize) -> Reading {
        match &self.content {
            Content::Memory(bytes) => Reading::Memory(bytes.slice(taken..)),
            Content::Shared(bytes) => Reading::Shared(bytes.slice(taken..)),
            Content::File(file) => Reading::File(FileRange {
                file: Arc::clone(file),
                offset: taken as u64,
                remaining: self.size - taken as u64,
            }),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.content, Content::File(_))
    }

    /// Files that it holds open, its compressed forms included.
    fn descriptors(&self) -> usize {
        let coded = self.coded.borrow();
        let coded = coded.iter().flatten().filter(|entry| entry.is_open());
        usize::from(self.is_open()) + coded.count()
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.fresh_until.get() + IDLE_ENTRY_LIFETIME <= now
    }

    fn is_of(&self, opened: &OpenedFile) -> bool {
        (self.version, self.traits) == (opened.file.version(), opened.traits())
            && self.name == opened.name
    }
}

impl FileCache {
    /// A cache of at most `max_bytes` of files' content, those included that it has given out and that
    /// are still held, and of `max_open` open files.
    pub(crate) fn new(max_bytes: usize, max_open: usize) -> Self {
        Self {
            entries: LruCache::new(MAX_ENTRIES),
            key: Vec::new(),
            chunks: LruCache::unbounded(),
            latest: None,
            memory: Arc::new(SharedMemory::new(max_bytes)),
            open: 0,
            max_open,
        }
    }

    /// The file that a request's path means, in the form that the client likes best; `None` when there is
    /// none that can be answered with 200 just so. What the client takes is asked for where there is a choice.
    pub(crate) fn find(
        &mut self,
        files: &Files,
        path: TargetPath<'_>,
        accepted: impl FnOnce() -> AcceptedCodings,
        now: Instant,
    ) -> Option<Rc<Entry>> {
        let source = self.find_source(files, path, now)?;
        if source.traits.variants.is_empty() {
            return Some(source);
        }
        let Variants { ahead, made } = source.traits.variants;
        match accepted().choose(ahead, made) {
            Some(coding) => self.find_variant(files, source, coding, now),
            None => Some(source),
        }
    }

    fn find_source(
        &mut self,
        files: &Files,
        path: TargetPath<'_>,
        now: Instant,
    ) -> Option<Rc<Entry>> {
        let (name, asked) = match path.plain_name() {
            Some(name) => (Cow::Borrowed(name), None),
            None => {
                let asked = path.parse().ok()?;
                (Cow::Owned(asked.name()), Some(asked))
            }
        };
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        // Before anything is opened: what is opened in a folder that takes its place meanwhile is never believed.
        let folder = files.place.number();
        key.extend_from_slice(&folder.to_ne_bytes());
        key.extend_from_slice(&name);
        let entry = self.find_by((&key, folder), files, asked, path, now);
        self.key = key;
        entry
    }

    /// `asked`: what `path` means, if that is known already.
    fn find_by(
        &mut self,
        (key, folder): (&[u8], u64),
        files: &Files,
        asked: Option<RequestedFile>,
        path: TargetPath<'_>,
        now: Instant,
    ) -> Option<Rc<Entry>> {
        if let Some(entry) = self.entries.get(key)
            && entry.is_fresh(now)
        {
            return Some(Rc::clone(entry));
        }
        let asked = match asked {
            Some(asked) => asked,
            None => path.parse().ok()?,
        };
        let entry = self.look_up(files, (key, folder), &asked, now);
        if entry.is_none() {
            self.forget(key);
        }
        entry
    }

    /// The form of a file in `coding`; the file as it is where there is no such form, and `None` where it must be
    /// made first. It is believed no longer than its source.
    fn find_variant(
        &mut self,
        files: &Files,
        source: Rc<Entry>,
        coding: ContentCoding,
        now: Instant,
    ) -> Option<Rc<Entry>> {
        let known = source.coded.borrow()[coding.index()].clone();
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh(now)) {
            return Some(Rc::clone(known));
        }
        let fresh_until = source.fresh_until.get();
        if source.traits.variants.made.contains(coding) {
            // The source is another entry once it has changed.
            if let Some(known) = known {
                known.fresh_until.set(fresh_until);
                return Some(known);
            }
            let Some(form) = files.compressed.kept(source.version, coding)? else {
                return Some(source);
            };
            let entry = Rc::new(source.made(files, coding, form));
            source.coded.borrow_mut()[coding.index()] = Some(Rc::clone(&entry));
            return Some(entry);
        }
        let Traits {
            modified, variants, ..
        } = source.traits;
        let Some(opened) =
            files
                .served()
                .precompressed_form(&source.name, modified, variants, coding)
        else {
            return Some(source);
        };
        if let Some(known) = known.filter(|known| known.is_of(&opened)) {
            known.fresh_until.set(fresh_until);
            return Some(known);
        }
        let content = self.content(&opened)?;
        let entry = Rc::new(Entry::new(files, &opened, content, source.freshness()));
        self.open += usize::from(entry.is_open());
        let former = source.coded.borrow_mut()[coding.index()].replace(Rc::clone(&entry));
        self.open -= usize::from(former.is_some_and(|former| former.is_open()));
        while self.open > self.max_open.max(1) && self.entries.len() > 1 {
            self.drop_oldest();
        }
        Some(entry)
    }

    /// Bytes from the beginning of `range` on, at most `limit`.
    ///
    /// Large parts that are asked for are kept for others; where there is no room for that they are read for this
    /// response alone.
    ///
    /// # Errors
    /// The file can't be read, or is another than it was.
    pub(crate) fn read(&mut self, range: &FileRange, limit: usize) -> io::Result<Bytes> {
        let limit =
            usize::try_from(range.remaining).map_or(limit, |remaining| remaining.min(limit));
        let index = range.offset / CHUNK_BYTES;
        let within =
            usize::try_from(range.offset % CHUNK_BYTES).expect("below the size of a chunk");
        let key = (range.file.number(), index);
        if let Some((_, chunk)) = self.latest.as_ref().filter(|(latest, _)| *latest == key) {
            return Ok(cut(chunk, within, limit));
        }
        if let Some(chunk) = self.chunks.get(&key) {
            let cut = cut(chunk, within, limit);
            self.latest = Some((key, chunk.clone()));
            return Ok(cut);
        }
        let start = index * CHUNK_BYTES;
        let length = usize::try_from(CHUNK_BYTES.min(range.file.size() - start)).expect("a chunk");
        if limit < READ_BYTES || !self.make_room(length) {
            let bytes = range.file.read_at(range.offset, limit.min(READ_BYTES))?;
            return Ok(bytes.freeze());
        }
        let chunk = self.memory.share(range.file.read_at(start, length)?);
        self.chunks.put(key, chunk.clone());
        let cut = cut(&chunk, within, limit);
        self.latest = Some((key, chunk));
        Ok(cut)
    }

    /// Drops what nobody has asked for of late, and what nobody can ask for any more. To be called every few seconds.
    pub(crate) fn sweep(&mut self, now: Instant) {
        while let Some((_, entry)) = self.entries.peek_lru()
            && (entry.is_idle(now) || !entry.is_served())
        {
            self.drop_oldest();
        }
    }

    /// Drops everything: the process is out of file descriptors.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.open = 0;
        self.chunks.clear();
        self.latest = None;
    }

    fn look_up(
        &mut self,
        files: &Files,
        (key, folder): (&[u8], u64),
        asked: &RequestedFile,
        now: Instant,
    ) -> Option<Rc<Entry>> {
        let opened = self.open(files, asked)?;
        if let Some(entry) = self.entries.get(key)
            && entry.is_of(&opened)
        {
            entry.fresh_until.set(now + REVALIDATION_INTERVAL);
            return Some(Rc::clone(entry));
        }
        let content = self.content(&opened)?;
        let freshness = Freshness {
            until: now + REVALIDATION_INTERVAL,
            folder,
        };
        let entry = Rc::new(Entry::new(files, &opened, content, freshness));
        self.keep(key, Rc::clone(&entry));
        Some(entry)
    }

    /// Opens a file; with the descriptors of the cache where the process has no others left.
    fn open(&mut self, files: &Files, asked: &RequestedFile) -> Option<OpenedFile> {
        let served = files.served();
        match served.look_for(asked, None) {
            Err(Refusal::Status(StatusCode::SERVICE_UNAVAILABLE)) => {
                self.clear();
                served.look_for(asked, None).ok()
            }
            found => found.ok(),
        }
    }

    fn content(&mut self, opened: &OpenedFile) -> Option<Content> {
        let size = usize::try_from(opened.size()).ok();
        match size.filter(|size| *size as u64 <= MAX_WHOLE_FILE && self.make_room(*size)) {
            Some(size) => {
                let bytes = opened.file.read_at(0, size).ok()?;
                Some(Content::Memory(self.memory.share(bytes)))
            }
            None => Some(Content::File(Arc::clone(&opened.file))),
        }
    }

    fn keep(&mut self, key: &[u8], entry: Rc<Entry>) {
        self.forget(key);
        while let Some((_, oldest)) = self.entries.peek_lru()
            && !oldest.is_served()
        {
            self.drop_oldest();
        }
        while entry.is_open() && self.open >= self.max_open.max(1) {
            if !self.drop_oldest() {
                break;
            }
        }
        self.open += entry.descriptors();
        let displaced = self.entries.push(key.into(), entry);
        self.count_out(displaced.map(|(_, entry)| entry));
    }

    fn forget(&mut self, key: &[u8]) {
        let gone = self.entries.pop(key);
        self.count_out(gone);
    }

    /// Drops the entry that was used longest ago. Returns true if there was one.
    fn drop_oldest(&mut self) -> bool {
        let gone = self.entries.pop_lru();
        let was_there = gone.is_some();
        self.count_out(gone.map(|(_, entry)| entry));
        was_there
    }

    fn count_out(&mut self, gone: Option<Rc<Entry>>) {
        let Some(entry) = gone else { return };
        self.open -= entry.descriptors();
        self.drop_chunks(&entry);
        for form in entry.coded.borrow().iter().flatten() {
            self.drop_chunks(form);
        }
    }

    /// Drops the chunks of an entry that is gone, unless somebody else reads its file.
    fn drop_chunks(&mut self, entry: &Entry) {
        let Content::File(file) = &entry.content else {
            return;
        };
        if Arc::strong_count(file) > 1 {
            return;
        }
        let number = file.number();
        self.latest.take_if(|((of, _), _)| *of == number);
        let last = file.size() / CHUNK_BYTES;
        if last < self.chunks.len() as u64 {
            for index in 0..=last {
                self.chunks.pop(&(number, index));
            }
            return;
        }
        let keys = self.chunks.iter().map(|(key, _)| *key);
        let own: Vec<_> = keys.filter(|(of, _)| *of == number).collect();
        for key in own {
            self.chunks.pop(&key);
        }
    }

    /// Returns true if so many bytes can be kept, once chunks that were used longest ago are dropped for them.
    fn make_room(&mut self, bytes: usize) -> bool {
        if !self.memory.has_room(bytes) {
            self.latest = None;
        }
        while !self.memory.has_room(bytes) {
            if self.chunks.pop_lru().is_none() {
                return false;
            }
        }
        true
    }
}

/// The bytes of a chunk from `within` on, at most `limit`.
fn cut(chunk: &Bytes, within: usize, limit: usize) -> Bytes {
    chunk.slice(within..chunk.len().min(within + limit))
}

#[cfg(test)]
mod tests;
