//! Applications that an embedder can have served: a service of requests, or one that makes such a
//! service for each client.

use crate::RequestBody;
use crate::request::handler::{BoxError, Peer};
use http::{Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// An application that can be served. `Kind` tells the two forms apart, and the compiler infers it:
///
/// - [`ByRequest`]: a [tower](https://docs.rs/tower-service) service of requests, for instance an axum
///   `Router`;
/// - [`ByPeer`]: a service that makes one of these for a client's address, for instance what
///   `Router::into_make_service_with_connect_info::<SocketAddr>` returns, or `::<C>` with a type of your own that
///   implements axum's `Connected<SocketAddr>`.
///
/// Services are cloned once for each worker thread, and that clone once for each request. They need not
/// be `Sync`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no application that can be served",
    note = "an application is a `tower_service::Service` of `http::Request<altway_serve::RequestBody>`, which gives an \
            `http::Response` and is `Clone + Send + 'static`; a `Router` of axum is one, and \
            `into_make_service()` makes one of a handler; a service of axum's own requests becomes one by \
            `.map_request(|it: http::Request<altway_serve::RequestBody>| it.map(axum::body::Body::new))`"
)]
pub trait App<Kind>: Send + 'static {
    /// The service of requests that it becomes.
    type Service: Service<
            Request<RequestBody>,
            Response = Response<Self::Body>,
            Error: Into<BoxError>,
            Future: 'static,
        > + Clone
        + Send
        + 'static;

    /// The body of a response.
    type Body: http_body::Body<Error: Into<BoxError>> + Send + 'static;

    /// A service of requests.
    fn into_service(self) -> Self::Service;
}

/// The kind of [`App`] that answers requests itself.
#[derive(Debug)]
pub enum ByRequest {}

/// The kind of [`App`] that makes a service for a client.
#[derive(Debug)]
pub enum ByPeer {}

impl<S, B> App<ByRequest> for S
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    type Service = S;
    type Body = B;

    fn into_service(self) -> S {
        self
    }
}

impl<M, S, B> App<ByPeer> for M
where
    M: Service<SocketAddr, Response = S, Error = Infallible> + Clone + Send + 'static,
    M::Future: Send,
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    type Service = PerPeer<M>;
    type Body = B;

    fn into_service(self) -> PerPeer<M> {
        PerPeer(self)
    }
}

/// A service that has another one made for each request, by its client's address. `axum::serve` has it
/// made for each connection, which a service that only keeps the address does not notice.
#[derive(Debug, Clone)]
pub struct PerPeer<M>(M);

impl<M, S, B> Service<Request<RequestBody>> for PerPeer<M>
where
    M: Service<SocketAddr, Response = S, Error = Infallible> + Clone + Send + 'static,
    M::Future: Send,
    S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // It is the clone of a call that has to be ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address);
        let mut make = self.0.clone();
        Box::pin(async move {
            let peer = peer.ok_or("a request without its peer")?;
            let Ok(()) = poll_fn(|cx| make.poll_ready(cx)).await;
            let Ok(mut service) = make.call(peer).await;
            let ready = poll_fn(|cx| service.poll_ready(cx)).await;
            ready.map_err(Into::into)?;
            service.call(request).await.map_err(Into::into)
        })
    }
}
