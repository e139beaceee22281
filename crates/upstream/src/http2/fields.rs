//! Limit on the fields of responses, so that trailers which the crate h2 has cut off are not taken for whole.
//!
//! From a section of fields above its limit, h2 leaves out the field that exceeds it and all that follow. It refuses a head
//! for that, and passes trailers on. So its limit is higher than the one that holds here: what is left of trailers that were
//! cut is still above this one, unless a single field of them fills the room between the two limits.

use http::HeaderMap;

/// The most bytes of the fields of a response, as SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113 section 6.5.2).
const MAX_FIELDS: usize = 64 << 10;

/// The limit of h2, which bounds what it keeps of a response's fields.
pub(super) const H2_MAX_FIELDS: u32 = 1 << 20;

/// Bytes that a field counts for beside its name and value.
const OVERHEAD: usize = 32;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxError;
    use crate::content::Content;
    use crate::counters::Counters;
    use crate::http2::{FIRST_STREAMS, Http2};
    use bytes::Bytes;
    use http::{HeaderName, HeaderValue, Request, Response};
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
        let connection = Http2::begin(near, None, FIRST_STREAMS, counters.open())
            .await
            .unwrap();
        let request = Request::get("http://a.test/").body(()).unwrap();
        let content = Content::new(Empty::<Bytes>::new(), 0, None);
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
            fields(1, &"X".repeat(70_000)),
            fields(1, &"X".repeat(250_000)),
            fields(20_000, &"a".repeat(100)),
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
}
