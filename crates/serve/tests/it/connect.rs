//! CONNECT, to which no service of ours opens a tunnel: a response with 2xx ends with its head over every protocol, any
//! other is one like others, and sites that are chosen by their paths have none for it. Over TLS the connection ends with a
//! word of it, whatever was asked for.

use crate::common::{Running, h2, h3::H3, read, soon};
use altway_serve::{Dispatch, Site};
use axum::Router;
use axum::extract::Request as Asked;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Request};
use http_body_util::Empty;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower_service::Service;

/// The answer to a CONNECT over a protocol: status, fields and content.
struct Answer(u16, HeaderMap, Vec<u8>);

async fn over_http1(server: &Running, port: u16) -> Answer {
    let mut client = server.connect_tls(&[b"http/1.1"]).await;
    let request = format!("CONNECT a.test:{port} HTTP/1.1\r\nhost: a.test:{port}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let mut received = Vec::new();
    let (mut at, mut head) = (None, (0, HeaderMap::new()));
    while at.is_none_or(|at| wants_more(&head.1, &received[at..])) {
        // An end without close_notify (RFC 8446 section 6.1) is an error.
        if soon(client.read_buf(&mut received)).await.unwrap() == 0 {
            break;
        }
        if at.is_none()
            && let Some(end) = received.windows(4).position(|it| it == b"\r\n\r\n")
        {
            at = Some(end + 4);
            head = parsed(&received[..end]);
        }
    }
    let at = at.expect("the head of a response");
    Answer(head.0, head.1, received[at..].to_vec())
}

/// Without a length content goes on to the end of the connection.
fn wants_more(fields: &HeaderMap, content: &[u8]) -> bool {
    let length = fields.get(CONTENT_LENGTH);
    let length = length.map(|it| it.to_str().unwrap().parse().unwrap());
    length.is_none_or(|length: usize| content.len() < length)
}

fn parsed(head: &[u8]) -> (u16, HeaderMap) {
    let mut lines = std::str::from_utf8(head).unwrap().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse().unwrap(), value.parse().unwrap())
    });
    (
        status.parse().unwrap(),
        HeaderMap::from_iter(fields.collect::<Vec<(http::HeaderName, _)>>()),
    )
}

fn request<B>(port: u16, body: B) -> Request<B> {
    let request = Request::connect(format!("a.test:{port}"));
    request.body(body).unwrap()
}

async fn over_http2(server: &Running, port: u16) -> Answer {
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let asked = client.send_request(request(port, Empty::<Bytes>::new()));
    let response = soon(asked).await.unwrap();
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    Answer(status, fields, soon(read(response)).await)
}

fn over_http3(server: &Running, port: u16) -> Answer {
    let (_, head, body) = H3::connect(server).ask(request(port, Bytes::new()));
    Answer(head.status().as_u16(), head.headers().clone(), body)
}

async fn everywhere(server: &Running, port: u16) -> [Answer; 3] {
    [
        over_http1(server, port).await,
        over_http2(server, port).await,
        tokio::task::block_in_place(|| over_http3(server, port)),
    ]
}

/// Answers with the status that the port is, and content.
#[derive(Clone)]
struct ByPort;

impl Service<Request<altway_serve::RequestBody>> for ByPort {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<altway_serve::RequestBody>) -> Self::Future {
        let port = request.uri().port_u16().unwrap();
        let status = StatusCode::from_u16(port).unwrap();
        std::future::ready(Ok((status, "content").into_response()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_that_a_service_answers_has_its_status_over_every_protocol() {
    let server = Running::tls(|options| options.site = Site::service(ByPort));
    for status in [200, 204, 299, 403, 502] {
        for Answer(answered, fields, content) in everywhere(&server, status).await {
            assert_eq!(answered, status);
            let has_length = fields.contains_key(CONTENT_LENGTH);
            let is_success = status < 300;
            assert_eq!(has_length, !is_success, "{status}: {fields:?}");
            assert!(!fields.contains_key(TRANSFER_ENCODING), "{status}");
            let expected: &[u8] = if is_success { b"" } else { b"content" };
            assert_eq!(content, expected, "{status}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_over_which_another_protocol_was_asked_for_in_vain_ends_whole() {
    let server = Running::tls(|_| {});
    for protocol in ["h2c", "websocket"] {
        let mut client = server.connect_tls(&[b"http/1.1"]).await;
        let request = format!(
            "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade, close\r\nupgrade: {protocol}\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        client.flush().await.unwrap();
        let mut received = Vec::new();
        // An error without close_notify.
        soon(client.read_to_end(&mut received)).await.unwrap();
        assert!(received.ends_with(b"<p>home"), "{protocol}");
    }
}

#[derive(Debug)]
struct First;

impl Dispatch for First {
    fn dispatch(&self, _: Option<usize>, _: &[u8]) -> Option<usize> {
        Some(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_to_sites_that_are_chosen_by_paths_is_answered_501() {
    let app = Router::new().fallback(async |asked: Asked| asked.method().to_string());
    let server = Running::tls(|options| {
        options.site = Site::dispatched(First, vec![Site::service(app)]);
    });
    for Answer(status, ..) in everywhere(&server, 443).await {
        assert_eq!(status, 501);
    }
}
