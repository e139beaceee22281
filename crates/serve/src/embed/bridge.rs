//! Requests from a worker's thread to a task of the program's runtime, and their responses back.
//!
//! A request moves over whole: its body is a queue between two threads already, bounded by the
//! transport's window. The task answers it, then carries the response's body in [`body`]'s bounded queue.
//! Whatever the worker drops, a response that it waits for or a body, ends the task.

mod body;

use crate::RequestBody;
use crate::embed::RequestContext;
use crate::request::body::Body;
use crate::request::handler::{BoxError, Handler, Pending, PerThread, answer};
use crate::request::panic_guard::{PanicGuard, catch_panic};
use http::{Request, Response};
use std::fmt;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tower_service::Service;

/// A service whose requests are answered in the program's runtime.
pub(super) struct Bridge<S: Send> {
    service: PerThread<S>,
    runtime: Arc<OnceLock<Handle>>,
}

impl<S: Send> Bridge<S> {
    /// The server may not run before `runtime` is set.
    pub(super) fn new(service: S, runtime: Arc<OnceLock<Handle>>) -> Self {
        Self {
            service: PerThread::new(service),
            runtime,
        }
    }
}

impl<S: Send> fmt::Debug for Bridge<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<S>())
    }
}

impl<S, B> Handler for Bridge<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    fn call(
        &self,
        mut request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Pending<Result<Response<Body>, BoxError>> {
        request_context.put_into(&mut request);
        let Some(runtime) = self.runtime.get() else {
            return Box::pin(ready(Err("the program's runtime is not there".into())));
        };
        let service = match catch_panic(|| self.service.get()) {
            Ok(service) => PanicGuard::new(service),
            Err(panic) => return Box::pin(ready(Err(panic))),
        };
        let (head, answered) = oneshot::channel();
        let task = runtime.spawn(async move {
            // Without a receiver nobody waits for the response.
            match answer(service, request).await {
                Ok(response) => body::carry(response, head).await,
                Err(error) => drop(head.send(Err(error))),
            }
        });
        let task = AbortOnDrop(task.abort_handle());
        Box::pin(async move {
            let Ok(answered) = answered.await else {
                return Err("the program's runtime has shut down".into());
            };
            Ok(answered?.map(|body| body.into_body(task)))
        })
    }
}

/// Ends a task of the runtime when it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
