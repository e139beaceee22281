//! Content in chunks (RFC 9112 section 7.1): bytes in, content and trailers out.
//!
//! Stricter than the grammar must be read: each line ends with CR LF, and a size has 16 digits at most.

use bytes::{Buf as _, Bytes};
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The most bytes of extensions and of spaces that a message has in the lines of its chunks. Nobody uses them.
const MAX_EXTENSIONS: usize = 16 << 10;

/// The most bytes of a message's trailers.
const MAX_TRAILERS: usize = 16 << 10;

/// The most fields in a message's trailers.
const MAX_TRAILER_FIELDS: usize = 64;

/// A decoder of one message's content.
#[derive(Debug, Default)]
pub(crate) struct Chunked {
    state: State,
    /// Bytes of extensions so far.
    extensions: usize,
    /// The beginning of the trailers; [`MAX_TRAILERS`] at most.
    trailers: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Within a chunk's size.
    Size {
        size: u64,
        digits: u8,
    },
    /// Between the size and the end of its line.
    Extension(u64),
    /// The line's CR was read.
    SizeEnd(u64),
    /// Within a chunk, of which so many bytes are to come.
    Data(u64),
    /// Behind a chunk, before its CR and its LF.
    DataCr,
    DataLf,
    Trailers,
    End,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

/// The result of a decoder's step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Some of the content.
    Data(Bytes),
    /// The last of the message.
    Trailers(HeaderMap),
    /// The message has ended.
    End,
    /// No piece: all input is read, and more is needed.
    More,
}

/// The input is no content in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of the upstream's response are malformed")]
pub(crate) struct BadChunks;

impl Chunked {
    /// The next piece of `input`, from which what was read is taken away.
    ///
    /// # Errors
    /// [`BadChunks`], again and again.
    pub(crate) fn decode(&mut self, input: &mut Bytes) -> Result<Piece, BadChunks> {
        loop {
            match self.state {
                State::Data(left) if !input.is_empty() => {
                    let n = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.state = match left - n as u64 {
                        0 => State::DataCr,
                        left => State::Data(left),
                    };
                    return Ok(Piece::Data(input.split_to(n)));
                }
                State::Trailers => return self.trailers(input),
                State::End => return Ok(Piece::End),
                _ => {}
            }
            let Some(&byte) = input.first() else {
                return Ok(Piece::More);
            };
            input.advance(1);
            self.state = self.step(byte)?;
        }
    }

    /// Reads a byte of what stands around the chunks.
    fn step(&mut self, byte: u8) -> Result<State, BadChunks> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).ok_or(BadChunks)?;
                State::Size {
                    size: (size << 4) | u64::from(digit),
                    digits: Some(digits + 1).filter(|it| *it <= 16).ok_or(BadChunks)?,
                }
            }
            (State::Size { digits: 0, .. }, _) => return Err(BadChunks),
            (State::Size { size, .. } | State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Size { size, .. }, b';' | b' ' | b'\t') | (State::Extension(size), b'\t') => {
                self.extend(size)?
            }
            // No control characters: another might take one of them for the end of the line.
            (State::Extension(size), _) if byte >= b' ' && byte != 0x7f => self.extend(size)?,
            (State::SizeEnd(0), b'\n') => State::Trailers,
            (State::SizeEnd(size), b'\n') => State::Data(size),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::default(),
            _ => return Err(BadChunks),
        })
    }

    fn extend(&mut self, size: u64) -> Result<State, BadChunks> {
        self.extensions += 1;
        match self.extensions <= MAX_EXTENSIONS {
            true => Ok(State::Extension(size)),
            false => Err(BadChunks),
        }
    }

    fn trailers(&mut self, input: &mut Bytes) -> Result<Piece, BadChunks> {
        while let Some(&byte) = input.first() {
            input.advance(1);
            self.trailers.push(byte);
            if self.trailers == b"\r\n" {
                self.state = State::End;
                return Ok(Piece::End);
            }
            if self.trailers.ends_with(b"\r\n\r\n") {
                self.state = State::End;
                return parse(&std::mem::take(&mut self.trailers)).map(Piece::Trailers);
            }
            if self.trailers.len() >= MAX_TRAILERS {
                return Err(BadChunks);
            }
        }
        Ok(Piece::More)
    }
}

