//! Content on its way: at once, no faster than the other end, with interim responses and trailers.

use crate::common::{
    Client, TIME_LIMIT, VERSIONS, http2_origin, origin, proxy, proxy_with, tcp, to,
};
use altway_proxy::Settings;
use altway_upstream::Protocol;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test]
async fn an_event_passes_before_the_next_one_is_there() {
    for version in VERSIONS {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let address = origin(move |mut connection| {
            connection.head();
            connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            for event in ["one", "two", "three"] {
                connection.write(&format!("{:x}\r\n{event}\r\n", event.len()));
                wait.lock().unwrap().recv().unwrap();
            }
            connection.write("0\r\n\r\n");
        });
        let running = proxy(to(address));
        let mut client = Client::new(running.address, version).await;
        let mut body = client
            .send(Request::get("/"), "")
            .await
            .unwrap()
            .into_body();
        for event in ["one", "two", "three"] {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), event);
            go.send(()).unwrap();
        }
        let rest = body.collect().await.unwrap().to_bytes();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[tokio::test]
async fn large_content_arrives_whole_in_both_directions() {
    const LEN: usize = 20 << 20;
    let address = origin(|mut connection| {
        while let Some(head) = connection.head() {
            let length = head
                .iter()
                .find_map(|line| line.strip_prefix("content-length: "));
            let body = connection.read(length.unwrap().parse().unwrap());
            let sum: u64 = body.iter().map(|it| u64::from(*it)).sum();
            connection.write(&format!(
                "HTTP/1.1 200 OK\r\nX-Sum: {sum}\r\nContent-Length: {LEN}\r\n\r\n"
            ));
            connection.reader.get_mut().write_all(&body).unwrap();
        }
    });
    let content: Bytes = (0..LEN).map(|it| (it % 251) as u8).collect();
    let sum: u64 = content.iter().map(|it| u64::from(*it)).sum();
    let running = proxy(to(address));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for method in ["POST", "PUT"] {
            let request = Request::builder().method(method).uri("/");
            let response = client.send(request, content.clone()).await.unwrap();
            assert_eq!(response.headers()["x-sum"], sum.to_string().as_str());
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body == content);
        }
    }
}

