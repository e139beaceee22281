//! The check of a request's head that every request passes before anything answers it, prepared
//! answers included.

use crate::request::upgrade::WEBSOCKET;
use altway_http2::Head;
use altway_http3::Protocol;
use altway_message::{MAX_FIELDS, Refusal};
use altway_select::Hints;
use http::{HeaderValue, Request, StatusCode, header};
use std::sync::{Arc, Weak};

/// Largest head of a request that is answered, in bytes of names and values and 32 for each field (RFC
/// 9113 section 6.5.2, RFC 9114 section 4.2.2). Beyond it, or beyond [`MAX_FIELDS`], the answer is 431. The protocols below refuse
/// twice as much by themselves, where no `Alt-Svc` can be sent.
pub(crate) const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Bytes that each field counts for beside its name and value.
const FIELD_OVERHEAD: usize = 32;

/// A request's head in the form in which a protocol holds it.
pub(crate) trait RequestHead {
    /// The identity of a head, by which a later one of its connection is known to be the same.
    type Id;

    /// `None` where no later head can be told to be the same.
    fn id(&self) -> Option<Self::Id>;

    fn has_id(&self, id: &Self::Id) -> bool;

    fn method(&self) -> &[u8];

    /// Path and query; `None` for CONNECT.
    fn target(&self) -> Option<&[u8]>;

    /// The host that the request is for, perhaps with a port.
    fn authority(&self) -> Option<&[u8]>;

    /// The protocol that an extended CONNECT asks for (RFC 8441, RFC 9220).
    fn protocol(&self) -> Option<&[u8]>;

    /// Names in lower case, and values.
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// The reason why the gate of `altway-message` refuses a head that is well-formed; over HTTP/1.1 whatever
    /// it refuses.
    fn refusal(&self) -> Option<Refusal>;
}

/// Checks a request's head, whatever it asks for.
///
/// # Errors
/// The status that refuses the request.
pub(crate) fn check(head: &impl RequestHead) -> Result<(), StatusCode> {
    let (fields, bytes) = size(head);
    if fields > MAX_FIELDS || bytes > MAX_HEAD_BYTES {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    if let Some(refusal) = head.refusal() {
        tracing::debug!(%refusal, "request refused");
        return Err(StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_REQUEST));
    }
    // RFC 9220 section 3: a value that is not supported "SHOULD" be answered with 501.
    let is_known = |protocol: &[u8]| protocol.eq_ignore_ascii_case(WEBSOCKET.as_bytes());
    if head.protocol().is_some_and(|protocol| !is_known(protocol)) {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    Ok(())
}

/// Counts the fields of a head, and its bytes, as they are over HTTP/1.1: with the authority in Host, and in one Cookie field.
fn size(head: &impl RequestHead) -> (usize, usize) {
    let field = |name: &[u8], value: &[u8]| name.len() + value.len() + FIELD_OVERHEAD;
    let (mut fields, mut bytes, mut has_cookie) = (0, 0, false);
    if let Some(authority) = head.authority() {
        (fields, bytes) = (1, field(b"host", authority));
    }
    for (name, value) in head.fields() {
        match name {
            b"host" => {}
            b"cookie" if has_cookie => bytes += b"; ".len() + value.len(),
            _ => {
                has_cookie |= name == b"cookie";
                fields += 1;
                bytes += field(name, value);
            }
        }
    }
    (fields, bytes)
}

/// Returns the fields by which a request names its client's program.
pub(crate) fn hints(head: &impl RequestHead) -> Hints<'_> {
    let mut hints = Hints::default();
    for (name, value) in head.fields() {
        let place = match name {
            b"user-agent" => &mut hints.user_agent,
            b"sec-ch-ua" => &mut hints.brands,
            b"sec-ch-ua-platform" => &mut hints.platform,
            _ => continue,
        };
        *place = Some(value);
    }
    hints
}

impl<B> RequestHead for Request<B> {
    type Id = std::convert::Infallible;

