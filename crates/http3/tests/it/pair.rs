//! A client and a server endpoint joined by the link model, in virtual time, over a path that may
//! also let packets overtake and double them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_http3::{
    ClientConfig, CloseReason, ConnectionHandle, Datagram, Ecn, Endpoint, Event, PathStatistics,
    ServerConfig,
};

use altway_link::{Config as Link, Direction, Queue, Rate, seed_for};
use altway_units::{Bandwidth, DataSize, Ratio, Timestamp};

use crate::apps::{Client, Server};
use crate::tls;

pub(crate) const CLIENT: &str = "10.0.0.1:1000";
pub(crate) const SERVER: &str = "10.0.0.2:443";

/// Bytes of an IPv4 header and a UDP header.
const HEADERS: usize = 28;

/// One way.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) delay: Duration,
    /// Shares of the packets: lost, held back for up to twice the delay, doubled.
    pub(crate) loss: f64,
    pub(crate) overtaken: f64,
    pub(crate) doubled: f64,
    pub(crate) rate: Option<Bandwidth>,
    pub(crate) seed: u64,
}

impl Path {
    fn link(&self) -> Link {
        let rate = Rate::from(self.rate);
        let loss = Ratio::from_parts_per_billion((self.loss * 1e9) as u32).unwrap();
        Link {
            queue: Queue::default_for(&rate),
            rate,
            delay: self.delay,
            loss: loss.into(),
            ..Link::default()
        }
    }
}

impl Default for Path {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(1),
            loss: 0.0,
            overtaken: 0.0,
            doubled: 0.0,
            rate: None,
            seed: 1,
        }
    }
}

