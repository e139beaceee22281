//! Reports of a server about itself: figures, what is known of clients, certificates.

use crate::common::h3::H3;
use crate::common::{LARGE, Running, TIME_LIMIT, get, h1, h2, read, soon};
use altway_serve::select::UnixTime;
use altway_serve::{DurationMetrics, Metrics, Site};
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The figures once they are as they should be: a connection's end is seen a moment later.
fn wait(server: &Running, is_there: impl Fn(&Metrics) -> bool) -> Metrics {
    let give_up = Instant::now() + TIME_LIMIT;
    loop {
        let metrics = server.monitor().metrics();
        if is_there(&metrics) {
            return metrics;
        }
        assert!(Instant::now() < give_up, "{metrics:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if so many responses of each protocol have ended, and a large one among them.
fn are_timed(metrics: &Metrics, times: u64) -> bool {
    metrics.protocols.iter().all(|it| {
        let timed = it.durations.iter().map(DurationMetrics::count).sum::<u64>();
        it.content_bytes > LARGE as u64 && timed == times
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_protocol_is_counted_by_its_responses_and_connections() {
    let server = Running::tls(|options| options.policy = "h3".parse().unwrap());
    let mut at_first = server.monitor().metrics();
    assert!(at_first.arrivals.iter().all(|it| it.count == 0));
    at_first.arrivals.clear();
    // It is there as soon as a worker turns.
    at_first.quic_pool_limit_bytes = 0;
    assert_eq!(at_first, Metrics::default());
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    // From memory (twice the same), from the disk, and what is answered with an error.
    for (path, times) in [("/", 2), ("/large", 1), ("/none", 3), ("/a/../b", 1)] {
        for _ in 0..times {
            let one = soon(over_h1.send_request(get(path))).await.unwrap();
            soon(read(one)).await;
            let two = soon(over_h2.send_request(get(path))).await.unwrap();
            soon(read(two)).await;
            over_h3.get(path);
        }
    }
    let metrics = wait(&server, |metrics| are_timed(metrics, 7));
    for (protocol, name) in metrics.protocols.iter().zip(["h1", "h2", "h3"]) {
        assert_eq!(protocol.responses, [0, 3, 0, 4, 0], "{name}");
        let timed = protocol.durations.map(|it| it.count());
        assert_eq!(timed, protocol.responses, "{name}");
        let sum = protocol.durations.map(|it| it.sum);
        assert!(
            sum[1] > Duration::ZERO && sum[3] > Duration::ZERO,
            "{name} {sum:?}"
        );
        assert_eq!(
            (protocol.connections, protocol.open_connections),
            (1, 1),
            "{name}"
        );
        let at_least = LARGE as u64 + 2 * "<p>home".len() as u64;
        assert!(protocol.content_bytes >= at_least, "{name} {protocol:?}");
    }
    let [offer] = &metrics.offers[..] else {
        panic!("{metrics:?}");
    };
    assert_eq!(
        (offer.offer, offer.reason, offer.count),
        ("h3", "fixed", 21)
    );
    assert_eq!(metrics.known_clients, 1);
    let arrivals = metrics.arrivals.iter().map(|it| it.count);
    assert_eq!(arrivals.sum::<u64>(), 3, "{:?}", metrics.arrivals);
    let [site] = &metrics.sites[..] else {
        panic!("one was asked for: {:?}", metrics.sites);
    };
    assert_eq!(site.reasons, metrics.offers);
    assert_eq!(site.arrivals, metrics.arrivals);
    assert_eq!(metrics.latest.len(), 3, "{:?}", metrics.latest);
    let [site] = &metrics.sites[..] else {
        panic!("{:?}", metrics.sites)
    };
    assert_eq!(site.responses, [0, 9, 0, 12, 0]);
    assert!(metrics.quic_pool_limit_bytes > 0);
    assert_eq!(metrics.quic_handshakes, [1, 0, 0, 0, 0]);
    assert_eq!(metrics.log_dropped, None);

    drop((over_h1, over_h2));
    over_h3.close();
    let metrics = wait(&server, |metrics| {
        metrics.protocols.iter().all(|it| it.open_connections == 0)
    });
    assert!(metrics.protocols.iter().all(|it| it.connections == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_answered_yet_are_told_over_every_protocol() {
    let forever = || std::future::pending::<&'static str>();
    let site = Site::service(Router::new().route("/", on_get(forever)));
    let server = Running::tls(|options| options.site = site);
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    let waiting = tokio::spawn(async move {
        let (one, two) = (
            over_h1.send_request(get("/")),
            over_h2.send_request(get("/")),
        );
        let _ = tokio::join!(one, two);
    });
    over_h3.send("/");
    over_h3.wait_until(|| server.monitor().metrics().active_requests == 3);
    waiting.abort();
    over_h3.close();
    wait(&server, |metrics| metrics.active_requests == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_names_are_counted_over_every_protocol_and_missing_ones_are_not() {
    let server = Running::tls(|_| {});
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    for path in ["/none", "/.git/config"] {
        let one = soon(over_h1.send_request(get(path))).await.unwrap();
        let two = soon(over_h2.send_request(get(path))).await.unwrap();
        assert!(one.status() == 404 && two.status() == 404, "{path}");
        over_h3.get(path);
    }
    let metrics = wait(&server, |metrics| {
        metrics.incidents.iter().any(|it| it.1 == 3)
    });
    assert_eq!(metrics.incidents, [("hidden name", 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_that_break_off_are_counted_over_every_protocol() {
    let broken = async || {
        let parts = [Ok("begun"), Err(std::io::Error::other("broken"))];
        Body::from_stream(futures_util::stream::iter(parts))
    };
    let site = Site::service(Router::new().route("/", on_get(broken)));
    let server = Running::tls(|options| options.site = site);
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let answers = [
        soon(over_h1.send_request(get("/"))).await,
        soon(over_h2.send_request(get("/"))).await,
    ];
    // It may break off before its head has left.
    for response in answers.into_iter().flatten() {
        assert!(soon(response.into_body().collect()).await.is_err());
    }
    let mut over_h3 = H3::connect(&server);
    let stream = over_h3.send("/");
    over_h3.cut_off(stream);
    let metrics = wait(&server, |metrics| {
        metrics.incidents.iter().any(|it| it.1 == 3)
    });
    assert_eq!(metrics.incidents, [("broken response", 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_large_a_head_is_counted_as_such() {
    let server = Running::clear(|_| {});
    let mut client = h1(server.connect().await).await;
    let mut request = crate::common::get_over(false, "/");
    let too_large = "x".repeat(40_000).parse().unwrap();
    request.headers_mut().insert("x", too_large);
    let refused = soon(client.send_request(request)).await.unwrap();
    assert!(refused.status().is_client_error());
    let metrics = wait(&server, |metrics| !metrics.incidents.is_empty());
    assert_eq!(metrics.incidents, [("head limit", 1)]);
    assert!(metrics.offers.is_empty(), "clear text offers nothing");
    assert!(server.monitor().certificates().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_long_a_target_is_refused_and_counted_over_every_protocol() {
    let server = Running::tls(|_| {});
    // Twice what hyper has in its buffer at most. It answers 414 where the whole head is in there, else 431.
    let target = "x".repeat(200_000);
    let mut over_h1 = server.connect_tls(&[b"http/1.1"]).await;
    let head = format!("GET /{target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut one = Vec::new();
    let _ = soon(over_h1.write_all(head.as_bytes())).await;
    let _ = soon(over_h1.read_to_end(&mut one)).await;
    let one = String::from_utf8_lossy(&one);
    let is_refused = ["431", "414"].map(|it| one.starts_with(&format!("HTTP/1.1 {it} ")));
    assert!(is_refused.contains(&true), "{one}");
    // Its fields alone would be let through.
    let uri = format!("https://localhost/{}", &target[..60_000]);
    let request = || Request::get(&*uri).header("x", "y".repeat(10_000));
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let two = over_h2.send_request(request().body(Empty::<Bytes>::new()).unwrap());
    let two = soon(two).await.unwrap();
    let (_, three, _) = H3::connect(&server).ask(request().body(Bytes::new()).unwrap());
    assert_eq!([two.status(), three.status()], [431; 2]);
    let metrics = wait(&server, |metrics| {
        metrics.incidents.iter().any(|it| it.1 == 3)
    });
    assert_eq!(metrics.incidents, [("head limit", 3)]);
}

/// A frame of HTTP/2 on the connection itself (RFC 9113 section 4.1).
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 0];
    frame.extend(payload);
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_counted_as_such() {
    let server = Running::clear(|_| {});
    let mut stream = server.connect().await;
    let (settings, ping) = (frame(4, &[]), frame(6, &[0; 8]));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let flood = [&preface[..], &settings, &ping.repeat(20_000)].concat();
    // The server may close before it has taken all of it.
    let _ = stream.write_all(&flood).await;
    let metrics = wait(&server, |metrics| !metrics.incidents.is_empty());
    assert_eq!(metrics.incidents, [("excessive load", 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_came_is_explained_and_the_certificates_are_told() {
    let server = Running::tls(|_| {});
    let client = IpAddr::from(Ipv4Addr::LOCALHOST);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = UnixTime::from_secs(now.unwrap().as_secs());
    let explain = || {
        server
            .monitor()
            .explain(client, None, Some("localhost"), now)
    };
    assert!(explain().is_empty());
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    soon(over_h2.send_request(get("/"))).await.unwrap();
    let [one] = &explain()[..] else {
        panic!("{:?}", explain());
    };
    assert!(one.is_known);
    assert_eq!(server.monitor().classes().len(), 1);

    let [certificate] = &server.monitor().certificates()[..] else {
        panic!("one certificate");
    };
    assert_eq!(certificate.names, ["localhost"]);
    assert!(certificate.not_after.unwrap() > SystemTime::now());
}
