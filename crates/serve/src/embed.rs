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
use std::future::{Pending, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tower_service::Service;

/// Serves `app` over all three protocols inside the program's own Tokio runtime. `app` is what `axum::serve`
/// takes: a `Router`, a `MethodRouter`, or what their `into_make_service` and
/// `into_make_service_with_connect_info::<SocketAddr>` return; or another [`App`]. What takes nothing but axum's own request,
/// as `middleware::from_fn` around a whole `Router` does, [is given one](#a-layer-around-a-whole-router).
///
/// Handlers and the bodies that they return run as tasks of the runtime in which the server is awaited,
/// current-thread or multi-threaded: `tokio::spawn`, `tokio::time`, `block_in_place` and clients of databases work as
/// usual. The server's [`Options::threads`] handle connections, TLS and protocols only. When a client disconnects or
/// cancels its request, the handler's future is dropped; a body is polled at most 64 KiB ahead of its connection.
///
/// The sockets are bound at once, so clients can connect from here on, and wait; an error is returned when the server
/// is awaited, and by [`Serve::local_addr`]. [`Options::site`] is ignored.
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
///
/// # A layer around a whole router
/// ```
/// use altway_serve::{Options, RequestBody, Serve, serve};
/// use axum::body::Body;
/// use axum::extract::Request;
/// use axum::middleware::{self, Next};
/// use axum::{Router, response::Response};
/// use tower::{Layer, ServiceExt};
///
/// /// Runs before the router looks at the path.
/// async fn rewrite(request: Request, next: Next) -> Response {
///     // … another URI …
///     next.run(request).await
/// }
///
/// # fn server(router: Router, options: Options) -> Serve {
/// let app = middleware::from_fn(rewrite)
///     .layer(router)
///     .map_request(|request: http::Request<RequestBody>| request.map(Body::new));
/// serve(app, options)
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
        signal: pending(),
    }
}

/// A server that [`serve`] has bound. It runs when it is awaited, until `F` completes.
#[must_use = "a server runs only when it is awaited"]
pub struct Serve<F = Pending<()>> {
    bound: Result<Server, Error>,
    /// The program's, from the first poll on.
    runtime: Arc<OnceLock<Handle>>,
    signal: F,
}

impl Serve {
    /// Stops the server gracefully when `signal` completes: connections end after their running requests; those that
    /// last longer than [`Options::shutdown_grace`] are cut off.
    pub fn with_graceful_shutdown<F>(self, signal: F) -> Serve<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Serve {
            bound: self.bound,
            runtime: self.runtime,
            signal,
        }
    }
}

impl<F> Serve<F> {
    /// Returns the address that it listens on, TCP and UDP, with the port number that was picked for 0.
    ///
    /// # Errors
    /// The server could not be bound; its future returns the same error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.server().map(Server::local_addr)
    }

    /// Returns the further addresses that it listens at, in the order of [`Options::listeners`].
    ///
    /// # Errors
    /// As [`local_addr`](Self::local_addr).
    pub fn further_addrs(&self) -> io::Result<&[SocketAddr]> {
        self.server().map(Server::further_addrs)
    }

    /// Returns a handle that replaces the certificates while the server runs, or the application by a [`Site`], whose
    /// services run on the server's threads ([`Site::service`]).
    ///
    /// # Errors
    /// As [`local_addr`](Self::local_addr).
    pub fn reload_handle(&self) -> io::Result<ReloadHandle> {
        self.server().map(Server::reload_handle)
    }

    /// Returns a monitor of the running server.
    ///
    /// # Errors
    /// As [`local_addr`](Self::local_addr).
    pub fn monitor(&self) -> io::Result<Monitor> {
        self.server().map(Server::monitor)
    }

    fn server(&self) -> io::Result<&Server> {
        self.bound.as_ref().map_err(Error::to_io)
    }
}

impl<F: Future<Output = ()>> Serve<F> {
    async fn run(self) -> Result<(), Error> {
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
            () = self.signal => {
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
impl<F: Future<Output = ()> + Send + 'static> IntoFuture for Serve<F> {
    type Output = Result<(), Error>;
    type IntoFuture = ServeFuture;

    fn into_future(self) -> ServeFuture {
        ServeFuture(Box::pin(self.run()))
    }
}

impl<F> fmt::Debug for Serve<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
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
