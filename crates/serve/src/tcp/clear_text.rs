//! HTTP in clear text where TLS is spoken, as by `http://localhost:8443/`: it is answered in clear text, for of an alert of
//! TLS a browser shows nothing that helps.

use super::{Begun, Client, Context, Failure, drain, rejected_head};
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::requests::Now;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;

const CONTENT: &str = "This port speaks HTTPS: begin the URL with https://\n";

/// Waits for the first byte, and leaves it; true if it begins the name of a method and no record of TLS (RFC 8446
/// section 5.1).
///
/// # Errors
/// The socket's.
pub(super) async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    Ok(peeked > 0 && first[0].is_ascii_uppercase())
}

impl Context {
    /// Answers the request, whose connection ends by that.
    pub(super) async fn refuse_clear_text(
        &self,
        client: &Client,
    ) -> Result<Option<Begun>, Failure> {
        let mut requests = self.requests(client);
        let response = requests.rejected(refusal(), Incident::RefusedRequest, Now::read());
        let socket = super::Socket::new(Rc::clone(&client.stream), Vec::new(), self.activity());
        // In a box what few connections come to: each would have room for it all its life.
        Box::pin(rejected_head::send(socket, response)).await?;
        requests.ended(|| client.probe.counters());
        drain::drain(&client.stream).await?;
        Ok(None)
    }
}

fn refusal() -> Response<Body> {
    let mut response = Response::new(Body::bytes(CONTENT));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    headers.insert(CONTENT_LENGTH, CONTENT.len().into());
    response
}
