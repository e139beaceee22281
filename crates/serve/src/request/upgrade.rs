//! Requests that ask for a WebSocket, whichever protocol they come over: what the service finds in
//! them, and the response that opens the tunnel.

use crate::RequestBody;
use crate::locks::lock;
use crate::request::body::{Body, BodyMemory};
use crate::request::tunnel::{ConnectionHalf, ServiceHalf, Tunnel, pipe};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// The protocol that requests may ask for, in Upgrade (RFC 6455 section 4.1) and `:protocol` (RFC 8441
/// section 5).
pub(crate) const WEBSOCKET: &str = "websocket";

/// RFC 6455 section 1.3: the key is joined with this.
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The offer to turn a request into a byte stream: found in the extensions of requests that ask for a
/// WebSocket, by `Upgrade: websocket` over HTTP/1.1 (RFC 6455) or by an extended CONNECT over HTTP/2 (RFC
/// 8441) and HTTP/3 (RFC 9220).
///
/// A service that wants the stream [accepts](Self::accept) it; another answers the request as usual. Over HTTP/1.1
/// only requests with a Sec-WebSocket-Key have an offer.
///
/// ```
/// use altway_serve::{BoxError, RequestBody, Upgrade};
/// use bytes::Bytes;
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Empty;
///
/// async fn echo(mut request: Request<RequestBody>) -> Result<Response<Empty<Bytes>>, BoxError> {
///     let Some(upgrade) = request.extensions_mut().remove::<Upgrade>() else {
///         let mut response = Response::new(Empty::new());
///         *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
///         return Ok(response);
///     };
///     let (response, on_upgrade) = upgrade.accept()?;
///     tokio::spawn(async move {
///         // The bytes of WebSocket frames, as they come.
///         let (mut from, mut to) = tokio::io::split(on_upgrade.await?);
///         tokio::io::copy(&mut from, &mut to).await?;
///         Ok::<(), BoxError>(())
///     });
///     Ok(response)
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Upgrade(Arc<Mutex<Option<Offer>>>);

#[derive(Debug)]
struct Offer {
    incoming: RequestBody,
    service_half: ServiceHalf,
    /// The value of the response's Sec-WebSocket-Accept; `None` over HTTP/2 and HTTP/3, which answer with a plain 200.
    accept: Option<HeaderValue>,
}

/// Reasons why there is no tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The offer was accepted before, through another clone.
    #[error("the request was upgraded before")]
    Taken,
    /// The client has gone, or another response than that of [`Upgrade::accept`] was sent.
    #[error("the response that opens the tunnel was not sent")]
    NotSent,
}

impl Upgrade {
    /// Accepts the offer. Returns the response for the handler to return (101 or 200, by the protocol), to which
    /// fields may be added, and the tunnel that opens when the response is sent.
    ///
    /// # Errors
    /// [`UpgradeError::Taken`].
    pub fn accept<B: Default>(self) -> Result<(Response<B>, OnUpgrade), UpgradeError> {
        let offer = lock(&self.0).take();
        let offer = offer.ok_or(UpgradeError::Taken)?;
        offer.service_half.accept();
        let mut response = Response::new(B::default());
        if let Some(accept) = offer.accept {
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let fields = response.headers_mut();
            fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            fields.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
            fields.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        let on_upgrade = OnUpgrade(Some((offer.incoming, offer.service_half)));
        Ok((response, on_upgrade))
    }

    /// An offer for a request that asks for a WebSocket, with the connection's end of the tunnel. The service finds the
    /// request's body empty.
    pub(crate) fn offer(request: &mut Request<RequestBody>) -> Option<(Self, ConnectionHalf)> {
        let accept = if is_extended_connect(request) {
            None
        } else if is_upgrade(request) {
            Some(accept_key(request.headers().get(SEC_WEBSOCKET_KEY)?))
        } else {
            return None;
        };
        let incoming = std::mem::replace(request.body_mut(), RequestBody::empty());
        let (service_half, connection_half) = pipe();
        let offer = Offer {
            incoming,
            service_half,
            accept,
        };
        let upgrade = Self(Arc::new(Mutex::new(Some(offer))));
        Some((upgrade, connection_half))
    }
}

/// A [`Tunnel`] that opens when the response is sent. The future resolves then, or with an error if the response is
/// never sent.
#[derive(Debug)]
#[must_use = "the tunnel ends when this is dropped"]
pub struct OnUpgrade(Option<(RequestBody, ServiceHalf)>);

impl Future for OnUpgrade {
    type Output = Result<Tunnel, UpgradeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let open = match &self.0 {
            Some((_, service_half)) => std::task::ready!(service_half.poll_open(cx)),
            None => false,
        };
        let ends = self.0.take().filter(|_| open);
        let tunnel = ends.map(|(incoming, service_half)| Tunnel::new(incoming, service_half));
        Poll::Ready(tunnel.ok_or(UpgradeError::NotSent))
    }
}

