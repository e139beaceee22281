//! The bytes of an HTTP/1 connection, read beside the parser that answers: every head is checked, and
//! every content is followed to its end.
//!
//! A parser that is friendly with line ends, chunks or lengths may see another message than the next
//! one behind a proxy. The scanner takes each head as RFC 9112 has it, or refuses it by its number, and
//! then has nothing to say of what follows, since the connection ends with that answer.

use crate::{Framing, Refusal, Rules, http1};

/// The most bytes of a head that arrives in parts; a longer one is refused.
const MAX_HEAD: usize = 64 << 10;

/// The most fields of a request that is answered. Browsers send a quarter of it; Apache, HAProxy and hyper take as many.
/// `:authority` counts as Host, and the crumbs of a Cookie field (RFC 9113 section 8.2.3) as one.
pub const MAX_FIELDS: usize = 100;

/// The most bytes of a trailer section.
const MAX_TRAILERS: usize = 16 << 10;

/// The most bytes of a chunk's extensions.
const MAX_EXTENSIONS: usize = 1 << 10;

/// A chunk's size has no more digits, so that it fits into 64 bits.
const MAX_DIGITS: u8 = 16;

/// The state of a connection. It keeps a head or a trailer section that has not arrived whole.
#[derive(Debug)]
pub struct Scanner {
    rules: Rules,
    state: State,
    /// The beginning of a section.
    kept: Vec<u8>,
    /// Lines of a head that have arrived whole, its request line included.
    lines: usize,
    heads: u64,
    refused: Option<Refusal>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Within a head, or before one. `line`: bytes of the line so far; `cr`: the last one is CR.
    Head { line: usize, cr: bool },
    /// Within content, of which so many bytes are to come.
    Content(u64),
    /// Within a chunk's size.
    Size { size: u64, digits: u8 },
    /// Within a chunk's extensions.
    Extensions { size: u64, len: usize },
    /// Between a chunk's size and its LF.
    SizeEnd(u64),
    /// Within a chunk, of which so many bytes are to come.
    Chunk(u64),
    /// Behind a chunk, before its CR or its LF.
    ChunkEnd { cr: bool },
    /// Within the trailer section.
    Trailers { line: usize, cr: bool },
    /// Behind a head that was refused.
    Refused,
}

/// Content breaks the rules of its framing, or a head has a field more than [`MAX_FIELDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Bytes of the input before the one that is wrong.
    pub at: usize,
    /// The rule.
    pub refusal: Refusal,
}

