//! One application under `axum::serve` and under altway: the same answers to the same requests, over
//! every protocol, on workers and inside a program's runtime.

mod app;

use crate::common::{Running, h1, h2, h3::H3, soon};
use altway_serve::{BoxError, Site, serve};
use app::{LARGE, app};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// Fields that may differ, and why.
const NOT_COMPARED: [(&str, &str); 5] = [
    ("date", "it is another second"),
    ("server", "hyper says none"),
    ("alt-svc", "axum::serve has no HTTP/3 to offer"),
    (
        "connection",
        "after a request whose body nobody has read to its end altway says close",
    ),
    ("x-request-id", "it is another request"),
];

struct Case {
    request: Request<Bytes>,
    /// The client doesn't say how long the content is.
    without_length: bool,
}

impl Case {
    fn new(method: &str, target: &str, fields: &[(&str, &str)], content: impl Into<Bytes>) -> Self {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri = format!("https://localhost{target}");
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        Self {
            request: request.body(content.into()).unwrap(),
            without_length: false,
        }
    }

    fn of_unknown_length(self) -> Self {
        Self {
            without_length: true,
            ..self
        }
    }
}

fn get(target: &str) -> Case {
    Case::new("GET", target, &[], "")
}

fn get_with(target: &str, name: &str, value: &str) -> Case {
    Case::new("GET", target, &[(name, value)], "")
}