/// A response of a service to a request that it was offered to upgrade. With the response that opens the
/// tunnel, the tunnel is its content; any other ends the tunnel.
pub(super) fn join(
    mut connection_half: ConnectionHalf,
    mut response: Response<Body>,
    idle_timeout: Duration,
) -> Response<Body> {
    let status = response.status();
    let opens = status == StatusCode::SWITCHING_PROTOCOLS || status.is_success();
    if !opens || !connection_half.acceptance().is_given() {
        return response;
    }
    connection_half.set_memory(response.extensions_mut().remove::<BodyMemory>());
    connection_half.open(idle_timeout);
    response.map(|_| Body::tunnel(connection_half))
}

/// Returns true if a request over HTTP/1.1 asks for a WebSocket (RFC 6455 section 4.1).
pub(crate) fn is_handshake<B>(request: &Request<B>) -> bool {
    let fields = request.headers();
    request.version() == Version::HTTP_11
        && request.method() == Method::GET
        && has_token(fields, &CONNECTION, "upgrade")
        && has_token(fields, &UPGRADE, WEBSOCKET)
}

/// Returns whether a request asks for a byte stream in place of content.
pub(super) fn is_asked_for(request: &Request<RequestBody>) -> bool {
    is_extended_connect(request) || is_upgrade(request)
}

fn is_upgrade(request: &Request<RequestBody>) -> bool {
    request.version() < Version::HTTP_2 && request.body().is_upload()
}

/// Returns true if a request is an extended CONNECT: alone among these it has a path (RFC 8441 section 4). Another
/// check has found before that it asks for a WebSocket.
fn is_extended_connect<B>(request: &Request<B>) -> bool {
    request.method() == Method::CONNECT
        && request.version() >= Version::HTTP_2
        && request.uri().path_and_query().is_some()
}

/// Returns true if a list has a token, in any case.
pub(crate) fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = fields.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}

/// RFC 6455 section 4.2.2: "base64-encoding the SHA-1 hash of the concatenation".
fn accept_key(key: &HeaderValue) -> HeaderValue {
    let joined = [key.as_bytes(), ACCEPT_GUID].concat();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &joined);
    HeaderValue::try_from(STANDARD.encode(hash)).expect("Base64 is visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_key_is_that_of_rfc_6455_section_1_3() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept_key(&key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_handshake_is_told_by_method_version_and_both_fields() {
        let handshake = || {
            Request::get("/")
                .header("connection", "keep-alive, Upgrade")
                .header("upgrade", "WebSocket")
        };
        let asks = |request: http::request::Builder| is_handshake(&request.body(()).unwrap());
        assert!(asks(handshake()));
        assert!(!asks(handshake().method("POST")));
        assert!(!asks(handshake().version(Version::HTTP_10)));
        assert!(!asks(Request::get("/").header("upgrade", "websocket")));
        assert!(!asks(
            Request::get("/")
                .header("connection", "upgrade")
                .header("upgrade", "h2c")
        ));
    }

    fn extended_connect() -> Request<RequestBody> {
        Request::connect("https://a.test/chat")
            .version(Version::HTTP_2)
            .body(RequestBody::empty())
            .unwrap()
    }

    #[tokio::test]
    async fn an_offer_is_accepted_once_and_opens_with_its_response() {
        let mut request = extended_connect();
        let (upgrade, connection_half) = Upgrade::offer(&mut request).unwrap();
        let (response, on_upgrade) = upgrade.clone().accept::<()>().unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(upgrade.accept::<()>().unwrap_err(), UpgradeError::Taken);
        let response = response.map(|()| Body::empty());
        let joined = join(connection_half, response, Duration::MAX);
        on_upgrade.await.unwrap();
        drop(joined);
    }

    #[tokio::test]
    async fn another_response_ends_the_tunnel() {
        let mut request = extended_connect();
        let (upgrade, connection_half) = Upgrade::offer(&mut request).unwrap();
        let (response, on_upgrade) = upgrade.accept::<()>().unwrap();
        let mut response = response.map(|()| Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        drop(join(connection_half, response, Duration::MAX));
        assert_eq!(on_upgrade.await.unwrap_err(), UpgradeError::NotSent);
    }

    #[test]
    fn what_asks_for_no_websocket_has_no_offer() {
        let plain = Request::connect("a.test:443").version(Version::HTTP_2);
        let mut plain = plain.body(RequestBody::empty()).unwrap();
        assert!(Upgrade::offer(&mut plain).is_none());
        let mut get = Request::get("https://a.test/").version(Version::HTTP_2);
        get = get.header("upgrade", "websocket");
        let mut get = get.body(RequestBody::empty()).unwrap();
        assert!(Upgrade::offer(&mut get).is_none());
    }

    #[test]
    fn a_key_of_http_1_1_takes_no_content_from_a_request_over_http_2() {
        let (reports, _reported) = tokio::sync::mpsc::unbounded_channel();
        let (_upload, body) = crate::request::upload::upload((), &reports, Some(3));
        let post = Request::post("https://a.test/").version(Version::HTTP_2);
        let post = post.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let mut post = post.body(body).unwrap();
        assert!(Upgrade::offer(&mut post).is_none());
        assert!(post.body().is_upload());
    }
}
