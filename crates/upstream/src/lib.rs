//! The servers behind a proxy: which of them has a request, what it is sent, and what follows when it fails.
//!
//! A [`Group`] is servers that answer the same requests. [`Group::send`] carries one to one of them, over connections
//! that each worker thread keeps for itself, and gives the response as it comes. Its rules are pure: [`balance`]
//! chooses a server, [`health`] knows which of them may be chosen, [`retry`] decides what becomes of a request that
//! failed, [`heads`] rewrites the fields that pass, [`rewrite`] changes what an operator wants changed. Time, random
//! numbers and what happened are their arguments.
//!
//! Content is streamed in both directions, no faster than the other end takes it, and never written to a disk. Of a
//! request whose method is idempotent the first [`Options::keep_body`] bytes are kept for another attempt. Whoever waits
//! for a response over HTTP/1.1 drives its connection; those of HTTP/2 and HTTP/3 have a task of the Tokio runtime in
//! which the request was sent.
//!
//! Left to others: who the client is, what the routes are, logs (`altway-proxy`).

mod background;
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
pub use exchange::{Answer, Interim, Interims, Sending};
pub use group::{Check, Group, Options, Slowest, WeakGroup};
pub use response::ResponseBody;
pub use server::{Address, Protocol, Server};
pub use tls::{ClientCertificate, Roots};
pub use tunnel::{Tunnel, TunnelStream};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
