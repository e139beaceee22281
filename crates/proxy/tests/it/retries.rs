//! Servers that die: what is sent again, and what clients see.

use crate::common::{
    Client, TIME_LIMIT, VERSIONS, http2_origin, nobody, origin, proxy, proxy_with, tcp, to,
};
use altway_upstream::heads::Received;
use altway_upstream::{Group, Protocol};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Method, Request, Version};
use http_body_util::{BodyExt as _, Full};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

#[tokio::test]
async fn a_server_that_is_not_there_costs_no_request_where_another_is() {
    let address = origin(|mut connection| {
        while connection.head().is_some() {
            connection.ok("here");
        }
    });
    let mut options = to(nobody());
    options.servers.push(tcp(address, Protocol::Http1));
    let running = proxy(options);
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for method in ["GET", "POST", "PUT"] {
            for body in ["", "content"] {
                // Content is not read in this server: one request a connection.
                let request = Request::builder().method(method).uri("/");
                let response = client
                    .ask(request, if method == "GET" { "" } else { body })
                    .await;
                assert_eq!(
                    (response.status().as_u16(), response.body().as_str()),
                    (200, "here")
                );
            }
        }
    }
}

#[tokio::test]
async fn a_group_without_servers_that_are_there_is_answered_503_at_once() {
    let mut options = to(nobody());
    options.servers.push(tcp(nobody(), Protocol::Http1));
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    let mut statuses = Vec::new();
    while statuses.last() != Some(&503) {
        assert!(statuses.len() < 20, "{statuses:?}");
        statuses.push(client.ask(Request::get("/"), "").await.status().as_u16());
    }
    assert_eq!(statuses[0], 502);
    let mut times = Vec::new();
    while times.iter().all(|time| *time >= Duration::from_millis(500)) {
        assert!(times.len() < 10, "{times:?}");
        let began = Instant::now();
        let response = client.ask(Request::get("/"), "").await;
        // On a busy machine it may be their turn again.
        if response.status() != 502 {
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()["retry-after"], "1");
            times.push(began.elapsed());
        }
    }
}

/// A server that answers the first request of each connection, and reads the second and dies.
fn forgetful(requests: Arc<AtomicUsize>) -> std::net::SocketAddr {
    origin(move |mut connection| {
        if connection.head().is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
            connection.ok("first");
        }
        if connection.head().is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
        }
    })
}

#[tokio::test]
async fn a_reused_connection_that_dies_costs_an_idempotent_request_nothing() {
    let requests = Arc::new(AtomicUsize::new(0));
    let running = proxy(to(forgetful(Arc::clone(&requests))));
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for method in ["GET", "GET", "HEAD", "DELETE"] {
        let request = Request::builder().method(method).uri("/");
        assert_eq!(client.ask(request, "").await.status(), 200, "{method}");
    }
    assert!(requests.load(Ordering::SeqCst) > 4);
}

