//! A proxy whose upstream speaks HTTP/3, which a configuration asks for by name.

use super::proxied::{counted, proxy, site};
use super::websockets::{example, silent};
use crate::common::websocket::{ALL, Over};
use crate::common::{Running, h2, h3::H3, read, soon};
use altway_serve::Site;
use axum::Router;
use axum::body::Body;
use axum::extract::Request as Asked;
use axum::response::Response as Answer;
use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// An upstream over HTTP/3: what it is sent comes back, with how it was asked for.
fn echo() -> Running {
    let answer = async |request: Asked| {
        let (parts, body) = request.into_parts();
        let asked = format!("{:?} {} {}", parts.version, parts.method, parts.uri);
        let mut answer = Answer::new(body);
        answer
            .headers_mut()
            .insert("x-asked", asked.parse().unwrap());
        let told = parts.headers.get("x-forwarded-for").unwrap();
        answer.headers_mut().insert("x-told", told.clone());
        answer
    };
    let app = Router::new()
        .route(
            "/slow",
            axum::routing::get(async || {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "slow"
            }),
        )
        .fallback(answer);
    Running::tls(|options| options.site = Site::service(app))
}

/// Time for a connection to a server: what a busy machine may need, and what a test waits where nobody is there.
const CONNECT: &str = "8s";

fn keys(origin: &Running, roots: &Path) -> String {
    format!(
        "proxy = \"h3://{}\"\nserver-name = \"localhost\"\nroots = \"{}\"\ntimeouts = {{ connect = \"{CONNECT}\" }}",
        origin.address,
        roots.display()
    )
}

