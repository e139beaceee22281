//! HTTP/3 and QPACK error codes (RFC 9114 section 8.1, RFC 9204 section 6).
//!
//! A code is what RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE carry. It is an open set: peers
//! may send codes that no RFC names, so [`Code`] wraps the number instead of enumerating.

use std::fmt;

/// An application error code of a stream or a connection, 0 … 2^62 − 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u64);

impl Code {
    /// No error: the request or connection is closed because it is done.
    pub const H3_NO_ERROR: Code = Code(0x0100);
    /// The peer broke the protocol in a way that no more specific code names.
    pub const H3_GENERAL_PROTOCOL_ERROR: Code = Code(0x0101);
    /// A failure on this side.
    pub const H3_INTERNAL_ERROR: Code = Code(0x0102);
    /// The peer created a stream that will not be accepted.
    pub const H3_STREAM_CREATION_ERROR: Code = Code(0x0103);
    /// A control or QPACK stream was closed or reset.
    pub const H3_CLOSED_CRITICAL_STREAM: Code = Code(0x0104);
    /// A frame came where its type is not allowed.
    pub const H3_FRAME_UNEXPECTED: Code = Code(0x0105);
    /// A frame's layout or size is wrong.
    pub const H3_FRAME_ERROR: Code = Code(0x0106);
    /// The peer causes too much work.
    pub const H3_EXCESSIVE_LOAD: Code = Code(0x0107);
    /// A stream or push ID was used wrongly.
    pub const H3_ID_ERROR: Code = Code(0x0108);
    /// The SETTINGS frame's payload is wrong.
    pub const H3_SETTINGS_ERROR: Code = Code(0x0109);
    /// The control stream did not begin with SETTINGS.
    pub const H3_MISSING_SETTINGS: Code = Code(0x010a);
    /// The server refused a request before it looked at it; it may be sent again.
    pub const H3_REQUEST_REJECTED: Code = Code(0x010b);
    /// The request or its response is not wanted any more.
    pub const H3_REQUEST_CANCELLED: Code = Code(0x010c);
    /// The client's stream ended before a whole request was there.
    pub const H3_REQUEST_INCOMPLETE: Code = Code(0x010d);
    /// A message is malformed (RFC 9114 section 4.1.2).
    pub const H3_MESSAGE_ERROR: Code = Code(0x010e);
    /// A CONNECT tunnel's TCP connection failed.
    pub const H3_CONNECT_ERROR: Code = Code(0x010f);
    /// The request can't be served over HTTP/3; use HTTP/1.1.
    pub const H3_VERSION_FALLBACK: Code = Code(0x0110);
    /// A field section could not be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Code = Code(0x0200);
    /// An instruction on the peer's QPACK encoder stream is wrong.
    pub const QPACK_ENCODER_STREAM_ERROR: Code = Code(0x0201);
    /// An instruction on the peer's QPACK decoder stream is wrong.
    pub const QPACK_DECODER_STREAM_ERROR: Code = Code(0x0202);

    /// Wraps a number; larger ones than 2^62 − 1 become that.
    #[must_use]
    pub const fn new(code: u64) -> Self {
        const MAX: u64 = (1 << 62) - 1;
        Code(if code > MAX { MAX } else { code })
    }

    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The RFC's name, if it has one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Code::H3_NO_ERROR => "H3_NO_ERROR",
            Code::H3_GENERAL_PROTOCOL_ERROR => "H3_GENERAL_PROTOCOL_ERROR",
            Code::H3_INTERNAL_ERROR => "H3_INTERNAL_ERROR",
            Code::H3_STREAM_CREATION_ERROR => "H3_STREAM_CREATION_ERROR",
            Code::H3_CLOSED_CRITICAL_STREAM => "H3_CLOSED_CRITICAL_STREAM",
            Code::H3_FRAME_UNEXPECTED => "H3_FRAME_UNEXPECTED",
            Code::H3_FRAME_ERROR => "H3_FRAME_ERROR",
            Code::H3_EXCESSIVE_LOAD => "H3_EXCESSIVE_LOAD",
            Code::H3_ID_ERROR => "H3_ID_ERROR",
            Code::H3_SETTINGS_ERROR => "H3_SETTINGS_ERROR",
            Code::H3_MISSING_SETTINGS => "H3_MISSING_SETTINGS",
            Code::H3_REQUEST_REJECTED => "H3_REQUEST_REJECTED",
            Code::H3_REQUEST_CANCELLED => "H3_REQUEST_CANCELLED",
            Code::H3_REQUEST_INCOMPLETE => "H3_REQUEST_INCOMPLETE",
            Code::H3_MESSAGE_ERROR => "H3_MESSAGE_ERROR",
            Code::H3_CONNECT_ERROR => "H3_CONNECT_ERROR",
            Code::H3_VERSION_FALLBACK => "H3_VERSION_FALLBACK",
            Code::QPACK_DECOMPRESSION_FAILED => "QPACK_DECOMPRESSION_FAILED",
            Code::QPACK_ENCODER_STREAM_ERROR => "QPACK_ENCODER_STREAM_ERROR",
            Code::QPACK_DECODER_STREAM_ERROR => "QPACK_DECODER_STREAM_ERROR",
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_name_of_a_known_code_and_the_number_of_another() {
        assert_eq!(Code::H3_MESSAGE_ERROR.to_string(), "H3_MESSAGE_ERROR");
        assert_eq!(Code::new(0x21).to_string(), "0x21");
    }

    #[test]
    fn a_code_beyond_62_bits_is_clamped() {
        assert_eq!(Code::new(u64::MAX).get(), (1 << 62) - 1);
    }
}
