//! HTTP/2 error codes (RFC 9113 section 7).
//!
//! A code is what RST_STREAM and GOAWAY carry. It is an open set: "unknown or unsupported error
//! codes MUST NOT trigger any special behavior", so [`Code`] wraps the number instead of
//! enumerating.

use altway_fields::error_codes;

error_codes! {
    /// An error code of a stream or a connection.
    pub struct Code(u32);

    /// No error: the stream or connection is closed because it is done.
    NO_ERROR = 0x00,
    /// The peer broke the protocol in a way that no more specific code names.
    PROTOCOL_ERROR = 0x01,
    /// A failure on this side.
    INTERNAL_ERROR = 0x02,
    /// The peer sent more than the flow-control window allows.
    FLOW_CONTROL_ERROR = 0x03,
    /// The peer did not acknowledge SETTINGS in time.
    SETTINGS_TIMEOUT = 0x04,
    /// A frame came for a stream that the peer had ended.
    STREAM_CLOSED = 0x05,
    /// A frame has an invalid size.
    FRAME_SIZE_ERROR = 0x06,
    /// The request was refused before any of it was processed; it may be sent again.
    REFUSED_STREAM = 0x07,
    /// The stream is not wanted any more.
    CANCEL = 0x08,
    /// A field block can't be decoded: the compression state is lost.
    COMPRESSION_ERROR = 0x09,
    /// A CONNECT tunnel's connection failed.
    CONNECT_ERROR = 0x0a,
    /// The peer causes too much work.
    ENHANCE_YOUR_CALM = 0x0b,
    /// The transport is less secure than it has to be.
    INADEQUATE_SECURITY = 0x0c,
    /// The request has to be made over HTTP/1.1.
    HTTP_1_1_REQUIRED = 0x0d,
}

impl Code {
    /// Wraps a number from the wire.
    #[must_use]
    pub const fn new(code: u32) -> Self {
        Code(code)
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
