//! Configuration of an endpoint: what an operator may choose, with its meaning, unit and cost.
//!
//! Everything has a default, and defaults differ by role only where the roles differ: a client
//! downloads, so its receive windows are large; a server takes small request bodies from many.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::{ConnectionIds, Qlog, ResetKey, Retry, TokenCache, Tokens, Version};

/// A server's configuration. It speaks all of [`Version::ALL`](crate::Version::ALL).
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Certificates, keys and ALPN. Must allow TLS 1.3 and AES-128-GCM; the endpoint works on a
    /// copy, on which [`early_data`](Self::early_data) decides about early data.
    pub tls: Arc<rustls::ServerConfig>,
    /// QUIC's knobs.
    pub transport: Transport,
    /// The limits on what peers may cost.
    pub limits: Limits,
    /// Beginnings of the connection IDs of one of several endpoints of a server, by which
    /// [`worker_of`](crate::worker_of) finds it. Default: IDs that say nothing.
    pub connection_ids: Option<ConnectionIds>,
    /// Key that several endpoints of a server share, so that each can tell a client that the state
    /// of any of their connections is lost. Default: one that follows from the seed.
    pub reset_key: Option<ResetKey>,
    /// Tokens of validated addresses that several endpoints of a server share. Default: the
    /// endpoint's own, whose key follows from the seed.
    pub tokens: Option<Tokens>,
    /// Take early data (0-RTT, RFC 9001 section 4.6) of clients that come back: see
    /// [`Event::EarlyData`](crate::Event::EarlyData) for what it may and may not be used for. Whoever
    /// saw it on its way can send it again; but `tls` must keep its sessions itself
    /// (`session_storage`, no `ticketer`), each is good for one resumption (RFC 8446 section 8.1), and
    /// so a copy is early data for nobody. That holds for all endpoints that share the storage, and
    /// for those alone. Default: off.
    pub early_data: bool,
    /// Promises of the application to its clients beyond [`limits`](Self::limits) and windows, on which they may rely
    /// in early data. Sessions made under other promises are not resumed. Without effect unless early data is taken.
    /// Default: nothing.
    pub session_context: Vec<u8>,
    /// Log what happens on connections. Costs some microseconds a packet on those that are. Default:
    /// none is.
    pub qlog: Option<Qlog>,
}

impl ServerConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Self {
        Self {
            tls,
            transport: Transport::default(),
            limits: Limits::default(),
            connection_ids: None,
            reset_key: None,
            tokens: None,
            early_data: false,
            session_context: Vec::new(),
            qlog: None,
        }
    }
}

/// A client's configuration.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Trust anchors and ALPN. Must allow TLS 1.3 and AES-128-GCM; the endpoint works on a copy, on
    /// which [`early_data`](Self::early_data) decides about early data.
    pub tls: Arc<rustls::ClientConfig>,
    /// The version of QUIC, which a server has to speak: no other one is tried. Sessions and tokens of one
    /// version's connections are not used for another's. Default: 1.
    pub version: Version,
    /// QUIC's knobs.
    pub transport: Transport,
    /// The limits on what peers may cost.
    pub limits: Limits,
    /// Send early data (0-RTT, RFC 9001 section 4.6) where the server allowed it on an earlier
    /// connection: [`Event::EarlyData`](crate::Event::EarlyData) tells. What is known of earlier
    /// connections is in `tls` (`resumption`). Default: off.
    pub early_data: bool,
    /// Cache of tokens for later connections; clients of the same machine may share it. Default: a new one, which the
    /// endpoint's connections share.
    pub tokens: TokenCache,
    /// Connection IDs of this side are empty, as those of browsers are, and what the server sends is 8
    /// bytes a packet smaller (RFC 9000 section 5.1). What comes is then the connection's for whom the
    /// socket is, so an endpoint has one at a time, whatever `limits` says. Default: they have 8 bytes.
    pub empty_connection_ids: bool,
    /// Log what happens on connections, as for [`ServerConfig::qlog`].
    pub qlog: Option<Qlog>,
}

impl ClientConfig {
    /// Defaults around a TLS configuration.
    #[must_use]
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Self {
        Self {
            tls,
            version: Version::default(),
            transport: Transport::default(),
            limits: Limits::default(),
            early_data: false,
            tokens: TokenCache::new(),
            empty_connection_ids: false,
            qlog: None,
        }
    }
}

/// The algorithm that grows and shrinks the congestion window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// CUBIC (RFC 9438), as Linux' TCP uses by default, with HyStart++ (RFC 9406). The default.
    #[default]
    Cubic,
    /// NewReno (RFC 9002 section 7).
    NewReno,
    /// BBR: the path's rate and smallest round trip are measured, and single losses don't count.
    Bbr,
}

impl Congestion {
    /// The name that Linux gives it.
    #[must_use]
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.kernel_name())
    }
}

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, UnknownCongestion> {
        [Self::Cubic, Self::NewReno, Self::Bbr]
            .into_iter()
            .find(|congestion| congestion.kernel_name() == text)
            .ok_or_else(|| UnknownCongestion(text.into()))
    }
}

/// A text that names no [`Congestion`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a congestion control: expected cubic, reno or bbr")]
pub struct UnknownCongestion(String);

