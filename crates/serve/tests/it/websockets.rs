//! WebSockets over HTTP/1.1, HTTP/2 and HTTP/3: what is sent comes back, whoever goes is noticed, and what is
//! refused is answered.

#[path = "../../examples/websockets.rs"]
#[expect(dead_code, reason = "its `main` runs elsewhere")]
pub(crate) mod example;

use crate::common::access_log::Lines;
use crate::common::websocket::{ALL, Over, open_http3};
use crate::common::{Running, TIME_LIMIT, soon};
use altway_serve::ws::{WebSocket, WebSocketUpgrade};
use altway_serve::{AccessLog, Site, Upgrade, serve};
use axum::Router;
use axum::routing::any;
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use http::header::{HeaderName, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// The example in a runtime of its own.
fn embedded() -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    Running::embedded(runtime.unwrap(), |options| serve(example::app(), options))
}

/// An application on one worker.
fn on_worker(app: Router, change: impl FnOnce(&mut altway_serve::Options)) -> Running {
    Running::tls(|options| {
        options.site = Site::service(app);
        options.threads = NonZeroUsize::MIN;
        change(options);
    })
}

fn field(name: HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, http::HeaderValue::from_static(value))])
}

async fn echoes(server: &Running) {
    for over in ALL {
        let (mut socket, _gone) = over.connect(server, "/echo").await;
        let large: Vec<u8> = (0..5_000_003).map(|i| (i % 251) as u8).collect();
        for message in [
            Message::text("hello"),
            Message::binary(vec![0, 255, 7]),
            Message::text(""),
            Message::binary(large),
        ] {
            soon(socket.send(message.clone())).await.unwrap();
            let answer = soon(socket.next()).await.unwrap().unwrap();
            assert!(answer == message, "{over:?}: {} bytes", answer.len());
        }
        soon(socket.send(Message::Ping("p".into()))).await.unwrap();
        let pong = soon(socket.next()).await.unwrap().unwrap();
        assert_eq!(pong, Message::Pong("p".into()), "{over:?}");
        soon(socket.close(None)).await.unwrap();
        let close = soon(socket.next()).await.unwrap().unwrap();
        assert_eq!(close, Message::Close(None), "{over:?}");
        assert!(soon(socket.next()).await.is_none(), "{over:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_back_from_a_program_s_own_runtime() {
    echoes(&embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_back_from_a_worker() {
    echoes(&on_worker(example::app(), |_| {})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subprotocol_is_selected() {
    let server = embedded();
    for over in ALL {
        let fields = field(SEC_WEBSOCKET_PROTOCOL, "chat, echo");
        let opened = soon(over.open(&server, "/echo", fields)).await;
        assert_eq!(opened.head.status(), over.success());
        assert_eq!(opened.head.headers()[SEC_WEBSOCKET_PROTOCOL], "echo");
    }
}

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// `/` neither reads nor writes once it has told that it has begun; it tells when it is dropped.
pub(crate) fn silent() -> (
    Router,
    mpsc::UnboundedReceiver<()>,
    mpsc::UnboundedReceiver<()>,
) {
    let (begin, began) = mpsc::unbounded_channel();
    let (drops, dropped) = mpsc::unbounded_channel();
    let handler = async move |upgrade: WebSocketUpgrade| {
        let (begin, drops) = (begin.clone(), drops.clone());
        upgrade.on_upgrade(async move |_socket: WebSocket| {
            let _guard = Guard(drops);
            begin.send(()).unwrap();
            std::future::pending::<()>().await;
        })
    };
    (Router::new().route("/", any(handler)), began, dropped)
}

/// `/` receives until nothing more comes, and then does what takes a moment, as handlers of axum do that keep a list of who is
/// there: it tells when that is done.
fn tidying() -> (Router, mpsc::UnboundedReceiver<()>) {
    let (tidy, tidied) = mpsc::unbounded_channel();
    let handler = async move |upgrade: WebSocketUpgrade| {
        let tidy = tidy.clone();
        upgrade.on_upgrade(async move |mut socket: WebSocket| {
            while let Some(Ok(_)) = socket.recv().await {}
            tokio::time::sleep(Duration::from_millis(200)).await;
            tidy.send(()).unwrap();
        })
    };
    (Router::new().route("/", any(handler)), tidied)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_does_after_its_loop_is_done_when_its_client_is_gone() {
    let (app, mut tidied) = tidying();
    let server = on_worker(app, |_| {});
    for over in ALL {
        for says_goodbye in [true, false] {
            let (mut socket, gone) = over.connect(&server, "/").await;
            if says_goodbye {
                soon(socket.close(None)).await.unwrap();
                soon(socket.next()).await.unwrap().unwrap();
            }
            gone.vanish(socket);
            soon(tidied.recv()).await.unwrap();
        }
    }
    let (app, mut tidied) = tidying();
    let server = Running::clear(|options| options.site = Site::service(app));
    let mut client = server.connect().await;
    client.write_all(HANDSHAKE).await.unwrap();
    head(&mut client).await;
    client.set_zero_linger().unwrap();
    drop(client);
    soon(tidied.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_waits_for_something_else_than_its_client_is_dropped_soon_after_that_vanishes()
 {
    for over in [Over::Http2, Over::Http3] {
        let (app, mut began, mut dropped) = silent();
        let server = on_worker(app, |_| {});
        let (socket, gone) = over.connect(&server, "/").await;
        soon(began.recv()).await.unwrap();
        assert!(dropped.try_recv().is_err(), "{over:?}");
        gone.vanish(socket);
        soon(dropped.recv()).await.unwrap();
    }
}

/// Connections of the server at this port whose clients the kernel asks whether they are there: those with a keepalive timer.
fn asked_from(server: &Running) -> usize {
    let port = format!(":{:04X}", server.address.port());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_asked = |line: &&str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns[1].ends_with(&port) && columns[5].starts_with("02:")
    };
    sockets.lines().filter(is_asked).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_tcp_that_has_a_tunnel_is_asked_whether_it_is_there_and_no_other() {
    for over in [Over::Http1, Over::Http2] {
        let (app, mut began, _dropped) = silent();
        let server = on_worker(app, |_| {});
        let _idle = server.connect_tls(&[b"h2"]).await;
        assert_eq!(asked_from(&server), 0, "{over:?}");
        let (_socket, _gone) = over.connect(&server, "/").await;
        soon(began.recv()).await.unwrap();
        let asked = async {
            while asked_from(&server) != 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon(asked).await;
    }
}

const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Reads a head up to its end.
async fn head(stream: &mut tokio::net::TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(stream.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_waits_for_something_else_is_dropped_soon_after_its_client_of_http1_resets_the_connection()
 {
    let (app, mut began, mut dropped) = silent();
    let server = Running::clear(|options| options.site = Site::service(app));
    let mut client = server.connect().await;
    client.write_all(HANDSHAKE).await.unwrap();
    let head = head(&mut client).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"));
    soon(began.recv()).await.unwrap();
    client.set_zero_linger().unwrap();
    drop(client);
    soon(dropped.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_learns_of_a_reset_of_http1_also_while_nothing_is_read_of_the_client() {
    const NEVER: Duration = Duration::from_secs(24 * 60 * 60);
    const GONE: usize = usize::MAX;
    let (report, mut reports) = mpsc::unbounded_channel();
    let handler = async move |axum::Extension(upgrade): axum::Extension<Upgrade>| {
        let (response, on_upgrade) = upgrade.accept::<axum::body::Body>().unwrap();
        let report = report.clone();
        tokio::spawn(async move {
            let mut tunnel = on_upgrade.await.unwrap();
            let first = tunnel.read(&mut [0]).await.unwrap();
            report.send(first).unwrap();
            tunnel.gone().await;
            report.send(GONE).unwrap();
        });
        response
    };
    let app = Router::new().route("/", any(handler));
    let server = Running::clear(|options| {
        options.site = Site::service(app);
        options.limits.idle_timeout = NEVER;
    });
    // The client has closed its half, or sends more than waits for a service.
    for content in [&[][..], &[7; 96 << 10]] {
        let mut client = server.connect().await;
        client.write_all(HANDSHAKE).await.unwrap();
        assert!(head(&mut client).await.starts_with("http/1.1 101 "));
        match content {
            [] => client.shutdown().await.unwrap(),
            bytes => client.write_all(bytes).await.unwrap(),
        }
        let first = soon(reports.recv()).await.unwrap();
        assert_eq!(first, content.len().min(1));
        client.set_zero_linger().unwrap();
        drop(client);
        assert_eq!(soon(reports.recv()).await.unwrap(), GONE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_come_with_the_request_are_not_lost() {
    let server = Running::clear(|options| options.site = Site::service(example::app()));
    let mut client = server.connect().await;
    let request = String::from_utf8(HANDSHAKE.to_vec()).unwrap();
    let request = request.replace("GET / ", "GET /echo ");
    // "hi" in a masked frame of text, with a mask of zeros.
    let frame = b"\x81\x82\0\0\0\0hi";
    client
        .write_all(&[request.as_bytes(), frame].concat())
        .await
        .unwrap();
    assert!(head(&mut client).await.starts_with("http/1.1 101 "));
    let mut echo = [0; 4];
    soon(client.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"\x81\x02hi");
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    soon(client.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_holds_back_whoever_writes_faster_than_its_client_reads() {
    let (wrote, mut written) = mpsc::unbounded_channel();
    let handler = async move |axum::Extension(upgrade): axum::Extension<Upgrade>| {
        let (response, on_upgrade) = upgrade.accept::<axum::body::Body>().unwrap();
        let wrote = wrote.clone();
        tokio::spawn(async move {
            let mut tunnel = on_upgrade.await.unwrap();
            let piece = vec![7; 1 << 20];
            for _ in 0..64 {
                tunnel.write_all(&piece).await.unwrap();
                wrote.send(piece.len()).unwrap();
            }
            tunnel.shutdown().await.unwrap();
        });
        response
    };
    let server = on_worker(Router::new().route("/", any(handler)), |_| {});
    for over in ALL {
        let mut opened = soon(over.open(&server, "/", HeaderMap::new())).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut ahead = 0;
        while let Ok(bytes) = written.try_recv() {
            ahead += bytes;
        }
        // Of 64 MiB no more than what buffers and windows between the two take.
        assert!(ahead < 32 << 20, "{over:?}: {ahead} bytes ahead");
        let mut read = vec![0; 64 << 20];
        soon(opened.stream.read_exact(&mut read)).await.unwrap();
        assert!(read.iter().all(|byte| *byte == 7), "{over:?}");
        assert_eq!(soon(opened.stream.read(&mut read)).await.unwrap(), 0);
        while ahead < 64 << 20 {
            ahead += soon(written.recv()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_does_not_read_holds_its_client_back() {
    let (app, mut began, _dropped) = silent();
    let server = on_worker(app, |_| {});
    for over in ALL {
        let (mut socket, _gone) = over.connect(&server, "/").await;
        soon(began.recv()).await.unwrap();
        let piece = Message::binary(vec![7; 1 << 20]);
        let mut sent = 0;
        let send = async {
            while sent < 64 {
                socket.send(piece.clone()).await.unwrap();
                sent += 1;
            }
        };
        let all = tokio::time::timeout(Duration::from_secs(2), send).await;
        assert!(all.is_err() && sent < 24, "{over:?}: {sent} MiB were taken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_upgrade_is_answered_and_nothing_hangs() {
    let app = example::app().route("/none", any(async || (http::StatusCode::IM_A_TEAPOT, "no")));
    let server = on_worker(app, |_| {});
    for over in ALL {
        let status = async |path: &str, fields: HeaderMap| {
            let mut opened = soon(over.open(&server, path, fields)).await;
            let mut rest = Vec::new();
            soon(opened.stream.read_to_end(&mut rest)).await.unwrap();
            opened.head.status().as_u16()
        };
        assert_eq!(status("/none", HeaderMap::new()).await, 418, "{over:?}");
        assert_eq!(status("/nowhere", HeaderMap::new()).await, 404, "{over:?}");
        let old = field(SEC_WEBSOCKET_VERSION, "8");
        assert_eq!(status("/echo", old).await, 400, "{over:?}");
        // The route takes GET alone: over HTTP/1.1 that is the method.
        let at_root = status("/", HeaderMap::new()).await;
        assert_eq!(at_root, if over == Over::Http1 { 200 } else { 405 });
    }
    let other = open_http3(&server, "/echo", HeaderMap::new(), "connect-udp");
    assert_eq!(soon(other).await.head.status(), 501);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_has_one_line_in_the_log_when_it_ends() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = on_worker(example::app(), |options| options.access_log = Some(log));
    for (over, name) in ALL.into_iter().zip(["h1", "h2", "h3"]) {
        let (mut socket, _gone) = over.connect(&server, "/echo").await;
        soon(socket.send(Message::text("hello"))).await.unwrap();
        soon(socket.next()).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let of = |path: &str| {
            let text = lines.text();
            let lines = text.lines().filter(|line| line.contains(path));
            let lines = lines.filter(|line| line.contains(&format!("protocol={name} ")));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(of("/echo").is_empty(), "{over:?}: it has not ended");
        soon(socket.close(None)).await.unwrap();
        while soon(socket.next()).await.is_some() {}
        drop(socket);
        let until = Instant::now() + TIME_LIMIT;
        while of("/echo").is_empty() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let status = over.success().as_u16();
        // Seven bytes of "hello" in a frame, and a close frame of two.
        let expected = format!("path=\"/echo\" status={status} bytes=9");
        let found = of("/echo");
        assert!(
            found.len() == 1 && found[0].contains(&expected) && !found[0].contains(" cut="),
            "{found:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_tunnel_ends_after_the_idle_time_out() {
    let (app, mut began, mut dropped) = silent();
    let server = on_worker(app, |options| {
        options.limits.idle_timeout = Duration::from_millis(1500);
    });
    for over in ALL {
        let since = Instant::now();
        let (mut socket, _gone) = over.connect(&server, "/").await;
        soon(began.recv()).await.unwrap();
        soon(dropped.recv()).await.unwrap();
        let took = since.elapsed();
        assert!(took > Duration::from_secs(1), "{over:?}: {took:?}");
        // Whatever the end is called, the client is told.
        let end = soon(socket.next()).await;
        assert!(!matches!(end, Some(Ok(_))), "{over:?}: {end:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_gives_tunnels_the_grace_and_then_cuts_them_off() {
    let (app, mut began, mut dropped) = silent();
    let grace = Duration::from_millis(1500);
    let server = on_worker(app, |options| options.shutdown_grace = grace);
    let mut sockets = Vec::new();
    for over in ALL {
        sockets.push(over.connect(&server, "/").await);
        soon(began.recv()).await.unwrap();
    }
    let since = Instant::now();
    server.ask_to_stop();
    for _ in ALL {
        soon(dropped.recv()).await.unwrap();
        let took = since.elapsed();
        assert!(took > grace * 3 / 4, "they have the grace: {took:?}");
    }
    tokio::task::spawn_blocking(|| server.join())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tunnel_counts_as_a_request_of_its_client() {
    for over in ALL {
        let server = on_worker(example::app(), |options| {
            options.limits.max_requests_per_client = Some(1);
        });
        // Over HTTP/2 the client asks for something else first.
        let (socket, gone) = over.connect(&server, "/echo").await;
        for other in [Over::Http1, Over::Http3] {
            let refused = soon(other.open(&server, "/echo", HeaderMap::new())).await;
            assert_eq!(refused.head.status(), 503, "{other:?} beside {over:?}");
        }
        gone.vanish(socket);
        let free = async {
            while Over::Http1
                .open(&server, "/echo", HeaderMap::new())
                .await
                .head
                .status()
                == 503
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        soon(free).await;
    }
}
