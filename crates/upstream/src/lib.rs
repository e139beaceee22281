//! The servers behind a proxy (upstreams): the choice among them, connections to them, and what follows a failure.
//!
//! A [`Group`] is a set of servers that answer the same requests. [`Group::send`] sends a request to one of them, over
//! connections that each worker thread keeps for itself, and returns the response as it arrives. Its rules are pure
//! functions: [`balance`] chooses a server, [`health`] knows which of them may be chosen, [`retry`] decides what to do
//! with a request that failed, [`heads`] rewrites the fields that are passed on, and [`rewrite`] makes the operator's
//! changes. Time, random numbers and what happened are their arguments.
//!
//! Content is streamed in both directions, no faster than the other end reads it, and never written to a disk. For a
//! request with an idempotent method, and for any where a server speaks HTTP/2 or HTTP/3, content of up to
//! [`Options::keep_body`] bytes is kept for another attempt. Over
//! HTTP/1.1 the future that waits for a response drives the connection; connections of HTTP/2 and HTTP/3 have a task in
//! the Tokio runtime in which the request was sent.
//!
//! Left to `altway-proxy`: who the client is, routes, logs.

mod background;
mod backlog;
pub mod balance;
mod connect;
mod content;
mod counters;
mod error;
mod exchange;
mod group;
pub mod heads;
pub mod health;
mod http1;
mod http2;
mod http3;
mod pool;
mod proxy_protocol;
mod resolve;
mod response;
pub mod retry;
pub mod rewrite;
mod server;
mod socket;
mod tls;
mod tunnel;

pub use content::MAX_KEPT;
pub use counters::{FAILURES, LATENCY_BUCKETS_MS, Latency, ServerStatistics};
pub use error::{Error, Reason, Refusal};
pub use exchange::{Answer, Interim, InterimHandler, Sending};
pub use group::{Check, Group, MinRate, Options, WeakGroup};
pub use pool::ClientNumber;
pub use response::ResponseBody;
pub use server::{Address, Protocol, Server};
pub use tls::{ClientCertificate, Roots};
pub use tunnel::{Tunnel, TunnelStream};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
