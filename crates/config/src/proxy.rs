//! Requests that are carried to servers behind this one: `proxy`.

use crate::{
    Balance, Certificate, CheckPath, FieldPattern, HeaderField, HostValue, PathPrefix, TlsName,
    Upstream,
};
use altway_units::{DataSize, LeastRate, Network};
use std::path::PathBuf;
use std::time::Duration;

/// The most servers of a `proxy`.
pub const MAX_UPSTREAMS: usize = 64;

/// The most servers that one request is sent to.
pub const MAX_ATTEMPTS: u32 = 10;

/// The most of a request's content that is kept for another attempt, in bytes.
pub const MAX_KEEP_BODY: u64 = 16 << 20;

/// Servers that answer the requests of a route: `proxy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The servers, none twice.
    pub upstreams: Vec<Upstream>,
    /// The choice of the server that has a request.
    pub balance: Balance,
    /// The request that tells whether a server is there; `None`: clients' requests tell.
    pub health: Option<HealthCheck>,
    /// The attempts that follow when a server fails.
    pub retry: ProxyRetry,
    /// Host of the requests; `None`: what the client asks for.
    pub host: Option<HostValue>,
    /// The beginning that paths lose; those that begin otherwise stay.
    pub strip_prefix: Option<PathPrefix>,
    /// Prefix that paths are given in front, after they have lost theirs.
    pub add_prefix: Option<PathPrefix>,
    /// Changes of the fields of requests.
    pub request_headers: FieldChanges,
    /// Changes of the fields of the servers' responses.
    pub response_headers: FieldChanges,
    /// Networks of proxies before this one that are believed what they say of the client.
    pub trust: Vec<Network>,
    /// PEM file of the authorities that sign the servers' certificates; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// The name that servers are asked for in TLS (SNI), and that their certificates have to be for; `None`: the host
    /// of each.
    pub server_name: Option<TlsName>,
    /// The certificate that servers are shown which ask for one; it has no OCSP response.
    pub client_certificate: Option<Certificate>,
    /// True if each connection begins with a header of the PROXY protocol, version 2.
    pub send_proxy_protocol: bool,
    /// Requests at a time that a worker has at one server.
    pub upstream_requests: usize,
    /// The longest content of a request; `None`: as the site or [`Limits`](crate::Limits) say.
    pub max_body: Option<DataSize>,
    /// The time that servers may take.
    pub timeouts: ProxyTimeouts,
}

impl Proxy {
    /// Requests at a time that a worker has at one server, when no number is given.
    pub const DEFAULT_REQUESTS: usize = 1_000;

    /// Servers, with the default of every other key.
    #[must_use]
    pub fn to(upstreams: Vec<Upstream>) -> Self {
        Self {
            upstreams,
            balance: Balance::default(),
            health: None,
            retry: ProxyRetry::default(),
            host: None,
            strip_prefix: None,
            add_prefix: None,
            request_headers: FieldChanges::default(),
            response_headers: FieldChanges::default(),
            trust: Vec::new(),
            roots: None,
            server_name: None,
            client_certificate: None,
            send_proxy_protocol: false,
            upstream_requests: Self::DEFAULT_REQUESTS,
            max_body: None,
            timeouts: ProxyTimeouts::default(),
        }
    }
}

/// Changes of the fields of a message: `request-headers` and `response-headers`. Made in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldChanges {
    /// Fields that are taken away.
    pub remove: Vec<FieldPattern>,
    /// Fields in place of those that have the same names. Of one name may be several.
    pub set: Vec<HeaderField>,
    /// Fields beside those that have the same names.
    pub append: Vec<HeaderField>,
}

/// A request that is sent to each server again and again: `health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path that is asked for.
    pub path: CheckPath,
    /// Time between two of them.
    pub every: Duration,
}

impl HealthCheck {
    /// The time between two checks when none is given.
    pub const DEFAULT_EVERY: Duration = Duration::from_secs(5);
}

/// The attempts that follow when a server fails: `retry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyRetry {
    /// Servers that a request is sent to at most, 1 to [`MAX_ATTEMPTS`].
    pub attempts: u32,
    /// The part of a request's content that is kept for another attempt, at most [`MAX_KEEP_BODY`].
    pub keep_body: DataSize,
}

impl Default for ProxyRetry {
    fn default() -> Self {
        Self {
            attempts: 2,
            keep_body: DataSize::from_bytes(64 << 10),
        }
    }
}

/// The time that servers may take: `timeouts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyTimeouts {
    /// The time for a connection.
    pub connect: Duration,
    /// The time from a request's last byte to the head of its response.
    pub head: Duration,
    /// The longest pause in a response.
    pub idle: Duration,
    /// The least rate of a response; `None`: 1 KiB in `idle`, where its length is known.
    pub slowest: Option<LeastRate>,
}

impl Default for ProxyTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            head: Duration::from_secs(60),
            idle: Duration::from_secs(300),
            slowest: None,
        }
    }
}
