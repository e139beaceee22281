//! `Limits::max_body` over every protocol, inside a program and on workers.

use crate::common::{Running, h1, h2, h3::H3, read, soon};
use altway_serve::{Options, Site, serve};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use http::Request;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Builder;

const PROTOCOLS: [&str; 3] = ["HTTP/1.1", "HTTP/2", "HTTP/3"];

const MAX: usize = 1000;

/// Requests that came to a handler.
type Handled = Arc<AtomicU64>;

fn app() -> (Router, Handled) {
    let handled = Handled::default();
    let count = Arc::clone(&handled);
    let size = move |body: Bytes| async move {
        count.fetch_add(1, Ordering::Relaxed);
        body.len().to_string()
    };
    // Reads, and answers what it likes.
    let deaf = async |body: Body| match body.collect().await {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::IM_A_TEAPOT,
    };
    let own = async |body: Body| match body.collect().await {
        Ok(_) => (StatusCode::OK, "whole"),
        Err(_) => (StatusCode::PAYLOAD_TOO_LARGE, "own words"),
    };
    let app = Router::new()
        .route("/size", post(size.clone()))
        .route("/small", post(size).layer(DefaultBodyLimit::max(10)))
        .route("/deaf", post(deaf))
        .route("/own", post(own))
        .route("/unread", post(async || "unread"));
    (app, handled)
}

fn limited(mut options: Options) -> Options {
    options.limits.max_body = Some(MAX as u64);
    options
}

fn servers() -> [(Running, Handled); 2] {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let (router, handled) = app();
    let embedded = Running::embedded(runtime.unwrap(), |it| serve(router, limited(it)));
    let (router, also_handled) = app();
    let on_workers = Running::tls(|options| {
        options.site = Site::service(router);
        options.limits.max_body = Some(MAX as u64);
    });
    [(embedded, handled), (on_workers, also_handled)]
}

/// The answer to so many bytes, of which the client says how many they are or doesn't.
async fn send(
    server: &Running,
    protocol: &str,
    path: &str,
    size: usize,
    has_length: bool,
) -> (u16, String) {
    let request = Request::post(format!("https://localhost{path}")).header("host", "localhost");
    let content = Bytes::from(vec![b'x'; size]);
    if protocol == "HTTP/3" {
        let request = match has_length {
            true => request.header("content-length", size),
            false => request,
        };
        let request = request.body(content).unwrap();
        let (_, head, body) = H3::connect(server).ask(request);
        return (head.status().as_u16(), String::from_utf8(body).unwrap());
    }
    let whole = Full::new(content);
    let content: BoxBody<Bytes, Infallible> = match has_length {
        true => whole.boxed(),
        false => StreamBody::new(BodyStream::new(whole)).boxed(),
    };
    let request = request.body(content).unwrap();
    let response = match protocol {
        "HTTP/1.1" => {
            let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
            soon(client.send_request(request)).await.unwrap()
        }
        _ => {
            let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
            soon(client.send_request(request)).await.unwrap()
        }
    };
    let status = response.status().as_u16();
    let body = soon(read(response)).await;
    (status, String::from_utf8(body).unwrap())
}

/// Contents that were too long, as the server counts them.
fn counted(server: &Running) -> u64 {
    let incidents = server.monitor().metrics().incidents;
    let of_limit = |(kind, _): &&(&str, u64)| *kind == "content limit";
    incidents.iter().find(of_limit).map_or(0, |(_, n)| *n)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_beyond_the_limit_is_413_over_every_protocol_with_a_length_and_without() {
    for (server, handled) in servers() {
        let mut refused = 0;
        for protocol in PROTOCOLS {
            for has_length in [true, false] {
                let case = format!("{protocol} {has_length}");
                let send = async |size| send(&server, protocol, "/size", size, has_length).await;
                let before = handled.load(Ordering::Relaxed);
                assert_eq!(send(MAX).await, (200, MAX.to_string()), "{case}");
                assert_eq!(handled.load(Ordering::Relaxed), before + 1);
                for size in [MAX + 1, 10 * MAX] {
                    assert_eq!(send(size).await.0, 413, "{case} {size}");
                    refused += 1;
                }
                assert_eq!(handled.load(Ordering::Relaxed), before + 1, "{case}");
                assert_eq!(counted(&server), refused, "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_content_that_became_too_long_is_413_whatever_its_handler_says() {
    for (server, _) in servers() {
        for protocol in PROTOCOLS {
            let send = async |path, size| send(&server, protocol, path, size, false).await;
            assert_eq!(send("/deaf", MAX).await.0, 200, "{protocol}");
            assert_eq!(send("/deaf", MAX + 1).await.0, 413, "{protocol}");
            let own = (413, "own words".to_owned());
            assert_eq!(send("/own", MAX + 1).await, own, "{protocol}");
            // Nobody has found it too long.
            assert_eq!(send("/unread", MAX + 1).await.0, 200, "{protocol}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_the_application_hold_below_it() {
    for (server, handled) in servers() {
        for protocol in PROTOCOLS {
            for has_length in [true, false] {
                let send = async |size| send(&server, protocol, "/small", size, has_length).await;
                assert_eq!(send(10).await, (200, "10".into()), "{protocol}");
                let before = handled.load(Ordering::Relaxed);
                assert_eq!(send(11).await.0, 413, "{protocol}");
                assert_eq!(handled.load(Ordering::Relaxed), before);
            }
        }
        // Refused by the application, not by the server.
        assert_eq!(counted(&server), 0);
    }
}