fn parse(section: &[u8]) -> Result<HeaderMap, BadChunks> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    match httparse::parse_headers(section, &mut lines) {
        Ok(httparse::Status::Complete((len, lines))) if len == section.len() => {
            let mut fields = HeaderMap::new();
            for line in lines {
                let name = HeaderName::from_bytes(line.name.as_bytes());
                let value = HeaderValue::from_bytes(line.value);
                let (Ok(name), Ok(value)) = (name, value) else {
                    return Err(BadChunks);
                };
                fields.append(name, value);
            }
            Ok(fields)
        }
        _ => Err(BadChunks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes input that arrives in parts: its content, its trailers, what is left.
    fn decode(parts: &[&[u8]]) -> Result<(Vec<u8>, HeaderMap, Vec<u8>), BadChunks> {
        let mut chunked = Chunked::default();
        let mut content = Vec::new();
        let mut parts = parts.iter();
        let mut input = Bytes::new();
        loop {
            match chunked.decode(&mut input)? {
                Piece::Data(data) => content.extend_from_slice(&data),
                Piece::Trailers(fields) => return Ok((content, fields, input.to_vec())),
                Piece::End => return Ok((content, HeaderMap::new(), input.to_vec())),
                Piece::More => {
                    assert!(input.is_empty());
                    input = Bytes::copy_from_slice(parts.next().ok_or(BadChunks)?);
                }
            }
        }
    }

    #[test]
    fn content_trailers_and_what_follows_are_told_apart() {
        let text =
            b"5\r\nhello\r\nB;x=\"y\"\r\n, the world\r\n000\r\nGrpc-Status: 0\r\nb: c\r\n\r\nnext";
        let (content, fields, rest) = decode(&[text]).unwrap();
        assert_eq!(content, b"hello, the world");
        assert_eq!(fields.len(), 2);
        assert_eq!(fields["grpc-status"], "0");
        assert_eq!(rest, b"next");
        let (content, fields, rest) = decode(&[b"0\r\n\r\n"]).unwrap();
        assert!(content.is_empty() && fields.is_empty() && rest.is_empty());
    }

    #[test]
    fn what_two_readers_could_take_differently_is_malformed() {
        for text in [
            &b"\r\n\r\n"[..],
            b"x\r\n\r\n",
            b"-1\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"5\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloo\r\n0\r\n\r\n",
            b"5\r\nhello0\r\n\r\n",
            b"5;a\nb\r\nhello\r\n0\r\n\r\n",
            b"00000000000000005\r\nhello\r\n0\r\n\r\n",
            b"0\r\nno field\r\n\r\n",
            b"0\r\na b: c\r\n\r\n",
        ] {
            let decoded = decode(&[text]);
            assert_eq!(decoded, Err(BadChunks), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let long = "a".repeat(MAX_EXTENSIONS + 1);
        assert!(decode(&[format!("5;{long}\r\n").as_bytes()]).is_err());
        assert!(decode(&[format!("0\r\na: {long}\r\n\r\n").as_bytes()]).is_err());
        let many = "a: b\r\n".repeat(MAX_TRAILER_FIELDS + 1);
        assert!(decode(&[format!("0\r\n{many}\r\n").as_bytes()]).is_err());
    }

    proptest! {
        #[test]
        fn any_content_is_found_again_however_it_arrives(
            chunks in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1_usize..30,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\na: b\r\n\r\n");
            let parts: Vec<_> = text.chunks(cut).collect();
            let (content, fields, rest) = decode(&parts).unwrap();
            prop_assert_eq!(content, chunks.concat());
            prop_assert_eq!(fields.len(), 1);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_input_comes_to_an_end(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[&text]);
        }
    }
}
