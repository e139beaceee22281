//! A server inside a program that has a Tokio runtime of its own, as `axum::serve` is.
//!
//! [`serve`] binds; the future that it becomes runs the server on worker threads of its own, which
//! carry connections and hand each request over to the program's runtime ([`bridge`]). What an
//! embedder gives is an [`App`]; what it finds in a request is put there by [`request`].

mod answering;
mod app;
mod bridge;
mod early_hints;
mod request;

pub(crate) use answering::{Answering, Step};
pub use app::{App, ByPeer, ByRequest, PerPeer};
pub(crate) use early_hints::Hints;
pub use early_hints::{EarlyHints, EarlyHintsError};
pub use request::RequestContext;

use crate::site::{Kind, Site};
use crate::stop::{StopHandle, stop_channel};
use crate::{Error, Monitor, Options, ReloadHandle, RequestBody, Server};
use bridge::Bridge;
use http::Request;
use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tower_service::Service;

/// Serves `app` over all three protocols inside the program's own Tokio runtime. `app` is anything that `axum::serve`
/// takes: a `Router`, a `MethodRouter`, or what their `into_make_service` and
/// `into_make_service_with_connect_info::<SocketAddr>` return; or another [`App`].
///
/// Handlers and the bodies that they return run as tasks of the runtime in which the server is awaited,
/// current-thread or multi-threaded: `tokio::spawn`, `tokio::time`, `block_in_place` and clients of databases work as
/// usual. The server's [`Options::threads`] handle connections, TLS and protocols only. When a client disconnects or
/// cancels its request, the handler's future is dropped; a body is polled at most 64 KiB ahead of its client.
///
/// The sockets are bound at once, so clients can connect from here on, and wait; an error is returned when the server
/// is awaited. [`Options::site`] is ignored.
///
/// ```no_run
/// # async fn run(identity: altway_serve::Identity) -> Result<(), altway_serve::Error> {
/// let app = axum::Router::new().route("/", axum::routing::get(async || "hello"));
/// let stop = async { tokio::signal::ctrl_c().await.expect("signals can be waited for") };
/// altway_serve::serve(app, altway_serve::Options::tls(identity))
///     .with_graceful_shutdown(stop)
///     .await
/// # }
/// ```
pub fn serve<A, K>(app: A, mut options: Options) -> Serve
where
    A: App<K>,
    <A::Service as Service<Request<RequestBody>>>::Future: Send,
{
    let runtime = Arc::default();
    let bridge = Bridge::new(app.into_service(), Arc::clone(&runtime));
    options.site = Site(Kind::Service(Arc::new(bridge)));
    Serve {
        bound: Server::bind(&options),
        runtime,
    }
}

/// A server that [`serve`] has bound. It runs when it is awaited.
#[derive(Debug)]
#[must_use = "a server runs only when it is awaited"]
pub struct Serve {
    bound: Result<Server, Error>,
    /// The program's, from the first poll on.
    runtime: Arc<OnceLock<Handle>>,
}

impl Serve {
    /// Stops the server gracefully when `signal` completes: connections end after their running requests; those that
    /// last longer than [`Options::shutdown_grace`] are cut off.
    pub fn with_graceful_shutdown<F>(self, signal: F) -> WithGracefulShutdown<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        WithGracefulShutdown {
            serve: self,
            signal,
        }
    }

    /// The address that it listens on, TCP and UDP; `None` when it could not be bound, which the
    /// server's future reports.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.bound.as_ref().ok().map(Server::local_addr)
    }

    /// A handle that replaces the certificates while the server runs, or the application by a [`Site`]; `None` when
    /// the server could not be bound.
    #[must_use]
    pub fn reload_handle(&self) -> Option<ReloadHandle> {
        self.bound.as_ref().ok().map(Server::reload_handle)
    }

    /// A monitor of the running server; `None` when it could not be bound.
    #[must_use]
    pub fn monitor(&self) -> Option<Monitor> {
        self.bound.as_ref().ok().map(Server::monitor)
    }

    async fn run(self, signal: impl Future<Output = ()>) -> Result<(), Error> {
        let server = self.bound?;
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        self.runtime.get_or_init(|| runtime);
        let (handle, stop) = stop_channel();
        let stopping = StopOnDrop(handle);
        let (sender, ended) = oneshot::channel();
        let run = move || {
            // Without a receiver the program no longer waits for the end.
            let _ = sender.send(server.run(&stop));
        };
        let thread = thread::Builder::new().name("altway".into()).spawn(run);
        thread.map_err(Error::Worker)?;
        let mut ended = pin!(ended);
        let end = tokio::select! {
            end = ended.as_mut() => end,
            () = signal => {
                stopping.0.stop();
                ended.await
            }
        };
        end.unwrap_or(Err(Error::WorkerPanicked))
    }
}

/// Resolves when the server has ended. Dropping the future stops the server gracefully, in the background.
///
/// # Errors
/// The errors of [`Server::bind`] and [`Server::run`]; [`Error::NoRuntime`].
impl IntoFuture for Serve {
    type Output = Result<(), Error>;
    type IntoFuture = ServeFuture;

    fn into_future(self) -> ServeFuture {
        ServeFuture(Box::pin(self.run(pending())))
    }
}

/// A server that stops once a future of the program's completes.
#[must_use = "a server runs only when it is awaited"]
pub struct WithGracefulShutdown<F> {
    serve: Serve,
    signal: F,
}

impl<F> WithGracefulShutdown<F> {
    /// Returns the address, as [`Serve::local_addr`] does.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.serve.local_addr()
    }

    /// Returns the handle, as [`Serve::reload_handle`] does.
    #[must_use]
    pub fn reload_handle(&self) -> Option<ReloadHandle> {
        self.serve.reload_handle()
    }
}

impl<F> fmt::Debug for WithGracefulShutdown<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let serve = &self.serve;
        f.debug_struct("WithGracefulShutdown")
            .field("serve", serve)
            .finish_non_exhaustive()
    }
}

/// Resolves when the server has ended, as that of [`Serve`].
impl<F: Future<Output = ()> + Send + 'static> IntoFuture for WithGracefulShutdown<F> {
    type Output = Result<(), Error>;
    type IntoFuture = ServeFuture;

    fn into_future(self) -> ServeFuture {
        ServeFuture(Box::pin(self.serve.run(self.signal)))
    }
}

/// A running server.
#[must_use = "a server runs only when it is awaited"]
pub struct ServeFuture(Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>);

impl Future for ServeFuture {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ServeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeFuture").finish_non_exhaustive()
    }
}

struct StopOnDrop(StopHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
