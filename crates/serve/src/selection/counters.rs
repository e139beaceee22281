//! The transports' counters, in the terms of the selector.

use altway_http3 as http3;
use altway_select::{Congestion, Transport};
use altway_socket::{TcpInfo, tcp_info};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The counters of a connection's transport since its beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counters {
    pub(crate) transport: Transport,
    /// The congestion control of this connection, where it is its own: a route or the system's default, which may
    /// change while the server runs, give TCP connections theirs. `None`: the server's.
    pub(crate) congestion: Option<Congestion>,
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) smoothed_rtt: Option<Duration>,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) packets_spurious: u64,
    /// Payload that the client has acknowledged.
    pub(crate) bytes_acked: u64,
    /// Moment of `bytes_acked` in the second quarter of a transfer, where the transport notes it.
    pub(crate) progress: Option<http3::AckProgress>,
    /// Bits on the wire for 1,000 of payload.
    pub(crate) wire: u64,
    /// The time at which the client had everything that it was known to be owed, and what was acknowledged then.
    pub(crate) arrived: Option<(Instant, u64)>,
}

impl Counters {
    /// Reads the kernel's counters of a TCP connection to `client`; `None` for a socket that has nothing to tell (no TCP,
    /// or Linux before 4.6).
    pub(crate) fn of_tcp(socket: impl AsFd, client: IpAddr) -> Option<Self> {
        tcp_info(socket).map(|info| Self::of_info(&info, client))
    }

    pub(crate) fn of_info(info: &TcpInfo, client: IpAddr) -> Self {
        const TCP_HEADER: u64 = 20;
        let headers = ip_header(client) + TCP_HEADER + info.option_bytes;
        Self {
            transport: Transport::Tcp,
            congestion: None,
            min_rtt: info.min_rtt,
            smoothed_rtt: info.smoothed_rtt,
            packets_sent: info.data_segments_sent,
            packets_lost: info.retransmissions,
            packets_spurious: info.duplicates.unwrap_or(0),
            bytes_acked: info.bytes_acked,
            progress: None,
            wire: wire(info.segment_bytes, headers),
            arrived: None,
        }
    }

    /// Takes the counters of a QUIC connection.
    pub(crate) fn of_quic(path: &http3::PathStatistics) -> Self {
        const UDP_HEADER: u64 = 8;
        let headers = ip_header(path.remote.ip().to_canonical()) + UDP_HEADER;
        Self {
            transport: Transport::Quic,
            congestion: None,
            min_rtt: (!path.min_rtt.is_zero()).then_some(path.min_rtt),
            smoothed_rtt: Some(path.smoothed_rtt),
            packets_sent: path.packets_sent,
            packets_lost: path.packets_lost,
            packets_spurious: 0,
            bytes_acked: path.bytes_acked,
            progress: path.progress,
            wire: wire(path.mtu.into(), headers),
            arrived: None,
        }
    }

    /// Bits on the wire of so many bytes of payload in full packets.
    pub(crate) fn bits(&self, payload: u64) -> u64 {
        let bits = u128::from(payload) * u128::from(self.wire) / 1_000;
        u64::try_from(bits).unwrap_or(u64::MAX)
    }
}

/// The kind of the congestion control that the kernel has for a connection; `None` for a socket without.
pub(crate) fn congestion_of(socket: &impl AsFd) -> Option<Congestion> {
    let name = socket2::SockRef::from(socket).tcp_congestion().ok()?;
    let name = name.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok().map(Congestion::of_name)
}

/// Bytes of an IP header without options.
fn ip_header(client: IpAddr) -> u64 {
    if client.is_ipv4() { 20 } else { 40 }
}

/// Bits of IP packets for 1,000 bytes in packets of `payload` bytes.
fn wire(payload: u64, headers: u64) -> u64 {
    let payload = payload.max(1);
    8_000_u64.saturating_mul(payload.saturating_add(headers)) / payload
}

/// Counters that a transport might have, for tests.
#[cfg(test)]
pub(crate) fn told(min_rtt: Option<Duration>, sent: u64, lost: u64) -> Counters {
    Counters {
        transport: Transport::Tcp,
        congestion: None,
        min_rtt,
        smoothed_rtt: min_rtt,
        packets_sent: sent,
        packets_lost: lost,
        packets_spurious: 0,
        bytes_acked: 0,
        progress: None,
        wire: 8_000,
        arrived: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_tcp_connection_has_counters() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let counters = Counters::of_tcp(&server, CLIENT).unwrap();
        assert!(counters.min_rtt.unwrap() < Duration::from_secs(1));
        assert_eq!((counters.packets_sent, counters.packets_lost), (1, 0));
        for name in ["reno", "cubic"] {
            let set = socket2::SockRef::from(&server).set_tcp_congestion(name.as_bytes());
            if set.is_ok() {
                assert_eq!(
                    congestion_of(&server),
                    Some(Congestion::LossBased),
                    "{name}"
                );
            }
        }
        let bbr = socket2::SockRef::from(&server).set_tcp_congestion(b"bbr");
        if bbr.is_ok() {
            assert_eq!(congestion_of(&server), Some(Congestion::RateBased));
        }
    }

    #[test]
    fn a_udp_socket_has_none() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(Counters::of_tcp(&socket, CLIENT), None);
        assert_eq!(congestion_of(&socket), None);
    }

    #[test]
    fn bits_are_those_of_whole_ip_packets() {
        // 1,448 bytes of payload are a packet of 1,500.
        let mut counters = told(None, 0, 0);
        counters.wire = wire(1_448, 52);
        assert_eq!(counters.bits(1_448_000) / 1_000, 11_999);
        assert_eq!(wire(0, 52), 8_000 * 53);
    }
}
