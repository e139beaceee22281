//! Compressed forms that are made when they are first asked for, and kept.
//!
//! Compressed forms are of files, which are the same for everybody. The lengths of compressed responses tell an
//! attacker (BREACH) of content in which a secret stands beside something of the attacker's; a service that answers with
//! such content is not compressed here.

use super::background::Background;
use super::coding::{Codings, ContentCoding};
use super::memory::{SharedBuffer, SharedMemory};
use super::open::OpenedFile;
use super::shared::{OpenFile, Version};
use crate::locks::lock;
use crate::request::panic_guard::catch_panic;
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use lru::LruCache;
use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Bytes of compressed forms that are kept, those included that responses still hold.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Forms of which something is known: kept, being made, or no smaller than their files.
const MAX_FORMS: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Files with fewer bytes gain nothing: the fields of a compressed response cost about as much.
const MIN_SIZE: u64 = 256;

/// Files with more bytes are sent as they are: what is large and compresses well is better compressed ahead.
const MAX_SIZE: u64 = 4 << 20;

/// zstd's scale goes to 22. At this one it looks back 4 MiB at most: clients need not look back further than 8 MB (RFC 9659
/// section 3).
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 9;

/// Brotli's scale goes to 11; from 9 on it takes many times as long for a few percent.
const BROTLI_QUALITY: i32 = 6;

/// The forms of one served folder's files, whichever worker asks for them.
pub(super) struct Compressed {
    forms: Mutex<LruCache<Key, Form>>,
    memory: Arc<SharedMemory>,
}

type Key = (Version, ContentCoding);

enum Form {
    Ready(SharedBuffer),
    /// The form would not be smaller than the file.
    Useless,
    /// The form is being made. As many wait for it as have requests; those that have gone are forgotten before there is room for
    /// more.
    Awaited(Vec<oneshot::Sender<Option<Bytes>>>),
}

/// A form, now or later.
pub(super) enum FormLookup {
    /// `None`: the file as it is.
    Now(Option<Bytes>),
    /// Gives the same; where it fails, the file as it is.
    Later(oneshot::Receiver<Option<Bytes>>),
}

impl fmt::Debug for Compressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressed").finish_non_exhaustive()
    }
}

impl Compressed {
    /// Room for `max_bytes` of forms.
    pub(super) fn new(max_bytes: usize) -> Self {
        // Made with its bound the cache would take memory for all of it at once, for each of many folders.
        let mut forms = LruCache::unbounded();
        forms.resize(MAX_FORMS);
        Self {
            forms: Mutex::new(forms),
            memory: Arc::new(SharedMemory::new(max_bytes)),
        }
    }

    /// The forms that can be made of a file with this media type.
    pub(super) fn codings(opened: &OpenedFile, kind: &HeaderValue) -> Codings {
        match (MIN_SIZE..=MAX_SIZE).contains(&opened.size()) && is_compressible(kind) {
            true => ContentCoding::ALL.into_iter().collect(),
            false => Codings::NONE,
        }
    }

    /// The form of a file, if it is kept; the outer `None`: it is not.
    pub(super) fn kept(&self, version: Version, coding: ContentCoding) -> Option<Option<Bytes>> {
        match lock(&self.forms).get(&(version, coding))? {
            Form::Ready(form) => Some(Some(form.bytes())),
            Form::Useless => Some(None),
            Form::Awaited(_) => None,
        }
    }

    /// The form of a file, which is made if it is not kept.
    pub(super) fn get(
        self: &Arc<Self>,
        file: &Arc<OpenFile>,
        coding: ContentCoding,
        background: &Background,
    ) -> FormLookup {
        let key = (file.version(), coding);
        let (sender, receiver) = oneshot::channel();
        let mut forms = lock(&self.forms);
        match forms.get_mut(&key) {
            Some(Form::Ready(form)) => return FormLookup::Now(Some(form.bytes())),
            Some(Form::Useless) => return FormLookup::Now(None),
            Some(Form::Awaited(waiting)) => {
                // Else a client that asks and goes, again and again, fills memory for as long as the form takes.
                if waiting.len() == waiting.capacity() {
                    waiting.retain(|it| !it.is_closed());
                    waiting.reserve(waiting.len());
                }
                waiting.push(sender);
                return FormLookup::Later(receiver);
            }
            None => {}
        }
        let (forms_of_all, file) = (Arc::clone(self), Arc::clone(file));
        if background
            .add(move || forms_of_all.make(&file, coding))
            .is_err()
        {
            return FormLookup::Now(None);
        }
        forms.push(key, Form::Awaited(vec![sender]));
        FormLookup::Later(receiver)
    }

