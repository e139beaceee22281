//! Reads what the transports tell of a connection in the terms of the path store, and gives that what
//! is new in it.

use altway_http3 as http3;
use altway_path::{
    ConnectionStatistics, DeliveryRate, Exchange, MemoryStore, PathStatistics, Sample, Store,
    Transport,
};
use altway_socket::{TcpInfo, tcp_info};
use altway_units::{Bandwidth, DataSize};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From so many packets on a connection's loss is judged by itself: fewer than 100 can't show one of 1 %.
const ENOUGH_PACKETS: u64 = 100;

/// What is known of all clients' paths, shared by the workers. One mutex: it is held for some
/// hundred nanoseconds a request, so a few cores don't contend for it.
#[derive(Debug)]
pub(crate) struct Paths {
    store: Mutex<MemoryStore>,
    started: Instant,
}

impl Paths {
    pub(crate) fn new() -> Self {
        Self {
            store: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// The path to `client` now, for a connection that has measured `own` of it.
    ///
    /// No other client decides for one that has measured: what its connection knows comes first, and where
    /// that is too little to judge a loss by, other connections from its address. Neighbours are a first
    /// guess for a client of which nothing is known.
    pub(crate) fn get(
        &self,
        client: IpAddr,
        own: Option<PathStatistics>,
    ) -> Option<PathStatistics> {
        if own.is_some_and(|own| own.packets >= ENOUGH_PACKETS) {
            return own;
        }
        let now = self.started.elapsed();
        let store = self.lock();
        let address = store.client(client, now);
        match own {
            Some(own) => Some(PathStatistics {
                min_rtt: own.min_rtt,
                ..address.unwrap_or(own)
            }),
            None => address.or_else(|| store.neighbours(client, now)),
        }
    }

    fn record(&self, client: IpAddr, sample: &Sample) {
        self.lock().record(client, sample);
    }

    /// Statistics stay useful whatever happened to a thread that wrote them.
    fn lock(&self) -> MutexGuard<'_, MemoryStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection: remembers what it has reported, so that nothing counts twice.
#[derive(Debug)]
pub(crate) struct Meter {
    client: IpAddr,
    reported: Option<ConnectionStatistics>,
    /// The path as this connection alone knows it.
    own: Option<PathStatistics>,
}

impl Meter {
    pub(crate) fn new(client: IpAddr) -> Self {
        Self {
            client,
            reported: None,
            own: None,
        }
    }

    /// Reports what is new in `statistics` to `paths`; nothing before the first round trip.
    pub(crate) fn observe(&mut self, statistics: ConnectionStatistics, paths: &Paths) {
        let at = paths.started.elapsed();
        self.own = statistics.path(at);
        if let Some(sample) = statistics.since(self.reported.as_ref(), at) {
            self.reported = Some(statistics);
            paths.record(self.client, &sample);
        }
    }

    /// The path as this connection alone knew it at its latest report; `None` before the first.
    pub(crate) fn own(&self) -> Option<PathStatistics> {
        self.own
    }
}

/// What the kernel tells of the TCP connection to `client`, which nothing of exchanges is; `None` for a socket that has nothing to
/// tell (no TCP, or Linux before 4.6).
pub(crate) fn of_tcp(
    socket: impl AsFd,
    client: IpAddr,
    handshake: Option<Duration>,
) -> Option<ConnectionStatistics> {
    const TCP_HEADER: u64 = 20;
    let info = tcp_info(socket)?;
    let headers = ip_header(client) + TCP_HEADER + info.option_bytes;
    Some(ConnectionStatistics {
        transport: Transport::Tcp,
        min_rtt: info.min_rtt,
        smoothed_rtt: info.smoothed_rtt,
        rtt_variation: info.rtt_variation,
        packets_sent: info.data_segments_sent,
        bytes_sent: info.bytes_sent.map(DataSize::from_bytes),
        packets_acked: info.segments_delivered,
        bytes_acked: DataSize::from_bytes(info.bytes_acked),
        packets_lost: info.retransmissions,
        bytes_lost: info.bytes_retransmitted.map(DataSize::from_bytes),
        packets_spurious: info.duplicates,
        delivery_rate: tcp_delivery_rate(&info, headers),
        congestion_window: window(&info),
        mtu: DataSize::from_bytes(info.path_mtu),
        handshake,
        exchanges: 0,
        exchange: None,
    })
}

fn window(info: &TcpInfo) -> DataSize {
    DataSize::from_bytes(info.congestion_window.saturating_mul(info.segment_bytes))
}

fn tcp_delivery_rate(info: &TcpInfo, headers: u64) -> Option<DeliveryRate> {
    let latest = info.delivery_rate?;
    Some(DeliveryRate {
        rate: on_the_wire(latest.bytes_per_second, info.segment_bytes, headers)?,
        app_limited: latest.app_limited,
    })
}

/// What the engine tells of a QUIC connection.
pub(crate) fn of_quic(
    path: &http3::PathStatistics,
    deliveries: http3::Deliveries,
) -> ConnectionStatistics {
    const UDP_HEADER: u64 = 8;
    let headers = ip_header(path.remote.ip().to_canonical()) + UDP_HEADER;
    let rate = path.delivery_rate.and_then(|latest| {
        Some(DeliveryRate {
            rate: on_the_wire(latest.bytes_per_second, path.mtu.into(), headers)?,
            app_limited: latest.app_limited,
        })
    });
    ConnectionStatistics {
        transport: Transport::Quic,
        min_rtt: (!path.min_rtt.is_zero()).then_some(path.min_rtt),
        smoothed_rtt: Some(path.smoothed_rtt),
        rtt_variation: Some(path.rtt_variation),
        packets_sent: path.packets_sent,
        bytes_sent: Some(DataSize::from_bytes(path.bytes_sent)),
        packets_acked: Some(path.packets_acked),
        bytes_acked: DataSize::from_bytes(path.bytes_acked),
        packets_lost: path.packets_lost,
        bytes_lost: Some(DataSize::from_bytes(path.bytes_lost)),
        packets_spurious: None,
        delivery_rate: rate,
        congestion_window: DataSize::from_bytes(path.congestion_window),
        mtu: DataSize::from_bytes(u64::from(path.mtu) + headers),
        handshake: path.handshake,
        exchanges: deliveries.count,
        exchange: deliveries.latest.map(|latest| Exchange {
            time: latest.time,
            response: DataSize::from_bytes(latest.bytes),
        }),
    }
}

/// Bytes of an IP header without options.
fn ip_header(client: IpAddr) -> u64 {
    if client.is_ipv4() { 20 } else { 40 }
}

/// The rate in bits of IP packets, for so many payload bytes per second in full packets of `payload`
/// bytes; `None` for zero.
fn on_the_wire(bytes_per_second: u64, payload: u64, headers: u64) -> Option<Bandwidth> {
    let packet = u128::from(payload.saturating_add(headers));
    let bits = (u128::from(bytes_per_second) * 8 * packet).checked_div(payload.into())?;
    Bandwidth::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// What a connection would tell, for tests.
#[cfg(test)]
pub(crate) fn told(min_rtt: Option<Duration>, sent: u64, lost: u64) -> ConnectionStatistics {
    ConnectionStatistics {
        transport: Transport::Tcp,
        min_rtt,
        smoothed_rtt: min_rtt,
        rtt_variation: None,
        packets_sent: sent,
        bytes_sent: None,
        packets_acked: None,
        bytes_acked: DataSize::ZERO,
        packets_lost: lost,
        bytes_lost: None,
        packets_spurious: None,
        delivery_rate: None,
        congestion_window: DataSize::ZERO,
        mtu: DataSize::ZERO,
        handshake: None,
        exchanges: 0,
        exchange: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_units::Ratio;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn counts_each_packet_once() {
        let paths = Paths::new();
        let mut meter = Meter::new(CLIENT);
        for (sent, lost) in [(100, 1), (100, 1), (200, 2)] {
            meter.observe(told(Some(Duration::from_millis(3)), sent, lost), &paths);
        }
        let path = paths.get(CLIENT, None).unwrap();
        assert_eq!((path.packets, path.loss.to_string().as_str()), (200, "1%"));
    }

    #[test]
    fn says_nothing_before_the_first_round_trip() {
        let paths = Paths::new();
        Meter::new(CLIENT).observe(told(None, 2, 0), &paths);
        assert_eq!(paths.get(CLIENT, None), None);
    }

    const VICTIM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 200));

    fn neighbours_measure(paths: &Paths, number: u8, statistics: ConnectionStatistics) {
        for host in 0..number {
            let neighbour = Ipv4Addr::new(192, 0, 2, host);
            Meter::new(neighbour.into()).observe(statistics, paths);
        }
    }

    #[test]
    fn a_neighbour_changes_nothing_for_a_client_that_has_measured_or_not() {
        let paths = Paths::new();
        let near = told(Some(Duration::from_micros(50)), 1_000, 1_000);
        neighbours_measure(&paths, 1, near);
        assert_eq!(paths.get(VICTIM, None), None);
        let mut meter = Meter::new(VICTIM);
        let far = Duration::from_millis(80);
        meter.observe(told(Some(far), 10, 0), &paths);
        let path = paths.get(VICTIM, meter.own()).unwrap();
        assert_eq!((path.min_rtt, path.loss), (far, Ratio::ZERO));
    }

    #[test]
    fn many_neighbours_change_nothing_for_a_client_that_has_measured() {
        let paths = Paths::new();
        let near = told(Some(Duration::from_micros(50)), 1_000, 1_000);
        neighbours_measure(&paths, 100, near);
        let guess = paths.get(VICTIM, None).unwrap();
        assert_eq!(guess.min_rtt, Duration::from_micros(50));
        for packets in [0, 10, 1_000] {
            let mut meter = Meter::new(VICTIM);
            let far = Duration::from_millis(80);
            meter.observe(told(Some(far), packets, 0), &paths);
            let path = paths.get(VICTIM, meter.own()).unwrap();
            assert_eq!((path.min_rtt, path.loss), (far, Ratio::ZERO));
        }
    }

    #[test]
    fn a_connection_of_few_packets_knows_the_loss_of_its_address_and_one_of_many_its_own() {
        let paths = Paths::new();
        let rtt = Duration::from_millis(3);
        Meter::new(VICTIM).observe(told(Some(rtt), 900, 50), &paths);
        let mut meter = Meter::new(VICTIM);
        meter.observe(told(Some(rtt), 99, 0), &paths);
        let path = paths.get(VICTIM, meter.own()).unwrap();
        assert_eq!((path.packets, path.loss == Ratio::ZERO), (999, false));
        meter.observe(told(Some(rtt), 100, 0), &paths);
        let path = paths.get(VICTIM, meter.own()).unwrap();
        assert_eq!((path.packets, path.loss == Ratio::ZERO), (100, true));
    }

    #[test]
    fn a_tcp_connection_has_statistics() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let handshake = Some(Duration::from_millis(1));
        let statistics = of_tcp(&server, CLIENT, handshake).unwrap();
        assert!(statistics.min_rtt.unwrap() < Duration::from_secs(1));
        assert_eq!((statistics.packets_sent, statistics.packets_lost), (1, 0));
        assert_eq!(statistics.handshake, handshake);
        assert!(statistics.congestion_window >= DataSize::from_bytes(536));
    }

    #[test]
    fn a_udp_socket_has_no_statistics() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(of_tcp(&socket, CLIENT, None), None);
    }

    #[test]
    fn rates_count_whole_ip_packets() {
        // 1,448 bytes of payload are a packet of 1,500.
        let rate = on_the_wire(1_448_000, 1_448, 52).unwrap();
        assert_eq!(rate.as_bps(), 12_000_000);
        assert_eq!(on_the_wire(0, 1_448, 52), None);
        assert_eq!(on_the_wire(1, 0, 52), None);
    }
}