    fn id(&self) -> Option<Self::Id> {
        None
    }

    fn has_id(&self, id: &Self::Id) -> bool {
        match *id {}
    }

    fn method(&self) -> &[u8] {
        Request::method(self).as_str().as_bytes()
    }

    fn target(&self) -> Option<&[u8]> {
        Some(self.uri().path_and_query()?.as_str().as_bytes())
    }

    fn authority(&self) -> Option<&[u8]> {
        let host = || self.headers().get(header::HOST).map(HeaderValue::as_bytes);
        let authority = self.uri().authority().map(|it| it.as_str().as_bytes());
        authority.or_else(host)
    }

    fn protocol(&self) -> Option<&[u8]> {
        let protocol = self.extensions().get::<Protocol>();
        protocol.map(|protocol| protocol.as_str().as_bytes())
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.headers().iter();
        fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    }

    fn refusal(&self) -> Option<Refusal> {
        self.extensions().get().copied()
    }
}

/// A head of HTTP/3: one that the connection keeps may be asked for again as the same `Arc`.
impl RequestHead for Arc<Request<()>> {
    type Id = Weak<Request<()>>;

    fn id(&self) -> Option<Self::Id> {
        (Arc::strong_count(self) > 1).then(|| Arc::downgrade(self))
    }

    fn has_id(&self, id: &Self::Id) -> bool {
        std::ptr::eq(id.as_ptr(), Arc::as_ptr(self))
    }

    fn method(&self) -> &[u8] {
        RequestHead::method(&**self)
    }

    fn target(&self) -> Option<&[u8]> {
        (**self).target()
    }

    fn authority(&self) -> Option<&[u8]> {
        RequestHead::authority(&**self)
    }

    fn protocol(&self) -> Option<&[u8]> {
        RequestHead::protocol(&**self)
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (**self).fields()
    }

    fn refusal(&self) -> Option<Refusal> {
        RequestHead::refusal(&**self)
    }
}

impl RequestHead for Head<'_> {
    type Id = altway_http2::HeadId;

    fn id(&self) -> Option<Self::Id> {
        Some(Head::id(*self))
    }

    fn has_id(&self, id: &Self::Id) -> bool {
        Head::id(*self) == *id
    }

    fn method(&self) -> &[u8] {
        Head::method(*self).unwrap_or_default()
    }

    fn target(&self) -> Option<&[u8]> {
        self.path()
    }

    fn authority(&self) -> Option<&[u8]> {
        Head::authority(*self)
    }

    fn protocol(&self) -> Option<&[u8]> {
        Head::protocol(*self)
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        Head::fields(*self)
    }

    fn refusal(&self) -> Option<Refusal> {
        Head::refusal(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Version;

    fn status(request: http::request::Builder) -> u16 {
        match check(&request.body(()).unwrap()) {
            Ok(()) => 200,
            Err(status) => status.as_u16(),
        }
    }

    #[test]
    fn too_large_a_head_is_431() {
        let request = |size: usize| {
            let request = Request::get("/a.txt").version(Version::HTTP_2);
            status(request.header("x", "y".repeat(size - 33)))
        };
        assert_eq!(request(MAX_HEAD_BYTES), 200);
        assert_eq!(request(MAX_HEAD_BYTES + 1), 431);
    }

    #[test]
    fn another_protocol_than_websocket_is_not_implemented() {
        let asked = |protocol: &str| {
            let connect = Request::connect("https://a.test/").version(Version::HTTP_3);
            status(connect.extension(Protocol::new(protocol)))
        };
        assert_eq!(asked("websocket"), 200);
        assert_eq!(asked("connect-udp"), 501);
    }

    #[test]
    fn what_the_gate_refuses_has_its_status() {
        for refusal in [Refusal::Fragment, Refusal::Misdirected] {
            assert_eq!(
                status(Request::get("/a.txt").extension(refusal)),
                refusal.status()
            );
        }
    }
}
