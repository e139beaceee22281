//! What the connections of a worker share: one is worked on at a time.

use crate::files::FileCache;
use crate::held::HeldBytes;
use crate::setup::Memory;
use altway_http2::{FieldBlock, Indexing, Output};
use altway_policy::AltSvc;
use http::HeaderValue;
use http::header::{self, HeaderMap};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Different Alt-Svc values that are kept encoded. A policy has about three.
const MAX_OFFERS: usize = 8;

/// Buffers and caches.
pub(in crate::tcp) struct Desk {
    /// Whoever reads into it borrows it for a turn.
    pub(super) buffer: Rc<RefCell<Vec<u8>>>,
    pub(super) output: Output,
    pub(super) files: Rc<RefCell<FileCache>>,
    /// Time of this turn.
    pub(super) now: Instant,
    /// The same for people.
    pub(super) time: SystemTime,
    /// Date and Server of all responses of this second.
    common: FieldBlock,
    second: u64,
    offers: Vec<(AltSvc, Rc<FieldBlock>)>,
}

impl Desk {
    pub(in crate::tcp) fn new(memory: Memory) -> Self {
        Self {
            buffer: Rc::new(RefCell::new(vec![0; BUFFER_BYTES])),
            output: Output::new(),
            files: memory.files,
            now: Instant::now(),
            time: SystemTime::now(),
            common: common(SystemTime::now()),
            second: 0,
            offers: Vec::new(),
        }
    }

    /// Looks at the clocks.
    pub(super) fn begin_turn(&mut self) {
        self.now = Instant::now();
        self.time = SystemTime::now();
        let since = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second {
            self.second = since.as_secs();
            self.common = common(self.time);
        }
    }

    /// How much a connection may say before it sends; `held`: its client's.
    pub(super) fn send_bytes(held: &HeldBytes) -> usize {
        if held.is_full() {
            super::SCARCE_SEND_BYTES
        } else {
            super::SEND_BYTES
        }
    }

    pub(super) fn common(&self) -> &FieldBlock {
        &self.common
    }

    /// The Alt-Svc field; `None` where it is left out.
    pub(super) fn offer(&mut self, alt_svc: AltSvc, port: u16) -> Option<Rc<FieldBlock>> {
        if let Some((_, block)) = self.offers.iter().find(|(known, _)| *known == alt_svc) {
            return Some(Rc::clone(block));
        }
        let value = HeaderValue::try_from(alt_svc.field_value(port)?).expect("visible ASCII");
        let mut fields = HeaderMap::new();
        fields.insert(header::ALT_SVC, value);
        let block = Rc::new(FieldBlock::from_headers(&fields, Indexing::Incremental));
        if self.offers.len() == MAX_OFFERS {
            self.offers.remove(0);
        }
        self.offers.push((alt_svc, Rc::clone(&block)));
        Some(block)
    }
}

fn common(now: SystemTime) -> FieldBlock {
    let mut fields = HeaderMap::new();
    crate::request::service::date_and_server(&mut fields, now);
    FieldBlock::from_headers(&fields, Indexing::Incremental)
}