#[tokio::test]
async fn a_post_that_a_server_may_have_handled_is_sent_once() {
    let requests = Arc::new(AtomicUsize::new(0));
    let running = proxy(to(forgetful(Arc::clone(&requests))));
    let mut client = Client::new(running.address, Version::HTTP_11).await;
    assert_eq!(client.ask(Request::post("/"), "").await.status(), 200);
    let response = client.ask(Request::post("/"), "").await;
    assert_eq!(response.status(), 502);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_connection_that_its_server_is_about_to_close_is_not_used() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = origin(move |mut connection| {
        counted.fetch_add(1, Ordering::SeqCst);
        while connection.head().is_some() {
            connection
                .write("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let running = proxy(to(address));
    let mut client = Client::new(running.address, Version::HTTP_11).await;
    for count in 1..=2 {
        let response = client.ask(Request::post("/"), "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers().get("keep-alive"), None);
        assert_eq!(connections.load(Ordering::SeqCst), count);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_not_used_even_for_a_post() {
    let (close, mut closed) = tokio::sync::mpsc::unbounded_channel();
    let address = origin(move |mut connection| {
        if connection.head().is_some() {
            connection.ok("once");
            drop(connection);
            close.send(()).unwrap();
        }
    });
    let running = proxy(to(address));
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for _ in 0..20 {
        assert_eq!(client.ask(Request::post("/"), "").await.status(), 200);
        closed.recv().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_connection_of_a_runtime_that_has_ended_is_not_used() {
    let address = origin(|mut connection| {
        while connection.head().is_some() {
            connection.ok("whole");
        }
    });
    let group = Group::new(to(address)).unwrap();
    // As a worker that has panicked is started again, on its thread.
    for method in [Method::GET, Method::POST] {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let request = Request::builder().method(&method).uri("/");
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let (response, _) = group.send(request, received(), None, false).await.unwrap();
            let content = response.into_body().collect().await.unwrap();
            assert_eq!(content.to_bytes(), "whole", "{method}");
        });
    }
}

/// A request of nobody in particular.
fn received() -> Received<'static> {
    Received {
        peer: Ipv4Addr::LOCALHOST.into(),
        port: 1,
        client: None,
        local: None,
        is_trusted: false,
        scheme: "https",
        version: Version::HTTP_2,
        is_early: false,
        began: Instant::now(),
        client_cert: None,
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_is_cut_off_and_never_short() {
    let address = origin(|mut connection| {
        connection.head();
        connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    });
    let running = proxy(to(address));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        let response = client.send(Request::get("/"), "").await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn a_stream_of_http2_that_is_reset_is_a_response_that_breaks_off() {
    let address = http2_origin(|request, mut respond| {
        let mut sending = respond
            .send_response(http::Response::new(()), false)
            .unwrap();
        sending.send_data("half".into(), false).unwrap();
        tokio::spawn(async move {
            // Until then the head and the content would be dropped with the stream.
            tokio::time::sleep(Duration::from_millis(100)).await;
            sending.send_reset(match request.uri().path() {
                "/cancelled" => h2::Reason::CANCEL,
                _ => h2::Reason::INTERNAL_ERROR,
            });
        });
    })
    .await;
    let mut options = to(address);
    options.servers = vec![tcp(address, Protocol::Http2)];
    let running = proxy(options);
    for version in VERSIONS {
        for path in ["/cancelled", "/failed"] {
            let mut client = Client::new(running.address, version).await;
            let response = client.send(Request::get(path), "").await.unwrap();
            assert_eq!(response.status(), 200);
            let content = response.into_body().collect().await;
            assert!(content.is_err(), "{path} {version:?}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_http2_that_is_reset_without_an_error_has_ended_unless_its_length_says_more() {
    let has_come = Arc::new(Notify::new());
    let reset = Arc::clone(&has_come);
    let address = http2_origin(move |request, mut respond| {
        let mut response = http::Response::builder();
        if let Some(length) = request.uri().path().strip_prefix("/length/") {
            response = response.header("content-length", length);
        }
        let response = response.body(()).unwrap();
        let mut sending = respond.send_response(response, false).unwrap();
        sending.send_data("whole".into(), false).unwrap();
        let reset = Arc::clone(&reset);
        tokio::spawn(async move {
            // Before that the head and the content would be dropped with the stream.
            reset.notified().await;
            sending.send_reset(h2::Reason::NO_ERROR);
        });
    })
    .await;
    let mut options = to(address);
    options.servers = vec![tcp(address, Protocol::Http2)];
    let running = proxy(options);
    for version in VERSIONS {
        for (path, is_whole) in [("/", true), ("/length/5", true), ("/length/6", false)] {
            let mut client = Client::new(running.address, version).await;
            let response = client.send(Request::get(path), "").await.unwrap();
            let mut content = response.into_body();
            let first = content.frame().await.unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "whole");
            has_come.notify_one();
            let rest = content.collect().await.map(|rest| rest.to_bytes().len());
            assert_eq!(rest.ok(), is_whole.then_some(0), "{path} {version:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_answered_504_and_a_pause_ends_a_response() {
    let address = origin(|mut connection| {
        let head = connection.head();
        if head.is_some_and(|head| head[0].contains("/pause")) {
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        }
        std::thread::sleep(Duration::from_secs(5));
    });
    let mut options = to(address);
    // A head has to come within it on a busy machine, too.
    options.head_timeout = Duration::from_millis(1_500);
    options.idle_timeout = Duration::from_millis(1_500);
    let running = proxy(options);
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        assert_eq!(client.ask(Request::get("/"), "").await.status(), 504);
        let mut client = Client::new(running.address, version).await;
        let response = client.send(Request::get("/pause"), "").await.unwrap();
        assert!(response.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn requests_beyond_what_a_server_may_have_wait_and_then_are_answered_503() {
    let (release, hold) = std::sync::mpsc::channel::<()>();
    let hold = Arc::new(Mutex::new(hold));
    let address = origin(move |mut connection| {
        while connection.head().is_some() {
            // Until there is nobody any more who could send.
            hold.lock().unwrap().recv().unwrap_err();
            connection.ok("late");
        }
    });
    let mut options = to(address);
    options.max_requests = 2;
    // As long those who wait do so.
    options.connect_timeout = 2 * TIME_LIMIT;
    let running = proxy(options);
    let mut asked = FuturesUnordered::new();
    for _ in 0..8 {
        asked.push(async {
            let mut client = Client::new(running.address, Version::HTTP_11).await;
            client.ask(Request::get("/"), "").await.status().as_u16()
        });
    }
    let mut next = async || tokio::time::timeout(TIME_LIMIT, asked.next()).await;
    for _ in 0..4 {
        assert_eq!(next().await, Ok(Some(503)));
    }
    drop(release);
    for _ in 0..4 {
        assert_eq!(next().await, Ok(Some(200)));
    }
}

#[tokio::test]
async fn a_check_takes_a_server_out_and_brings_it_back() {
    let is_well = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seen = Arc::clone(&is_well);
    let address = origin(move |mut connection| {
        while connection.head().is_some() {
            match seen.load(Ordering::SeqCst) {
                true => connection.ok("well"),
                false => connection.write("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
            }
        }
    });
    let mut options = to(address);
    options.check = Some(altway_upstream::Check {
        path: "/healthz".into(),
        every: Duration::from_millis(100),
    });
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for (well, expected) in [(true, 200), (false, 503), (true, 200)] {
        is_well.store(well, Ordering::SeqCst);
        let end = Instant::now() + TIME_LIMIT;
        loop {
            let status = client.ask(Request::get("/"), "").await.status().as_u16();
            if status == expected {
                break;
            }
            assert!(Instant::now() < end, "{status} instead of {expected}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_response_that_trickles_is_cut_off_unless_nobody_knows_how_long_it_is() {
    let address = origin(|mut connection| {
        let head = connection.head().unwrap_or_default();
        let is_known = head[0].contains("/known");
        connection.write(match is_known {
            true => "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n",
            false => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        });
        for _ in 0..60 {
            connection.write(if is_known { "x" } else { "1\r\nx\r\n" });
            std::thread::sleep(Duration::from_millis(50));
        }
        connection.write("0\r\n\r\n");
    });
    let mut options = to(address);
    // A busy machine may make the server wait for as long.
    options.idle_timeout = Duration::from_millis(1_500);
    let running = proxy(options.clone());
    // Given, the rate holds for all.
    options.min_rate = Some(altway_upstream::MinRate {
        bytes: 1_000,
        time: Duration::from_millis(1_500),
    });
    let strict = proxy(options);
    let cases = [
        (running.address, "/known", false),
        (running.address, "/events", true),
        (strict.address, "/events", false),
    ];
    let of_every_version = VERSIONS.map(|version| cases.map(|case| (version, case)));
    let asked = of_every_version.into_iter().flatten();
    let asked = asked.map(async |(version, (address, path, is_whole))| {
        let mut client = Client::new(address, version).await;
        let response = client.send(Request::get(path), "").await.unwrap();
        let content = response.into_body().collect().await;
        assert_eq!(content.is_ok(), is_whole, "{path} {version:?}");
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn what_servers_did_is_counted() {
    let address = origin(|mut connection| {
        while let Some(head) = connection.head() {
            if head[0].contains("/gone") {
                return;
            }
            connection.ok("here");
        }
    });
    let mut options = to(address);
    options.servers.push(tcp(nobody(), Protocol::Http1));
    let settings = altway_proxy::Settings {
        pool: "a.test/".into(),
        ..altway_proxy::Settings::default()
    };
    let statistics = Arc::clone(&settings.statistics);
    let running = proxy_with(options, settings);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for _ in 0..12 {
        let response = client.ask(Request::get("/"), "").await;
        assert_eq!(response.status(), 200);
    }
    let response = client.ask(Request::post("/gone"), "").await;
    assert_eq!(response.status(), 502);
    let upstreams = statistics.upstreams();
    let [(pool, well), (_, dead)] = &upstreams[..] else {
        panic!("{upstreams:?}");
    };
    assert_eq!(pool, "a.test/");
    assert_eq!(well.server, format!("http://{address}"));
    assert!(well.is_available);
    assert_eq!((well.requests, well.retries), (13, 0));
    assert_eq!(well.latency.count(), 12);
    assert_eq!(well.failures, [0, 0, 1, 0, 0, 0]);
    assert_eq!((well.open_connections, well.idle_connections), (0, 0));
    // It is left alone for a second, and for longer if the machine is slow.
    assert!(dead.requests >= 3 && dead.ejections >= 1, "{dead:?}");
    assert_eq!(dead.retries, dead.requests);
    assert_eq!(dead.failures, [dead.requests, 0, 0, 0, 0, 0]);
    assert_eq!((well.in_progress, dead.in_progress), (0, 0));
}

#[tokio::test]
async fn a_server_that_resets_every_stream_is_not_asked_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut is_first = true;
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    counted.fetch_add(1, Ordering::SeqCst);
                    match std::mem::take(&mut is_first) {
                        true => drop(respond.send_response(http::Response::new(()), true)),
                        false => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                    }
                }
            });
        }
    });
    let mut options = to(address);
    options.servers = vec![tcp(address, Protocol::Http2)];
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    assert_eq!(client.ask(Request::get("/"), "").await.status(), 200);
    for method in ["GET", "POST"] {
        let before = requests.load(Ordering::SeqCst);
        let request = Request::builder().method(method).uri("/");
        let asked = tokio::time::timeout(TIME_LIMIT, client.ask(request, ""));
        assert_eq!(asked.await.unwrap().status(), 502, "{method}");
        let times = requests.load(Ordering::SeqCst) - before;
        // Two attempts, and each once more, as its connection has been used before.
        assert!((1..=4).contains(&times), "{method}: {times}");
    }
}
