//! A server inside a program with a runtime of its own: where handlers run, when they end, what they
//! find in a request.

use crate::common::{H2, Running, alt_svc, get, get_over, h1, h2, h3::H3, read, soon, spread};
use altway_serve::select::{Model, Reason, model};
use altway_serve::{
    BoxError, EarlyHints, EarlyHintsError, Error, Options, PassedSocket, RequestBody, Site, serve,
};
use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri, Version, header};
use axum::routing::{get as on_get, post as on_post};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tower::ServiceExt;
use tower::util::BoxCloneService;

/// More than every window and buffer on the way.
const LARGE: usize = 6_000_001;

fn multi_threaded() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn options() -> Options {
    let mut options = Options::clear_text().with_address((Ipv4Addr::LOCALHOST, 0));
    options.threads = NonZeroUsize::MIN;
    options.spread = spread();
    options
}

/// GET over each protocol: status and body.
async fn get_everywhere(server: &Running, path: &str) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let first = soon(client.send_request(get(path))).await.unwrap();
    answers.push((first.status().as_u16(), soon(read(first)).await));
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let second = soon(client.send_request(get(path))).await.unwrap();
    answers.push((second.status().as_u16(), soon(read(second)).await));
    let (third, body) = H3::connect(server).get(path);
    answers.push((third.status().as_u16(), body));
    let text = |(status, body)| (status, String::from_utf8(body).unwrap());
    answers.into_iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_run_in_the_programs_runtime() {
    async fn place() -> String {
        let spawned = tokio::spawn(async {
            sleep(Duration::from_millis(1)).await;
            Handle::current().id()
        });
        assert_eq!(spawned.await.unwrap(), Handle::current().id());
        Handle::current().id().to_string()
    }
    for runtime in [multi_threaded(), current_thread()] {
        let id = runtime.handle().id().to_string();
        let app = Router::new().route("/", on_get(place));
        let server = Running::embedded(runtime, |options| serve(app, options));
        for answer in get_everywhere(&server, "/").await {
            assert_eq!(answer, (200, id.clone()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_are_polled_in_the_programs_runtime() {
    struct Place(bool);
    impl http_body::Body for Place {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let first = !std::mem::replace(&mut self.0, true);
            let place = || Handle::current().id().to_string();
            Poll::Ready(first.then(|| Ok(Frame::data(place().into()))))
        }
    }
    let runtime = multi_threaded();
    let id = runtime.handle().id().to_string();
    let app = Router::new().route("/", on_get(async || Body::new(Place(false))));
    let server = Running::embedded(runtime, |options| serve(app, options));
    for answer in get_everywhere(&server, "/").await {
        assert_eq!(answer, (200, id.clone()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_may_block_in_place() {
    let blocking = async || tokio::task::block_in_place(|| "done");
    let app = Router::new().route("/", on_get(blocking));
    let server = Running::embedded(multi_threaded(), |options| serve(app, options));
    for answer in get_everywhere(&server, "/").await {
        assert_eq!(answer, (200, "done".into()));
    }
}

async fn address(ConnectInfo(peer): ConnectInfo<SocketAddr>) -> String {
    assert_ne!(peer.port(), 0);
    peer.ip().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_info_is_the_clients_address() {
    let app = || Router::new().route("/", on_get(address));
    let with_info = move || app().into_make_service_with_connect_info::<SocketAddr>();
    let inside = Running::embedded(multi_threaded(), move |options| serve(with_info(), options));
    let alone = Running::tls(|options| options.site = Site::service(with_info()));
    for server in [inside, alone] {
        for answer in get_everywhere(&server, "/").await {
            assert_eq!(answer, (200, "127.0.0.1".into()));
        }
    }
    let plain = Running::embedded(multi_threaded(), move |options| {
        serve(app().into_make_service(), options)
    });
    for (status, _) in get_everywhere(&plain, "/").await {
        assert_eq!(status, 500, "as under axum::serve");
    }
}

/// A program's own type in place of axum's address.
#[derive(Clone)]
struct Visitor(SocketAddr);

impl Connected<SocketAddr> for Visitor {
    fn connect_info(peer: SocketAddr) -> Self {
        Self(peer)
    }
}

/// Offers HTTP/3 to nobody.
#[derive(Debug)]
struct Never;

impl Model for Never {
    fn judge(&self, _: &model::Context<'_>) -> model::Judgement {
        model::Judgement {
            http3: false,
            reason: Reason::Fixed,
            prediction: None,
            offer_mode: model::OfferMode::Forced,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gives_its_own_listener_model_and_type_of_clients() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let visitor = async |ConnectInfo(it): ConnectInfo<Visitor>| it.0.ip().to_string();
    let app = Router::new().route("/", on_get(visitor));
    let server = Running::embedded(multi_threaded(), move |options| {
        let mut options = options.with_address(address);
        options.passed = vec![PassedSocket::new(listener.into()).unwrap()];
        options.model = Some(Arc::new(Never));
        serve(
            app.into_make_service_with_connect_info::<Visitor>(),
            options,
        )
    });
    assert_eq!(server.address, address);
    for answer in get_everywhere(&server, "/").await {
        assert_eq!(answer, (200, "127.0.0.1".into()));
    }
    let mut client: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/"))).await.unwrap();
    assert!(alt_svc(&response).is_none_or(|it| !it.contains("h3")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_need_not_be_sync() {
    let service = || {
        let app = Router::new().route("/", on_get(async || "not Sync"));
        BoxCloneService::new(app.map_request(|request: Request<RequestBody>| request))
    };
    let inside = Running::embedded(multi_threaded(), move |options| serve(service(), options));
    let alone = Running::tls(|options| options.site = Site::service(service()));
    for server in [inside, alone] {
        for answer in get_everywhere(&server, "/").await {
            assert_eq!(answer, (200, "not Sync".into()));
        }
    }
}

/// A handler sees the same of a request over all protocols, but for the form of its target.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_names_its_host_and_its_version_over_every_protocol() {
    async fn seen(version: Version, uri: Uri, fields: HeaderMap) -> String {
        let host = fields[header::HOST].to_str().unwrap();
        assert_eq!(fields.get_all(header::HOST).iter().count(), 1);
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        assert_eq!(authority, host);
        assert!(uri.scheme_str().is_none_or(|scheme| scheme == "https"));
        format!("{version:?} {host}{}", uri.path_and_query().unwrap())
    }
    let app = Router::new().route("/a", on_get(seen));
    let server = Running::embedded(multi_threaded(), |options| serve(app, options));
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let request = Request::get("/a?b=c").header("host", "localhost");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let first = soon(client.send_request(request)).await.unwrap();
    let mut answers = vec![String::from_utf8(soon(read(first)).await).unwrap()];
    let mut client: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let request = Request::get("https://localhost/a?b=c");
    let request = request.body(Empty::new()).unwrap();
    let second = soon(client.send_request(request)).await.unwrap();
    answers.push(String::from_utf8(soon(read(second)).await).unwrap());
    answers.push(String::from_utf8(H3::connect(&server).get("/a?b=c").1).unwrap());
    let expected = ["HTTP/1.1", "HTTP/2.0", "HTTP/3.0"];
    assert_eq!(
        answers,
        expected.map(|version| format!("{version} localhost/a?b=c"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_comes_back_as_it_is_read() {
    let bytes: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
    let app = Router::new()
        .route("/echo", on_post(async |body: Body| body))
        .layer(DefaultBodyLimit::disable());
    let server = Running::embedded(multi_threaded(), |options| serve(app, options));
    let post = || {
        let request = Request::post("https://localhost/echo").header("host", "localhost");
        request.body(Full::new(Bytes::from(bytes.clone()))).unwrap()
    };
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let response = soon(client.send_request(post())).await.unwrap();
    assert!(soon(read(response)).await == bytes, "HTTP/1.1");
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(post())).await.unwrap();
    assert!(soon(read(response)).await == bytes, "HTTP/2");
    let mut client = H3::connect(&server);
    let stream = client.post("/echo", b"small".to_vec());
    assert_eq!(client.head(stream).0.status(), 200);
    assert_eq!(client.body(stream), b"small", "HTTP/3");
}

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A body that gives one frame and then waits for ever.
struct Silent(
    Option<Bytes>,
    #[expect(dead_code, reason = "for its drop")] Guard,
);

impl http_body::Body for Silent {
    type Data = Bytes;
    type Error = BoxError;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_and_a_body_whose_client_is_gone_are_dropped() {
    let (begin, mut began) = mpsc::unbounded_channel();
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let (stream_begin, stream_drops) = (begin.clone(), drops.clone());
    let forever = move || async move {
        let _guard = Guard(drops);
        begin.send(()).unwrap();
        std::future::pending::<&'static str>().await
    };
    let stream = move || async move {
        stream_begin.send(()).unwrap();
        Body::new(Silent(Some("first".into()), Guard(stream_drops)))
    };
    let app = Router::new()
        .route("/handler", on_get(forever))
        .route("/body", on_get(stream));
    for runtime in [multi_threaded(), current_thread()] {
        let app = app.clone();
        let server = Running::embedded(runtime, |options| serve(app, options));
        for path in ["/handler", "/body"] {
            // The connection is closed.
            let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
            let request = async move {
                client
                    .send_request(get(path))
                    .await
                    .unwrap()
                    .collect()
                    .await
            };
            let request = tokio::spawn(request);
            soon(began.recv()).await.unwrap();
            assert!(dropped.try_recv().is_err(), "HTTP/1.1 {path}");
            request.abort();
            soon(dropped.recv()).await.unwrap();
            // The request is taken back; its connection stays.
            let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
            let request = client.send_request(get(path));
            let request = tokio::spawn(async move { request.await.unwrap().collect().await });
            soon(began.recv()).await.unwrap();
            assert!(dropped.try_recv().is_err(), "HTTP/2 {path}");
            request.abort();
            soon(dropped.recv()).await.unwrap();
            let mut client = H3::connect(&server);
            let stream = client.send(path);
            client.wait_until(|| began.try_recv().is_ok());
            client.stop(stream);
            client.wait_until(|| dropped.try_recv().is_ok());
        }
    }
}

/// A body without end that counts what is taken of it.
struct Endless(Arc<AtomicUsize>, usize);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(self.1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(vec![0; self.1].into()))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_made_no_faster_than_its_client_takes_it() {
    for frame in [1000, 100_000] {
        let taken = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&taken);
        let endless = move || async move { Body::new(Endless(count, frame)) };
        let app = Router::new().route("/", on_get(endless));
        let server = Running::embedded(multi_threaded(), |options| serve(app, options));
        let mut client: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
        let mut response = soon(client.send_request(get("/"))).await.unwrap();
        // The client's window, the server's buffers, 64 KiB ahead and a frame in every hand.
        let mut before = 0;
        loop {
            sleep(Duration::from_millis(300)).await;
            let now = taken.load(Ordering::Relaxed);
            if now == before {
                break;
            }
            before = now;
            assert!(now < 4 << 20, "frames of {frame}: {now} bytes");
        }
        let mut received = 0;
        while received < 8 * before {
            let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
            received += frame.into_data().unwrap().len();
        }
        assert!(taken.load(Ordering::Relaxed) > before, "it goes on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_gives_500_and_harms_no_other_request() {
    let panics = async || -> &'static str { panic!("as it should") };
    let app = Router::new()
        .route("/", on_get(async || "well"))
        .route("/panic", on_get(panics));
    let server = Running::embedded(multi_threaded(), |options| serve(app, options));
    for (status, _) in get_everywhere(&server, "/panic").await {
        assert_eq!(status, 500);
    }
    for answer in get_everywhere(&server, "/").await {
        assert_eq!(answer, (200, "well".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_lets_running_requests_end() {
    let (begin, mut began) = mpsc::unbounded_channel();
    let slow = async |State(begin): State<mpsc::UnboundedSender<()>>| {
        begin.send(()).unwrap();
        sleep(Duration::from_millis(500)).await;
        "to its end"
    };
    let app = Router::new().route("/", on_get(slow)).with_state(begin);
    let server = Running::embedded(current_thread(), |options| serve(app, options));
    let mut client: H2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = tokio::spawn(client.send_request(get("/")));
    soon(began.recv()).await.unwrap();
    server.ask_to_stop();
    let response = soon(response).await.unwrap().unwrap();
    assert_eq!(soon(read(response)).await, b"to its end");
    drop(client);
    server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_future_is_dropped_stops() {
    let server = serve(Router::new(), options());
    let address = server.local_addr().unwrap();
    let running = tokio::spawn(server.into_future());
    soon(tokio::net::TcpStream::connect(address)).await.unwrap();
    running.abort();
    assert!(soon(running).await.unwrap_err().is_cancelled());
    let refused = async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(refused).await;
}

#[test]
fn a_server_outside_of_a_runtime_is_refused_with_a_sentence() {
    let mut running = Box::pin(serve(Router::new(), options()).into_future());
    let mut context = Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Err(error)) = running.as_mut().poll(&mut context) else {
        panic!("it runs");
    };
    assert!(matches!(error, Error::NoRuntime));
    let text = "no Tokio runtime is there: the server must be awaited inside of one";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_port_in_use_is_reported_when_the_server_is_awaited() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut options = options();
    options.port = other.local_addr().unwrap().port();
    let server = serve(Router::new(), options);
    let early = server.local_addr().unwrap_err();
    let error = soon(server.into_future()).await.unwrap_err();
    assert!(matches!(error, Error::PortInUse { .. }), "{error}");
    assert_eq!(early.to_string(), error.to_string());
    for error in [early, std::io::Error::from(error)] {
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }
}

/// The bytes sent before must not pass for the whole body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_runtime_shuts_down_is_cut_off() {
    let runtime = multi_threaded();
    let (drops, _dropped) = mpsc::unbounded_channel();
    let stream = move || async move { Body::new(Silent(Some("first".into()), Guard(drops))) };
    let app = Router::new().route("/", on_get(stream));
    let guard = runtime.enter();
    let server = serve(app, options());
    let address = server.local_addr().unwrap();
    drop(guard);
    runtime.spawn(server.into_future());
    let stream = || tokio::net::TcpStream::connect(address);
    let mut first = h1::<Empty<Bytes>>(stream().await.unwrap()).await;
    let first = soon(first.send_request(get_over(false, "/")))
        .await
        .unwrap();
    let mut second: H2 = h2(stream().await.unwrap()).await;
    let second = soon(second.send_request(get_over(false, "/")))
        .await
        .unwrap();
    runtime.shutdown_background();
    assert!(soon(first.collect()).await.is_err(), "HTTP/1.1");
    assert!(soon(second.collect()).await.is_err(), "HTTP/2");
}

/// Sends two hints, and tells what came of it.
async fn hinting(Extension(hints): Extension<EarlyHints>) -> String {
    let field = |link| HeaderMap::from_iter([(header::LINK, HeaderValue::from_static(link))]);
    let sent = hints.send(field("</a.css>; rel=preload"));
    sleep(Duration::from_millis(50)).await;
    let again = hints.send(field("</b.css>; rel=preload"));
    assert_eq!(sent, again);
    match sent {
        Ok(()) => "hinted".into(),
        Err(error) => {
            assert_eq!(error, EarlyHintsError::Unsupported);
            error.to_string()
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_hints_go_ahead_of_the_response() {
    let app = || Router::new().route("/", on_get(hinting));
    let inside = Running::embedded(multi_threaded(), move |options| serve(app(), options));
    let alone = Running::tls(|options| options.site = Site::service(app()));
    for server in [inside, alone] {
        for (answer, expected) in get_everywhere(&server, "/").await.into_iter().zip([
            "early hints are sent over HTTP/2 and HTTP/3 only",
            "hinted",
            "hinted",
        ]) {
            assert_eq!(answer, (200, expected.to_owned()));
        }
        let mut client = H3::connect(&server);
        let request = Request::get("https://localhost/")
            .body(Bytes::new())
            .unwrap();
        let (interim, head, body) = client.ask(request);
        let links: Vec<_> = interim
            .iter()
            .map(|head| head.headers()["link"].to_str().unwrap())
            .collect();
        assert_eq!(links, ["</a.css>; rel=preload", "</b.css>; rel=preload"]);
        assert!(interim.iter().all(|head| head.status() == 103));
        assert_eq!((head.status().as_u16(), &body[..]), (200, &b"hinted"[..]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_hints_of_http2_are_what_curl_sees() {
    let app = Router::new().route("/", on_get(hinting));
    let server = Running::embedded(multi_threaded(), |options| serve(app, options));
    let mut curl = Command::new("curl");
    curl.args(["-sik", "--http2", "-m", "20"]);
    curl.arg(format!("https://{}/", server.address));
    let output = tokio::task::block_in_place(|| curl.output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    let interim = text.find("HTTP/2 103").expect("an interim response");
    assert!(
        text[interim..].contains("link: </a.css>; rel=preload"),
        "{text}"
    );
    assert!(text.find("HTTP/2 200").unwrap() > interim, "{text}");
    assert!(text.ends_with("hinted"), "{text}");
}

/// Nothing of a service's response but its content and fields goes out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_ones_own_is_served_as_well() {
    let service = tower::service_fn(async |request: Request<RequestBody>| {
        let body = request.into_body().collect().await?.to_bytes();
        Ok::<_, BoxError>(Response::new(Full::new(body)))
    });
    let server = Running::embedded_clear(current_thread(), move |options| serve(service, options));
    let mut client = h1(server.connect().await).await;
    let request = Request::post("/").header("host", "localhost");
    let request = request.body(Full::new(Bytes::from_static(b"echo")));
    let response = soon(client.send_request(request.unwrap())).await.unwrap();
    assert_eq!(response.headers()["content-length"], "4");
    assert_eq!(soon(read(response)).await, b"echo");
}