/// QUIC transport parameters.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Congestion control. Default: CUBIC.
    pub congestion: Congestion,
    /// Packets in the first congestion window, 2 … 1,000. With more, short responses are there earlier, and
    /// a queue on the way overflows where it holds fewer. Default: 10 (RFC 9002 section 7.2).
    pub initial_window: u32,
    /// A connection without a sign of life from the peer for this long is closed; the smaller of
    /// both peers' values counts. 1 ms or more, whole milliseconds. Default: 30 s.
    pub idle_timeout: Duration,
    /// Send a PING after this much silence, to hold a connection open. Costs a packet each time.
    /// Default: none.
    pub keep_alive: Option<Duration>,
    /// Path MTU discovery looks for the largest UDP payload up to this many bytes, from 1,200
    /// upwards; 1,200 switches it off. Default: 1,452, what an Ethernet path with IPv6 carries.
    pub mtu_upper_bound: u16,
    /// Server: the same bound for clients on the same machine (loopback addresses), whose packets no
    /// network carries. Theirs have 1,200 bytes until the first probe, which is for the bound, is
    /// acknowledged, and the first congestion window holds four packets of it. A client that doesn't want
    /// them says so by its [`max_udp_payload`](Self::max_udp_payload); one that takes less than half of the
    /// bound stays at 1,200. Default (`None`): as for everybody else.
    pub loopback_mtu: Option<u16>,
    /// The largest UDP payload that this side takes, as it tells the peer, whose path MTU discovery
    /// looks no further: what the link here carries saves it probes in vain. 1,200 to 65,527 bytes.
    /// Default: 65,527, the protocol's own (RFC 9000 section 18.2).
    pub max_udp_payload: u16,
    /// Bytes that a peer may send on one stream ahead of the application's reading. This much is
    /// buffered per stream at worst. Default (`None`): 16 MiB on a client, enough for 1 Gbit/s ×
    /// 100 ms (12.5 MB); 1 MiB on a server.
    pub stream_receive_window: Option<u64>,
    /// The same for a whole connection: the bound of what one peer can make this side buffer.
    /// A server's begins with 32 KiB and grows as the application reads. Default (`None`): 32 MiB on a
    /// client, 4 MiB on a server.
    pub receive_window: Option<u64>,
    /// Bytes of a connection taken for sending and not yet acknowledged. They are held by
    /// reference, not copied. A server's begin with 8 KiB and grow with what there is to send; where
    /// [`Limits::max_held_bytes`] is half used up, to three congestion windows at most. Default: 16 MiB, enough for 1 Gbit/s × 100 ms.
    pub send_window: u64,
    /// Datagrams in one [`Transmit`](crate::Transmit), 1 … 64: 1 switches segmentation (GSO) off.
    /// No batch is larger than 65,507 bytes, whatever the size of its datagrams. Default: 44, of 1,452
    /// bytes the most that fits.
    pub max_segments: usize,
    /// Ask the peer to acknowledge only once more than so many packets wait for it, or its own longest
    /// delay (mostly 25 ms) is over, instead of at every second packet. Counts where the peer knows
    /// draft-ietf-quic-ack-frequency; others do as ever. 1 or more. Saves processor time of both sides
    /// and room on a narrow way back, and costs up to that delay wherever fewer packets are under way:
    /// over 20 Mbit/s, 3 halves the acknowledgements and makes a download up to 1 % longer; 9 leaves a
    /// fifth of them, and 20 KB take 25 ms longer. Default: none.
    pub ack_threshold: Option<u32>,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            congestion: Congestion::default(),
            initial_window: 10,
            idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            mtu_upper_bound: 1452,
            loopback_mtu: None,
            max_udp_payload: 65_527,
            stream_receive_window: None,
            receive_window: None,
            send_window: 16 << 20,
            max_segments: 44,
            ack_threshold: None,
        }
    }
}

/// The limits on what peers may cost. Each bound holds for hostile peers as well.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bidirectional streams that a peer may have open at once, 0 … 2^32 − 1. Each may buffer a
    /// stream's receive window. Default: 256.
    pub max_bidirectional_streams: u32,
    /// Unidirectional streams that a peer may have open at once. Default: 16.
    pub max_unidirectional_streams: u32,
    /// Connections of the endpoint, those in handshake and those closing included; more are
    /// refused. 1 or more. Default: 65,536.
    pub max_connections: usize,
    /// Server: bytes that the connections of the endpoint may hold together, beyond 8 KiB each for
    /// sending and 32 KiB for receiving: those taken for sending and not acknowledged, and those that a peer
    /// may send before the application has read on. A connection's windows ([`Transport::send_window`], [`Transport::receive_window`]) grow
    /// with what it gets done, and stop growing where this ends; so it costs throughput, not
    /// connections. Default: 256 MiB.
    pub max_held_bytes: u64,
    /// Server: when a client must first show that it receives at its address. Default: while 1,000
    /// handshakes of others that have not shown it are in progress.
    pub retry: Retry,
    /// A handshake that takes longer is given up, however many packets come. 1 ms or more. Default
    /// (`None`): as long as the idle time-out.
    pub handshake_timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bidirectional_streams: 256,
            max_unidirectional_streams: 16,
            max_connections: 1 << 16,
            max_held_bytes: 256 << 20,
            retry: Retry::default(),
            handshake_timeout: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_parse_what_they_print() {
        for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
            assert_eq!(congestion.to_string().parse(), Ok(congestion));
        }
        let error = "vegas".parse::<Congestion>().unwrap_err();
        assert!(error.to_string().contains("cubic, reno or bbr"));
    }
}
