//! Services that panic wherever they can: a panic costs its request, and nobody else anything.

use crate::common::{Running, get, h1, h2, h3::H3, read, soon};
use altway_serve::{BoxError, RequestBody, Site};
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
