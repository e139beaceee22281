//! Frames, written and read without the engine's help.

/// Preface of a client's connection (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const ALTSVC: u8 = 10;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// SETTINGS_MAX_CONCURRENT_STREAMS and others (section 6.5.2).
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_FRAME_SIZE: u16 = 5;

const HEADER_LEN: usize = 9;

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the beginning of `bytes`, and what follows it.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([l2, l1, l0, kind, flags, stream @ ..], rest) =
            bytes.split_first_chunk::<HEADER_LEN>()?;
        let len = u32::from_be_bytes([0, *l2, *l1, *l0]);
        let (payload, rest) = rest.split_at_checked(len.try_into().ok()?)?;
        let frame = Self {
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes(*stream) & 0x7fff_ffff,
            payload,
        };
        Some((frame, rest))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Four bytes of the payload as a number.
    pub(crate) fn number(&self) -> Option<u32> {
        let number = self.payload.first_chunk()?;
        Some(u32::from_be_bytes(*number))
    }

    /// The entries of a SETTINGS frame.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        let (entries, _) = self.payload.as_chunks::<6>();
        entries.iter().map(|[i1, i0, value @ ..]| {
            (u16::from_be_bytes([*i1, *i0]), u32::from_be_bytes(*value))
        })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let len = u32::try_from(self.payload.len()).expect("a fuzzer's input is small");
        let [_, l2, l1, l0] = len.to_be_bytes();
        let head = [l2, l1, l0, self.kind, self.flags];
        [&head, &self.stream.to_be_bytes()[..], self.payload].concat()
    }
}

/// Writes a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let frame = Frame {
        kind,
        flags,
        stream,
        payload,
    };
    frame.to_bytes()
}

/// Writes one entry of SETTINGS.
pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    rest: Vec<u8>,
}

impl Scanner {
    /// Takes bytes in, and gives each frame that they complete to `each`.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Frame<'_>)) {
        self.rest.extend_from_slice(bytes);
        let mut rest = &self.rest[..];
        while let Some((frame, behind)) = Frame::split(rest) {
            each(frame);
            rest = behind;
        }
        let taken = self.rest.len() - rest.len();
        self.rest.drain(..taken);
    }

    /// Returns true if all frames came whole.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.rest.is_empty()
    }
}
