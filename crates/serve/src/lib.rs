//! An HTTP server for your own programs: HTTP/1.1, HTTP/2 and HTTP/3 on one port number, where each client is
//! offered the protocol that loads fastest on its network path. An axum program runs on it unchanged.
//!
//! ```no_run
//! use altway_serve::{Identity, Options, serve};
//! use axum::{Router, routing::get};
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let app = Router::new().route("/", get(async || "hello"));
//!     let identity = Identity::from_pem_files("chain.pem", "key.pem")?;
//!     Ok(serve(app, Options::tls(identity)).await?)
//! }
//! ```
//!
//! The crate is not published yet; a program depends on it by path or by git:
//!
//! ```toml
//! [dependencies]
//! altway-serve = { path = "../altway/crates/serve", features = ["axum"] } # for WebSockets in axum's handlers
//! axum = "0.8"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! Without a certificate at hand, [`certs::localhost`] makes one, signed by a local authority. The examples use
//! it: `cargo run -p altway-serve --example json`, then `curl -k https://localhost:8443/counters/visits`.
//!
//! # Where handlers run
//! With [`serve`], handlers run in the runtime in which the server is awaited, each request as a task of its own:
//! `tokio::spawn`, `tokio::time`, `block_in_place` and connection pools of databases work as under
//! `axum::serve`. The server's worker threads ([`Options::threads`]) handle connections, TLS and protocols; each
//! request is handed from a worker to the runtime, and its response back. When the client disconnects or cancels the
//! request, the handler's future, or the body that it returned, is dropped.
//!
//! With [`Server::run`] and [`Site::service`], handlers run on the worker threads themselves, each of which has a
//! current-thread runtime. No request crosses threads, and futures need not be `Send`. But while a handler blocks,
//! no connection of its worker is served, and there is no `block_in_place`. This is meant for handlers that only compute.
//!
//! Services are cloned once for each worker thread, and that clone once for each request; they need not be
//! `Sync`.
//!
//! # Without a framework
//! [`Router`] passes requests to async functions and tower services by method and path. A route that is registered
//! twice is an error. The example `file_store` stores and serves files with it. Programs with axum's router need no other.
//!
//! # Contents of a request
//! - URI, method and fields as they were sent, and the version of the protocol. Over HTTP/1.1 the
//!   URI is the path; over HTTP/2 and HTTP/3 it has scheme and authority, as in hyper. Host is there over
//!   every protocol: over HTTP/2 and HTTP/3 it is made from the authority if the client left it out.
//! - The extension [`Peer`]. `Router::into_make_service_with_connect_info::<SocketAddr>()` makes axum's
//!   `ConnectInfo<SocketAddr>` work, with [`serve`] and [`Site::service`] alike. In place of `SocketAddr` there may be a
//!   type of your own that implements axum's `Connected<SocketAddr>`.
//! - The extension [`EarlyHints`], to send 103 responses ahead of the response (HTTP/2 and HTTP/3), and other
//!   interim responses that the client has asked for (over every protocol).
//! - The extension [`EarlyData`], if the request came in early data (RFC 8470) and may be a replay
//!   ([`Options::early_data`]).
//! - The extension [`ClientCertificate`], if the client was asked for a certificate and has shown one
//!   ([`Certificates::with_client_auth`]).
//! - The extension [`Upgrade`], if the request asks for a WebSocket.
//! - The extension [`PathParameters`], if a [`Router`] has matched the request.
//! - A [`RequestBody`], which the client can send no faster than it is read.
//!
//! The server adds Date, Server, Alt-Svc, and Content-Length where the length is known, to each response. A handler's
//! panic is answered 500, and so is a response with an interim status (1xx) other than that of an accepted [`Upgrade`].
//!
//! # Differences from `axum::serve`
//! A program's clients see the same of it, but for this:
//! - A handler's panic is answered 500, where `axum::serve` closes the connection.
//! - A WebSocket is opened by the extractor [below](#websockets). `hyper::upgrade` has nothing to give here, for CONNECT neither.
//! - A request whose head is larger than 32 KiB, or has more than 100 fields, is answered 431. One that two parsers could read
//!   differently is answered 400 before any handler sees it.
//! - Over HTTP/1.1 the connection ends with a response that begins before the request's content was read to its end.
//! - A response has no more content than its Content-Length says, and is cut off where it has less.
//! - In clear text Strict-Transport-Security is left out of responses (RFC 6797 section 7.2). Behind a proxy that terminates TLS
//!   it is sent with [`Security::BehindTlsProxy`].
//! - Content that its client lets rest for a minute ends ([`Limits::slowest`]), also that of a request of which the response has
//!   begun, as in a stream of gRPC in both directions whose client has nothing to say.
//! - A graceful stop has an end ([`Options::shutdown_grace`]).
//! - There are no Unix sockets.
//!
//! # WebSockets
//! The same handler serves WebSockets over HTTP/1.1 (RFC 6455), HTTP/2 (RFC 8441) and HTTP/3 (RFC 9220). axum's own
//! extractor works with hyper's upgrades only; the feature `axum` adds the module `ws` with an extractor of the same
//! form:
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
//! is open, and ends when no byte has moved for [`Limits::idle_timeout`].
//!
//! # Limits
//! [`Options::limits`] bounds what clients may cost, each of them and all together: connections, handshakes, requests,
//! bytes in memory, time without progress. [`Limits::max_body`] bounds the content of every request, and is off by
//! default: limits of single routes and of a handler's time are the application's, whose `DefaultBodyLimit` and layers
//! of tower-http work as they do elsewhere. A response's body is polled at most 64 KiB and one frame ahead of what its
//! connection has taken, which is what the client's windows and the buffers on the way let in: some MB at most.
//!
//! # Addresses
//! A server listens at all addresses of its machine, at port 8443 of TCP and UDP. [`Options::with_address`] sets another
//! address; port 0 picks a free one, which [`Serve::local_addr`] returns. [`Options::listeners`] has further ones, such as
//! port 80 that leads clients to `https` ([`Listener`]). A [`PassedSocket`] is one that is bound already, by the program or
//! by a service manager. A program may have several servers.
//!
//! # Graceful stop
//! ```no_run
//! # async fn run(app: axum::Router, options: altway_serve::Options) -> Result<(), altway_serve::Error> {
//! let stop = async { tokio::signal::ctrl_c().await.expect("signals can be waited for") };
//! altway_serve::serve(app, options).with_graceful_shutdown(stop).await
//! # }
//! ```
//! Clients are told by GOAWAY to send no more requests, those in progress are answered, and those that take longer than
//! [`Options::shutdown_grace`] are cut off; then the future resolves. Dropping the future stops the server
//! in the same way, in the background. With [`Options::takeover`] another process can replace this one without a refused connection.
//!
//! # Tests
//! A test talks to a server at a free port, in clear text or with [`certs::Store`]'s certificates, by any client:
//!
//! ```no_run
//! # async fn test(app: axum::Router) -> std::io::Result<()> {
//! use altway_serve::{Options, serve};
//!
//! let server = serve(app, Options::clear_text().with_address(([127, 0, 0, 1], 0)));
//! let url = format!("http://{}/", server.local_addr()?);
//! let running = tokio::spawn(server.into_future());
//! // … requests for `url` …
//! running.abort();
//! # Ok(())
//! # }
//! ```
//! Handlers are tested without a server as well: [`RequestBody`] is made of bytes, and [`Peer`] of an address.
//!
//! # TLS
//! [`Identity`] is a certificate and its key in PEM, from files or from memory. [`Certificates`] holds several, and each
//! client is shown the one for the name that it asks for. [`certs`] makes a local authority and certificates
//! signed by it. A [`ReloadHandle`] replaces certificates, and the site, while connections go on.
//! [`Options::clear_text`] is for servers behind a proxy: HTTP/1.1 and HTTP/2, no HTTP/3. For one that terminates TLS there
//! is [`Security::BehindTlsProxy`].
//!
//! # Policy
//! A client's first connection is over TCP. [`Options::policy`] decides which clients are offered HTTP/3 (`Alt-Svc`,
//! RFC 7838), by default from what was learnt of each client's path, over TCP and QUIC, and of similar clients.
//! [`Options::state`] keeps that over a restart; [`Options::model`] takes a model of your own.
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
//! ```
//! use altway_serve::Options;
//! use altway_serve::select::model::{Context, Judgement, OfferMode};
//! use altway_serve::select::{Model, Reason};
//! use std::sync::Arc;
//!
//! /// Offers HTTP/3 to clients that are far away, or not known yet.
//! #[derive(Debug)]
//! struct FarAway;
//!
//! impl Model for FarAway {
//!     fn judge(&self, context: &Context<'_>) -> Judgement {
//!         Judgement {
//!             http3: context.rtt().is_none_or(|seconds| seconds > 0.1),
//!             reason: Reason::Fixed,
//!             prediction: None,
//!             offer_mode: OfferMode::Long,
//!         }
//!     }
//! }
//!
//! let mut options = Options::clear_text();
//! options.model = Some(Arc::new(FarAway));
//! ```
//!
//! # Files, and a server in a thread
//! [`Site::files`] serves a directory; [`Files`] does so beside other routes. [`FilesOptions`] sets index, fallback,
//! listing, compressed forms, and Cache-Control by path. [`Server::bind`] does everything that
//! can fail because of its options or the system; [`Server::run`] serves until it is told to stop:
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
//! # Other crates
//! The protocols are in other crates: hyper for HTTP/1.1, `altway-http2` and `altway-http3`. The crate that decides which
//! protocol a client is offered is re-exported as [`select`]. An [`AccessLog`] writes a line for each request.

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
mod heap;
mod held;
mod host_table;
mod identity;
mod incidents;
mod key_log;
mod limits;
mod listen;
mod listener;
mod locks;
mod log_file;
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
pub use client_prefix::ClientPrefix;
pub use congestion::CongestionInUse;
pub use embed::{
    App, ByPeer, ByRequest, EarlyHints, EarlyHintsError, PerPeer, RequestContext, Serve,
    ServeFuture, serve,
};
pub use error::Error;
pub use files::{
    ContentCoding, Files, FilesFuture, FilesOptions, HeaderRule, InvalidFilesOptions, PathPattern,
    UnknownContentCoding,
};
pub use host_table::HostTable;
pub use identity::{CertificateNames, Identity, IdentityWarning};
pub use incidents::{ContentTooLong, INCIDENT_KINDS};
pub use key_log::KeyLog;
pub use limits::{InvalidLimits, Limits};
pub use listen::PassedSocket;
pub use listener::{Listener, ListenerKind};
pub use log_file::open_log;
pub use log_writer::{Dropped, LOG_QUEUE_BYTES, LogWriter};
pub use metrics::{
    ArrivalMetrics, DURATION_BUCKETS_MS, DurationMetrics, LatestVisit, Metrics, Monitor,
    OfferMetrics, PageMetrics, ProtocolMetrics, QUIC_HANDSHAKE_RESULTS, ShownCertificate,
    SiteMetrics,
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
