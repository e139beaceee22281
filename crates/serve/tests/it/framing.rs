//! Services that say another length than their content has, or that it is chunked: the same over every protocol, and
//! nothing that HTTP/1.1 would take for a part of the next response.

use crate::common::{H2, Running, get, h1, h2, h3::H3, soon};
use altway_serve::{Site, serve};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response};
use axum::routing::get as on_get;
use futures_util::stream;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::convert::Infallible;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Fields of a response, its content as one piece or as a stream, and what clients get of it.
#[derive(Debug)]
struct Case(&'static [(&'static str, &'static str)], Content, Expected);

#[derive(Debug, Clone, Copy)]
enum Content {
    Whole(&'static str),
    Stream(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// With a length where one was given.
    Whole(&'static str),
    CutOff,
    Failed,
}

use Content::{Stream, Whole};
const CHUNKED: (&str, &str) = ("transfer-encoding", "chunked");

const CASES: [Case; 14] = [
    Case(
        &[("content-length", "3")],
        Whole("abc"),
        Expected::Whole("abc"),
    ),
    Case(&[("content-length", "10")], Whole("abc"), Expected::CutOff),
    Case(&[("content-length", "5")], Whole(""), Expected::CutOff),
    Case(
        &[("content-length", "2")],
        Whole("abcdef"),
        Expected::Whole("ab"),
    ),
    Case(
        &[("content-length", "0")],
        Whole("abc"),
        Expected::Whole(""),
    ),
    Case(
        &[("content-length", "5")],
        Stream(&["ab", "cde"]),
        Expected::Whole("abcde"),
    ),
    Case(
        &[("content-length", "10")],
        Stream(&["ab", "cde"]),
        Expected::CutOff,
    ),
    Case(
        &[("content-length", "3")],
        Stream(&["ab", "cde", "f"]),
        Expected::Whole("abc"),
    ),
    Case(&[("content-length", "abc")], Whole("abc"), Expected::Failed),
    Case(
        &[("content-length", "3"), ("content-length", "4")],
        Whole("abc"),
        Expected::Failed,
    ),
    Case(
        &[("content-length", "3"), ("content-length", "3")],
        Whole("abc"),
        Expected::Whole("abc"),
    ),
    Case(&[CHUNKED], Whole("abc"), Expected::Whole("abc")),
    Case(
        &[CHUNKED, ("content-length", "10")],
        Stream(&["ab", "c"]),
        Expected::Whole("abc"),
    ),
    Case(
        &[("transfer-encoding", "gzip, chunked")],
        Whole("abc"),
        Expected::Failed,
    ),
];

fn response(case: &Case) -> Response<Body> {
    let mut response = Response::new(match case.1 {
        Whole(text) => Body::from(text),
        Stream(parts) => {
            Body::from_stream(stream::iter(parts.iter().copied().map(Ok::<_, Infallible>)))
        }
    });
    for (name, value) in case.0 {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .append(name, HeaderValue::from_static(value));
    }
    response
}

fn app() -> Router {
    let route = |app: Router, i: usize| {
        app.route(&format!("/{i}"), on_get(async move || response(&CASES[i])))
    };
    (0..CASES.len()).fold(Router::new(), route)
}

/// Status, fields and content.
type Answer = (u16, HeaderMap, Vec<u8>);

/// Compares an answer with what is expected. `None`: it was cut off, perhaps before its head had left.
fn check(i: usize, over: &str, answer: Option<&Answer>) {
    let expected = CASES[i].2;
    let is_expected = match answer {
        None => expected == Expected::CutOff,
        Some((500, ..)) => expected == Expected::Failed,
        Some((status, fields, content)) => {
            let is_content = |text: &str| text.as_bytes() == content;
            *status == 200
                && fields.get_all("content-length").iter().count() < 2
                && matches!(expected, Expected::Whole(text) if is_content(text))
        }
    };
    assert!(is_expected, "{over} {:?}: {answer:?}", CASES[i]);
}

async fn received(
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
) -> Option<Answer> {
    let (head, body) = soon(answer).await.ok()?.into_parts();
    let content = soon(body.collect()).await.ok()?.to_bytes();
    Some((head.status.as_u16(), head.headers, content.to_vec()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_is_as_long_as_it_says_over_every_protocol() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let inside = Running::embedded(runtime, |options| serve(app(), options));
    let alone = Running::tls(|options| options.site = Site::service(app()));
    for server in [inside, alone] {
        let mut over_h2: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
        let mut over_h3 = H3::connect(&server);
        for (i, case) in CASES.iter().enumerate() {
            let path = format!("/{i}");
            let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
            // The second response begins where the first one said that it ends.
            for _ in 0..2 {
                let answer = received(over_h1.send_request(get(&path))).await;
                check(i, "HTTP/1.1", answer.as_ref());
                if answer.is_none() {
                    break;
                }
            }
            let answer = received(over_h2.send_request(get(&path))).await;
            check(i, "HTTP/2", answer.as_ref());
            if case.2 == Expected::CutOff {
                let stream = over_h3.send(&path);
                over_h3.cut_off(stream);
            } else {
                let (head, content) = over_h3.get(&path);
                let answer = (head.status().as_u16(), head.headers().clone(), content);
                check(i, "HTTP/3", Some(&answer));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_of_http_1_0_is_kept_where_the_content_has_an_end_of_its_own_alone() {
    let streamed = async || {
        let pieces = ["ab", "cde"].map(Ok::<_, Infallible>);
        Body::from_stream(stream::iter(pieces))
    };
    let router = Router::new()
        .route("/streamed", on_get(streamed))
        .route("/whole", on_get(async || "abcde"));
    let server = Running::clear(|options| options.site = Site::service(router));
    for (method, path, is_kept) in [
        ("GET", "/whole", true),
        ("GET", "/streamed", false),
        ("HEAD", "/streamed", true),
        ("GET", "/none", true),
    ] {
        let mut client = server.connect().await;
        let request = format!("{method} {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        while !received.windows(4).any(|it| it == b"\r\n\r\n") {
            let n = soon(client.read_buf(&mut received)).await.unwrap();
            assert!(n > 0, "{method} {path}");
        }
        let text = String::from_utf8_lossy(&received);
        let says = |value: &str| text.contains(&format!("connection: {value}\r\n"));
        assert_eq!(says("keep-alive"), is_kept, "{method} {path}: {text}");
        assert_eq!(says("close"), !is_kept, "{method} {path}: {text}");
        if is_kept {
            // It is free for another one.
            let last = b"GET /whole HTTP/1.0\r\n\r\n";
            client.write_all(last).await.unwrap();
        }
        let mut rest = Vec::new();
        soon(client.read_to_end(&mut rest)).await.unwrap();
        let all = [received, rest].concat();
        assert!(all.ends_with(b"abcde"), "{method} {path}");
    }
}
