//! The admin interface of a running server: metrics for Prometheus, its status, explanations of what
//! clients are told, and a page that shows them, over a socket of its own that clients cannot reach.
//!
//! [`Admin::start`] listens at an [`Address`]: a Unix socket that only the server's user may use, or a port of the
//! loopback interface, which opens it to everybody on the machine. What it answers is made from a
//! [`Monitor`](altway_serve::Monitor), and from the figures of servers behind a proxy
//! ([`Admin::with_upstreams`]); [`call`] asks it from another process. Left to others: what a reload does.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the page |
//! | `/metrics` | [Prometheus' text format], version 0.0.4 |
//! | `/status` | [`Status`] as JSON |
//! | `/explain?address=IP` | what a client would be told, as JSON; `class` and `host` narrow it |
//! | `POST /reload` | reads the configuration again and says what changed; over a Unix socket only |
//!
//! [Prometheus' text format]: https://prometheus.io/docs/instrumenting/exposition_formats/

mod address;
mod answer;
mod client;
mod explained;
mod exposition;
mod listener;
mod process;
mod status;
mod upstream;

pub use address::{Address, BadAddress};
pub use answer::{AcmeReport, Admin, Reload, Reloaded};
pub use client::{AdminResponse, CallError, call};
pub use explained::Explained;
pub use listener::StartError;
pub use status::{
    AcmeNameStatus, AcmeStatus, ArrivalStatus, CertificateStatus, ClassStatus, ClientStatus,
    DurationStatus, OfferStatus, PageStatus, PoolStatus, ProcessStatus, ProtocolStatus,
    ReloadStatus, SiteStatus, Status, VisitStatus,
};
pub use upstream::{UpstreamStatus, Upstreams};
