//! A client and a server endpoint joined by the link model, in virtual time.
//!
//! Each end reads all that comes and writes what it was given as far as it goes; tests look at what
//! has arrived.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_link::{Config as Link, Direction as Way, seed_for};
use altway_quic::{
    ClientConfig, CloseReason, ConnectionHandle, Datagram, Direction, Ecn, Event, Read,
    ServerConfig, ServerId, StreamId, WorkerId, worker_of,
};
use altway_units::{DataSize, Timestamp};
use bytes::Bytes;

use crate::engine::{Connection, Endpoint, QuicConnection, QuicEndpoint};
use crate::tls;

pub(crate) const CLIENT: &str = "10.0.0.1:1000";
pub(crate) const SERVER: &str = "10.0.0.2:443";

/// Bytes of an IPv4 header and a UDP header.
const HEADERS: usize = 28;

#[derive(Clone)]
struct Packet {
    ecn: Option<Ecn>,
    payload: Vec<u8>,
}

/// One side.
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<ConnectionHandle>,
    /// Was told of early data.
    pub(crate) early: bool,
    pub(crate) refused: bool,
    pub(crate) connected: bool,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) received: BTreeMap<StreamId, Vec<u8>>,
    /// Streams whose end came, in the order in which it did.
    pub(crate) ended: Vec<StreamId>,
    pub(crate) resets: Vec<(StreamId, u64)>,
    pub(crate) stopped: Vec<(StreamId, u64)>,
    pub(crate) finished: Vec<StreamId>,
    pub(crate) streams_available: usize,
    /// The workers of the other side that its datagrams named.
    pub(crate) named: Vec<Option<WorkerId>>,
    /// The ECN bits that it set.
    pub(crate) marks: Vec<Option<Ecn>>,
    /// Change of the ECN bits by the path.
    pub(crate) on_the_way: fn(Option<Ecn>) -> Option<Ecn>,
    /// Every datagram that this end has sent.
    pub(crate) flight: Vec<Vec<u8>>,
    /// Leaves streams unread.
    pub(crate) lazy: bool,
    sending: HashMap<StreamId, Bytes>,
    /// Source address of this end's datagrams, as the other end sees it.
    pub(crate) address: SocketAddr,
    out: Way<Packet>,
}