#[tokio::test]
async fn who_does_not_read_is_not_sent_more_than_buffers_hold() {
    const LEN: usize = 256 << 20;
    /// Buffers of two sockets of the kernel, and of the proxy.
    const MOST: usize = 48 << 20;
    // An upload to a server that does not read.
    let address = origin(|mut connection| {
        connection.head();
        std::thread::sleep(Duration::from_secs(3));
    });
    let running = proxy(to(address));
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n"
    )
    .unwrap();
    let chunk = vec![0; 64 << 10];
    let mut written = 0;
    while let Ok(n) = stream.write(&chunk) {
        written += n;
        assert!(written < MOST, "{written} bytes were taken");
    }
    // A download by a client that does not read.
    let (tell, told) = mpsc::channel();
    let address = origin(move |mut connection| {
        connection.head();
        connection.write(&format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"));
        let stream = connection.reader.get_mut();
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let (chunk, mut written) = (vec![0; 64 << 10], 0);
        while written < LEN
            && let Ok(n) = stream.write(&chunk)
        {
            written += n;
        }
        tell.send(written).unwrap();
    });
    let running = proxy(to(address));
    let mut stream = TcpStream::connect(running.address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let written = told.recv().unwrap();
    assert!(written < MOST, "{written} bytes were taken");
    drop(stream);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_takes_its_request_from_the_server() {
    let (tell, told) = mpsc::channel();
    let (begin, mut began) = tokio::sync::mpsc::unbounded_channel();
    let address = origin(move |mut connection| {
        connection.head();
        begin.send(()).unwrap();
        // The connection's end.
        let ended = connection.reader.read(&mut [0]);
        tell.send(matches!(ended, Ok(0) | Err(_))).unwrap();
    });
    let running = proxy(to(address));
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        tokio::select! {
            answer = client.send(Request::get("/"), "") => panic!("{version:?}: {answer:?}"),
            begun = tokio::time::timeout(TIME_LIMIT, began.recv()) => begun.unwrap().unwrap(),
        }
        assert!(told.try_recv().is_err(), "{version:?}");
        drop(client);
        assert!(told.recv_timeout(TIME_LIMIT).unwrap(), "{version:?}");
    }
}

#[tokio::test]
async fn content_that_is_too_long_is_answered_413_with_its_length_or_without() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let address = origin(move |mut connection| {
        while let Some(head) = connection.head() {
            count.fetch_add(1, Ordering::SeqCst);
            let length = head
                .iter()
                .find_map(|line| line.strip_prefix("content-length: "));
            // What has no length is waited for until the proxy gives up.
            match length {
                Some(length) => drop(connection.read(length.parse().unwrap())),
                None => drop(connection.reader.read_to_end(&mut Vec::new())),
            }
            connection.ok("whole");
        }
    });
    let mut options = to(address);
    options.max_body = Some(1000);
    let running = proxy(options);
    for version in VERSIONS {
        let mut client = Client::new(running.address, version).await;
        for (length, status) in [(1000, 200), (1001, 413), (5_000_000, 413), (0, 200)] {
            let content = vec![b'a'; length];
            let response = client.send(Request::put("/"), content).await;
            assert_eq!(response.unwrap().status(), status, "{length} {version:?}");
            if version == Version::HTTP_11 && status == 413 {
                client = Client::new(running.address, version).await;
            }
        }
    }
    assert_eq!(
        asked.load(Ordering::SeqCst),
        4,
        "the servers see none of them"
    );
    // Chunks, of which nobody knows how many come.
    let mut stream = TcpStream::connect(running.address).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    write!(
        stream,
        "{head}258\r\n{0}\r\n258\r\n{0}\r\n",
        "a".repeat(600)
    )
    .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn content_waits_for_the_server_that_is_asked_whether_it_wants_it() {
    for (path, interim) in [
        ("/wanted", "HTTP/1.1 100 Continue"),
        ("/unwanted", "HTTP/1.1 413 "),
    ] {
        let address = origin(|mut connection| {
            let head = connection.head().unwrap();
            assert!(
                head.contains(&"expect: 100-continue".to_owned()),
                "{head:?}"
            );
            if head[0].contains("/unwanted") {
                return connection.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
            }
            connection.write("HTTP/1.1 100 Continue\r\n\r\n");
            let body = connection.read(5);
            connection.ok(std::str::from_utf8(&body).unwrap());
        });
        let running = proxy(to(address));
        let mut stream = TcpStream::connect(running.address).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut first = [0; 1024];
        let n = stream.read(&mut first).unwrap();
        assert!(
            first[..n].starts_with(interim.as_bytes()),
            "{:?}",
            std::str::from_utf8(&first[..n])
        );
        if path == "/wanted" {
            stream.write_all(b"hello").unwrap();
            let n = stream.read(&mut first).unwrap();
            assert!(first[..n].starts_with(b"HTTP/1.1 200"));
        }
    }
}

/// A server of HTTP/2 that streams back what it is sent, and ends with trailers, as gRPC does.
async fn grpc_like() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = async |request: Request<Incoming>| {
        assert_eq!(request.headers()["te"], "trailers");
        let body = request.into_body();
        let (sender, channel) = tokio::sync::mpsc::channel::<Frame<Bytes>>(1);
        tokio::spawn(echo(body, sender));
        let stream = futures_util::stream::unfold(channel, async |mut channel| {
            let frame = channel.recv().await?;
            Some((Ok::<_, Infallible>(frame), channel))
        });
        Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(stream))))
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer));
            tokio::spawn(serving);
        }
    });
    address
}

