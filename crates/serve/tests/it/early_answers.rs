//! Answers to requests whose bodies nobody reads: clients see the status, never an error.

use crate::common::{Running, h3::H3};
use altway_serve::Site;
use axum::Router;
use axum::http::StatusCode;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};

/// Bytes of the unwanted bodies: within the first packet, within the windows, beyond them.
const SIZES: [usize; 3] = [1, 200_000, 5_000_000];

/// How often each is tried: a race shows now and then.
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
