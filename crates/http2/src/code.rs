//! HTTP/2 error codes (RFC 9113 section 7).
//!
//! A code is what RST_STREAM and GOAWAY carry. It is an open set: "unknown or unsupported error
//! codes MUST NOT trigger any special behavior", so [`Code`] wraps the number instead of
//! enumerating.

use std::fmt;

/// An error code of a stream or a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u32);

impl Code {
    /// No error: the stream or connection is closed because it is done.
    pub const NO_ERROR: Code = Code(0x00);
    /// The peer broke the protocol in a way that no more specific code names.
    pub const PROTOCOL_ERROR: Code = Code(0x01);
    /// A failure on this side.
    pub const INTERNAL_ERROR: Code = Code(0x02);
    /// The peer sent more than the flow-control window allows.
    pub const FLOW_CONTROL_ERROR: Code = Code(0x03);
    /// The peer did not acknowledge SETTINGS in time.
    pub const SETTINGS_TIMEOUT: Code = Code(0x04);
    /// A frame came for a stream that the peer had ended.
    pub const STREAM_CLOSED: Code = Code(0x05);
    /// A frame has an invalid size.
    pub const FRAME_SIZE_ERROR: Code = Code(0x06);
    /// The request was refused before any of it was processed; it may be sent again.
    pub const REFUSED_STREAM: Code = Code(0x07);
    /// The stream is not wanted any more.
    pub const CANCEL: Code = Code(0x08);
    /// A field block can't be decoded: the compression state is lost.
    pub const COMPRESSION_ERROR: Code = Code(0x09);
    /// A CONNECT tunnel's connection failed.
    pub const CONNECT_ERROR: Code = Code(0x0a);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: Code = Code(0x0b);
    /// The transport is less secure than it has to be.
    pub const INADEQUATE_SECURITY: Code = Code(0x0c);
    /// The request has to be made over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Code = Code(0x0d);

    /// Wraps a number from the wire.
    #[must_use]
    pub const fn new(code: u32) -> Self {
        Code(code)
    }

    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The RFC's name, if it has one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Code::NO_ERROR => "NO_ERROR",
            Code::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            Code::INTERNAL_ERROR => "INTERNAL_ERROR",
            Code::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Code::SETTINGS_TIMEOUT => "SETTINGS_TIMEOUT",
            Code::STREAM_CLOSED => "STREAM_CLOSED",
            Code::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            Code::REFUSED_STREAM => "REFUSED_STREAM",
            Code::CANCEL => "CANCEL",
            Code::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            Code::CONNECT_ERROR => "CONNECT_ERROR",
            Code::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            Code::INADEQUATE_SECURITY => "INADEQUATE_SECURITY",
            Code::HTTP_1_1_REQUIRED => "HTTP_1_1_REQUIRED",
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
    fn prints_the_name_or_the_number() {
        assert_eq!(Code::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(Code::new(0x1f).to_string(), "0x1f");
        assert_eq!(Code::new(7), Code::REFUSED_STREAM);
    }
}
