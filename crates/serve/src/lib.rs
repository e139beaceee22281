//! The server: HTTP/1.1, HTTP/2 and HTTP/3 on one port number, files of one directory, and for each
//! client the protocol that suits its path.
//!
//! [`Server::bind`] does everything that can fail for the operator's reasons, [`Server::run`] serves
//! until it is told to stop. Each worker thread has its own event loop and sockets; one handler
//! answers for all three protocols, and puts on every response the `Alt-Svc` field that the policy
//! decides on from what was measured of the client's path. [`certs`] makes certificates where none
//! are given; a [`ReloadHandle`] replaces the certificate while connections go on, and with
//! [`Options::takeover`] another process the whole server.
//!
//! The engines stand elsewhere: hyper for HTTP/1.1, `altway-http2`, `altway-http3`; what is
//! known of paths is kept by `altway-path`, what follows from it is decided by `altway-policy`.
//!
//! Every request can be logged as one line by an [`AccessLog`].
//!
//! ```
//! use altway_serve::{Bind, Options, Security, Server, Site, certs, stop_channel};
//! use std::net::Ipv4Addr;
//!
//! let dir = tempfile::tempdir()?;
//! let leaf = certs::Store::open(dir.path().join("certs"))?.leaf(&["altway.test"])?;
//! let mut options = Options::new(Site::files(dir.path()), Security::Tls(leaf.identity()?));
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

mod accept;
mod access;
mod body;
pub mod certs;
mod client_prefix;
mod clients;
mod contained;
mod embed;
mod error;
mod exchanges;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod h3;
mod handler;
mod held;
mod identity;
mod incidents;
mod limits;
mod listen;
mod log_writer;
mod ocsp;
mod options;
mod path_meter;
mod reload;
mod request_body;
mod sending;
mod server;
mod service;
mod sessions;
mod site;
mod stop;
mod sys;
mod takeover;
mod tcp;
mod threads;
mod throttle;
mod tls;
mod worker;

pub use access::AccessLog;
pub use altway_http3::{EarlyData, Qlog, QlogWriter, Retry, ServerId};
pub use altway_policy::{ParseError as InvalidPolicy, Policy, Threshold};
pub use altway_units::{DataSize, Ratio};
pub use body::Body;
pub use client_prefix::{InvalidPrefixLengths, PrefixLengths};
pub use embed::{
    App, ByPeer, ByRequest, EarlyHints, EarlyHintsError, PerPeer, Serve, ServeFuture,
    WithGracefulShutdown, serve,
};
pub use error::Error;
pub use files::Files;
pub use handler::{BoxError, Peer};
pub use identity::{Identity, IdentityWarning};
pub use limits::{InvalidLimits, Limits};
pub use log_writer::{Dropped, LOG_QUEUE_BYTES, LogWriter};
pub use options::{
    Bind, Congestion, DEFAULT_PORT, Options, Security, Spread, Steering, UnknownCongestion,
    UnknownSpread,
};
pub use reload::ReloadHandle;
pub use request_body::{RequestBody, RequestBodyError};
pub use server::Server;
pub use site::Site;
pub use stop::{StopHandle, StopSignal, stop_channel};
