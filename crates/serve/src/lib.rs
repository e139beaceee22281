//! An HTTP server for programs of yours: HTTP/1.1, HTTP/2 and HTTP/3 on one port number, and for each
//! client the protocol that suits its path. An axum program runs on it unchanged.
//!
//! ```no_run
//! use altway_serve::{Identity, Options, serve};
//! use axum::{Router, routing::get};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let app = Router::new().route("/", get(async || "hello"));
//!     let identity = Identity::from_pem_files("chain.pem".as_ref(), "key.pem".as_ref())?;
//!     Ok(serve(app, Options::tls(identity)).await?)
//! }
//! ```
//!
//! # Where handlers run
//! With [`serve`] in the runtime in which the server is awaited, each request as a task of its own:
//! `tokio::spawn`, `tokio::time`, `block_in_place` and pooled clients of databases work as under
//! `axum::serve`. The server's worker threads ([`Options::threads`]) carry connections, TLS and protocols; a
//! request costs two changes of thread more. When its client goes away or takes it back, the handler's
//! future, or the body that it returned, is dropped.
//!
//! With [`Server::run`] and [`Site::service`] on the worker threads themselves, each of which has a
//! current-thread runtime: no change of thread, and futures need not be `Send`; but what blocks holds up
//! every connection of its worker, and there is no `block_in_place`. It is for handlers that do little but
//! compute.
//!
//! Services are cloned once for each worker thread and from there once for each request; they need not be
//! `Sync`.
//!
//! # Without a framework
//! [`Router`] leads requests to async functions and tower services by method and path, and refuses what is registered
//! twice. The example `file_store` stores and shows files with it. axum's own router needs none of it.
//!
//! # What a request brings
//! - URI, method and fields as they were sent, the version of the protocol that it came over. Over HTTP/1.1 the
//!   URI is the path, over HTTP/2 and HTTP/3 it has scheme and authority, as under hyper. Host is there over
//!   every protocol: HTTP/2 and HTTP/3 have it derived from the authority where the client left it out.
//! - [`Peer`] in its extensions. `Router::into_make_service_with_connect_info::<SocketAddr>()` makes axum's
//!   `ConnectInfo<SocketAddr>` work, with [`serve`] and [`Site::service`] alike.
//! - [`EarlyHints`] in its extensions, to send 103 responses ahead of the response (HTTP/2 and HTTP/3), and other
//!   interim responses that its client has asked for (over every protocol).
//! - [`EarlyData`] in its extensions where it came before the TLS handshake was done ([`Options::early_data`]).
//! - [`ClientCertificate`] in its extensions where its client has shown one that was asked for
//!   ([`Certificates::with_client_auth`]).
//! - [`Upgrade`] in its extensions where it asks for a WebSocket.
//! - [`PathParameters`] in its extensions where a [`Router`] has led it somewhere.
//! - A [`RequestBody`], which its client sends no faster than it is read.
//!
//! Responses get Date, Server, Content-Length where the length is known, and Alt-Svc. A panic of a handler
//! is answered 500, and so is an interim status that no [`Upgrade`] has given.
//!
//! # WebSockets
//! Over HTTP/1.1 (RFC 6455), HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220) by the same handler. The feature `axum` brings
//! the module `ws` with an extractor that has the habits of axum's own, which works with hyper's upgrades alone:
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn app() -> axum::Router {
//! use altway_serve::ws::{WebSocket, WebSocketUpgrade};
//! use axum::{Router, response::Response, routing::any};
//!
//! async fn echo(upgrade: WebSocketUpgrade) -> Response {
//!     upgrade.on_upgrade(async |mut socket: WebSocket| {
//!         while let Some(Ok(message)) = socket.recv().await {
//!             let _ = socket.send(message).await;
//!         }
//!     })
//! }
//! // Over HTTP/2 and HTTP/3 the method is CONNECT.
//! Router::new().route("/echo", any(echo))
//! # }
//! ```
//! Without axum, [`Upgrade`] gives a [`Tunnel`] of bytes. A WebSocket counts as a request in progress as long as it
//! lasts, and ends when no byte has moved for [`Limits::idle_timeout`].
//!
//! # Limits
//! [`Options::limits`] bounds what clients may cost, all together and each: connections, handshakes, requests,
//! bytes in memory, time without progress. Limits of a body's size and of a handler's time are the
//! application's: `DefaultBodyLimit` and tower-http's layers work as they do elsewhere. A response's body is
//! asked for no more than 64 KiB, and one frame, ahead of its client.
//!
//! # Graceful stop
//! ```no_run
//! # async fn run(app: axum::Router, options: altway_serve::Options) -> Result<(), altway_serve::Error> {
//! let stop = async { tokio::signal::ctrl_c().await.expect("signals can be waited for") };
//! altway_serve::serve(app, options).with_graceful_shutdown(stop).await
//! # }
//! ```
//! Clients are told to go (GOAWAY), running requests are answered, and what lasts longer than
//! [`Options::shutdown_grace`] is cut off; then the future resolves. To drop the future stops the server as
//! well. [`Options::takeover`] has another process replace this one without a refused connection.
//!
//! # TLS
//! [`Identity`] is a certificate and its key from PEM files; [`Certificates`] are several, of which each client
//! is shown the one for the name that it asks for; [`certs`] makes a local authority and certificates
//! of it; a [`ReloadHandle`] replaces them, and the site, while connections go on. [`Options::clear_text`] is for
//! servers behind a proxy: HTTP/1.1 and HTTP/2, no HTTP/3.
//!
//! # Policy
//! Clients come over TCP. Which of them are offered HTTP/3 (`Alt-Svc`, RFC 7838) is decided by
//! [`Options::policy`], by default from what was learnt of each client's path, over TCP and QUIC, and of clients
//! like it. [`Options::state`] keeps that over a restart; [`Options::model`] takes a model of the program's own.
//!
//! ```
//! use altway_serve::{Options, Policy};
//!
//! let mut options = Options::clear_text();
//! options.policy = Policy::FixedH3; // whatever the path
//! options.policy = "threshold:rtt=50ms,loss=1%".parse()?;
//! # Ok::<(), altway_serve::InvalidPolicy>(())
//! ```
//!
//! # Files, and a server of one's own
//! [`Site::files`] serves a directory; [`Files`] does beside other routes. [`FilesOptions`] says how: index, fallback,
//! listing, compressed forms, Cache-Control by path. [`Server::bind`] does everything that
//! can fail for the operator's reasons, [`Server::run`] serves until it is told to stop:
//!
//! ```
//! use altway_serve::{Bind, Options, Security, Server, Site, certs, stop_channel};
//! use std::net::Ipv4Addr;
//!
//! let dir = tempfile::tempdir()?;
//! let leaf = certs::Store::open(dir.path().join("certs"))?.leaf(&["altway.test"])?;
//! let mut options = Options::new(Site::files(dir.path()), Security::tls(leaf.identity()?));
//! options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
//! options.port = 0;
//!
//! let server = Server::bind(&options)?;
//! println!("https://{}/", server.local_addr());
//! let (handle, signal) = stop_channel();
//! let running = std::thread::spawn(move || server.run(&signal));
//! handle.stop();
//! running.join().expect("the server doesn't panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The engines stand elsewhere: hyper for HTTP/1.1, `altway-http2`, `altway-http3`; what is known of clients,
//! and what follows from it, is the affair of [`select`]. Every request can be logged as one line by an
//! [`AccessLog`].

mod accept;
mod cert_compression;
mod certificates;
pub mod certs;
mod challenges;
mod client_auth;
mod client_prefix;
mod clients;
mod congestion;
mod embed;
mod error;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gcra;
mod h3;
mod held;
mod identity;
mod incidents;
mod key_log;
mod limits;
mod listen;
mod listener;
mod log_writer;
mod metrics;
mod ocsp;
mod options;
mod random;
mod reload;
mod request;
mod restarts;
mod router;
mod selection;
mod server;
mod sessions;
mod setup;
mod site;
mod stop;
mod sys;
mod takeover;
mod tcp;
mod threads;
mod throttle;
mod ticket_keys;
mod tls;
mod worker;
#[cfg(feature = "axum")]
pub mod ws;

pub use altway_http3::{EarlyData, Qlog, QlogWriter, Retry, ServerId};
pub use altway_select::model::Threshold;
pub use altway_select::{self as select, ParseModelError as InvalidPolicy};
pub use altway_units::{BadPrefixLengths, PrefixLengths};
pub use altway_units::{DataSize, LeastRate, Network, Ratio, RequestLimit, RequestRate};
pub use certificates::{Certificates, OnDemand};
pub use challenges::{Challenges, InvalidChallenge};
pub use client_auth::{ClientAuth, ClientCertificate};
pub use congestion::CongestionInUse;
pub use embed::{
    App, ByPeer, ByRequest, Circumstances, EarlyHints, EarlyHintsError, PerPeer, Serve,
    ServeFuture, WithGracefulShutdown, serve,
};
pub use error::Error;
pub use files::{
    ContentCoding, Files, FilesFuture, FilesOptions, HeaderRule, InvalidFilesOptions, PathPattern,
    UnknownContentCoding,
};
pub use identity::{Identity, IdentityWarning};
pub use key_log::KeyLog;
pub use limits::{InvalidLimits, Limits};
pub use listen::PassedSocket;
pub use listener::{Listener, ListenerKind};
pub use log_writer::{Dropped, LOG_QUEUE_BYTES, LogWriter};
pub use metrics::{
    ArrivalMetrics, DURATION_BUCKETS_MS, DurationMetrics, LatestVisit, Metrics, Monitor,
    OfferMetrics, PageMetrics, ProtocolMetrics, ShownCertificate, SiteMetrics,
};
pub use options::{
    Bind, Congestion, DEFAULT_PORT, EarlyDataFor, HostPolicy, Options, Policy, Protocols, Security,
    Spread, Steering, UnknownCongestion, UnknownSpread,
};
pub use reload::ReloadHandle;
pub use request::body::{Body, BodyMemory};
pub use request::handler::{BoxError, Peer, Responder};
pub use request::log::{AccessLog, LogFormat, UnknownLogFormat};
pub use request::tunnel::Tunnel;
pub use request::upgrade::{OnUpgrade, Upgrade, UpgradeError};
pub use request::upload::{RequestBody, RequestBodyError};
pub use router::{Answer, ByFunction, Endpoint, InvalidRoute, PathParameters, Router};
pub use selection::SelectionLog;
pub use selection::state::KeptPaths;
pub use server::Server;
pub use site::{Dispatch, Site};
pub use stop::{StopHandle, StopSignal, stop_channel};
pub use ticket_keys::TicketKeys;
