//! The load clients: h2load over HTTP/2, `altway load` over HTTP/3, which Debian's h2load can't speak, and over
//! every protocol where requests come at a rate, which h2load times from when they leave and not from when they are due.
//!
//! In a cell all servers of one transport have the same client, so that it favours none: of HTTP/3 it
//! is altway's own, for its peers too.

use super::altway_load::Protocol;
use super::contender::Contender;
use super::placement::Placement;
use super::process::Stop;
use super::server::{Server, ServerSetup};
use super::workload::{Load, Transport};
use super::{altway_load, h2load};
use anyhow::Result;

/// A round as a client saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    pub(crate) body_bytes: u64,
    /// Time from a request to the end of its answer, microseconds: the mean, and the longest.
    pub(crate) latency_mean_us: f64,
    pub(crate) latency_max_us: f64,
    /// Median and 99th percentile. `None`: the client doesn't tell.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    /// Negotiated version and cipher; empty in clear text, and where the client doesn't tell.
    pub(crate) tls: String,
    /// Reason for which the round doesn't count; `None` when it does.
    pub(crate) fault: Option<String>,
}

/// Has `server` answer `load`.
///
/// # Errors
/// The client is missing, fails or hangs, or somebody asked to stop.
pub(crate) fn run(
    load: Load,
    server: &Server,
    place: ServerSetup,
    placement: Placement,
    stop: &Stop,
) -> Result<Outcome> {
    let (address, protocol) = (server.address, protocol(server));
    if protocol == Protocol::H3 || load.per_second.is_some() {
        return altway_load::run(load, protocol, address, place, placement, stop);
    }
    h2load::run(load, server.transport, address, placement, stop)
}

fn protocol(server: &Server) -> Protocol {
    match (server.contender, server.transport) {
        // The origin speaks nothing else.
        (Contender::Direct, _) => Protocol::H1,
        (_, Transport::H3) => Protocol::H3,
        (_, Transport::H2c | Transport::Tls) => Protocol::H2,
    }
}
