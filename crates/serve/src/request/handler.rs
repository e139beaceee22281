//! Services of the embedder behind one type that the server's own code can hold.

use crate::RequestBody;
use crate::embed::RequestContext;
use crate::incidents::ContentTooLong;
use crate::locks::lock;
use crate::request::body::{Body, BodyMemory};
use crate::request::panic_guard::{PanicGuard, PanicGuardBody, catch_panic};
use http::{Request, Response};
use std::fmt;
use std::future::{poll_fn, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use thread_local::ThreadLocal;
use tower_service::Service;

/// Any error that a service can fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A future that a worker polls on its own thread.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// The client that sent a request: found in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The client's address, or that of the last proxy before the server. IPv4 addresses are given as IPv4, also on a
    /// socket of both families.
    pub address: SocketAddr,
    /// The address and port that the client's connection was made to: of this server, or of a trusted proxy that names
    /// them by the PROXY protocol. `None`: they are not known.
    pub local: Option<SocketAddr>,
    /// True if the client comes over TLS, to this server or to the proxy before it that terminates TLS.
    pub is_secure: bool,
}

impl Peer {
    /// Makes a client without TLS, for tests of handlers.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            local: None,
            is_secure: false,
        }
    }
}

/// A service that answers requests.
pub(crate) trait Handler: fmt::Debug + Send + Sync {
    /// Begins to answer. Fails when the service does, or when it panics.
    fn call(
        &self,
        request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Pending<Result<Response<Body>, BoxError>>;
}

/// A type that answers requests, and gets what else is known of a request as an argument.
///
/// A [`Service`] is cloned for each request, finds its client in a map that is made for the request, and returns a
/// future and a body that can't be moved: each of these allocates memory. A type that answers requests in a few
/// microseconds, without layers around it, saves that as a `Responder`.
pub trait Responder: fmt::Debug + Send + Sync + 'static {
    /// The content of responses.
    type Body: http_body::Body<Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Gives the response. It is polled and dropped on the thread of the request's connection.
    type Future: Future<Output = Response<Self::Body>> + Unpin + 'static;

    /// Begins to answer, on the thread of the request's connection: it should not block. A panic becomes a 500.
    fn respond(
        &self,
        request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Self::Future;
}

/// A [`Responder`] of the embedder.
#[derive(Debug)]
pub(crate) struct Responding<R>(pub(crate) R);

impl<R: Responder> Handler for Responding<R> {
    fn call(
        &self,
        request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Pending<Result<Response<Body>, BoxError>> {
        let respond = || self.0.respond(request, request_context);
        // In its box at once: it may be large.
        match catch_panic(|| Box::pin(Responded(PanicGuard::new(respond())))) {
            Ok(future) => future,
            Err(panic) => Box::pin(ready(Err(panic))),
        }
    }
}

/// The response of a [`Responder`] that was asked.
struct Responded<F>(PanicGuard<F>);

impl<F, B> Future for Responded<F>
where
    F: Future<Output = Response<B>> + Unpin,
    B: http_body::Body<Error: Into<BoxError>> + Send + Unpin + 'static,
{
    type Output = Result<Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        let polled = future.call(|it| Pin::new(it).poll(cx).map(|response| Ok(plain(response))));
        caught(polled)
    }
}

/// A service with a clone for each thread that asks for it, so that it need not be `Sync`.
pub(crate) struct PerThread<S: Send> {
    original: Mutex<S>,
    /// Clones, one a worker.
    clones: ThreadLocal<S>,
}

impl<S: Clone + Send> PerThread<S> {
    /// A clone of this thread's clone. Panics where the service's `clone` does.
    pub(crate) fn get(&self) -> S {
        let original = || lock(&self.original);
        self.clones.get_or(|| original().clone()).clone()
    }
}

impl<S: Send> PerThread<S> {
    pub(crate) fn new(service: S) -> Self {
        Self {
            original: Mutex::new(service),
            clones: ThreadLocal::new(),
        }
    }
}

/// A tower service.
pub(crate) struct Tower<S: Send>(pub(crate) PerThread<S>);

impl<S: Send> fmt::Debug for Tower<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<S>())
    }
}

impl<S, B> Handler for Tower<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(
        &self,
        mut request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Pending<Result<Response<Body>, BoxError>> {
        request_context.put_into(&mut request);
        let mut service = match catch_panic(|| self.0.get()) {
            Ok(service) => PanicGuard::new(service),
            Err(panic) => return Box::pin(ready(Err(panic))),
        };
        // Most are: then nothing that waits for the answer has to hold the request.
        let mut context = Context::from_waker(Waker::noop());
        let polled = service.call(|it| it.poll_ready(&mut context).map_err(Into::into));
        match caught(polled) {
            Poll::Pending => Box::pin(answer(service, request)),
            Poll::Ready(Err(error)) => Box::pin(ready(Err(error))),
            Poll::Ready(Ok(())) => match service.call(|it| Box::pin(it.call(request))) {
                Ok(future) => Box::pin(answered(PanicGuard::new(future))),
                Err(panic) => Box::pin(ready(Err(panic))),
            },
        }
    }
}

/// A service's answer. Nothing of the service runs outside of [`PanicGuard`].
pub(crate) async fn answer<S, B>(
    mut service: PanicGuard<S>,
    request: Request<RequestBody>,
) -> Result<Response<Body>, BoxError>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    poll_fn(|cx| caught(service.call(|it| it.poll_ready(cx).map_err(Into::into)))).await?;
    let future = service.call(|it| Box::pin(it.call(request)))?;
    answered(PanicGuard::new(future)).await
}

/// The response of a service that was called.
async fn answered<F, B, E>(mut future: PanicGuard<Pin<Box<F>>>) -> Result<Response<Body>, BoxError>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    poll_fn(|cx| {
        let polled = future.call(|it| {
            let answered = std::task::ready!(it.as_mut().poll(cx));
            let response = answered.map_err(Into::into);
            Poll::Ready(response.map(|response| plain(response.map(Box::pin))))
        });
        caught(polled)
    })
    .await
}

/// Content up to this length is taken from the service as soon as it is there.
const SHORT: u64 = 16 << 10;

/// A response that has nothing of the service's but its body, and not even that where it is short.
fn plain<B>(response: Response<B>) -> Response<Body>
where
    B: http_body::Body<Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let mut response = response;
    let mut memory = response.extensions_mut().remove::<BodyMemory>();
    let mut response = response.map(|body| {
        let mut body = PanicGuardBody::new(body);
        // What reports its memory is still to come. To ask it ahead might find that it fails, which is to be told after
        // the head of the response.
        let whole = match memory {
            None => body.at_once(SHORT),
            Some(_) => None,
        };
        match whole {
            Some(bytes) => Body::bytes(bytes),
            None => Body::stream(body, memory.take()),
        }
    });
    let mark = response.extensions_mut().remove::<ContentTooLong>();
    response.extensions_mut().clear();
    if let Some(mark) = mark {
        response.extensions_mut().insert(mark);
    }
    // Of a tunnel, which takes the place of the content.
    if let Some(memory) = memory {
        response.extensions_mut().insert(memory);
    }
    response
}

/// A panic in place of what was polled.
fn caught<T>(polled: Result<Poll<Result<T, BoxError>>, BoxError>) -> Poll<Result<T, BoxError>> {
    polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)))
}
