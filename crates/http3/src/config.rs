//! Configuration of an endpoint: what an operator may choose, with its meaning, unit and cost.
//!
//! Everything has a default, and defaults differ by role only where the roles differ: a client
//! downloads, so its receive windows are large; a server takes small request bodies from many.

use std::sync::Arc;
use std::time::Duration;

use altway_quic as quic;
use rustls::client::Resumption;

use crate::settings::Settings;
use crate::{Error, Rate, Sessions};

/// HTTP/3's name in ALPN (RFC 9114 section 3.1).
const ALPN: &[u8] = b"h3";

/// Unidirectional streams a peer may have open. RFC 9114 section 6.2 asks for three at least; the
/// rest is for streams of unknown type, which are refused one by one. The engine keeps a record of
/// each, used or not: these and 100 requests fit into a table that a few more would double.
const MAX_UNIDIRECTIONAL_STREAMS: u32 = 8;

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// QUIC's part, and TLS'. The endpoint works on a copy with ALPN `h3` and the number of streams that
    /// [`Limits::max_concurrent_requests`] says. With [`early_data`](quic::ServerConfig::early_data) requests are
    /// taken of clients that come back before the handshake is done:
    /// [`Event::EarlyData`](crate::Event::EarlyData).
    pub quic: quic::ServerConfig,
    /// HTTP/3's limits on what peers may cost.
    pub limits: Limits,
    /// Take extended CONNECT (RFC 9220), for instance for WebSockets; such a request has a
    /// [`Protocol`](crate::Protocol). Default: off.
    pub extended_connect: bool,
}

impl ServerConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Self {
        Self {
            quic: quic::ServerConfig::new(tls),
            limits: Limits::default(),
            extended_connect: false,
        }
    }

    /// Returns the configuration of a QUIC endpoint whose connections carry HTTP/3.
    #[must_use]
    pub fn over(&self) -> quic::ServerConfig {
        let mut config = self.quic.clone();
        Arc::make_mut(&mut config.tls).alpn_protocols = vec![ALPN.to_vec()];
        set_streams(&mut config.limits, self.limits.max_concurrent_requests);
        config.session_context = self.limits.settings(self.extended_connect).to_bytes();
        config
    }
}

/// A client's configuration.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// QUIC's part, and TLS'. The endpoint works on a copy with ALPN `h3`, whose peers open no requests.
    pub quic: quic::ClientConfig,
    /// HTTP/3's limits on what peers may cost.
    pub limits: Limits,
    /// Remember servers there, and let requests leave before the handshake is done (0-RTT) where a
    /// server allowed it: [`Event::EarlyData`](crate::Event::EarlyData). Default: `None`, no early
    /// data; whether sessions are resumed is then TLS' business.
    pub early_data: Option<Sessions>,
}

impl ClientConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            quic: quic::ClientConfig::new(tls),
            limits: Limits::default(),
            early_data: None,
        }
    }

    /// Returns the configuration of a QUIC endpoint whose connections carry HTTP/3.
    #[must_use]
    pub fn over(&self) -> quic::ClientConfig {
        let mut config = self.quic.clone();
        let tls = Arc::make_mut(&mut config.tls);
        tls.alpn_protocols = vec![ALPN.to_vec()];
        if let Some(sessions) = &self.early_data {
            tls.resumption = Resumption::store(sessions.store());
            config.tokens = sessions.tokens();
        }
        config.early_data = self.early_data.is_some();
        set_streams(&mut config.limits, 0);
        config
    }
}

fn set_streams(limits: &mut quic::Limits, requests: u32) {
    limits.max_bidirectional_streams = requests;
    limits.max_unidirectional_streams = MAX_UNIDIRECTIONAL_STREAMS;
}

