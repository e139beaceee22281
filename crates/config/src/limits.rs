//! Limits of what clients may cost: `[limits]`, each by the name of its option of `altway serve`.

use crate::{Proxy, Retry, Site};
use altway_units::PrefixLengths;
use altway_units::{DataSize, LeastRate, RequestLimit};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

/// Bounds of what clients may cost. Counts and sizes are of one worker, `max_memory` is of the process.
/// `None`: the default, which follows from `max_memory` where that is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Memory of the process, from which all counts and sizes follow that are not given.
    pub max_memory: Option<DataSize>,
    /// Addresses that count as one client.
    pub client_prefix: PrefixLengths,
    /// Open connections over TCP, and as many over QUIC.
    pub max_connections: Option<NonZeroUsize>,
    /// Connections of one client.
    pub max_connections_per_client: Option<NonZeroUsize>,
    /// Handshakes in progress.
    pub max_handshakes: Option<NonZeroUsize>,
    /// Handshakes of one client in progress.
    pub max_handshakes_per_client: Option<NonZeroUsize>,
    /// Requests in progress; beyond, each client has its first 4 all the same (fewer if its share is smaller).
    pub max_requests: Option<NonZeroUsize>,
    /// Requests of one client in progress.
    pub max_requests_per_client: Option<NonZeroUsize>,
    /// The rate of requests that one client may reach; the default spares loopback addresses.
    pub requests_per_prefix: Option<RequestLimit>,
    /// Requests at the same time on one connection.
    pub max_concurrent_requests: Option<NonZeroU32>,
    /// Bytes that connections over TCP hold, and requests that nobody reads; more than 0.
    pub max_held: Option<DataSize>,
    /// The same of one client; more than 0.
    pub max_held_per_client: Option<DataSize>,
    /// Bytes that connections over QUIC hold; more than 0.
    pub max_quic_held: Option<DataSize>,
    /// The same of one client; more than 0.
    pub max_quic_held_per_client: Option<DataSize>,
    /// Bytes of files that are kept in memory; 0: none.
    pub max_cached: Option<DataSize>,
    /// The condition under which QUIC clients must first show their address.
    pub retry: Retry,
    /// The longest time of a handshake, 1 ms or more.
    pub handshake_timeout: Option<Duration>,
    /// The longest time of a request's head over HTTP/1.1, 1 ms or more.
    pub header_timeout: Option<Duration>,
    /// The longest time that a connection may idle, 1 ms or more.
    pub idle_timeout: Option<Duration>,
    /// The least rate at which clients send and take bodies.
    pub slowest: Option<LeastRate>,
    /// The longest content of a request that is passed on, where site and route say nothing else.
    pub max_body: Option<DataSize>,
}

impl Limits {
    /// The longest content where nothing is said: more than a site takes in one request.
    pub const MAX_BODY: DataSize = DataSize::from_bytes(100_000_000_000);

    /// The longest content of a request to a route with `proxy`: what the route says, else its site, else these limits.
    #[must_use]
    pub fn body_limit(&self, site: &Site, proxy: &Proxy) -> DataSize {
        let said = proxy.max_body.or(site.max_body).or(self.max_body);
        said.unwrap_or(Self::MAX_BODY)
    }
}
