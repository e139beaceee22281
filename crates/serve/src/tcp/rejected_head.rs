//! The answer to a head over HTTP/1.1 that is not read to its end, for it is too large or comes too slowly: hyper,
//! which would answer the first and not the second, is gone by then.

use crate::request::body::Body;
use bytes::BytesMut;
use http::header::{CONNECTION, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Time that the client may take to receive the answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes a response's head over HTTP/1.1 (RFC 9112 section 4).
pub(super) fn write_head(out: &mut BytesMut, status: StatusCode, fields: &HeaderMap) {
    let reason = match status.as_u16() {
        104 => "Upload Resumption Supported",
        _ => status.canonical_reason().unwrap_or_default(),
    };
    out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in fields {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
}

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
    let mut message = BytesMut::new();
    write_head(&mut message, head.status, &head.headers);
    message.extend_from_slice(&body);
    let sent = async {
        stream.write_all(&message).await?;
        stream.shutdown().await
    };
    timeout(SEND_TIMEOUT, sent).await?
}
