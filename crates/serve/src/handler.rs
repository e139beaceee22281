//! Services of the embedder behind one type that the server's own code can hold.

use crate::RequestBody;
use crate::body::Body;
use futures_util::FutureExt;
use http::{Request, Response};
use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use tower_service::Service;

/// Whatever a service can fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that a worker waits for, on its own thread.
pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Who sent a request: found in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The client's address, or that of the last proxy before the server. IPv4 is said as IPv4,
    /// also on a socket of both families.
    pub address: SocketAddr,
}

/// A service that answers requests.
pub(crate) trait Handler: fmt::Debug + Send + Sync {
    /// Begins to answer. Fails when the service does, or when it panics.
    fn call(&self, request: Request<RequestBody>) -> Pending<Result<Response<Body>, BoxError>>;
}

/// A tower service.
pub(crate) struct Tower<S>(pub(crate) S);

impl<S> fmt::Debug for Tower<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<S>())
    }
}

impl<S, B> Handler for Tower<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: 'static,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&self, request: Request<RequestBody>) -> Pending<Result<Response<Body>, BoxError>> {
        let mut service = self.0.clone();
        let answer = async move {
            poll_fn(|cx| service.poll_ready(cx))
                .await
                .map_err(Into::into)?;
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(Body::stream))
        };
        Box::pin(async {
            // One that panics must not take the other connections of its worker along.
            let answered = AssertUnwindSafe(answer).catch_unwind().await;
            answered.unwrap_or_else(|panic| Err(panicked(&*panic)))
        })
    }
}

/// What a panic said, as an error.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> BoxError {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", said.unwrap_or("no message")).into()
}