fn behind(origin: &Running) -> Running {
    proxy(&keys(origin, &origin.site.authority()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_content_pass_in_both_directions() {
    let origin = echo();
    let server = behind(&origin);
    let large: Vec<u8> = (0..3_000_017).map(|i| (i % 251) as u8).collect();
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    for content in [Vec::new(), b"short".to_vec(), large.clone()] {
        let request = Request::post("https://localhost/a?b=c");
        let request = request.body(Full::from(content.clone())).unwrap();
        let response = soon(client.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        let fields = response.headers();
        assert_eq!(fields["x-asked"], "HTTP/3.0 POST https://localhost/a?b=c");
        assert_eq!(fields["x-told"], "127.0.0.1");
        assert_eq!(fields["via"], "3 altway");
        assert!(soon(read(response)).await == content);
    }
    let request = Request::post("https://localhost/").body(Bytes::from(large.clone()));
    let asking = || H3::connect(&server).ask(request.unwrap());
    let (_, head, body) = tokio::task::block_in_place(asking);
    assert_eq!(head.status(), 200);
    assert!(body == large);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_at_once_than_the_server_has_streams_are_all_answered() {
    let origin = echo();
    let server = behind(&origin);
    // 40 a connection, which are more than 100 on the one behind.
    let mut asked = FuturesUnordered::new();
    for _ in 0..8 {
        let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
        for _ in 0..40 {
            let request = Request::get("https://localhost/slow").body(Full::default());
            let sent = client.send_request(request.unwrap());
            let client = client.clone();
            asked.push(async move {
                let response = soon(sent).await.unwrap();
                let status = response.status();
                drop(client);
                (status, soon(read(response)).await)
            });
        }
    }
    let mut count = 0;
    while let Some((status, body)) = asked.next().await {
        assert_eq!((status.as_u16(), &body[..]), (200, &b"slow"[..]));
        count += 1;
    }
    assert_eq!(count, 320);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_without_end_keep_no_other_request_waiting() {
    const LONG: usize = 7;
    let (begin, mut began) = tokio::sync::mpsc::unbounded_channel();
    let app = Router::new().fallback(async move |request: Asked| {
        begin.send(request.into_body()).unwrap();
        std::future::pending::<Answer>().await
    });
    let origin = Running::tls(|options| {
        options.limits.max_concurrent_requests = 2;
        options.site = Site::service(app);
    });
    let (site, statistics) = counted(&keys(&origin, &origin.site.authority()));
    let server = Running::tls(|options| options.site = site);
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let mut asked = Vec::new();
    let mut ask = || {
        let request = Request::post("https://localhost/").body(Full::from("content"));
        asked.push(tokio::spawn(client.send_request(request.unwrap())));
    };
    // One after the other, then some at once.
    for _ in 0..LONG {
        ask();
        let content = soon(began.recv()).await.unwrap();
        let content = soon(content.collect()).await.unwrap();
        assert_eq!(content.to_bytes(), "content");
    }
    for _ in 0..LONG {
        ask();
    }
    for _ in 0..LONG {
        drop(soon(began.recv()).await.unwrap());
    }
    let (_, upstream) = statistics.upstreams().remove(0);
    let (least, most) = (2 * LONG as u64 / 2, 2 * LONG as u64);
    let open = upstream.open_connections;
    assert!((least..most).contains(&open), "{open} connections");
    assert_eq!((upstream.retries, upstream.failures.iter().sum()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trailers_and_events_pass_as_they_come() {
    let (tell, told) = tokio::sync::mpsc::channel::<Bytes>(1);
    let told = std::sync::Arc::new(std::sync::Mutex::new(Some(told)));
    let app = Router::new().fallback(async move || {
        let told = told.lock().unwrap().take().unwrap();
        let stream = futures_util::stream::unfold(Some(told), async |told| {
            let mut told = told?;
            Some(match told.recv().await {
                Some(data) => (Ok::<_, Infallible>(Frame::data(data)), Some(told)),
                None => {
                    let fields = HeaderMap::from_iter([(
                        http::HeaderName::from_static("x-sum"),
                        http::HeaderValue::from_static("7"),
                    )]);
                    (Ok(Frame::trailers(fields)), None)
                }
            })
        });
        Answer::new(Body::new(StreamBody::new(stream)))
    });
    let origin = Running::tls(|options| options.site = Site::service(app));
    let server = behind(&origin);
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let request = Request::get("https://localhost/").header("te", "trailers");
    let request = request.body(Full::default()).unwrap();
    let mut body = soon(client.send_request(request))
        .await
        .unwrap()
        .into_body();
    for event in ["one", "two", "three"] {
        tell.send(event.into()).await.unwrap();
        let frame = soon(body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    drop(tell);
    let trailers = loop {
        let frame = soon(body.frame()).await.unwrap().unwrap();
        if let Ok(trailers) = frame.into_trailers() {
            break trailers;
        }
    };
    assert_eq!(trailers["x-sum"], "7");
}

/// Tells when it is dropped.
struct Guard(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_ends_its_request_behind() {
    let (drops, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let (begin, mut began) = tokio::sync::mpsc::unbounded_channel();
    let app = Router::new().fallback(async move || {
        let guard = Guard(drops.clone());
        begin.send(()).unwrap();
        std::future::pending::<()>().await;
        drop(guard);
    });
    let origin = Running::tls(|options| options.site = Site::service(app));
    let server = behind(&origin);
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let request = Request::get("https://localhost/").body(Full::default());
    let asked = client.send_request(request.unwrap());
    tokio::select! {
        answer = asked => panic!("{answer:?}"),
        begun = soon(began.recv()) => begun.unwrap(),
    }
    assert!(dropped.try_recv().is_err(), "the client is there");
    drop(client);
    soon(dropped.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_stops_leaves_no_connection_behind() {
    let origin = echo();
    let open = || origin.monitor().metrics().protocols[2].open_connections;
    let server = behind(&origin);
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let request = Request::get("https://localhost/").body(Full::default());
    let response = soon(client.send_request(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(open(), 1);
    tokio::task::block_in_place(|| drop(server));
    // Sooner than a connection without a sign of life is given up.
    let gone = async {
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), gone).await;
    waited.expect("the server behind is told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_did_is_counted() {
    let origin = echo();
    let (site, statistics) = counted(&keys(&origin, &origin.site.authority()));
    let server = Running::tls(|options| options.site = site);
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    for path in ["/", "/slow", "/"] {
        let request = Request::get(format!("https://localhost{path}")).body(Full::default());
        let response = soon(client.send_request(request.unwrap())).await.unwrap();
        assert_eq!(response.status(), 200);
        soon(read(response)).await;
    }
    let (_, well) = statistics.upstreams().remove(0);
    assert_eq!(well.server, format!("h3://{}", origin.address));
    assert!(well.is_available);
    assert_eq!((well.requests, well.latency.count()), (3, 3));
    assert!(well.latency.sum >= Duration::from_millis(300));
    assert_eq!((well.open_connections, well.in_progress), (1, 0));
    drop(origin);
    let request = Request::post("https://localhost/").body(Full::default());
    let response = soon(client.send_request(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), 502);
    let (_, gone) = statistics.upstreams().remove(0);
    assert_eq!((gone.open_connections, gone.latency.count()), (0, 3));
    assert!(gone.failures.iter().sum::<u64>() >= 1, "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_trickles_is_cut_off_unless_nobody_knows_how_long_it_is() {
    // In twice the time that a server may be silent for, which is long enough for a busy machine.
    const SENT: usize = 60;
    let trickle = |length: Option<&'static str>| {
        let bytes = futures_util::stream::unfold(0, async |sent| {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let frame = Frame::data(Bytes::from_static(b"x"));
            (sent < SENT).then_some((Ok::<_, Infallible>(frame), sent + 1))
        });
        let mut answer = Answer::new(Body::new(StreamBody::new(bytes)));
        if let Some(length) = length {
            let length = length.parse().unwrap();
            answer.headers_mut().insert(CONTENT_LENGTH, length);
        }
        answer
    };
    let app = Router::new()
        .route(
            "/known",
            axum::routing::get(async move || trickle(Some("60"))),
        )
        .route("/events", axum::routing::get(async move || trickle(None)));
    let origin = Running::tls(|options| options.site = Site::service(app));
    let keys = keys(&origin, &origin.site.authority());
    let server = proxy(&keys.replace(CONNECT, &format!("{CONNECT}\", idle = \"1500ms")));
    for (path, is_whole) in [("/known", false), ("/events", true)] {
        let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
        let request = Request::get(format!("https://localhost{path}")).body(Full::default());
        let response = soon(client.send_request(request.unwrap())).await.unwrap();
        assert_eq!(response.status(), 200);
        let content = soon(response.into_body().collect()).await;
        assert_eq!(content.is_ok(), is_whole, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_is_connected_to_anew() {
    let origin = echo();
    let server = behind(&origin);
    let ask = async || {
        let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
        let request = Request::get("https://localhost/").body(Full::default());
        let response = soon(client.send_request(request.unwrap())).await;
        response.unwrap().status().as_u16()
    };
    assert_eq!(ask().await, 200);
    origin.ask_to_stop();
    let another = || Router::new().fallback(async || "another");
    let next = loop {
        // Its port is free once it has stopped.
        match origin.next(|options| options.site = Site::service(another())) {
            Ok(next) => break next,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    for _ in 0..5 {
        assert_eq!(ask().await, 200);
    }
    drop(next);
    assert_eq!(ask().await, 502);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_authority_s_server_is_answered_for_with_502() {
    let (origin, other) = (echo(), echo());
    let server = proxy(&keys(&origin, &other.site.authority()));
    let mut client = h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let request = Request::get("https://localhost/").body(Full::default());
    let response = soon(client.send_request(request.unwrap())).await.unwrap();
    assert_eq!(response.status(), 502);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_pass_from_every_protocol_and_over_a_reload() {
    let origin = Running::tls(|options| options.site = Site::service(example::app()));
    let server = behind(&origin);
    for over in ALL {
        let (mut socket, _gone) = soon(over.connect(&server, "/echo")).await;
        let large: Vec<u8> = (0..3_000_017).map(|i| (i % 251) as u8).collect();
        for message in [Message::text("hello"), Message::binary(large)] {
            soon(socket.send(message.clone())).await.unwrap();
            let answer = soon(socket.next()).await.unwrap().unwrap();
            assert!(answer == message, "{over:?}: {} bytes", answer.len());
            let again = site(&keys(&origin, &origin.site.authority()));
            server.replace_site(&again).unwrap();
        }
        soon(socket.close(None)).await.unwrap();
        let close = soon(socket.next()).await.unwrap().unwrap();
        assert_eq!(close, Message::Close(None), "{over:?}");
        assert!(soon(socket.next()).await.is_none(), "{over:?}");
        let opened = soon(over.open(&server, "/nothing", HeaderMap::new())).await;
        assert_eq!(opened.head.status(), 404, "{over:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_s_client_that_vanishes_is_gone_behind() {
    let (app, mut began, mut dropped) = silent();
    let origin = Running::tls(|options| options.site = Site::service(app));
    let server = behind(&origin);
    for over in [Over::Http2, Over::Http3] {
        let (socket, gone) = soon(over.connect(&server, "/")).await;
        soon(began.recv()).await.unwrap();
        assert!(dropped.try_recv().is_err(), "{over:?}");
        gone.vanish(socket);
        soon(dropped.recv()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_of_hundreds_of_fields_and_a_short_one_pass_whole() {
    const FIELDS: usize = 900;
    let app = Router::new().fallback(async |request: Asked| {
        let frame = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"short")));
        let content = StreamBody::new(futures_util::stream::iter([frame]));
        let mut answer = Answer::new(Body::new(content));
        if request.uri().path() == "/many" {
            for n in 0..FIELDS {
                let name = http::HeaderName::try_from(format!("x-{n}")).unwrap();
                answer.headers_mut().insert(name, n.into());
            }
        }
        answer
    });
    let origin = Running::tls(|options| options.site = Site::service(app));
    let server = behind(&origin);
    for (path, fields) in [("/", 0), ("/many", FIELDS)] {
        let io = TokioIo::new(server.connect_tls(&[b"http/1.1"]).await);
        let mut builder = hyper::client::conn::http1::Builder::new();
        let begun = builder.max_headers(1_000).handshake(io).await;
        let (mut client, connection) = begun.unwrap();
        tokio::spawn(connection);
        let request = Request::get(path).header("host", "localhost");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = soon(client.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let passed = (0..FIELDS).filter(|n| response.headers().contains_key(format!("x-{n}")));
        assert_eq!(passed.count(), fields);
        // The server has not said it: its content has passed in one piece.
        assert_eq!(response.headers()[CONTENT_LENGTH], "5", "{path}");
        assert_eq!(soon(read(response)).await, b"short");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_not_answered_keep_no_others_waiting() {
    /// Requests that a server takes at a time over a connection.
    const STREAMS: usize = 100;
    let (begin, mut began) = tokio::sync::mpsc::unbounded_channel();
    let app = Router::new().fallback(async move || {
        begin.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let origin = Running::tls(|options| options.site = Site::service(app));
    let server = Running::tls(|options| {
        options.site = site(&keys(&origin, &origin.site.authority()));
        options.threads = std::num::NonZeroUsize::MIN;
    });
    let connect = async || h2::<Full<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    let ask = |client: &mut hyper::client::conn::http2::SendRequest<_>| {
        let request = Request::get("https://localhost/").body(Full::default());
        tokio::spawn(client.send_request(request.unwrap()))
    };
    let mut clients = [connect().await, connect().await];
    let mut waiting: Vec<_> = (0..STREAMS).map(|n| ask(&mut clients[n % 2])).collect();
    for _ in 0..STREAMS {
        soon(began.recv()).await.unwrap();
    }
    // One that comes as the last stream is taken waits for one. Those after it do not.
    let mut others = Vec::new();
    let asking = async {
        while began.try_recv().is_err() {
            let mut client = connect().await;
            waiting.push(ask(&mut client));
            others.push(client);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    soon(asking).await;
}