    /// Makes a form and hands it to all that wait for it.
    fn make(&self, file: &OpenFile, coding: ContentCoding) {
        let key = (file.version(), coding);
        self.make_by(key, || compress(file, coding));
    }

    /// Hands what `compress` returns to all that wait for the form.
    fn make_by(&self, key: Key, compress: impl FnOnce() -> io::Result<Option<BytesMut>>) {
        // The hook has reported a panic. The same file would bring it about again.
        let form = catch_panic(compress).unwrap_or(Ok(None));
        let mut forms = lock(&self.forms);
        let waiting = match forms.pop(&key) {
            Some(Form::Awaited(waiting)) => waiting,
            _ => Vec::new(),
        };
        let kept = match form {
            Ok(Some(form)) => self.share(form, &mut forms).map(Form::Ready),
            Ok(None) => Some(Form::Useless),
            // It can't be read, or has changed: the next request sees it as it is then.
            Err(_) => None,
        };
        let bytes = match &kept {
            Some(Form::Ready(form)) => Some(form.bytes()),
            _ => None,
        };
        if let Some(form) = kept {
            forms.push(key, form);
        }
        drop(forms);
        for waiting in waiting {
            // Somebody who has gone needs nothing.
            let _ = waiting.send(bytes.clone());
        }
    }

    /// Counts a form; what was asked for longest ago goes for it, of what nobody else holds. `None` where that
    /// makes no room.
    fn share(&self, form: BytesMut, forms: &mut LruCache<Key, Form>) -> Option<SharedBuffer> {
        while !self.memory.has_room(form.len()) {
            // From the latest to the oldest.
            let mut free = forms.iter().filter(|(_, form)| match form {
                Form::Ready(form) => form.is_free(),
                Form::Useless | Form::Awaited(_) => false,
            });
            let oldest = *free.next_back()?.0;
            forms.pop(&oldest);
        }
        Some(SharedBuffer::new(self.memory.count(form)))
    }
}

/// `None` where the form is no smaller.
fn compress(file: &OpenFile, coding: ContentCoding) -> io::Result<Option<BytesMut>> {
    let size = usize::try_from(file.size()).map_err(io::Error::other)?;
    let source = file.read_at(0, size)?;
    let mut form = Vec::with_capacity(size / 3);
    match coding {
        ContentCoding::Brotli => {
            let parameters = brotli::enc::BrotliEncoderParams {
                quality: BROTLI_QUALITY,
                size_hint: size,
                ..brotli::enc::BrotliEncoderParams::default()
            };
            brotli::BrotliCompress(&mut &source[..], &mut form, &parameters)?;
        }
        ContentCoding::Gzip => {
            let mut encoder = GzEncoder::new(&mut form, Compression::default());
            encoder.write_all(&source)?;
            encoder.finish()?;
        }
        #[cfg(feature = "zstd")]
        ContentCoding::Zstd => form = zstd::bulk::compress(&source, ZSTD_LEVEL)?,
        // Options that ask for it are refused.
        #[cfg(not(feature = "zstd"))]
        ContentCoding::Zstd => return Ok(None),
    }
    Ok((form.len() < size).then(|| BytesMut::from(&form[..])))
}

/// Text, and what is written like text. What is compressed by its nature is not.
fn is_compressible(kind: &HeaderValue) -> bool {
    const KINDS: [&str; 10] = [
        "application/javascript",
        "application/json",
        "application/rtf",
        "application/wasm",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/x-icon",
        "image/svg+xml",
    ];
    let kind = kind.to_str().unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let is_text = essence.starts_with("text/");
    let is_like_text = essence.ends_with("+json") || essence.ends_with("+xml");
    is_text || is_like_text || KINDS.contains(&&*essence)
}

#[cfg(test)]
mod tests;
