//! One application under `axum::serve` and under altway: the same answers to the same requests, over
//! every protocol, on workers and inside a program's runtime, to our own clients, curl, Go and Chromium.

mod answer;
mod app;
mod browser;
mod cases;
mod curl;
mod go;
mod reference;

use super::chromium;
use crate::common::{Running, h1, h2, h3::H3, soon};
use altway_serve::{BoxError, Policy, Site, serve};
use answer::{Answer, Differences};
use axum::Router;
use bytes::Bytes;
use cases::{Case, cases};
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

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
    Answer::of(&Response::from_parts(parts, ()), body.to_vec())
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
    Answer::of(&response, body)
}

async fn compare(server: &Running) {
    let mut differences = Differences::default();
    assert!(cases().len() > 100);
    let reference = reference::clear().await;
    let of_axum = async || TcpStream::connect(reference).await.unwrap();
    for case in cases() {
        let expected = ask(of_axum().await, &case, Protocol::Http1).await;
        let stream = server.connect_tls(&[b"http/1.1"]).await;
        let answer = ask(stream, &case, Protocol::Http1).await;
        differences.check(format!("HTTP/1.1 {case}"), &answer, &expected);
        let expected = ask(of_axum().await, &case, Protocol::Http2).await;
        let stream = server.connect_tls(&[b"h2"]).await;
        let answer = ask(stream, &case, Protocol::Http2).await;
        differences.check(format!("HTTP/2 {case}"), &answer, &expected);
        let answer = ask_h3(server, &case);
        differences.check(format!("HTTP/3 {case}"), &answer, &expected);
    }
    differences.are_none();
}

/// The application inside a program's runtime.
fn embedded(more: Router) -> Running {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    Running::embedded(runtime.unwrap(), |mut options| {
        options.policy = Policy::FixedH2;
        serve(reference::with(more), options)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inside_a_program_all_answers_are_those_of_axum_serve() {
    compare(&embedded(Router::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_workers_all_answers_are_those_of_axum_serve() {
    compare(&Running::tls(|options| {
        options.site = Site::service(reference::with(Router::new()));
    }))
    .await;
}

/// Held against what curl gets from `axum::serve` over HTTP/1.1: over HTTP/2 that resets the streams of requests whose
/// content no handler has read, and curl 7.88 may take such a reset, without an error, for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_sees_the_answers_of_axum_serve() {
    let server = embedded(Router::new());
    let reference = reference::over_tls(&server.site.leaf(), Router::new()).await;
    let (port, authority) = (server.address.port(), server.site.authority());
    let answers =
        |port, protocol| tokio::task::block_in_place(|| curl::answers(&authority, port, protocol));
    let expected = answers(reference, "http1.1");
    let mut differences = Differences::default();
    for (case, (answer, expected)) in cases()
        .iter()
        .zip(answers(port, "http1.1").iter().zip(&expected))
    {
        differences.check(format!("HTTP/1.1 {case}"), answer, expected);
    }
    let expected = cases().into_iter().zip(expected);
    let expected = expected.filter(|(case, _)| curl::asks(case, "http2"));
    for ((case, expected), answer) in expected.zip(answers(port, "http2")) {
        // Chunks are HTTP/1.1's own, and a length of nothing is hyper's of HTTP/2.
        let (mut answer, mut expected) = (answer, expected.without("transfer-encoding"));
        if case.target() == "/unchanged" {
            answer = answer.without("content-length");
            expected = expected.without("content-length");
        }
        differences.check(format!("HTTP/2 {case}"), &answer, &expected);
    }
    differences.are_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_sees_the_answers_of_axum_serve() {
    let Some(program) = go::program() else {
        return;
    };
    let server = embedded(Router::new());
    let reference = reference::over_tls(&server.site.leaf(), Router::new()).await;
    let (port, authority) = (server.address.port(), server.site.authority());
    let asked = [
        (reference, "h1"),
        (reference, "h2"),
        (port, "h1"),
        (port, "h2"),
        (port, "h3"),
    ];
    let answers = tokio::task::block_in_place(|| go::answers(&program, &authority, &asked));
    let mut differences = Differences::default();
    for (expected, of_altway) in [(0, 2), (1, 3), (1, 4)] {
        let protocol = asked[of_altway].1;
        for (i, case) in cases().iter().enumerate() {
            let (answer, expected) = (&answers[of_altway][i], &answers[expected][i]);
            differences.check(format!("{protocol} {case}"), answer, expected);
        }
    }
    differences.are_none();
}

/// Over HTTP/2 from `axum::serve`, then over HTTP/2 and HTTP/3 from altway, which it takes for three origins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chromium_sees_the_answers_of_axum_serve() {
    let mut pages = browser::Pages::new();
    let server = embedded(pages.routes.clone());
    let reference = reference::over_tls(&server.site.leaf(), pages.routes.clone()).await;
    let port = server.address.port();
    let page = |host: &str, port| format!("https://{host}:{port}/page");
    let next = [page("localhost", port), page("127.0.0.1", port)];
    pages.next.lock().unwrap().extend(next);
    let quic = format!("--origin-to-force-quic-on=127.0.0.1:{port}");
    let page = page("localhost", reference);
    let Some(_chromium) = chromium::open(&server, &page, &["--enable-quic", &quic]) else {
        return;
    };
    let mut reports = Vec::new();
    for protocol in ["h2", "h2", "h3"] {
        let report = tokio::time::timeout(Duration::from_secs(60), pages.report()).await;
        let report = report.expect("a report within a minute");
        assert_eq!(report.protocols, [protocol], "{}", report.origin);
        reports.push(report);
    }
    let mut differences = Differences::default();
    let asked = browser::asked();
    assert!(asked.len() > 100);
    for report in &reports[1..] {
        for (i, case) in asked.iter().enumerate() {
            let (answer, expected) = (&report.answers[i], &reports[0].answers[i]);
            differences.check(format!("{} {case}", report.protocols[0]), answer, expected);
        }
    }
    differences.are_none();
}