fn post(target: &str, kind: &str, content: impl Into<Bytes>) -> Case {
    Case::new("POST", target, &[("content-type", kind)], content)
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const BINARY: &str = "application/octet-stream";

const PARTS: &str = "--x\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\none\r\n--x\r\n\
    content-disposition: form-data; name=\"b\"; filename=\"f\"\r\n\r\nthree\r\n--x--\r\n";

fn extractors() -> Vec<Case> {
    vec![
        get("/path/name"),
        get("/path/with%20space"),
        get("/path/%C3%A4"),
        get("/path/%ff"),
        get("/path/a%2Fb"),
        get("/path/"),
        get("/number/7"),
        get("/number/300"),
        get("/number/seven"),
        get("/two/a/-5"),
        get("/two/a/b"),
        get("/rest/a/b/c"),
        get("/rest//a"),
        get("/query?b=2&a=1"),
        get("/query?a=%26&a+b=c+d"),
        get("/query"),
        get("/query/typed?a=1"),
        get("/query/typed?a=x"),
        get("/query/raw?any=thing&%20"),
        get("/state"),
        get("/peer"),
        get("/missing"),
        get("/matched/one"),
        get_with("/fields", "x-one", "1"),
        get_with("/fields", "x-long", &"v".repeat(10_000)),
        Case::new(
            "GET",
            "/fields",
            &[("x-a", "1"), ("x-a", "2"), ("x-empty", "")],
            "",
        ),
        Case::new("PURGE", "/method", &[], ""),
        Case::new("OPTIONS", "/method", &[], ""),
        Case::new("PATCH", "/method", &[], "content"),
        Case::new("HEAD", "/method", &[], ""),
        post("/json", JSON, r#"{"a":[1,2],"b":null}"#),
        post("/json", "application/vnd.api+json", "[]"),
        post("/json", "text/plain", "{}"),
        post("/json", JSON, "{"),
        post("/json/typed", JSON, "[1,2]"),
        post("/json/typed", JSON, r#"["x"]"#),
        post("/json/checked", JSON, "nonsense"),
        Case::new("POST", "/json", &[], "{}"),
        post("/form", FORM, "a=1&b=%C3%A4"),
        post("/form", "text/plain", "a=1"),
        get("/form?a=b"),
        post("/multipart", "multipart/form-data; boundary=x", PARTS),
        post("/multipart", "multipart/form-data", PARTS),
        post(
            "/multipart",
            "multipart/form-data; boundary=x",
            &PARTS[..60],
        ),
    ]
}

fn bodies() -> Vec<Case> {
    let large = || Bytes::from(vec![b'x'; LARGE]);
    vec![
        post("/echo", BINARY, "short"),
        post("/echo", BINARY, ""),
        post("/echo", BINARY, large()),
        post("/echo", BINARY, large()).of_unknown_length(),
        Case::new("PUT", "/echo", &[], "put"),
        post("/length", BINARY, large()),
        post("/length", BINARY, large()).of_unknown_length(),
        post("/text", "text/plain", "grüße"),
        post("/text", "text/plain", vec![0xff, 0xfe]),
        post("/ignore", BINARY, "not read"),
        get("/large"),
        Case::new("HEAD", "/large", &[], ""),
        get("/empty"),
        get("/stream"),
        Case::new("HEAD", "/stream", &[], ""),
        get("/stream/empty"),
        get("/events"),
        get_with("/compressed", "accept-encoding", "gzip"),
        get_with("/compressed", "accept-encoding", "identity"),
        get_with("/compressed", "accept-encoding", "br;q=1, *;q=0"),
        Case::new("HEAD", "/compressed", &[("accept-encoding", "gzip")], ""),
    ]
}

fn responses_and_layers() -> Vec<Case> {
    let preflight = [
        ("origin", "https://other.test"),
        ("access-control-request-method", "PUT"),
    ];
    vec![
        get("/html"),
        get("/redirect"),
        get("/redirect/kept"),
        Case::new("DELETE", "/nothing", &[], ""),
        Case::new("GET", "/nothing", &[], ""),
        post("/created", BINARY, ""),
        get("/teapot"),
        get("/twice"),
        get("/unchanged"),
        get("/latin"),
        get("/failed"),
        get("/none"),
        get("/none?query"),
        get("/html/"),
        get("//html"),
        Case::new("POST", "/html", &[], ""),
        Case::new("HEAD", "/none", &[], ""),
        get("/slow"),
        get("/panic"),
        get("/cors"),
        get_with("/cors", "origin", "https://other.test"),
        Case::new("OPTIONS", "/cors", &preflight, ""),
        get("/named"),
        get("/identified"),
        get("/guarded"),
        get_with("/guarded", "authorization", "Bearer x"),
        post("/limited/default", BINARY, vec![0; 1000]),
        post("/limited/default", BINARY, vec![0; 1001]),
        post("/limited/default", BINARY, vec![0; 1001]).of_unknown_length(),
        post("/limited/layer", BINARY, vec![0; 2000]),
        post("/limited/layer", BINARY, vec![0; 2001]),
        post("/limited/layer", BINARY, vec![0; 2001]).of_unknown_length(),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = extractors();
    cases.extend(bodies());
    cases.extend(responses_and_layers());
    cases
}

/// What of an answer is compared.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    fields: BTreeMap<String, Vec<Vec<u8>>>,
    body: Vec<u8>,
}

impl Answer {
    fn new<B>(response: &Response<B>, body: Vec<u8>) -> Self {
        let mut fields = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in response.headers() {
            let compared = |not: &(&str, &str)| not.0 != name.as_str();
            if NOT_COMPARED.iter().all(compared) {
                let values = fields.entry(name.to_string()).or_default();
                values.push(value.as_bytes().to_vec());
            }
        }
        Self {
            status: response.status().as_u16(),
            fields,
            body,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}", self.status)?;
        for (name, values) in &self.fields {
            let values: Vec<_> = values
                .iter()
                .map(|it| it.escape_ascii().to_string())
                .collect();
            write!(f, "\n  {name}: {}", values.join(" | "))?;
        }
        let beginning = &self.body[..self.body.len().min(100)];
        write!(
            f,
            "\n  {} bytes: {}",
            self.body.len(),
            beginning.escape_ascii()
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// The request as hyper sends it, which says the content's length where it knows it.
fn sent(case: &Case, protocol: Protocol) -> Request<BoxBody<Bytes, BoxError>> {
    let mut request = case.request.clone();
    if protocol == Protocol::Http1 {
        *request.uri_mut() = request
            .uri()
            .path_and_query()
            .unwrap()
            .as_str()
            .parse()
            .unwrap();
        request
            .headers_mut()
            .insert("host", "localhost".parse().unwrap());
    }
    let without_length = case.without_length;
    request.map(|content| {
        let whole = Full::new(content).map_err(BoxError::from);
        match without_length {
            true => StreamBody::new(http_body_util::BodyStream::new(whole)).boxed(),
            false => whole.boxed(),
        }
    })
}

/// Each case on a connection of its own: an answer may end one.
async fn ask(stream: impl crate::common::Stream, case: &Case, protocol: Protocol) -> Answer {
    let request = sent(case, protocol);
    let exchange = async {
        match protocol {
            Protocol::Http1 => h1(stream).await.send_request(request).await,
            Protocol::Http2 => h2(stream).await.send_request(request).await,
        }
    };
    let response = soon(exchange).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = soon(body.collect()).await.unwrap().to_bytes();
    Answer::new(&Response::from_parts(parts, ()), body.to_vec())
}

fn ask_h3(server: &Running, case: &Case) -> Answer {
    let mut request = case.request.clone();
    if !case.without_length && !request.body().is_empty() {
        let length = request.body().len();
        request
            .headers_mut()
            .insert("content-length", length.into());
    }
    let (_, response, body) = H3::connect(server).ask(request);
    Answer::new(&response, body)
}

fn with_peers()
-> axum::extract::connect_info::IntoMakeServiceWithConnectInfo<axum::Router, SocketAddr> {
    app().into_make_service_with_connect_info::<SocketAddr>()
}

/// The same application under `axum::serve`, over HTTP/1.1 and HTTP/2 in clear text.
async fn reference() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, with_peers()).await });
    address
}

async fn compare(server: &Running) {
    let mut differing = Vec::new();
    let mut check = |protocol: &str, what: &str, answer: Answer, expected: &Answer| {
        if answer != *expected {
            differing.push(format!("{protocol} {what}:\n{answer}\nnot\n{expected}"));
        }
    };
    assert!(cases().len() >= 60);
    let reference = reference().await;
    let of_axum = async || TcpStream::connect(reference).await.unwrap();
    for case in cases() {
        let what = format!("{} {}", case.request.method(), case.request.uri());
        let expected = ask(of_axum().await, &case, Protocol::Http1).await;
        let stream = server.connect_tls(&[b"http/1.1"]).await;
        let answer = ask(stream, &case, Protocol::Http1).await;
        check("HTTP/1.1", &what, answer, &expected);
        let expected = ask(of_axum().await, &case, Protocol::Http2).await;
        let stream = server.connect_tls(&[b"h2"]).await;
        let answer = ask(stream, &case, Protocol::Http2).await;
        check("HTTP/2", &what, answer, &expected);
        check("HTTP/3", &what, ask_h3(server, &case), &expected);
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inside_a_program_all_answers_are_those_of_axum_serve() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    compare(&Running::embedded(runtime.unwrap(), |options| {
        serve(with_peers(), options)
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_workers_all_answers_are_those_of_axum_serve() {
    compare(&Running::tls(|options| {
        options.site = Site::service(with_peers());
    }))
    .await;
}
