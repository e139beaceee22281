//! The access log: one event a request, tracing target `altway::access`, level INFO.

use altway_policy::Decision;
use http::{Method, StatusCode, Uri};
use std::fmt;
use std::net::IpAddr;

const TARGET: &str = "altway::access";

/// The protocol that a request came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Http3,
}

impl From<http::Version> for Protocol {
    fn from(version: http::Version) -> Self {
        match version {
            http::Version::HTTP_3 => Self::Http3,
            http::Version::HTTP_2 => Self::Http2,
            _ => Self::Http1,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "h1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        })
    }
}

/// A request and its answer, logged when dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    client: IpAddr,
    protocol: Protocol,
    method: Method,
    target: Uri,
    status: StatusCode,
    bytes: u64,
    decision: Option<Decision>,
}

/// Whether anybody reads the log.
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

impl Exchange {
    /// `None` when nobody reads the log.
    pub(crate) fn begin<B>(
        client: IpAddr,
        request: &http::Request<B>,
        status: StatusCode,
        decision: Option<Decision>,
    ) -> Option<Self> {
        is_on().then(|| Self {
            client,
            protocol: request.version().into(),
            method: request.method().clone(),
            target: request.uri().clone(),
            status,
            bytes: 0,
            decision,
        })
    }

    /// What the response offers, decided after the beginning.
    pub(crate) fn decided(&mut self, decision: Option<Decision>) {
        self.decision = decision;
    }

    /// Body bytes were handed to the transport.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let offer = self.decision.map(|decision| decision.offer);
        let reason = self.decision.map(|decision| decision.reason);
        tracing::info!(
            target: TARGET,
            client = %self.client,
            protocol = %self.protocol,
            method = %self.method,
            path = self.target.path(),
            status = self.status.as_u16(),
            bytes = self.bytes,
            offer = offer.map(tracing::field::display),
            reason = reason.map(tracing::field::display),
        );
    }
}
