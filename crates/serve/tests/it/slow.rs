//! Clients that are slower than they may be, and what is too large for every protocol: ended alike, and counted.

use super::gate::{PREFACE, frame, http2_answer, http3_status};
use crate::common::access_log::Lines;
use crate::common::{
    Content, Running, TIME_LIMIT, alt_svc, get, h1, h2, h3::H3, raw::Raw, read, soon,
};
use altway_serve::{AccessLog, Options, Policy, RequestBody, Site};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A server whose service reads uploads to their end, and counts in `whole` those that had one.
fn start(whole: &Arc<AtomicUsize>, change: impl FnOnce(&mut Options)) -> Running {
    let whole = Arc::clone(whole);
    Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.site = Site::service(tower::service_fn(move |request: Request<RequestBody>| {
            let whole = Arc::clone(&whole);
            async move {
                if request.into_body().collect().await.is_ok() {
                    whole.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        }));
        change(options);
    })
}

/// An upload of so many bytes, of which `step` come every 50 ms.
fn upload(bytes: usize, step: usize) -> Request<impl Content + Unpin> {
    let stream = futures_util::stream::unfold(bytes, move |left| async move {
        if left == 0 {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let next = left.min(step);
        let frame = Frame::data(Bytes::from(vec![0; next]));
        Some((Ok::<_, Infallible>(frame), left - next))
    });
    Request::post("https://localhost/")
        .header("host", "localhost")
        .body(StreamBody::new(Box::pin(stream)))
        .unwrap()
}

/// Waits until a kind of incident was counted `count` times.
fn wait_for(server: &Running, kind: &str, count: u64) {
    let give_up = Instant::now() + TIME_LIMIT;
    loop {
        let incidents = server.monitor().metrics().incidents;
        let found = incidents.iter().find(|(name, _)| *name == kind);
        if found.is_some_and(|(_, found)| *found == count) {
            return;
        }
        assert!(Instant::now() < give_up, "{incidents:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_that_move_go_on_and_those_that_trickle_are_ended_over_every_protocol() {
    let whole = Arc::new(AtomicUsize::new(0));
    let server = start(&whole, |options| {
        options.limits.slowest = Some("2kB/s after 1500ms".parse().unwrap());
    });
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    // 60 kB/s for two seconds, of which a busy machine may stand still for more than one, and 200 B/s.
    let (one, two) = tokio::join!(
        soon(over_h1.send_request(upload(120_000, 3_000))),
        soon(over_h2.send_request(upload(120_000, 3_000)))
    );
    assert_eq!(
        (one.unwrap().status(), two.unwrap().status()),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    assert_eq!(whole.load(Ordering::Relaxed), 2);

    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let (one, two) = tokio::join!(
        soon(over_h1.send_request(upload(16_000, 10))),
        soon(over_h2.send_request(upload(16_000, 10)))
    );
    assert!(one.is_err() && two.is_err(), "{one:?} {two:?}");
    let mut over_h3 = H3::connect(&server);
    let stream = over_h3.begin_endless_post("/", vec![0; 100]);
    over_h3.cut_off(stream);
    wait_for(&server, "slow client", 3);
    // The service's futures are dropped, as where a client goes away.
    assert_eq!(whole.load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_nobody_takes_are_ended_after_the_time_of_the_least_rate() {
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.limits.slowest = Some("100kB/s after 500ms".parse().unwrap());
    });
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    let stream = over_h3.send("/large");
    over_h3.head(stream);
    let one = soon(over_h1.send_request(get("/large"))).await.unwrap();
    let two = soon(over_h2.send_request(get("/large"))).await.unwrap();
    over_h3.cut_off(stream);
    wait_for(&server, "slow client", 3);
    let end = async |response: Response<hyper::body::Incoming>| {
        let body = soon(response.into_body().collect()).await;
        body.expect_err("it is not whole")
    };
    end(one).await;
    end(two).await;
    // Who takes what it asks for has as long as it likes between requests.
    let mut idle = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    for _ in 0..2 {
        let response = soon(idle.send_request(get("/"))).await.unwrap();
        assert_eq!(soon(read(response)).await, b"<p>home");
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    assert!(!idle.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_too_large_for_every_protocol_are_answered_431_and_counted() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.policy = Policy::FixedH3;
        options.access_log = Some(log);
    });
    let request = || {
        Request::get("https://localhost/")
            .header("host", "localhost")
            .header("x", "y".repeat(80_000))
    };
    let empty = http_body_util::Empty::<Bytes>::new();
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    // Of whom nothing was heard before, nothing is known to decide by.
    let ask = || Request::get("https://localhost/").header("host", "localhost");
    let first = soon(over_h1.send_request(ask().body(empty).unwrap())).await;
    soon(read(first.unwrap())).await;
    // The client takes no request before it is done with the response.
    soon(over_h1.ready()).await.unwrap();
    let one = soon(over_h1.send_request(request().body(empty).unwrap())).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let first = soon(over_h2.send_request(ask().body(empty).unwrap())).await;
    soon(read(first.unwrap())).await;
    let two = soon(over_h2.send_request(request().body(empty).unwrap())).await;
    let mut over_h3 = H3::connect(&server);
    // One that has heard what the server takes would not send it.
    let (_, three, content) = over_h3.ask(request().body(Bytes::new()).unwrap());
    assert!(content.is_empty(), "it may have been a HEAD");
    let fields = |refused: Response<hyper::body::Incoming>| refused.map(drop);
    for (version, refused) in [fields(one.unwrap()), fields(two.unwrap()), three]
        .into_iter()
        .enumerate()
    {
        assert_eq!(refused.status(), 431, "{version}");
        assert_eq!(refused.headers()["server"], "altway", "{version}");
        assert_eq!(refused.headers()["content-length"], "0", "{version}");
        assert!(refused.headers().contains_key("date"), "{version}");
        assert!(alt_svc(&refused).is_some() || version == 2, "{version}");
    }
    wait_for(&server, "head limit", 3);
    let metrics = server.monitor().metrics();
    assert!(
        metrics
            .protocols
            .iter()
            .all(|it| it.responses[3] == 1 && it.responses[2..].iter().sum::<u64>() == 1),
        "{metrics:?}"
    );
    drop((over_h1, over_h2, over_h3, server));
    let text = lines.text();
    let said = "method=- path=\"\" status=431 ";
    assert_eq!(text.matches(said).count(), 3, "{text}");
}

/// A request with so many fields, Host included, of which many are a cookie's crumbs over HTTP/2 and HTTP/3.
fn with_fields(count: usize, crumbs: usize) -> http::request::Builder {
    let request = Request::get("https://localhost/").header("host", "localhost");
    let cookies = (0..crumbs).fold(request, |request, _| request.header("cookie", "a=b"));
    (1..count).fold(cookies, |request, _| request.header("x", "y"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_more_than_100_fields_is_refused_alike_over_every_protocol() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
    });
    let empty = http_body_util::Empty::<Bytes>::new();
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    for (count, crumbs, expected) in [(100, 0, 200), (99, 150, 200), (101, 0, 431), (100, 2, 431)] {
        let request = || with_fields(count, crumbs);
        let two = soon(over_h2.send_request(request().body(empty).unwrap())).await;
        let (_, three, _) = over_h3.ask(request().body(Bytes::new()).unwrap());
        let statuses = [two.unwrap().status(), three.status()];
        assert_eq!(
            statuses.map(|it| it.as_u16()),
            [expected; 2],
            "{count}, {crumbs}"
        );
    }
    // The first is answered before the second is refused, however they come, and whatever follows.
    let head = |fields: usize, rest: &str| {
        let more = "X: y\r\n".repeat(fields - 1);
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{more}{rest}")
    };
    let content = "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let bytes = [head(100, "\r\n"), head(101, content), head(3, "\r\n")].concat();
    for len in [1, bytes.len()] {
        let mut over_h1 = server.connect_tls(&[b"http/1.1"]).await;
        for part in bytes.as_bytes().chunks(len) {
            // What it sends behind the refused head may come to nobody.
            let _ = over_h1.write_all(part).await;
            let _ = over_h1.flush().await;
        }
        let mut answers = String::new();
        let _ = soon(over_h1.read_to_string(&mut answers)).await;
        let statuses: Vec<&str> = answers
            .split("HTTP/1.1 ")
            .map(|it| it.get(..3).unwrap_or_default())
            .collect();
        assert_eq!(statuses, ["", "200", "431"], "{answers}");
        let refused = answers.rsplit("HTTP/1.1 ").next().unwrap();
        assert!(refused.contains("server: altway\r\n"), "{refused}");
        assert!(refused.contains("connection: close\r\n"), "{refused}");
    }
    wait_for(&server, "head limit", 6);
    drop((over_h2, over_h3, server));
    let text = lines.text();
    for (protocol, count) in [("h1", 2), ("h2", 2), ("h3", 2)] {
        let refused = format!(" protocol={protocol} method=GET path=\"/\" status=431 bytes=");
        assert_eq!(text.matches(&refused).count(), count, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_to_its_end_is_counted_and_an_idle_connection_is_not() {
    let server = Running::clear(|options| {
        options.limits.header_timeout = Duration::from_millis(1_500);
    });
    let mut idle = server.connect().await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let mut rest = String::new();
    let _ = soon(idle.read_to_string(&mut rest)).await;
    assert_eq!(rest, "");
    let _ = soon(slow.read_to_string(&mut rest)).await;
    assert!(
        rest.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
        "{rest}"
    );
    for field in [
        "server: altway",
        "date: ",
        "connection: close",
        "content-length: ",
    ] {
        assert!(rest.contains(&format!("\r\n{field}")), "{rest}");
    }
    wait_for(&server, "slow client", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_to_its_end_is_answered_408_and_logged_over_every_protocol() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
        options.limits.header_timeout = Duration::from_millis(1_500);
    });
    let mut over_h1 = server.connect_tls(&[b"http/1.1"]).await;
    over_h1.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    let mut over_h2 = server.connect_tls(&[b"h2"]).await;
    let head = frame(1, 5, &[0x82, 0x87, 0x84]);
    let begun = [PREFACE, &head[..head.len() - 1]].concat();
    over_h2.write_all(&begun).await.unwrap();
    let mut over_h3 = Raw::new(&server);
    // HEADERS of 16 bytes, of which two come.
    let stream = over_h3.begin(&[1, 16, 0, 0]);
    let three = over_h3.answer(stream);
    assert_eq!(http3_status(&three), "408");
    assert_eq!(soon(http2_answer(over_h2)).await, "408");
    let mut one = String::new();
    let _ = soon(over_h1.read_to_string(&mut one)).await;
    assert!(one.starts_with("HTTP/1.1 408 "), "{one}");
    wait_for(&server, "slow client", 3);
    drop((over_h1, over_h3));
    server.ask_to_stop();
    server.join().unwrap();
    let text = lines.text();
    for protocol in ["h1", "h2", "h3"] {
        let said = format!("protocol={protocol} method=- path=\"\" status=408 bytes=0");
        assert_eq!(text.matches(&said).count(), 1, "{protocol}: {text}");
    }
}
