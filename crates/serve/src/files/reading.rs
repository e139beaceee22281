//! A file on its way to a client.

use super::FileCache;
use super::shared::FileRange;
use bytes::{Buf, Bytes};
use std::io;

/// The part of a file that has not been handed over. Large files are read when the client can take
/// bytes, and as many as it can take, so that a client that takes none holds none.
#[derive(Debug)]
pub(crate) enum Reading {
    /// A small file, in memory.
    Memory(Bytes),
    /// A compressed form, in memory that other responses hold as well, and that is counted elsewhere.
    Shared(Bytes),
    /// A file on disk.
    File(FileRange),
}

/// The next bytes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// Set when the file, or the part of it that was asked for, ends with them.
    pub(crate) last: bool,
}

impl Piece {
    /// No bytes, of a file that has some left.
    pub(crate) fn nothing() -> Self {
        Self {
            bytes: Bytes::new(),
            last: false,
        }
    }
}

impl Reading {
    /// The next bytes, at most `limit`. They are given again until they are [passed](Self::advance).
    ///
    /// # Errors
    /// The file can't be read, or is another than it was.
    pub(crate) fn next(&self, cache: &mut FileCache, limit: usize) -> io::Result<Piece> {
        let bytes = match self {
            Self::Memory(bytes) | Self::Shared(bytes) => bytes.slice(..bytes.len().min(limit)),
            Self::File(range) => cache.read(range, limit)?,
        };
        Ok(Piece {
            last: bytes.len() as u64 == self.remaining(),
            bytes,
        })
    }

    /// Passes `length` bytes, at most what remains.
    pub(crate) fn advance(&mut self, length: usize) {
        match self {
            Self::Memory(bytes) | Self::Shared(bytes) => bytes.advance(length),
            Self::File(range) => range.skip(length),
        }
    }

    pub(crate) fn remaining(&self) -> u64 {
        match self {
            Self::Memory(bytes) | Self::Shared(bytes) => bytes.len() as u64,
            Self::File(range) => range.remaining,
        }
    }

    /// Bytes in memory that wait for the client.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Shared(_) | Self::File(_) => 0,
        }
    }
}
