//! A server of an embedder's services: an axum router over all three protocols, and services that
//! wait, stream, fail, panic or lose their client.

use crate::common::{Content, H1, Running, get, h1, h2, h3::H3, read, soon};
use altway_http2 as http2;
use altway_serve::{BoxError, Files, FilesOptions, Options, Peer, RequestBody, Site};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, Path};
use axum::routing::{get as on_get, post as on_post};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use hyper::client::conn;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tower_service::Service;

/// More than every window and buffer on the way.
const LARGE: usize = 6_000_001;

fn site(router: Router) -> impl FnOnce(&mut Options) {
    |options| options.site = Site::service(router)
}

fn bytes() -> Vec<u8> {
    (0..LARGE).map(|i| (i % 251) as u8).collect()
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(format!("https://localhost{path}")).header("host", "localhost");
    request.body(Full::new(body.into())).unwrap()
}

async fn over_h1<B: Content>(server: &Running) -> H1<B> {
    h1(server.connect_tls(&[b"http/1.1"]).await).await
}

async fn over_h2<B: Content + Unpin>(server: &Running) -> conn::http2::SendRequest<B> {
    h2(server.connect_tls(&[b"h2"]).await).await
}

/// GET over each protocol: status and body.
async fn get_everywhere(server: &Running, path: &str) -> Vec<(u16, Vec<u8>)> {
    let first = soon(over_h1(server).await.send_request(get(path))).await;
    let second = soon(over_h2(server).await.send_request(get(path))).await;
    let mut answers = Vec::new();
    for response in [first.unwrap(), second.unwrap()] {
        answers.push((response.status().as_u16(), soon(read(response)).await));
    }
    let (response, body) = H3::connect(server).get(path);
    answers.push((response.status().as_u16(), body));
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_axum_router_answers_over_all_three_protocols() {
    async fn hello(Path(name): Path<String>, Extension(peer): Extension<Peer>) -> String {
        format!("hello {name} of {}", peer.address.ip())
    }
    let server = Running::tls(site(Router::new().route("/hello/{name}", on_get(hello))));
    for (status, body) in get_everywhere(&server, "/hello/you").await {
        assert_eq!((status, body), (200, b"hello you of 127.0.0.1".to_vec()));
    }
    for (status, body) in get_everywhere(&server, "/none").await {
        assert_eq!((status, body), (404, Vec::new()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_without_a_known_reason_passes_over_every_protocol_and_has_an_empty_one() {
    let answer = async |Path(status): Path<u16>| StatusCode::from_u16(status).unwrap();
    let server = Running::tls(site(Router::new().route("/{status}", on_get(answer))));
    for status in [299, 477, 600, 999] {
        let path = format!("/{status}");
        for (answered, body) in get_everywhere(&server, &path).await {
            assert_eq!((answered, body), (status, Vec::new()));
        }
        let mut over_h1 = server.connect_tls(&[b"http/1.1"]).await;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        over_h1.write_all(request.as_bytes()).await.unwrap();
        over_h1.flush().await.unwrap();
        let mut received = Vec::new();
        soon(over_h1.read_to_end(&mut received)).await.unwrap();
        // RFC 9112 section 4: the space is there all the same.
        let line = format!("HTTP/1.1 {status} \r\n");
        let text = String::from_utf8_lossy(&received);
        assert!(text.starts_with(&line), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stand_beside_other_routes() {
    let server = Running::tls(|options| {
        let dir = std::env::current_dir().unwrap();
        let files = Files::open(dir.join("src")).unwrap();
        let router = Router::new().route("/now", on_get(async || "now"));
        options.site = Site::service(router.fallback_service(files));
    });
    for (status, body) in get_everywhere(&server, "/now").await {
        assert_eq!((status, body), (200, b"now".to_vec()));
    }
    for (status, body) in get_everywhere(&server, "/lib.rs").await {
        assert_eq!(
            (status, body),
            (200, include_bytes!("../../src/lib.rs").to_vec())
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_of_files_hold_below_a_path_that_a_router_cuts_off() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["guide/first steps/index.html", "guide/a:b.html"] {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, path).unwrap();
    }
    let mut options = FilesOptions::default();
    options.clean_urls = true;
    let files = Files::open_with(folder.path(), options).unwrap();
    let server = Running::tls(site(Router::new().nest_service("/static", files)));
    let steps = "/static/guide/first%20steps/";
    for (path, location, led, content) in [
        (
            "guide/first%20steps?a=b",
            "./first%20steps/?a=b",
            steps,
            "guide/first steps/index.html",
        ),
        (
            "guide/first%20steps/index.html",
            "./",
            steps,
            "guide/first steps/index.html",
        ),
        (
            "guide/a:b.html",
            "./a%3Ab",
            "/static/guide/a%3Ab",
            "guide/a:b.html",
        ),
    ] {
        let asked = get(&format!("/static/{path}"));
        let response = soon(over_h2(&server).await.send_request(asked)).await;
        let response = response.unwrap();
        assert_eq!(response.status(), 308, "{path}");
        assert_eq!(response.headers()["location"], location);
        for answer in get_everywhere(&server, led).await {
            assert_eq!(answer, (200, content.as_bytes().to_vec()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_comes_back_as_it_is_read() {
    async fn echo(body: Body) -> Body {
        body
    }
    let router = Router::new().route("/echo", on_post(echo));
    let server = Running::tls(site(router.layer(DefaultBodyLimit::disable())));

    let sent = post("/echo", bytes());
    let response = soon(over_h1(&server).await.send_request(sent))
        .await
        .unwrap();
    assert!(soon(read(response)).await == bytes(), "HTTP/1.1");

    let sent = post("/echo", bytes());
    let response = soon(over_h2(&server).await.send_request(sent))
        .await
        .unwrap();
    assert!(soon(read(response)).await == bytes(), "HTTP/2");

    let mut client = H3::connect(&server);
    let stream = client.post("/echo", b"small".to_vec());
    assert_eq!(client.head(stream).0.status(), 200);
    assert_eq!(client.body(stream), b"small", "HTTP/3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_is_counted_to_its_last_byte() {
    async fn count(body: Bytes) -> String {
        assert!(body == bytes());
        body.len().to_string()
    }
    let router = Router::new().route("/count", on_post(count));
    let server = Running::tls(site(router.layer(DefaultBodyLimit::disable())));
    let expected = LARGE.to_string().into_bytes();
    let sent = post("/count", bytes());
    let response = soon(over_h2(&server).await.send_request(sent))
        .await
        .unwrap();
    assert_eq!(soon(read(response)).await, expected, "HTTP/2");
    let mut client = H3::connect(&server);
    let stream = client.post("/count", bytes());
    assert_eq!(client.head(stream).0.status(), 200);
    assert_eq!(client.body(stream), expected, "HTTP/3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_nobody_reads_is_held_up_and_then_refused() {
    for keep in [false, true] {
        let (release, hold) = mpsc::channel::<()>(1);
        let hold = Arc::new(tokio::sync::Mutex::new(hold));
        let ignore = move |request: Request<Body>| async move {
            let _request = keep.then_some(request);
            hold.lock().await.recv().await;
            "done"
        };
        let server = Running::tls(site(Router::new().route("/", on_post(ignore))));
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        let request = Request::post("https://localhost/").body(body).unwrap();
        let mut client = over_h2(&server).await;
        let response = tokio::spawn(client.send_request(request));
        let chunk = Bytes::from(vec![0; 16 << 10]);
        let mut sent = 0;
        loop {
            let send = sender.send_data(chunk.clone());
            match tokio::time::timeout(Duration::from_millis(500), send).await {
                Ok(taken) => taken.unwrap(),
                Err(_held_up) => break,
            }
            sent += chunk.len();
            assert!(sent < 2 << 20, "no end of it");
        }
        release.send(()).await.unwrap();
        let response = soon(response).await.unwrap().unwrap();
        assert_eq!(soon(read(response)).await, b"done", "{keep}");
        // What is left of the request is refused.
        let refused = async { while sender.send_data(chunk.clone()).await.is_ok() {} };
        soon(refused).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_waits_holds_up_nobody_else() {
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let hold = Arc::clone(&release);
    let slow = async move || {
        hold.acquire().await.unwrap().forget();
        "slow"
    };
    let routes = Router::new().route("/slow", on_get(slow));
    let server = Running::tls(site(routes.route("/fast", on_get(async || "fast"))));
    let mut client = over_h2(&server).await;
    let slow = tokio::spawn(client.send_request(get("/slow")));
    let fast = soon(client.send_request(get("/fast"))).await.unwrap();
    assert_eq!(soon(read(fast)).await, b"fast");
    assert!(!slow.is_finished());
    release.add_permits(1);
    let slow = soon(slow).await.unwrap().unwrap();
    assert_eq!(soon(read(slow)).await, b"slow");

    let mut client = H3::connect(&server);
    let (slow, fast) = (client.send("/slow"), client.send("/fast"));
    client.head(fast);
    assert_eq!(client.body(fast), b"fast");
    release.add_permits(1);
    client.head(slow);
    assert_eq!(client.body(slow), b"slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_wait_for_a_service_longer_than_it_may_idle() {
    async fn slow() -> &'static str {
        sleep(Duration::from_millis(2_500)).await;
        "at last"
    }
    let server = Running::tls(|options| {
        options.site = Site::service(Router::new().route("/", on_get(slow)));
        // A client at full load may be silent for a while before it asks.
        options.limits.idle_timeout = Duration::from_millis(1_500);
    });
    for (status, body) in get_everywhere(&server, "/").await {
        assert_eq!((status, body), (200, b"at last".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_panics_or_fails_gives_500_and_harms_no_other_request() {
    #[derive(Clone)]
    struct Faulty;
    impl Service<Request<RequestBody>> for Faulty {
        type Response = Response<Full<Bytes>>;
        type Error = BoxError;
        type Future = std::future::Ready<Result<Self::Response, BoxError>>;
        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), BoxError>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
            std::future::ready(match request.uri().path() {
                "/panic" => panic!("as it should"),
                "/fail" => Err("as it should".into()),
                "/interim" => Ok(Response::builder()
                    .status(103)
                    .body(Full::default())
                    .unwrap()),
                _ => Ok(Response::new(Full::new(Bytes::from_static(b"well")))),
            })
        }
    }
    let server = Running::tls(|options| options.site = Site::service(Faulty));
    for path in ["/panic", "/fail", "/interim"] {
        for (status, body) in get_everywhere(&server, path).await {
            assert_eq!(status, 500, "{path}");
            assert!(String::from_utf8(body).unwrap().contains("500"), "{path}");
        }
    }
    let mut client = over_h2(&server).await;
    let waiting = tokio::spawn(client.send_request(get("/panic")));
    let well = soon(client.send_request(get("/"))).await.unwrap();
    assert_eq!(soon(read(well)).await, b"well");
    assert_eq!(soon(waiting).await.unwrap().unwrap().status(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_streams_as_it_is_made_and_ends_with_trailers() {
    let made = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&made);
    let stream = move || async move {
        let (sender, body) = Channel::<Bytes, Infallible>::new(1);
        keep.lock().unwrap().push(sender);
        Body::new(body)
    };
    let server = Running::tls(site(Router::new().route("/", on_get(stream))));
    let mut client = over_h2(&server).await;
    let mut response = soon(client.send_request(get("/"))).await.unwrap();
    let mut sender = made.lock().unwrap().pop().unwrap();
    for word in ["one", "two"] {
        sender.send_data(word.into()).await.unwrap();
        let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), word);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "2".parse().unwrap());
    sender.send_trailers(trailers.clone()).await.unwrap();
    drop(sender);
    let frame = soon(response.body_mut().frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_trailers().unwrap(), trailers);

    let mut client = H3::connect(&server);
    let stream = client.send("/");
    client.head(stream);
    let mut sender = made.lock().unwrap().pop().unwrap();
    sender.send_data("all".into()).await.unwrap();
    drop(sender);
    assert_eq!(client.body(stream), b"all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_fails_cuts_the_response_off() {
    let half = || async {
        let (mut sender, body) = Channel::<Bytes, BoxError>::new(2);
        sender.send_data("half".into()).await.unwrap();
        sender.abort("the disk is gone".into());
        Body::new(body)
    };
    let server = Running::tls(site(Router::new().route("/", on_get(half))));
    let mut client = over_h1(&server).await;
    let whole = async {
        client
            .send_request(get("/"))
            .await?
            .into_body()
            .collect()
            .await
    };
    assert!(soon(whole).await.is_err(), "HTTP/1.1");
    let response = soon(over_h2(&server).await.send_request(get("/")))
        .await
        .unwrap();
    assert!(
        soon(response.into_body().collect()).await.is_err(),
        "HTTP/2"
    );
    let mut client = H3::connect(&server);
    let stream = client.send("/");
    client.cut_off(stream);
}

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_client_is_gone_is_dropped() {
    let (dropped, mut gone) = mpsc::unbounded_channel();
    let (begin, mut began) = mpsc::unbounded_channel();
    let forever = move || async move {
        let _guard = Guard(dropped);
        begin.send(()).unwrap();
        std::future::pending::<&'static str>().await
    };
    let server = Running::tls(site(Router::new().route("/", on_get(forever))));
    // Its connection stays; the request is taken back.
    let mut client = over_h2(&server).await;
    let mut request = Box::pin(client.send_request(get("/")));
    tokio::select! {
        answer = &mut request => panic!("{answer:?}"),
        begun = soon(began.recv()) => begun.unwrap(),
    }
    assert!(gone.try_recv().is_err());
    drop(request);
    soon(gone.recv()).await.unwrap();
    // The connection is closed.
    let mut client = over_h1(&server).await;
    let request = tokio::spawn(async move { client.send_request(get("/")).await.map(drop) });
    soon(began.recv()).await.unwrap();
    request.abort();
    soon(gone.recv()).await.unwrap();
    let mut client = H3::connect(&server);
    client.send("/");
    client.wait_until(|| began.try_recv().is_ok());
    client.close();
    soon(gone.recv()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_may_not_be_sent_is_left_out() {
    #[derive(Clone)]
    struct Always(u16);
    impl Service<Request<RequestBody>> for Always {
        type Response = Response<Full<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;
        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Infallible>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<RequestBody>) -> Self::Future {
            let body = Full::new(Bytes::from_static(b"content"));
            std::future::ready(Ok(Response::builder().status(self.0).body(body).unwrap()))
        }
    }
    for (status, length) in [(200, Some("7")), (204, None), (304, None)] {
        let server = Running::tls(|options| options.site = Site::service(Always(status)));
        let mut asked = get("/");
        if status == 200 {
            *asked.method_mut() = Method::HEAD;
        }
        let response = soon(over_h2(&server).await.send_request(asked))
            .await
            .unwrap();
        let said = response
            .headers()
            .get("content-length")
            .map(|it| it.to_str().unwrap().to_owned());
        assert_eq!(said.as_deref(), length, "{status}");
        assert!(soon(read(response)).await.is_empty(), "{status}");
    }
}

/// Sends a POST over HTTP/2 whose content is kept until 100 comes (RFC 9110 section 10.1.1); whether that came, and the
/// status.
fn expecting_100(server: &Running) -> (bool, Option<u16>) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let now = Instant::now();
    let mut client = http2::Connection::client(Arc::default(), now);
    let mut output = http2::Output::new();
    let request = Request::post("http://localhost/").header("expect", "100-continue");
    let mut turn = client.turn(now, &mut output);
    let id = turn
        .send_request(&request.body(()).unwrap(), None, false)
        .unwrap();
    let (mut is_told, mut told, mut status) = (false, false, None);
    let mut buffer = [0; 4096];
    while status.is_none() {
        output
            .slices()
            .for_each(|bytes| stream.write_all(bytes).unwrap());
        output.clear();
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "closed");
        let mut input = &buffer[..n];
        let mut turn = client.turn(now, &mut output);
        while let Some(event) = turn.receive(&mut input) {
            match event {
                http2::Event::Informational { head, .. } => told = head.status() == Some(100),
                http2::Event::Response { head, .. } => status = head.status(),
                _ => {}
            }
        }
        if std::mem::take(&mut told) {
            is_told = true;
            let body = Bytes::from_static(b"content");
            assert_eq!(turn.send_data(id, &body, true).unwrap(), 7);
        }
    }
    (is_told, status)
}

#[test]
fn a_client_that_expects_100_gets_it_when_its_content_is_asked_for() {
    let router = Router::new().route("/", on_post(async |body: Bytes| body));
    let server = Running::clear(site(router));
    assert_eq!(expecting_100(&server), (true, Some(200)));
}

#[test]
fn a_client_that_expects_100_is_refused_at_once_where_its_content_is_not_asked_for() {
    // Files take no POST, which is known without a word of its content.
    let server = Running::clear(|_| {});
    assert_eq!(expecting_100(&server), (false, Some(405)));
}
