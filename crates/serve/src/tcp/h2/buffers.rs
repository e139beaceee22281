//! Buffers that the connections of a worker share: one connection is worked on at a time.

use crate::files::FileCache;
use crate::held::HeldBytes;
use crate::request::exchanges::Tables;
use crate::request::pending::SpareWork;
use crate::request::requests::{Now, Responder};
use crate::setup::WorkerMemory;
use altway_http2::{Output, StreamId};
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The buffers of a worker, with what answers its requests.
pub(in crate::tcp) struct WorkerBuffers {
    /// Lent for a turn to the connection that reads into it.
    pub(super) buffer: Rc<RefCell<Vec<u8>>>,
    pub(super) output: Output,
    pub(super) files: Rc<RefCell<FileCache>>,
    pub(super) responder: Rc<Responder>,
    /// Memory for exchanges that wait for something, and for responses that don't leave at once.
    pub(super) work: Rc<SpareWork<StreamId>>,
    pub(super) tables: Rc<Tables<StreamId>>,
    /// Time of this turn.
    pub(super) now: Now,
}

impl WorkerBuffers {
    pub(in crate::tcp) fn new(memory: WorkerMemory) -> Self {
        Self {
            buffer: Rc::new(RefCell::new(vec![0; BUFFER_BYTES])),
            output: Output::new(),
            files: memory.files,
            responder: memory.responder,
            work: Rc::default(),
            tables: Rc::default(),
            now: Now::read(),
        }
    }

    /// Looks at the clocks.
    pub(super) fn begin_turn(&mut self) {
        self.now = Now::read();
    }

    /// Returns the number of bytes that a connection may encode before it sends; `held`: its client's.
    pub(super) fn send_bytes(held: &HeldBytes) -> usize {
        if held.is_full() {
            super::SCARCE_SEND_BYTES
        } else {
            super::SEND_BYTES
        }
    }
}
