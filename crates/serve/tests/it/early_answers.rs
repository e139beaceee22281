//! Answers to requests whose bodies nobody reads: clients see the status, never an error.

use crate::common::{Running, h3::H3, soon};
use altway_serve::Site;
use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of the unwanted bodies: within the first packet, within the windows, beyond them.
const SIZES: [usize; 3] = [1, 200_000, 5_000_000];

/// Times that each is tried: a race shows now and then.
const TIMES: usize = 10;

fn service() -> Running {
    Running::tls(|options| {
        let refuse = async || (StatusCode::UNSUPPORTED_MEDIA_TYPE, "no such media type");
        options.site = Site::service(Router::new().fallback(refuse));
        options.threads = NonZeroUsize::MIN;
    })
}

/// Posts `size` bytes with curl; its exit code and the status.
fn curl(server: &Running, protocol: &str, size: usize) -> (Option<i32>, String) {
    let mut curl = Command::new("curl")
        .args(["--insecure", "--silent", "--max-time", "20", protocol])
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .args(["--header", "expect:", "--data-binary", "@-"])
        .arg(format!("https://{}/", server.address))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut body = curl.stdin.take().unwrap();
    // It reads all of it before it sends.
    body.write_all(&vec![b'x'; size]).unwrap();
    drop(body);
    let output = curl.wait_with_output().unwrap();
    let status = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), status)
}

fn check_curl(server: &Running, status: &str) {
    for protocol in ["--http1.1", "--http2"] {
        for size in SIZES {
            for _ in 0..TIMES {
                let seen = curl(server, protocol, size);
                assert_eq!(seen, (Some(0), status.to_owned()), "{protocol} {size}");
            }
        }
    }
}

#[test]
fn curl_sees_the_status_of_a_service_that_does_not_read() {
    check_curl(&service(), "415");
}

#[test]
fn curl_sees_that_files_take_no_content() {
    check_curl(&Running::tls(|_| {}), "405");
}

#[test]
fn a_client_of_http3_sees_the_status() {
    for (server, status) in [(service(), 415), (Running::tls(|_| {}), 405)] {
        for size in SIZES {
            let mut client = H3::connect(&server);
            let stream = client.begin_post("/", vec![b'x'; size]);
            let (head, end) = client.head(stream);
            assert_eq!(head.status(), status, "{size}");
            if !end {
                client.body(stream);
            }
        }
    }
}

#[test]
fn a_client_of_http3_may_send_all_that_nobody_reads() {
    for server in [service(), Running::tls(|_| {})] {
        let mut client = H3::connect(&server);
        // Fails if the client is asked to stop.
        client.post("/", vec![b'x'; 5_000_000]);
        let stream = client.post("/", vec![b'x']);
        assert!(client.head(stream).0.status().is_client_error());
    }
}

#[test]
fn uploads_that_nobody_reads_and_nobody_ends_do_not_keep_a_server() {
    // Less than what is read of an upload before its engine gets to know, and more.
    for size in [1_000, 200_000] {
        let server = service();
        let mut client = H3::connect(&server);
        let stream = client.begin_endless_post("/", vec![b'x'; size]);
        assert_eq!(client.head(stream).0.status(), 415);
        let begin = Instant::now();
        server.ask_to_stop();
        client.closed();
        server.join().unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(15), "{size}: {took:?}");
    }
}

#[tokio::test]
async fn a_handler_over_http3_that_reads_beyond_its_response_learns_of_the_end() {
    let (told, mut learnt) = tokio::sync::mpsc::unbounded_channel();
    let server = Running::tls(|options| {
        let handler = async move |body: Body| {
            tokio::spawn(async move {
                let read = axum::body::to_bytes(body, usize::MAX).await;
                told.send(read.is_err()).unwrap();
            });
            StatusCode::ACCEPTED
        };
        options.site = Site::service(Router::new().fallback(handler));
    });
    let client = tokio::task::spawn_blocking(move || {
        let mut client = H3::connect(&server);
        let stream = client.begin_endless_post("/", vec![b'x'; 1_000]);
        assert_eq!(client.head(stream).0.status(), 202);
        client.pump();
        (server, client)
    });
    let _still_there = client.await.unwrap();
    assert_eq!(soon(learnt.recv()).await, Some(true));
}
