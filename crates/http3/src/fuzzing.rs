//! Field compression and frames without a connection around them: what fuzz targets need beside the
//! interface.
//!
//! Under the feature `fuzzing` alone, and no promise to anyone.

use bytes::Bytes;

use crate::Code;
use crate::failure::Violation;
use crate::frame::{self, Frame};
use crate::qpack::{Decoder, Encoder, Error, Indexing};

/// The sender of field sections on one connection.
#[derive(Debug)]
pub struct FieldEncoder(Encoder);

/// The receiver of field sections on one connection.
#[derive(Debug)]
pub struct FieldDecoder(Decoder);

/// Reason for which a section was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// The section waits for insertions.
    Blocked,
    /// The bytes are no section.
    Failed,
}

/// A name and a value.
pub type Field = (Vec<u8>, Vec<u8>);

impl FieldEncoder {
    /// Makes an encoder whose peer offers a table of so many bytes.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let mut encoder = Encoder::new();
        encoder.set_peer_capacity(capacity);
        Self(encoder)
    }

    /// A section of these fields; those whose value is of odd length are not put into the table.
    pub fn section(&mut self, stream: u64, fields: &[Field]) -> Vec<u8> {
        let mut section = self.0.section();
        for (name, value) in fields {
            let indexing = match value.len() % 2 {
                0 => Indexing::Repeating,
                _ => Indexing::Unique,
            };
            self.0.field(&mut section, name, value, indexing);
        }
        self.0.finish(&section, stream)
    }

    /// Takes a piece of the peer's decoder stream.
    ///
    /// # Errors
    /// The connection's error.
    pub fn on_decoder_stream(&mut self, piece: &[u8]) -> Result<(), Code> {
        self.0.on_decoder_stream(piece).map(drop).map_err(code)
    }

    /// Takes what is to be sent on the encoder stream.
    pub fn instructions(&mut self) -> Vec<u8> {
        std::mem::take(self.0.instructions())
    }
}

impl FieldDecoder {
    /// Makes a decoder whose connection announces a table of so many bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self(Decoder::new(capacity))
    }

    /// Takes a piece of the peer's encoder stream.
    ///
    /// # Errors
    /// The connection's error.
    pub fn on_encoder_stream(&mut self, piece: &[u8]) -> Result<(), Code> {
        self.0.on_encoder_stream(piece).map(drop).map_err(code)
    }

    /// Decodes a section of a stream.
    ///
    /// # Errors
    /// See [`Undecoded`].
    pub fn decode(&mut self, stream: u64, section: &[u8]) -> Result<Vec<Field>, Undecoded> {
        let mut fields = Vec::new();
        let decoded = self.0.decode(stream, section, 1 << 20, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
            Ok::<(), ()>(())
        });
        match decoded {
            Ok(_) => Ok(fields),
            Err(Error::Blocked { .. }) => Err(Undecoded::Blocked),
            Err(_) => Err(Undecoded::Failed),
        }
    }

    /// Sections of this stream will not be decoded.
    pub fn cancel(&mut self, stream: u64) {
        self.0.cancel(stream);
    }

    /// Returns the number of entries that there ever were.
    #[must_use]
    pub fn insert_count(&self) -> u64 {
        self.0.insert_count()
    }

    /// Takes what is to be sent on the decoder stream.
    pub fn instructions(&mut self) -> Vec<u8> {
        std::mem::take(self.0.instructions())
    }
}

/// The frames of a control or request stream that comes in these pieces, those of DATA joined; and
/// how it ended.
pub fn frames<'a>(
    control: bool,
    limit: u64,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<String>, Vec<u8>, Result<(), Code>) {
    let mut decoder = match control {
        true => frame::Decoder::control(limit),
        false => frame::Decoder::request(limit),
    };
    let (mut frames, mut body) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(Frame::Data(data))) => body.extend_from_slice(&data),
                Ok(Some(frame)) => {
                    if let Frame::Headers(section) | Frame::Settings(section) = &frame {
                        assert!(section.len() as u64 <= limit, "more than the limit held");
                        decoder.head_done();
                    }
                    frames.push(format!("{frame:?}"));
                }
                Ok(None) => break,
                Err(violation) => return (frames, body, Err(code(violation))),
            }
        }
    }
    (frames, body, decoder.finish().map_err(code))
}

fn code(violation: Violation) -> Code {
    violation.code
}