pub(crate) struct Pair {
    pub(crate) client: End,
    pub(crate) server: End,
    /// Swallows what either side sends.
    pub(crate) black_hole: bool,
    /// True if datagrams to an address that the client had before arrive as well.
    pub(crate) keeps_addresses: bool,
    /// The largest datagram that the path carries; larger ones are lost.
    pub(crate) mtu: usize,
    began: Instant,
    now: Timestamp,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::over(delay(1))
    }

    pub(crate) fn over(link: Link) -> Self {
        Self::with(link, |_, _| {})
    }

    pub(crate) fn with(
        link: Link,
        change: impl FnOnce(&mut ClientConfig, &mut ServerConfig),
    ) -> Self {
        Self::seeded(7, link, change)
    }

    /// `seed`: decides which packets the link loses.
    pub(crate) fn seeded(
        seed: u64,
        link: Link,
        change: impl FnOnce(&mut ClientConfig, &mut ServerConfig),
    ) -> Self {
        let mut client = ClientConfig::new(tls::client());
        let mut server = ServerConfig::new(tls::server());
        change(&mut client, &mut server);
        let began = Instant::now();
        let mut client = Endpoint::client(&client, [1; 32]).unwrap();
        let server = Endpoint::server(&server, [2; 32]).unwrap();
        let handle = client
            .connect(began, SERVER.parse().unwrap(), "localhost", ())
            .unwrap();
        let mut client = End::new(client, CLIENT, Way::new(link.clone(), seed_for(seed, true)));
        client.connection = Some(handle);
        let server = End::new(server, SERVER, Way::new(link, seed_for(seed, false)));
        Self {
            client,
            server,
            black_hole: false,
            keeps_addresses: false,
            mtu: usize::MAX,
            began,
            now: Timestamp::ZERO,
        }
    }

    pub(crate) fn connected(mut self) -> Self {
        assert!(
            self.run_until(|pair| pair.client.connected && pair.server.connected),
            "{:?}",
            self.client.closed
        );
        self
    }

    /// Ends the connection, and begins another one between the same endpoints.
    pub(crate) fn reconnect(&mut self) {
        self.client.quic().close(0, b"");
        self.run_for(Duration::from_secs(10));
        self.begin_anew();
    }

    /// Begins another connection, after the former one is gone.
    pub(crate) fn begin_anew(&mut self) {
        let now = self.now();
        for end in [&mut self.client, &mut self.server] {
            (end.early, end.refused, end.connected) = (false, false, false);
            end.connection = None;
            end.closed = None;
            end.received.clear();
            end.ended.clear();
        }
        let handle = self
            .client
            .endpoint
            .connect(now, SERVER.parse().unwrap(), "localhost", ());
        self.client.connection = Some(handle.unwrap());
    }

    /// Virtual time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now - Timestamp::ZERO
    }

    pub(crate) fn now(&self) -> Instant {
        self.began + self.elapsed()
    }

    /// Runs until `done`, for up to an hour. Whether it came to that.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&Pair) -> bool) -> bool {
        loop {
            let next = self.step();
            if done(self) {
                return true;
            }
            match next {
                Some(next) if next <= Timestamp::ZERO + Duration::from_secs(3600) => {
                    self.now = next.max(self.now);
                }
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
    fn step(&mut self) -> Option<Timestamp> {
        let now = self.now();
        self.client.deliver(&mut self.server, now, self.now);
        self.server.deliver(&mut self.client, now, self.now);
        let carried = if self.black_hole { 0 } else { self.mtu };
        let (client, server) = (self.client.address, self.server.address);
        let client = (!self.keeps_addresses).then_some(client);
        let ends = [(&mut self.client, Some(server)), (&mut self.server, client)];
        let next = ends.map(|(end, peer)| end.turn(now, self.now, carried, peer));
        let timer = next.into_iter().flatten().min();
        let timer = timer.map(|at| Timestamp::ZERO + at.saturating_duration_since(self.began));
        let links = [
            self.client.out.poll_timeout(),
            self.server.out.poll_timeout(),
        ];
        links.into_iter().flatten().chain(timer).min()
    }
}

impl End {
    fn new(endpoint: Endpoint, address: &str, out: Way<Packet>) -> Self {
        Self {
            endpoint,
            connection: None,
            early: false,
            refused: false,
            connected: false,
            closed: None,
            received: BTreeMap::new(),
            ended: Vec::new(),
            resets: Vec::new(),
            stopped: Vec::new(),
            finished: Vec::new(),
            streams_available: 0,
            named: Vec::new(),
            marks: Vec::new(),
            on_the_way: |mark| mark,
            flight: Vec::new(),
            lazy: false,
            sending: HashMap::new(),
            address: address.parse().unwrap(),
            out,
        }
    }

    /// The one connection.
    pub(crate) fn quic(&mut self) -> &mut Connection {
        self.endpoint.connection(self.connection.unwrap()).unwrap()
    }

    pub(crate) fn open(&mut self, direction: Direction) -> StreamId {
        self.quic().open(direction).unwrap()
    }

    /// Sends these bytes and the stream's end.
    pub(crate) fn send(&mut self, stream: StreamId, bytes: Bytes) {
        self.sending.insert(stream, bytes);
        self.write(stream);
    }

    pub(crate) fn read(&mut self, stream: StreamId) {
        loop {
            match self.quic().read(stream) {
                Read::Data(data) => self
                    .received
                    .entry(stream)
                    .or_default()
                    .extend_from_slice(&data),
                Read::Pending => return,
                Read::End => return self.ended.push(stream),
                Read::Reset(code) => return self.resets.push((stream, code)),
            }
        }
    }

    /// Packets that this end's link lost, of those that it was given.
    pub(crate) fn loss(&self) -> f64 {
        let counters = self.out.counters();
        counters.packets_lost as f64 / counters.packets_in as f64
    }

    fn deliver(&mut self, to: &mut End, now: Instant, at: Timestamp) {
        while let Some(delivery) = self.out.dequeue(at) {
            let packet = delivery.packet;
            let datagram = Datagram {
                remote: self.address,
                local_ip: None,
                ecn: packet.ecn,
                payload: &packet.payload,
            };
            to.endpoint.handle_datagram(now, datagram);
        }
    }

    /// `peer`: the one address at which the peer receives; `None`: any.
    fn turn(
        &mut self,
        now: Instant,
        at: Timestamp,
        carried: usize,
        peer: Option<SocketAddr>,
    ) -> Option<Instant> {
        self.endpoint.handle_timeout(now);
        loop {
            let events = self.events();
            if self.transmit(now, at, carried, peer) + events == 0 {
                return self.endpoint.poll_timeout();
            }
        }
    }

    fn events(&mut self) -> usize {
        let mut count = 0;
        while let Some((handle, event)) = self.endpoint.poll_event() {
            count += 1;
            assert!(self.closed.is_none(), "after the end: {event:?}");
            self.connection = Some(handle);
            match event {
                Event::EarlyData => self.early = true,
                Event::EarlyDataRefused => self.refused = true,
                Event::Connected => self.connected = true,
                Event::Opened { stream } | Event::Readable { stream } if !self.lazy => {
                    self.read(stream);
                }
                Event::Writable { stream } => self.write(stream),
                Event::Finished { stream } => self.finished.push(stream),
                Event::Stopped { stream, code } => self.stopped.push((stream, code)),
                Event::StreamsAvailable { .. } => self.streams_available += 1,
                Event::Closed { reason } => self.closed = Some(reason),
                _ => {}
            }
        }
        count
    }

    fn write(&mut self, stream: StreamId) {
        let Some(bytes) = self.sending.remove(&stream) else {
            return;
        };
        let mut chunks = [bytes];
        if self.quic().write(stream, &mut chunks).unwrap() {
            self.quic().finish(stream).unwrap();
        } else {
            let [rest] = chunks;
            self.sending.insert(stream, rest);
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        at: Timestamp,
        carried: usize,
        peer: Option<SocketAddr>,
    ) -> usize {
        let (mut batches, mut buf) = (0, Vec::new());
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buf) {
            batches += 1;
            assert_eq!(transmit.size, buf.len());
            assert!(transmit.size <= 65_507, "no call could send this batch");
            for payload in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                self.flight.push(payload.to_vec());
                self.named.push(worker_of(payload, ServerId::default()));
                self.marks.push(transmit.ecn);
                let packet = Packet {
                    ecn: (self.on_the_way)(transmit.ecn),
                    payload: payload.to_vec(),
                };
                let size = DataSize::from_bytes((payload.len() + HEADERS) as u64);
                let is_there = peer.is_none_or(|peer| peer == transmit.destination);
                if payload.len() <= carried && is_there {
                    // What the link drops is lost.
                    let _ = self.out.enqueue(at, size, packet);
                }
            }
        }
        batches
    }
}

/// A link with a delay of so many milliseconds each way.
pub(crate) fn delay(ms: u64) -> Link {
    Link {
        delay: Duration::from_millis(ms),
        ..Link::default()
    }
}

/// `len` bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Bytes {
    let byte = |i: usize| (i.wrapping_mul(31) >> 3).to_le_bytes()[0];
    (0..len).map(byte).collect()
}