impl Scanner {
    /// A connection without a byte.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: BEFORE_HEAD,
            kept: Vec::new(),
            lines: 0,
            heads: 0,
            refused: None,
        }
    }

    /// Reads the next bytes of the connection.
    ///
    /// # Errors
    /// The content of a message is broken. No more may be read. Or a head has too many fields: it is
    /// [refused](Self::refused), and a parser that can't take it is shown none of those that are too many.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let step = self.step(&bytes[at..]);
            at += step.map_err(|refusal| Broken { at, refusal })?;
        }
        Ok(())
    }

    /// Heads that were read whole and keep the rules.
    #[must_use]
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Bytes of memory that the beginning of a head or of a trailer section takes, as the rest has not arrived.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.capacity()
    }

    /// Bytes of a head or of a trailer section that have arrived without the rest. Their memory may be twice as large.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.kept.len()
    }

    /// The reason to refuse the head behind those of [`heads`](Self::heads).
    #[must_use]
    pub fn refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// Takes some bytes, and gives how many.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        match self.state {
            State::Head { line: 0, .. } if self.lines > MAX_FIELDS && bytes[0] != b'\r' => {
                self.refuse(Refusal::TooLarge);
                Err(Refusal::TooLarge)
            }
            State::Head { line, cr } => Ok(self.head(bytes, line, cr)),
            State::Trailers { line, cr } => self.trailers(bytes, line, cr),
            State::Content(left) => {
                let taken = shorter(bytes, left);
                self.state = match left - taken as u64 {
                    0 => BEFORE_HEAD,
                    left => State::Content(left),
                };
                Ok(taken)
            }
            State::Chunk(left) => {
                let taken = shorter(bytes, left);
                self.state = match left - taken as u64 {
                    0 => State::ChunkEnd { cr: false },
                    left => State::Chunk(left),
                };
                Ok(taken)
            }
            State::Refused => Ok(bytes.len()),
            _ => self.chunk_line(bytes[0]).map(|()| 1),
        }
    }

    /// A byte of the lines around a chunk.
    fn chunk_line(&mut self, byte: u8) -> Result<(), Refusal> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == MAX_DIGITS {
                    return Err(Refusal::Chunk);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                State::Size {
                    size: (size << 4) | u64::from(digit),
                    digits: digits + 1,
                }
            }
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeEnd(size),
            (State::Size { size, digits: 1.. }, b';') => State::Extensions { size, len: 0 },
            (State::Extensions { size, .. }, b'\r') => State::SizeEnd(size),
            (State::Extensions { size, len }, b'\t' | b' '..=0x7e | 0x80..)
                if len < MAX_EXTENSIONS =>
            {
                State::Extensions { size, len: len + 1 }
            }
            (State::SizeEnd(0), b'\n') => {
                self.kept.clear();
                State::Trailers { line: 0, cr: false }
            }
            (State::SizeEnd(size), b'\n') => State::Chunk(size),
            (State::ChunkEnd { cr: false }, b'\r') => State::ChunkEnd { cr: true },
            (State::ChunkEnd { cr: true }, b'\n') => BEFORE_CHUNK,
            _ => return Err(Refusal::Chunk),
        };
        Ok(())
    }

    /// Reads on in a head, to its end at most.
    fn head(&mut self, bytes: &[u8], line: usize, cr: bool) -> usize {
        let (mut line, mut cr, mut from) = (line, cr, 0);
        let mut begun = !self.kept.is_empty();
        if cr && !begun && bytes[0] != b'\n' {
            // It was no empty line.
            self.kept.push(b'\r');
            begun = true;
        }
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != b'\n' {
                (line, cr) = (line + 1, *byte == b'\r');
                continue;
            }
            match (cr, line) {
                (false, _) => {
                    self.refuse(Refusal::LineEnd);
                    return bytes.len();
                }
                (true, 1) if begun => {
                    self.whole_head(&bytes[from..=at]);
                    return at + 1;
                }
                // An empty line before the head.
                (true, 1) => from = at + 1,
                (true, _) => {
                    begun = true;
                    self.lines += 1;
                }
            }
            (line, cr) = (0, false);
            if self.lines > MAX_FIELDS {
                self.state = BEFORE_HEAD;
                self.keep(&bytes[from..=at], begun);
                return at + 1;
            }
        }
        self.state = State::Head { line, cr };
        self.keep(&bytes[from..], begun);
        bytes.len()
    }

    /// Keeps the beginning of a head. A CR may be the beginning of an empty line before it.
    fn keep(&mut self, part: &[u8], begun: bool) {
        if self.kept.len() + part.len() > MAX_HEAD {
            self.refuse(Refusal::TooLarge);
        } else if begun || part != b"\r" {
            self.kept.extend_from_slice(part);
        }
    }

    fn whole_head(&mut self, end: &[u8]) {
        let checked = if self.kept.is_empty() {
            http1::check(end, self.rules).map(|head| head.framing)
        } else {
            self.kept.extend_from_slice(end);
            http1::check(&self.kept, self.rules).map(|head| head.framing)
        };
        self.kept = Vec::new();
        self.lines = 0;
        match checked {
            Ok(framing) => {
                self.heads += 1;
                self.state = match framing {
                    Framing::Length(left @ 1..) => State::Content(left),
                    Framing::Chunked => BEFORE_CHUNK,
                    _ => BEFORE_HEAD,
                };
            }
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.kept = Vec::new();
        self.refused = Some(refusal);
        self.state = State::Refused;
    }

    /// Reads on in a trailer section, to its end at most.
    fn trailers(&mut self, bytes: &[u8], line: usize, cr: bool) -> Result<usize, Refusal> {
        let (mut line, mut cr) = (line, cr);
        for (at, byte) in bytes.iter().enumerate() {
            if self.kept.len() == MAX_TRAILERS {
                return Err(Refusal::TooLarge);
            }
            self.kept.push(*byte);
            if *byte != b'\n' {
                (line, cr) = (line + 1, *byte == b'\r');
                continue;
            }
            if !cr {
                return Err(Refusal::LineEnd);
            }
            if line == 1 {
                http1::check_trailers(&self.kept)?;
                self.kept = Vec::new();
                self.state = BEFORE_HEAD;
                return Ok(at + 1);
            }
            (line, cr) = (0, false);
        }
        self.state = State::Trailers { line, cr };
        Ok(bytes.len())
    }
}

const BEFORE_HEAD: State = State::Head { line: 0, cr: false };
const BEFORE_CHUNK: State = State::Size { size: 0, digits: 0 };

fn shorter(bytes: &[u8], left: u64) -> usize {
    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
}

#[cfg(test)]
mod tests;
