//! Limits on the fields of responses, such that trailers which the crate h2 has cut off are never taken for whole.
//!
//! From a section of fields above its limit, h2 leaves out the field that exceeds it and all that follow. It refuses a head
//! for that, and passes trailers on. So its limit is higher than the one that holds here: what is left of trailers that were cut
//! is still above this one, for no field of them can fill the room between the two limits.

use http::HeaderMap;
use std::io;

/// The most bytes of the fields of a response, as SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113 section 6.5.2).
const MAX_FIELDS: usize = 64 << 10;

/// The most bytes of trailers as they are sent, which are fewer than the fields have.
const MAX_TRAILER_BLOCK: usize = MAX_FIELDS;

/// The most bytes of one field in such trailers: each is sent by five bits at least (RFC 7541 appendix B), but for a name or a
/// field out of the table, whose size is h2's default.
const MAX_TRAILER: usize = MAX_TRAILER_BLOCK * 8 / 5 + TABLE + OVERHEAD;

/// Bytes of the table of fields that both ends know (RFC 7541 section 4.2).
const TABLE: usize = 4_096;

/// Bytes that a field counts for beside its name and value.
const OVERHEAD: usize = 32;

/// The limit of h2.
pub(super) const H2_MAX_FIELDS: u32 = 192 << 10;

const _: () = assert!(H2_MAX_FIELDS as usize - MAX_TRAILER > MAX_FIELDS);

/// A response has more fields than this end takes.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the fields of the response are larger than {MAX_FIELDS} bytes")]
pub(crate) struct TooLarge;

/// Checks the size of a head or of trailers.
pub(super) fn check(fields: &HeaderMap) -> Result<(), TooLarge> {
    let sizes = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + OVERHEAD);
    match sizes.sum::<usize>() > MAX_FIELDS {
        true => Err(TooLarge),
        false => Ok(()),
    }
}

/// Bytes of a frame before its payload (RFC 9113 section 4.1).
const HEADER: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// Follows the frames that a server sends, for the size of its trailers.
#[derive(Debug, Default)]
pub(super) struct FrameScanner {
    /// The first bytes of a frame whose header has not come whole.
    header: [u8; HEADER],
    known: usize,
    /// Bytes of the frame that are to come.
    payload: usize,
    /// Bytes of the latest block of fields that ends a stream; `None`: the latest block ends none.
    block: Option<usize>,
}

impl FrameScanner {
    /// Takes the next bytes of the connection.
    ///
    /// # Errors
    /// They begin a frame with which trailers are too large.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let payload = self.payload.min(bytes.len());
            self.payload -= payload;
            bytes = &bytes[payload..];
            let (header, rest) = bytes.split_at((HEADER - self.known).min(bytes.len()));
            self.header[self.known..][..header.len()].copy_from_slice(header);
            self.known += header.len();
            bytes = rest;
            if self.known < HEADER {
                return Ok(());
            }
            self.known = 0;
            self.begin_frame()?;
        }
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
        match kind {
            HEADERS => self.block = (flags & END_STREAM != 0).then_some(self.payload),
            CONTINUATION => self.block = self.block.map(|block| block + self.payload),
            _ => return Ok(()),
        }
        match self.block.is_some_and(|block| block > MAX_TRAILER_BLOCK) {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, TooLarge)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxError;
    use crate::content::Content;
    use crate::counters::Counters;
    use crate::http2::Http2;
    use bytes::Bytes;
    use http::{HeaderName, HeaderValue, Method, Request, Response};
    use http_body_util::Empty;
    use std::future::poll_fn;
    use std::sync::Arc;

    fn fields(count: usize, value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap();
        let name = |index| HeaderName::try_from(format!("x-{index:04}")).unwrap();
        (0..count).map(|it| (name(it), value.clone())).collect()
    }

    /// The trailers of a response as they come from a server that ends it with these.
    async fn received(trailers: HeaderMap) -> Result<Option<HeaderMap>, BoxError> {
        let (near, far) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(async move {
            let mut connection = h2::server::handshake(far).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let mut sending = respond.send_response(Response::new(()), false).unwrap();
            sending.send_data(Bytes::from("hello"), false).unwrap();
            sending.send_trailers(trailers).unwrap();
            while connection.accept().await.is_some() {}
        });
        let counters = Arc::<Counters>::default();
        let connection = Http2::begin(near, None, counters.open()).await.unwrap();
        let request = Request::get("http://a.test/").body(()).unwrap();
        let content = Content::new(Empty::<Bytes>::new(), &Method::GET, 0, None);
        let response = connection.send(request, content.attempt(None), None).await;
        let mut body = response.map_err(|(fault, _)| fault)?.into_body();
        let mut trailers = None;
        while let Some(frame) = poll_fn(|cx| body.poll_frame(cx)).await {
            trailers = frame?.into_trailers().ok();
        }
        serving.abort();
        Ok(trailers)
    }

    #[tokio::test]
    async fn trailers_come_whole_or_end_the_response_with_an_error() {
        for whole in [
            fields(400, "a"),
            fields(400, &"X".repeat(100)),
            fields(1, &"X".repeat(60_000)),
        ] {
            assert_eq!(received(whole.clone()).await.unwrap(), Some(whole));
        }
        for too_large in [
            fields(1_800, "a"),
            fields(6_000, "a"),
            fields(1_000, &"a".repeat(100)),
            fields(1_000, &"X".repeat(200)),
            fields(1, &"a".repeat(100_000)),
            fields(1, &"a".repeat(120_000)),
            fields(1, &"X".repeat(70_000)),
            fields(1, &"X".repeat(250_000)),
            fields(4, &"a".repeat(60_000)),
        ] {
            let sent = too_large.len();
            let received = received(too_large).await;
            let received = received.map(|it| it.map_or(0, |it| it.len()));
            assert!(received.is_err(), "{received:?} of {sent}");
        }
    }

    #[test]
    fn a_section_of_fields_is_taken_up_to_the_limit() {
        let most = MAX_FIELDS - OVERHEAD - "x-0000".len();
        assert!(check(&fields(1, &"a".repeat(most))).is_ok());
        assert!(check(&fields(1, &"a".repeat(most + 1))).is_err());
    }

    /// A frame of `len` bytes.
    fn frame(kind: u8, flags: u8, len: u16) -> Vec<u8> {
        let [high, low] = len.to_be_bytes();
        let header = [0, high, low, kind, flags, 0, 0, 0, 1];
        [&header[..], &vec![HEADERS; usize::from(len)]].concat()
    }

    #[test]
    fn blocks_of_fields_that_end_a_stream_are_counted_however_they_are_cut_into_reads() {
        const QUARTER: u16 = (MAX_TRAILER_BLOCK / 4) as u16;
        let more = |count| frame(CONTINUATION, 0, QUARTER).repeat(count);
        let trailers = |last| {
            let head = frame(HEADERS, 0, QUARTER);
            let first = frame(HEADERS, END_STREAM, QUARTER);
            [head, more(9), frame(0, END_STREAM, 7), first, more(3), last].concat()
        };
        for (last, is_taken) in [
            (frame(HEADERS, END_STREAM, QUARTER), true),
            (frame(CONTINUATION, 0, 1), false),
        ] {
            let bytes = trailers(last);
            for size in [1, 8, 9, 10, 4_000, bytes.len()] {
                let mut scanner = FrameScanner::default();
                let passed = bytes.chunks(size).try_for_each(|it| scanner.pass(it));
                assert_eq!(passed.is_ok(), is_taken, "{size}");
            }
        }
    }
}
