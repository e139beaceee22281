//! The limit of a request's content ([`Limits::max_body`](crate::Limits::max_body)), over every protocol.
//!
//! Content whose length is known is refused before the service is asked. Other content ends with an error for its reader
//! where it becomes too long, and what the service answers to that is replaced by 413 (Content Too Large, RFC 9110 section
//! 15.5.14).

use crate::files;
use crate::incidents::ContentTooLong;
use crate::request::body::Body;
use crate::request::upgrade;
use crate::request::upload::RequestBody;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Applies the limit to a request. Returns what tells of content that becomes too long, where its length is not known.
///
/// # Errors
/// The content is longer, as its client says.
pub(super) fn apply(
    request: &mut Request<RequestBody>,
    max: u64,
) -> Result<Option<Overrun>, ContentTooLong> {
    let body = request.body();
    let size = body.size_hint();
    if size.lower() > max {
        return Err(ContentTooLong);
    }
    // The bytes of a tunnel are no content (RFC 9110 section 9.3.6).
    let is_bounded = size.upper().is_some() || body.is_end_stream();
    if max == u64::MAX || is_bounded || upgrade::is_asked_for(request) {
        return Ok(None);
    }
    let overrun = Overrun::default();
    let body = std::mem::replace(request.body_mut(), RequestBody::empty());
    *request.body_mut() = body.limited(Allowance::new(max, overrun.clone()));
    Ok(Some(overrun))
}

/// Replaces the answer to a request whose content was too long, unless it says so itself.
pub(super) fn replace(mut response: Response<Body>, overrun: Option<Overrun>) -> Response<Body> {
    if !overrun.is_some_and(|it| it.has_happened()) {
        return response;
    }
    if response.status() != StatusCode::PAYLOAD_TOO_LARGE {
        return refusal();
    }
    response.extensions_mut().insert(ContentTooLong);
    response
}

/// The answer to a request whose content is too long.
pub(super) fn refusal() -> Response<Body> {
    let mut response = files::page(StatusCode::PAYLOAD_TOO_LARGE);
    response.extensions_mut().insert(ContentTooLong);
    response
}

/// Tells whether content was longer than it may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Overrun(Arc<AtomicBool>);

impl Overrun {
    pub(super) fn has_happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes of content that may still come.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: u64,
    overrun: Overrun,
}

impl Allowance {
    fn new(left: u64, overrun: Overrun) -> Self {
        Self { left, overrun }
    }

    /// Takes `len` bytes off. Returns false if they are too many, and ever after.
    pub(super) fn take(&mut self, len: usize) -> bool {
        match self.left.checked_sub(len as u64) {
            Some(left) if !self.is_overrun() => self.left = left,
            _ => self.overrun.0.store(true, Ordering::Relaxed),
        }
        !self.is_overrun()
    }

    pub(super) fn is_overrun(&self) -> bool {
        self.overrun.has_happened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::upload::upload;
    use bytes::Bytes;
    use http::Version;
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc::unbounded_channel;

    /// A request with `sent`, and perhaps a length, under a limit of 3 bytes: what its reader reads.
    async fn read(
        request: http::request::Builder,
        length: Option<u64>,
        sent: &'static [u8],
    ) -> Result<Option<Bytes>, ContentTooLong> {
        let (reports, _reported) = unbounded_channel();
        let (upload, body) = upload((), &reports, length);
        upload.push(|| Bytes::from_static(sent));
        upload.complete();
        let mut request = request.body(body).unwrap();
        let overrun = apply(&mut request, 3)?;
        let read = request.into_body().collect().await.ok();
        assert_eq!(overrun.is_some_and(|it| it.has_happened()), read.is_none());
        Ok(read.map(http_body_util::Collected::to_bytes))
    }

    #[tokio::test]
    async fn content_is_read_up_to_the_limit() {
        let post = || Request::post("/").version(Version::HTTP_2);
        let whole = Bytes::from_static(b"123");
        assert_eq!(read(post(), Some(3), b"123").await, Ok(Some(whole.clone())));
        assert_eq!(read(post(), Some(4), b"1234").await, Err(ContentTooLong));
        assert_eq!(read(post(), None, b"123").await, Ok(Some(whole)));
        assert_eq!(read(post(), None, b"1234").await, Ok(None));
    }

    #[tokio::test]
    async fn the_bytes_of_a_tunnel_have_no_limit() {
        let connect = Request::connect("https://a.test/").version(Version::HTTP_2);
        let connect = connect.extension(altway_http3::Protocol::new("websocket"));
        let whole = Bytes::from_static(b"1234");
        assert_eq!(read(connect, None, b"1234").await, Ok(Some(whole.clone())));
        let upgrade = Request::get("/").version(Version::HTTP_11);
        let upgrade = upgrade.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(read(upgrade, None, b"1234").await, Ok(Some(whole)));
    }

    #[test]
    fn what_a_service_answers_is_replaced_unless_it_is_413() {
        let answer = |status: u16| {
            let response = Response::builder().status(status).header("x-own", "1");
            let overrun = Overrun::default();
            assert!(!Allowance::new(1, overrun.clone()).take(2));
            replace(response.body(Body::empty()).unwrap(), Some(overrun))
        };
        for (status, is_own) in [(400, false), (200, false), (413, true)] {
            let answer = answer(status);
            assert_eq!(answer.status(), 413);
            assert_eq!(answer.headers().contains_key("x-own"), is_own);
            assert!(answer.extensions().get::<ContentTooLong>().is_some());
        }
    }
}