#[derive(Clone)]
struct Packet {
    to_server: bool,
    ecn: Option<Ecn>,
    payload: Vec<u8>,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) began: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    /// The applications on top.
    pub(crate) fetches: Client,
    pub(crate) files: Server,
    /// Packets of either direction may be swallowed from here on.
    pub(crate) black_hole: bool,
    pub(crate) connection: ConnectionHandle,
    /// The client was told that it may send requests early.
    pub(crate) early: bool,
    /// True if the client was told that early requests were refused.
    pub(crate) refused: bool,
    pub(crate) connected: bool,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) last_statistics: Option<PathStatistics>,
    pub(crate) server_connected: u32,
    /// The server's side of the connection that began last.
    pub(crate) server_connection: Option<ConnectionHandle>,
    pub(crate) server_closed: Vec<CloseReason>,
    pub(crate) went_away: bool,
    pub(crate) datagrams: u64,
    /// Time at which each of the server's datagrams left, and its bytes.
    pub(crate) sent: Vec<(Duration, usize)>,
    /// Every datagram that the client has sent.
    pub(crate) flight: Vec<Vec<u8>>,
    path: Path,
    random: fastrand::Rng,
    /// Directions of the link: to the server, and to the client.
    ways: [Direction<Packet>; 2],
    /// Packets that have left the link and are delivered now, or later if they were held back.
    arriving: BTreeMap<(Instant, u64), Packet>,
    arrived: u64,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::over(Path::default())
    }

    pub(crate) fn over(path: Path) -> Self {
        Self::with(path, |_, _| {})
    }

    pub(crate) fn with(
        path: Path,
        change: impl FnOnce(&mut ClientConfig, &mut ServerConfig),
    ) -> Self {
        let mut client = ClientConfig::new(tls::client());
        let mut server = ServerConfig::new(tls::server());
        change(&mut client, &mut server);
        let now = Instant::now();
        let mut client = <Endpoint>::client(&client, [1; 32]).unwrap();
        let server = <Endpoint>::server(&server, [2; 32]).unwrap();
        let connection = client
            .connect(now, SERVER.parse().unwrap(), "localhost", ())
            .unwrap();
        Self {
            now,
            began: now,
            client,
            server,
            fetches: Client::default(),
            files: Server::default(),
            black_hole: false,
            connection,
            early: false,
            refused: false,
            connected: false,
            closed: None,
            last_statistics: None,
            server_connected: 0,
            server_connection: None,
            server_closed: Vec::new(),
            went_away: false,
            datagrams: 0,
            sent: Vec::new(),
            flight: Vec::new(),
            path,
            random: fastrand::Rng::with_seed(path.seed),
            ways: [true, false].map(|up| Direction::new(path.link(), seed_for(path.seed, up))),
            arriving: BTreeMap::new(),
            arrived: 0,
        }
    }

    /// Runs until `done`, for up to an hour of virtual time. Whether it came to that.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&Pair) -> bool) -> bool {
        let end = self.now + Duration::from_secs(3600);
        loop {
            let next = self.step();
            if done(self) {
                return true;
            }
            match next {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => return false,
            }
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            match self.step() {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => break,
            }
        }
        self.now = end;
    }

    /// Everything that happens at this instant; when the next thing does.
    fn step(&mut self) -> Option<Instant> {
        self.deliver();
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        loop {
            let events = self.client_events() + self.server_events();
            let sent = self.transmit(true) + self.transmit(false);
            if events + sent == 0 {
                break;
            }
        }
        let timers = [
            self.client.poll_timeout(),
            self.server.poll_timeout(),
            self.arriving.keys().next().map(|(at, _)| *at),
        ];
        let ways = self.ways.each_ref().map(Direction::poll_timeout);
        let links = ways.map(|at| at.map(|at| self.began + (at - Timestamp::ZERO)));
        timers.into_iter().chain(links).flatten().min()
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::ZERO + self.elapsed()
    }

    /// Takes packets off the link; some wait longer, some come twice.
    fn arrive(&mut self) {
        let at = self.timestamp();
        for way in &mut self.ways {
            while let Some(delivery) = way.dequeue(at) {
                let held = self.random.f64() < self.path.overtaken;
                let wait = if held { self.random.f64() * 2.0 } else { 0.0 };
                let at = self.now + self.path.delay.mul_f64(wait);
                if self.random.f64() < self.path.doubled {
                    self.arrived += 1;
                    let packet = delivery.packet.clone();
                    self.arriving.insert((self.now, self.arrived), packet);
                }
                self.arrived += 1;
                self.arriving.insert((at, self.arrived), delivery.packet);
            }
        }
    }

    fn deliver(&mut self) {
        self.arrive();
        while let Some(entry) = self.arriving.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            let Packet {
                to_server,
                ecn,
                payload,
            } = entry.remove();
            let (endpoint, remote) = match to_server {
                true => (&mut self.server, CLIENT),
                false => (&mut self.client, SERVER),
            };
            let remote: SocketAddr = remote.parse().unwrap();
            let datagram = Datagram {
                remote,
                local_ip: None,
                ecn,
                payload: &payload,
            };
            endpoint.handle_datagram(self.now, datagram);
        }
    }

    fn transmit(&mut self, to_server: bool) -> usize {
        let at = self.timestamp();
        let endpoint = if to_server {
            &mut self.client
        } else {
            &mut self.server
        };
        let mut batches = 0;
        let mut buf = Vec::new();
        while let Some(transmit) = endpoint.poll_transmit(self.now, &mut buf) {
            batches += 1;
            assert_eq!(transmit.size, buf.len());
            let expected = if to_server { SERVER } else { CLIENT };
            assert_eq!(transmit.destination, expected.parse().unwrap());
            for payload in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                self.datagrams += 1;
                let packet = Packet {
                    to_server,
                    ecn: transmit.ecn,
                    payload: payload.to_vec(),
                };
                match to_server {
                    true => self.flight.push(packet.payload.clone()),
                    false => self.sent.push((self.now - self.began, payload.len())),
                }
                let size = DataSize::from_bytes((payload.len() + HEADERS) as u64);
                if !self.black_hole {
                    // What the link drops is lost.
                    let way = &mut self.ways[usize::from(!to_server)];
                    let _ = way.enqueue(at, size, packet);
                }
            }
        }
        batches
    }

    fn client_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((connection, event)) = self.client.poll_event() {
            count += 1;
            assert_eq!(connection, self.connection);
            assert!(self.closed.is_none(), "event after Closed: {event:?}");
            match event {
                Event::EarlyData => self.early = true,
                Event::EarlyDataRefused => self.refused = true,
                Event::Connected => self.connected = true,
                Event::Closed { reason } => {
                    self.closed = Some(reason);
                    self.last_statistics = self.client.path_statistics(connection);
                }
                Event::GoAway => self.went_away = true,
                event => self.fetches.on_event(&mut self.client, connection, event),
            }
        }
        count
    }

    fn server_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((connection, event)) = self.server.poll_event() {
            count += 1;
            match event {
                Event::EarlyData => {}
                Event::Connected => {
                    self.server_connected += 1;
                    self.server_connection = Some(connection);
                }
                Event::Closed { reason } => self.server_closed.push(reason),
                event => self.files.on_event(&mut self.server, connection, event),
            }
        }
        count
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.began
    }
}
