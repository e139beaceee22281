//! The endpoint of a route: a tower service or an async function.

use crate::RequestBody;
use crate::embed::ByRequest;
use crate::request::body::Body;
use crate::request::handler::{BoxError, PerThread};
use http::{Request, Response};
pub(super) use sealed::{Answering, Shared};
use sealed::{Call, IntoResult as _};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use tower_service::Service;

/// The endpoint to which a [`Router`](crate::Router) leads requests, told apart by `Kind`, which the compiler finds out:
///
/// - [`ByFunction`]: an async function or closure of a request, whose future is `Send`, and which gives a response, or a
///   `Result` of one and an error that becomes a 500;
/// - [`ByRequest`]: a [tower](https://docs.rs/tower-service) service, which is cloned for each request.
pub trait Endpoint<Kind>: sealed::IntoShared<Kind> {}

impl<K, E: sealed::IntoShared<K>> Endpoint<K> for E {}

/// The kind of [`Endpoint`] that is a function.
#[derive(Debug)]
pub enum ByFunction {}

/// The answer of a route's function: a response, or a `Result` of one and an error that becomes a 500.
pub trait Answer: sealed::IntoResult {}

impl<A: sealed::IntoResult> Answer for A {}

mod sealed {
    use super::{Arc, Body, BoxError, Pin, Request, RequestBody, Response};

    /// The future of an answer.
    pub(crate) type Answering =
        Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    /// An endpoint as a router holds it.
    pub(crate) type Shared = Arc<dyn Call>;

    pub trait Call: Send + Sync {
        fn call(&self, request: Request<RequestBody>) -> Answering;
    }

    pub trait IntoShared<Kind>: Send + 'static {
        fn into_shared(self) -> Shared;
    }

    pub trait IntoResult {
        fn into_result(self) -> Result<Response<Body>, BoxError>;
    }
}

struct OfService<S: Send>(PerThread<S>);

struct OfFunction<F>(F);

impl<S, B> sealed::IntoShared<ByRequest> for S
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    fn into_shared(self) -> Shared {
        Arc::new(OfService(PerThread::new(self)))
    }
}

impl<S, B> Call for OfService<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    fn call(&self, request: Request<RequestBody>) -> Answering {
        let mut service = self.0.get();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx).map_err(Into::into)).await?;
            let answered = service.call(request).await.map_err(Into::into)?;
            Ok(answered.map(|body| Body::stream(body, None)))
        })
    }
}

impl<F, A> sealed::IntoShared<ByFunction> for F
where
    F: Fn(Request<RequestBody>) -> A + Send + Sync + 'static,
    A: Future<Output: Answer> + Send + 'static,
{
    fn into_shared(self) -> Shared {
        Arc::new(OfFunction(self))
    }
}

impl<F, A> Call for OfFunction<F>
where
    F: Fn(Request<RequestBody>) -> A + Send + Sync + 'static,
    A: Future<Output: Answer> + Send + 'static,
{
    fn call(&self, request: Request<RequestBody>) -> Answering {
        let answering = (self.0)(request);
        Box::pin(async move { answering.await.into_result() })
    }
}

impl<B> sealed::IntoResult for Response<B>
where
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    fn into_result(self) -> Result<Response<Body>, BoxError> {
        Ok(self.map(|body| Body::stream(body, None)))
    }
}

impl<B, E> sealed::IntoResult for Result<Response<B>, E>
where
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
    E: Into<BoxError>,
{
    fn into_result(self) -> Result<Response<Body>, BoxError> {
        self.map_err(Into::into)
            .map(|response| response.map(|body| Body::stream(body, None)))
    }
}
