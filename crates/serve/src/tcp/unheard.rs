//! The answer to a head over HTTP/1.1 that is not heard to its end, for it is too large or comes too slowly: hyper, which
//! would answer the one by itself and the other not at all, is gone by then.

use crate::request::body::Body;
use http::Response;
use http::header::{CONNECTION, HeaderValue};
use http_body_util::BodyExt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long the client may take to take it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a small response, the connection's last.
///
/// # Errors
/// The client has gone, or takes nothing.
pub(super) async fn send(
    mut stream: impl AsyncWrite + Unpin,
    response: Response<Body>,
) -> io::Result<()> {
    let (mut head, body) = response.into_parts();
    head.headers
        .insert(CONNECTION, HeaderValue::from_static("close"));
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let status = head.status;
    let reason = status.canonical_reason().unwrap_or_default();
    let mut message = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &head.headers {
        message.extend_from_slice(name.as_str().as_bytes());
        message.extend_from_slice(b": ");
        message.extend_from_slice(value.as_bytes());
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"\r\n");
    message.extend_from_slice(&body);
    let sent = async {
        stream.write_all(&message).await?;
        stream.shutdown().await
    };
    timeout(PATIENCE, sent).await?
}