async fn echo(mut body: Incoming, to: tokio::sync::mpsc::Sender<Frame<Bytes>>) {
    while let Some(Ok(frame)) = body.frame().await {
        if frame.is_data() {
            to.send(frame).await.unwrap();
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("content-length", "7".parse().unwrap());
    to.send(Frame::trailers(trailers)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_and_trailers_pass_to_a_server_of_http2() {
    let mut options = to(grpc_like().await);
    let address = match &options.servers[0].address {
        altway_upstream::Address::Tcp(host, port) => format!("{host}:{port}").parse().unwrap(),
        altway_upstream::Address::Unix(_) => unreachable!("made of a socket's address"),
    };
    options.servers = vec![tcp(address, Protocol::Http2)];
    let running = proxy(options);
    let mut client = Client::new(running.address, Version::HTTP_2).await;
    for _ in 0..3 {
        let request = Request::post("/service/Method").header("te", "trailers");
        let response = client.send(request, "message").await.unwrap();
        let collected = response.into_body().collect().await.unwrap();
        let trailers = collected.trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert!(!trailers.contains_key("content-length"));
        assert_eq!(collected.to_bytes(), "message");
    }
}

/// Servers of HTTP/1.1 and HTTP/2 that answer once they are told to, after two interim responses.
async fn with_interim() -> ([altway_upstream::Server; 2], mpsc::SyncSender<()>) {
    let (go, wait) = mpsc::sync_channel::<()>(1);
    let wait = Arc::new(Mutex::new(wait));
    let waited = Arc::clone(&wait);
    let http1 = origin(move |mut connection| {
        while connection.head().is_some() {
            connection.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            let fields = "Location: /upload\r\nConnection: X-One\r\nX-One: 1";
            connection.write(&format!("HTTP/1.1 104 -\r\n{fields}\r\n\r\n"));
            waited.lock().unwrap().recv().unwrap();
            connection.ok("done");
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http2 = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let wait = Arc::clone(&wait);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    for (status, name, value) in
                        [(103, "link", "</a>"), (104, "location", "/upload")]
                    {
                        let head = Response::builder().status(status).header(name, value);
                        respond.send_informational(head.body(()).unwrap()).unwrap();
                    }
                    let wait = Arc::clone(&wait);
                    tokio::spawn(async move {
                        let waiting = move || wait.lock().unwrap().recv().unwrap();
                        tokio::task::spawn_blocking(waiting).await.unwrap();
                        let mut sending = respond.send_response(Response::new(()), false).unwrap();
                        sending.send_data("done".into(), true).unwrap();
                    });
                }
            });
        }
    });
    (
        [tcp(http1, Protocol::Http1), tcp(http2, Protocol::Http2)],
        go,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_responses_pass_as_they_come() {
    let (servers, go) = with_interim().await;
    for server in servers {
        let running = proxy(altway_upstream::Options::new(vec![server.clone()]));
        // Of early hints clients of HTTP/1.1 are not told (RFC 8297 section 3).
        let mut stream = TcpStream::connect(running.address).unwrap();
        let limit = Some(Duration::from_secs(30));
        stream.set_read_timeout(limit).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let (mut text, mut piece) = (String::new(), [0; 4096]);
        while !text.contains("done") {
            let len = stream.read(&mut piece).unwrap();
            assert!(len > 0, "{text}");
            text.push_str(std::str::from_utf8(&piece[..len]).unwrap());
            if !text.contains("200 OK") && text.ends_with("\r\n\r\n") {
                assert!(text.starts_with("HTTP/1.1 104 "), "{text}");
                assert!(
                    text.to_lowercase().contains("location: /upload\r\n\r\n"),
                    "{text}"
                );
                go.send(()).unwrap();
            }
        }
        let stream = tokio::net::TcpStream::connect(running.address)
            .await
            .unwrap();
        let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("http://a.test/").body(()).unwrap();
        let (mut responding, _) = sender.send_request(request, true).unwrap();
        for (status, name, value) in [(103, "link", "</a>"), (104, "location", "/upload")] {
            let head = std::future::poll_fn(|cx| responding.poll_informational(cx)).await;
            let head = head.unwrap().unwrap();
            assert_eq!(head.status(), status, "{server:?}");
            assert_eq!(head.headers()[name], value);
            assert_eq!(head.headers().len(), 1, "{head:?}");
        }
        go.send(()).unwrap();
        assert_eq!(responding.await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_trailers_pass_to_clients_of_http1_that_take_them() {
    let http1 = origin(|mut connection| {
        while connection.head().is_some() {
            connection.write(
                "HTTP/1.1 200 OK\r\nTrailer: X-Sum, Connection\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\
                 X-Sum: 7\r\nX-Other: 8\r\nConnection: close\r\n\r\n",
            );
        }
    });
    let mut http2 = to(http1);
    http2.servers = vec![tcp(announcing().await, Protocol::Http2)];
    for options in [to(http1), http2] {
        let protocol = options.servers[0].protocol;
        let running = proxy(options);
        let ask = |fields: &str| {
            let mut stream = TcpStream::connect(running.address).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").unwrap();
            let (mut text, mut piece) = (String::new(), [0; 4096]);
            while !text.contains("0\r\n") || !text.ends_with("\r\n\r\n") {
                let len = stream.read(&mut piece).unwrap();
                assert!(len > 0, "{text}");
                text.push_str(std::str::from_utf8(&piece[..len]).unwrap());
            }
            text.to_ascii_lowercase()
        };
        for (fields, end) in [
            (
                "TE: trailers\r\nConnection: TE\r\n",
                "0\r\nx-sum: 7\r\n\r\n",
            ),
            ("TE: gzip;q=0.5, Trailers\r\n", "0\r\nx-sum: 7\r\n\r\n"),
            ("TE: gzip\r\n", "0\r\n\r\n"),
            ("", "0\r\n\r\n"),
        ] {
            let text = ask(fields);
            let end = format!("\r\n\r\n4\r\ntext\r\n{end}");
            assert!(text.ends_with(&end), "{protocol:?} {fields}: {text}");
        }
    }
}

/// A server of HTTP/2 whose responses say which trailers they end with.
async fn announcing() -> std::net::SocketAddr {
    http2_origin(|_, mut respond| {
        let response = Response::builder().header("trailer", "X-Sum");
        let response = response.body(()).unwrap();
        let mut sending = respond.send_response(response, false).unwrap();
        sending.send_data("text".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        sending.send_trailers(trailers).unwrap();
    })
    .await
}

/// A server of HTTP/2 whose responses do not say how long they are.
async fn without_length() -> std::net::SocketAddr {
    http2_origin(|_, mut respond| {
        let mut sending = respond.send_response(Response::new(()), false).unwrap();
        sending.send_data("te".into(), false).unwrap();
        sending.send_data("xt".into(), false).unwrap();
        sending.send_data(Bytes::new(), true).unwrap();
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_response_that_comes_whole_passes_in_one_piece() {
    let http1 = origin(|mut connection| {
        while connection.head().is_some() {
            connection.write(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nte\r\n2\r\nxt\r\n0\r\n\r\n",
            );
        }
    });
    let mut http2 = to(http1);
    http2.servers = vec![tcp(without_length().await, Protocol::Http2)];
    for options in [to(http1), http2] {
        let protocol = options.servers[0].protocol;
        let running = proxy(options);
        for version in VERSIONS {
            let mut client = Client::new(running.address, version).await;
            for _ in 0..3 {
                let response = client.ask(Request::get("/"), "").await;
                // A stream would have none.
                let length = response.headers().get("content-length");
                assert_eq!(length.unwrap(), "4", "{protocol:?} {version:?}");
                assert_eq!(response.body(), "text");
            }
        }
    }
}

#[test]
fn a_response_that_begins_before_its_request_has_ended_passes_and_its_connection_stays() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = origin(move |mut connection| {
        counted.fetch_add(1, Ordering::Relaxed);
        while connection.head().is_some() {
            let first = connection.read(5);
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
            connection.reader.get_mut().write_all(&first).unwrap();
            let second = connection.read(5);
            connection.reader.get_mut().write_all(&second).unwrap();
        }
    });
    let settings = Settings::default();
    let statistics = Arc::clone(&settings.statistics);
    let running = proxy_with(to(address), settings);
    for _ in 0..3 {
        // After an answer that came early a client's connection may end.
        let mut stream = TcpStream::connect(running.address).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        write!(
            stream,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"
        )
        .unwrap();
        let mut answer = Vec::new();
        let mut until = |stream: &mut TcpStream, end: &[u8]| {
            while !answer.ends_with(end) {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                answer.push(byte[0]);
            }
        };
        until(&mut stream, b"\r\n\r\nhello");
        write!(stream, "again").unwrap();
        until(&mut stream, b"\r\n\r\nhelloagain");
        // The task that has sent the rest is to end.
        let give_up = Instant::now() + TIME_LIMIT;
        while statistics.upstreams()[0].1.idle_connections == 0 {
            assert!(Instant::now() < give_up, "{:?}", statistics.upstreams());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_response_that_ends_with_its_head_is_cut_off_after_that() {
    let address = origin(|mut connection| {
        connection.head();
        connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    });
    let running = proxy(to(address));
    for version in VERSIONS {
        for _ in 0..20 {
            let mut client = Client::new(running.address, version).await;
            let response = client.send(Request::get("/"), "").await.unwrap();
            assert_eq!(response.status(), 200);
            assert!(response.into_body().collect().await.is_err());
        }
    }
}
