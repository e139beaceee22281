//! WebSockets through a proxy: whatever the client's protocol, the server behind is asked in its own, by `Upgrade` over
//! HTTP/1.1 (RFC 6455) or by an extended CONNECT over HTTP/2 (RFC 8441), and once both have agreed bytes pass in both
//! directions.

use crate::body::ProxyBody;
use altway_serve::{BodyMemory, OnUpgrade, RequestBody, Upgrade, UpgradeError};
use altway_upstream::{BoxError, Tunnel};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONTENT_LENGTH, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use http::{Method, Request, Response};
use tokio::io::copy_bidirectional;

/// Makes a request that asks for a WebSocket, over whichever protocol, the one that HTTP/1.1 has for it.
pub(crate) fn as_http1(request: &mut Request<RequestBody>) {
    *request.method_mut() = Method::GET;
    let fields = request.headers_mut();
    fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // Over HTTP/2 and HTTP/3 there is none (RFC 8441 section 5).
    fields.entry(SEC_WEBSOCKET_KEY).or_insert_with(key);
}

/// A key that shows that the server has read the request, no more (RFC 6455 section 10.3).
fn key() -> HeaderValue {
    let random = fastrand::u128(..).to_be_bytes();
    HeaderValue::try_from(STANDARD.encode(random)).expect("Base64 is visible ASCII")
}

/// Joins client and server: gives the response that opens the client's side, and carries bytes from then on.
///
/// # Errors
/// The client has gone.
pub(crate) fn join(
    upgrade: Upgrade,
    fields: &HeaderMap,
    tunnel: Tunnel,
) -> Result<Response<ProxyBody>, UpgradeError> {
    let (mut response, on_upgrade) = upgrade.accept::<ProxyBody>()?;
    for (name, value) in fields {
        // The key of the client's handshake is answered already.
        if name != SEC_WEBSOCKET_ACCEPT && name != CONTENT_LENGTH {
            response.headers_mut().append(name, value.clone());
        }
    }
    // What the server may have sent ahead counts as the client's, as the content of responses does.
    let memory = BodyMemory::default();
    memory.set(tunnel.held());
    response.extensions_mut().insert(memory);
    tokio::spawn(async move {
        if let Err(error) = carry(on_upgrade, tunnel).await {
            tracing::debug!("a WebSocket ended: {error}");
        }
    });
    Ok(response)
}

async fn carry(on_upgrade: OnUpgrade, tunnel: Tunnel) -> Result<(), BoxError> {
    let mut client = on_upgrade.await?;
    let mut server = tunnel.open();
    // One that has closed its half, and goes then, is missed by whoever only reads from the server.
    let gone = client.gone();
    tokio::select! {
        copied = copy_bidirectional(&mut client, &mut server) => copied.map(drop)?,
        () = gone => {}
    }
    Ok(())
}
