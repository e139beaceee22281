//! Services that panic wherever they can: a panic costs its request, and nobody else anything.

use crate::common::{Running, get, h1, h2, h3::H3, read, soon};
use altway_http3::ClientConfig;
use altway_serve::{BoxError, Certificates, Dispatch, OnDemand, RequestBody, Site};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tower_service::Service;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Clone,
    ServiceDrop,
    PollReady,
    Call,
    FuturePoll,
    FutureDrop,
    FuturePollAndDrop,
    BodyPoll,
    BodyIsEnd,
    BodySize,
    BodyDrop,
}

use Place::*;

const PLACES: [Place; 11] = [
    Clone,
    ServiceDrop,
    PollReady,
    Call,
    FuturePoll,
    FutureDrop,
    FuturePollAndDrop,
    BodyPoll,
    BodyIsEnd,
    BodySize,
    BodyDrop,
];

/// Panics in `place`, as often as `left` says.
#[derive(Clone)]
struct Trap {
    place: Place,
    left: Arc<AtomicUsize>,
}

impl Trap {
    fn step(&self, here: &[Place]) {
        let spend = |left: usize| left.checked_sub(1);
        if here.contains(&self.place)
            && self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend)
                .is_ok()
        {
            panic!("as it should, in {:?}", self.place);
        }
    }
}

struct Faulty(Trap);

impl std::clone::Clone for Faulty {
    fn clone(&self) -> Self {
        self.0.step(&[Clone]);
        Self(self.0.clone())
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.0.step(&[ServiceDrop]);
    }
}

struct Answer(Trap);

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.step(&[FutureDrop, FuturePollAndDrop]);
    }
}

impl Future for Answer {
    type Output = Result<Response<Content>, BoxError>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.step(&[FuturePoll, FuturePollAndDrop]);
        let content = Content(self.0.clone(), Some(Bytes::from_static(b"well")));
        Poll::Ready(Ok(Response::new(content)))
    }
}

struct Content(Trap, Option<Bytes>);

impl Drop for Content {
    fn drop(&mut self) {
        self.0.step(&[BodyDrop]);
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.step(&[BodyPoll]);
        Poll::Ready(self.1.take().map(Frame::data).map(Ok))
    }
    fn is_end_stream(&self) -> bool {
        self.0.step(&[BodyIsEnd]);
        self.1.is_none()
    }
    fn size_hint(&self) -> http_body::SizeHint {
        self.0.step(&[BodySize]);
        http_body::SizeHint::default()
    }
}

impl Service<Request<RequestBody>> for Faulty {
    type Response = Response<Content>;
    type Error = BoxError;
    type Future = Answer;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.step(&[PollReady]);
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, _: Request<RequestBody>) -> Answer {
        self.0.step(&[Call]);
        Answer(self.0.clone())
    }
}

/// A server with one worker, whose service panics once armed.
fn server(place: Place) -> (Running, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(0));
    let trap = Trap {
        place,
        left: Arc::clone(&left),
    };
    let server = Running::tls(|options| {
        options.site = Site::service(Faulty(trap));
        options.threads = NonZeroUsize::MIN;
    });
    (server, left)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_anywhere_in_a_service_harms_no_other_connection() {
    for place in PLACES {
        let (server, left) = server(place);
        let mut first = h1(server.connect_tls(&[b"http/1.1"]).await).await;
        let mut second = h2(server.connect_tls(&[b"h2"]).await).await;
        let mut third = H3::connect(&server);
        // Two panics, for a drop may follow a call.
        for protocol in 1..=3 {
            left.store(2, Ordering::SeqCst);
            match protocol {
                1 => {
                    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
                    let _ = soon(client.send_request(get("/"))).await;
                }
                2 => {
                    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
                    let _ = soon(client.send_request(get("/"))).await;
                }
                _ => {
                    let mut client = H3::connect(&server);
                    client.send("/");
                    client.wait_until(|| left.load(Ordering::SeqCst) < 2);
                }
            }
            assert!(left.swap(0, Ordering::SeqCst) < 2, "{place:?} {protocol}");
            let response = soon(first.send_request(get("/"))).await.unwrap();
            assert_eq!(soon(read(response)).await, b"well", "{place:?} {protocol}");
            let response = soon(second.send_request(get("/"))).await.unwrap();
            assert_eq!(soon(read(response)).await, b"well", "{place:?} {protocol}");
            assert_eq!(third.get("/").1, b"well", "{place:?} {protocol}");
        }
    }
}

/// Panics for a host that begins with `host.`, and for one path.
#[derive(Debug)]
struct FaultyChoice;

impl Dispatch for FaultyChoice {
    fn host(&self, authority: &[u8]) -> Option<usize> {
        assert!(!authority.starts_with(b"host."), "as it should");
        Some(0)
    }

    fn dispatch(&self, _: Option<usize>, path: &[u8]) -> Option<usize> {
        assert_ne!(path, b"/path", "as it should");
        Some(0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_choice_of_a_site_is_a_500_over_every_protocol() {
    let app = axum::Router::new().fallback(async || "well");
    let server = Running::tls(|options| {
        options.site = Site::dispatched(FaultyChoice, vec![Site::service(app)]);
        options.threads = NonZeroUsize::MIN;
    });
    let mut first = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut second = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut third = H3::connect(&server);
    for (authority, path, status) in [
        ("localhost", "/", 200),
        ("host.localhost", "/", 500),
        ("localhost", "/", 200),
        ("localhost", "/path", 500),
        ("host.localhost", "/path", 500),
        ("localhost", "/", 200),
    ] {
        let request = || {
            let request = Request::get(format!("https://{authority}{path}"));
            let request = request.header("host", authority);
            request.body(http_body_util::Empty::<Bytes>::new()).unwrap()
        };
        let response = soon(first.send_request(request())).await.unwrap();
        assert_eq!(response.status(), status, "{authority}{path}");
        soon(read(response)).await;
        let response = soon(second.send_request(request())).await.unwrap();
        assert_eq!(response.status(), status, "{authority}{path}");
        let (_, head, _) = third.ask(request().map(|_| Bytes::new()));
        assert_eq!(head.status(), status, "{authority}{path}");
    }
}

/// Panics whatever it is asked.
#[derive(Debug)]
struct FaultyDemand;

impl OnDemand for FaultyDemand {
    fn wanted(&self, _: &str) -> bool {
        panic!("as it should");
    }

    fn used(&self, _: &str) {
        panic!("as it should");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_whoever_has_certificates_on_demand_costs_its_handshake_at_most() {
    let server = Running::tls(|options| options.threads = NonZeroUsize::MIN);
    let mut there = H3::connect(&server);
    let identity = server.site.leaf().identity().unwrap();
    let used = Certificates::from(identity).on_demand(Arc::new(FaultyDemand));
    server.replace_certificates(used);
    let mut over_tcp = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(over_tcp.send_request(get("/"))).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(H3::connect(&server).get("/").0.status(), 200);
    let wanted = Certificates::default().on_demand(Arc::new(FaultyDemand));
    server.replace_certificates(wanted);
    let tls = Arc::new(server.site.client_tls(&[]));
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(&tls));
    let name = "localhost".try_into().unwrap();
    let handshake = connector.connect(name, server.connect().await);
    assert!(soon(handshake).await.is_err());
    let ended = H3::begin(server.address, ClientConfig::new(tls)).closed();
    assert!(ended.to_string().contains("handshake"), "{ended}");
    assert_eq!(there.get("/").0.status(), 200);
    let response = soon(over_tcp.send_request(get("/"))).await.unwrap();
    assert_eq!(response.status(), 200);
}