/// The limits on what peers may cost beyond [QUIC's](quic::Limits). Each bound holds for hostile peers as well.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest head or trailer section that is accepted, in bytes as RFC 9114 section 4.2.2
    /// counts (names + values + 32 a field); announced to the peer. A server answers a larger one
    /// with 431, and one for which there is no room: those that have not arrived whole or wait for QPACK count,
    /// beyond 8 KiB for each connection, for [`quic::Limits::max_held_bytes`]. Default: 64 KiB. At most 1 MiB.
    pub max_field_section_size: u64,
    /// Requests of one connection in progress at once, in either role. On a server each costs an idle
    /// connection 40 bytes or so. Default: 100, the least that RFC 9114 section 6.1 recommends.
    pub max_concurrent_requests: u32,
    /// Size of QPACK's dynamic table that a peer may use for its fields, bytes: memory that a
    /// connection costs once its peer uses it. 0 forbids it. At most 1 MiB. Default: 4,096.
    pub qpack_table_capacity: u32,
    /// Streams whose field sections may wait for entries of that table (RFC 9204 section 2.1.2).
    /// Each holds a section of up to `max_field_section_size`. A peer that exceeds it loses the
    /// connection. Default: 16.
    pub qpack_blocked_streams: u32,
    /// Frames and instructions that lead nowhere or may be needless: of unknown types, DATA without
    /// a payload, PRIORITY_UPDATE, GOAWAY, MAX_PUSH_ID, instructions on QPACK's streams. A skipped
    /// payload counts once more for each 16 KiB. Beyond, the connection ends with
    /// H3_EXCESSIVE_LOAD. Each request pays 16 back. Default: 1,000 at once, 100 more a second.
    pub floods: Rate,
    /// Server: requests that the peer opened and gave up before they were answered (rapid reset), or
    /// made this side give up by breaking the rules. Beyond, the connection ends with
    /// H3_EXCESSIVE_LOAD. Each response that is delivered pays one back. Default: 200 at once, 20
    /// more a second.
    pub resets: Rate,
    /// An exchange of which less than [`stall_bytes`](Self::stall_bytes) move in so long though the peer could let it (it sends
    /// no head or body, waits for QPACK insertions, or opens no window) is reset with
    /// H3_REQUEST_CANCELLED. The peer of a tunnel (CONNECT) may be silent, but must take what it is
    /// sent; and a client waits for a response as long as its application does. It may run out a quarter later than said. 1 ms or more. Default:
    /// 30 s.
    pub stall: Duration,
    /// Server: the time that a request's head has, from its first byte; less where [`stall`](Self::stall) is less. Later ones
    /// are told of by [`Event::RequestLate`](crate::Event::RequestLate). It may run out a second later than said. 1 ms or
    /// more. Default: 30 s.
    pub head: Duration,
    /// Bytes of an exchange, heads included, that must move in [`stall`](Self::stall). Default: 1 KiB.
    pub stall_bytes: u64,
    /// Server: bytes of a request that its application does not want, as
    /// [`Connection::stop_reading`](crate::Connection::stop_reading) says with H3_NO_ERROR, and that the client
    /// may send all the same, frame headers included. They are dropped as they arrive and cost their
    /// transfer only. STOP_SENDING follows beyond; 0 sends it at once. Default: 16 MiB.
    pub max_unwanted: u64,
    /// Server: how long such a request may rest once its response has been acknowledged, until
    /// STOP_SENDING: it moves if 1 KiB of it comes in that time, and after GOAWAY it has that time once.
    /// It may run out a second later than said. 1 ms or more. Default: 5 s.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_field_section_size: 64 << 10,
            max_concurrent_requests: 100,
            qpack_table_capacity: 4096,
            qpack_blocked_streams: 16,
            floods: Rate {
                burst: 1000,
                per_second: 100,
            },
            resets: Rate {
                burst: 200,
                per_second: 20,
            },
            stall: Duration::from_secs(30),
            head: Duration::from_secs(30),
            stall_bytes: 1 << 10,
            max_unwanted: 16 << 20,
            linger: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Names the first field that is out of range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (field, expected) = if self.max_field_section_size > 1 << 20 {
            ("max_field_section_size", "at most 1 MiB")
        } else if self.max_concurrent_requests == 0 {
            ("max_concurrent_requests", "1 or more")
        } else if self.qpack_table_capacity > 1 << 20 {
            ("qpack_table_capacity", "at most 1 MiB")
        } else if self.stall < Duration::from_millis(1) {
            ("stall", "1 ms or more")
        } else if self.head < Duration::from_millis(1) {
            ("head", "1 ms or more")
        } else if self.linger < Duration::from_millis(1) {
            ("linger", "1 ms or more")
        } else {
            return Ok(());
        };
        Err(Error::InvalidConfig { field, expected })
    }

    /// Returns the SETTINGS that this side announces.
    pub(crate) fn settings(&self, extended_connect: bool) -> Settings {
        Settings {
            max_field_section_size: self.max_field_section_size,
            qpack_table_capacity: self.qpack_table_capacity.into(),
            qpack_blocked_streams: self.qpack_blocked_streams.into(),
            extended_connect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(change: impl FnOnce(&mut Limits)) -> Option<&'static str> {
        let mut limits = Limits::default();
        change(&mut limits);
        match limits.check() {
            Err(Error::InvalidConfig { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        assert_eq!(field_of(|_| {}), None);
        let size = field_of(|limits| limits.max_field_section_size = (1 << 20) + 1);
        assert_eq!(size, Some("max_field_section_size"));
        let requests = field_of(|limits| limits.max_concurrent_requests = 0);
        assert_eq!(requests, Some("max_concurrent_requests"));
        let capacity = field_of(|limits| limits.qpack_table_capacity = (1 << 20) + 1);
        assert_eq!(capacity, Some("qpack_table_capacity"));
        let stall = field_of(|limits| limits.stall = Duration::ZERO);
        assert_eq!(stall, Some("stall"));
        let head = field_of(|limits| limits.head = Duration::ZERO);
        assert_eq!(head, Some("head"));
        let linger = field_of(|limits| limits.linger = Duration::ZERO);
        assert_eq!(linger, Some("linger"));
    }
}
