//! The peer's QPACK streams (RFC 9204 sections 4.3 and 4.4) when no dynamic table exists: what may
//! still come on them, and what is an error.

use crate::Code;
use crate::failure::Violation;

/// Checks a piece of the encoder stream. With a capacity of 0 announced, "Set Dynamic Table
/// Capacity" to 0, one byte, is all that can rightly come; an insertion can't fit.
pub(crate) fn check_encoder_stream(piece: &[u8]) -> Result<(), Violation> {
    const SET_CAPACITY_ZERO: u8 = 0x20;
    if piece.iter().all(|byte| *byte == SET_CAPACITY_ZERO) {
        return Ok(());
    }
    let reason = "insertion into a dynamic table of capacity 0";
    Err(Violation::new(Code::QPACK_ENCODER_STREAM_ERROR, reason))
}

/// The peer's decoder stream. As this side inserts nothing, an acknowledgement or an insert count
/// is an error; a stream cancellation is allowed and means nothing.
#[derive(Debug, Default)]
pub(crate) struct DecoderStream {
    /// Continuation bytes seen of a stream ID that is not complete; 0: between instructions.
    within: u8,
}

impl DecoderStream {
    /// Checks the next piece.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), Violation> {
        for byte in piece {
            self.check_byte(*byte)?;
        }
        Ok(())
    }

    fn check_byte(&mut self, byte: u8) -> Result<(), Violation> {
        /// "Stream Cancellation": 01, then the stream ID with a 6-bit prefix.
        const STREAM_CANCELLATION: u8 = 0x40;
        const PREFIX: u8 = 0x3f;
        /// 6 bits and nine times 7 hold any 62-bit ID.
        const MAX_CONTINUATION: u8 = 9;
        let wrong = |reason| Err(Violation::new(Code::QPACK_DECODER_STREAM_ERROR, reason));
        match self.within {
            0 if byte & 0xc0 != STREAM_CANCELLATION => wrong("acknowledgement of nothing sent"),
            0 => {
                self.within = u8::from(byte & PREFIX == PREFIX);
                Ok(())
            }
            _ if byte & 0x80 == 0 => {
                self.within = 0;
                Ok(())
            }
            MAX_CONTINUATION => wrong("stream id too long"),
            _ => {
                self.within += 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoder_stream_may_set_the_capacity_to_zero_and_nothing_else() {
        assert!(check_encoder_stream(&[0x20, 0x20]).is_ok());
        for instruction in [0x21, 0x3f, 0xc0, 0x40, 0x00] {
            let error = check_encoder_stream(&[0x20, instruction]).unwrap_err();
            assert_eq!(error.code, Code::QPACK_ENCODER_STREAM_ERROR);
        }
    }

    #[test]
    fn the_decoder_stream_may_cancel_streams_and_nothing_else() {
        let mut stream = DecoderStream::default();
        assert!(stream.check(&[0x44, 0x7f]).is_ok());
        assert!(stream.check(&[0x80]).is_ok());
        assert!(stream.check(&[0x01, 0x40]).is_ok());
        for instruction in [0x84, 0x01] {
            let error = DecoderStream::default().check(&[instruction]).unwrap_err();
            assert_eq!(error.code, Code::QPACK_DECODER_STREAM_ERROR);
        }
        assert!(DecoderStream::default().check(&[0xff; 12]).is_err());
        assert!(
            DecoderStream::default()
                .check(&[&[0x7f][..], &[0xff; 12]].concat())
                .is_err()
        );
    }
}
