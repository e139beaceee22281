//! HTTP/3 and QPACK error codes (RFC 9114 section 8.1, RFC 9204 section 6).
//!
//! A code is what RESET_STREAM, STOP_SENDING and CONNECTION_CLOSE carry. It is an open set: peers
//! may send codes that no RFC names, so [`Code`] wraps the number instead of enumerating.

use altway_fields::error_codes;

error_codes! {
    /// An application error code of a stream or a connection, 0 … 2^62 − 1.
    pub struct Code(u64);

    /// No error: the request or connection is closed because it is done.
    H3_NO_ERROR = 0x0100,
    /// The peer broke the protocol in a way that no more specific code names.
    H3_GENERAL_PROTOCOL_ERROR = 0x0101,
    /// A failure on this side.
    H3_INTERNAL_ERROR = 0x0102,
    /// The peer created a stream that will not be accepted.
    H3_STREAM_CREATION_ERROR = 0x0103,
    /// A control or QPACK stream was closed or reset.
    H3_CLOSED_CRITICAL_STREAM = 0x0104,
    /// A frame came where its type is not allowed.
    H3_FRAME_UNEXPECTED = 0x0105,
    /// A frame's layout or size is wrong.
    H3_FRAME_ERROR = 0x0106,
    /// The peer causes too much work.
    H3_EXCESSIVE_LOAD = 0x0107,
    /// A stream or push ID was used wrongly.
    H3_ID_ERROR = 0x0108,
    /// The SETTINGS frame's payload is wrong.
    H3_SETTINGS_ERROR = 0x0109,
    /// The control stream did not begin with SETTINGS.
    H3_MISSING_SETTINGS = 0x010a,
    /// The server refused a request before it looked at it; it may be sent again.
    H3_REQUEST_REJECTED = 0x010b,
    /// The request or its response is not wanted any more.
    H3_REQUEST_CANCELLED = 0x010c,
    /// The client's stream ended before a whole request was there.
    H3_REQUEST_INCOMPLETE = 0x010d,
    /// A message is malformed (RFC 9114 section 4.1.2).
    H3_MESSAGE_ERROR = 0x010e,
    /// A CONNECT tunnel's TCP connection failed.
    H3_CONNECT_ERROR = 0x010f,
    /// The request can't be served over HTTP/3; use HTTP/1.1.
    H3_VERSION_FALLBACK = 0x0110,
    /// A field section could not be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x0200,
    /// An instruction on the peer's QPACK encoder stream is wrong.
    QPACK_ENCODER_STREAM_ERROR = 0x0201,
    /// An instruction on the peer's QPACK decoder stream is wrong.
    QPACK_DECODER_STREAM_ERROR = 0x0202,
}

impl Code {
    /// Wraps a number; larger ones than 2^62 − 1 become that.
    #[must_use]
    pub const fn new(code: u64) -> Self {
        const MAX: u64 = (1 << 62) - 1;
        Code(if code > MAX { MAX } else { code })
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
