//! Downloads by several clients, each from a server of its own, through one bottleneck, in virtual time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_link::{Config as Link, Direction as Way, Queue, Rate, seed_for};
use altway_quic::{
    ClientConfig, Congestion, ConnectionHandle, Datagram, Direction, Event, PathStatistics, Read,
    ServerConfig, StreamId,
};
use altway_units::{DataSize, Ratio, Timestamp};
use bytes::Bytes;

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::pair::{CLIENT, SERVER};
use crate::tls;

/// Bytes of an IPv4 header and a UDP header.
const HEADERS: usize = 28;

/// Bytes that an application writes at a time.
const CHUNK: usize = 64 << 10;

/// Data that the application of a server has to send.
#[derive(Clone, Copy)]
pub(crate) enum Supply {
    /// More than the path takes.
    Endless,
    /// The given number of bytes, each time that the given time is over.
    Each(Duration, usize),
}

#[derive(Clone)]
struct Packet {
    flow: usize,
    entered: Timestamp,
    payload: Vec<u8>,
}

/// A download.
pub(crate) struct Flow {
    client: Endpoint,
    server: Endpoint,
    client_connection: ConnectionHandle,
    server_connection: Option<ConnectionHandle>,
    stream: Option<StreamId>,
    back: Way<Vec<u8>>,
    supply: Supply,
    /// Bytes that are written next, and the time at which there are more.
    waiting: usize,
    next: Timestamp,
    /// Bytes that the client has read.
    pub(crate) received: u64,
}

/// The bottleneck and its flows.
pub(crate) struct Bottleneck {
    pub(crate) flows: Vec<Flow>,
    way: Way<Packet>,
    delay: Duration,
    began: Instant,
    now: Timestamp,
    /// The longest that a packet waited for the rate, since it was last asked for.
    pub(crate) longest_wait: Duration,
    /// All waits, for their mean.
    waits: (Duration, u32),
}

/// A link that carries this rate, with so many bytes of queue and the loss in percent.
pub(crate) fn link(rate: &str, ms: u64, queue: u64, loss: f64) -> Link {
    Link {
        rate: Rate::Fixed(rate.parse().unwrap()),
        queue: Queue::Bytes(DataSize::from_bytes(queue)),
        delay: Duration::from_millis(ms),
        loss: format!("{loss}%").parse::<Ratio>().unwrap().into(),
        ..Link::default()
    }
}

impl Bottleneck {
    /// The way back has the same delay, and loses nothing.
    pub(crate) fn new(seed: u64, link: Link, flows: &[(Congestion, Supply)]) -> Self {
        let began = Instant::now();
        let back = Link {
            delay: link.delay,
            ..Link::default()
        };
        let flow = |at: usize| Flow::new(at, began, &back, flows[at]);
        Self {
            flows: (0..flows.len()).map(flow).collect(),
            delay: link.delay,
            way: Way::new(link, seed_for(seed, false)),
            began,
            now: Timestamp::ZERO,
            longest_wait: Duration::ZERO,
            waits: (Duration::ZERO, 0),
        }
    }

    pub(crate) fn change(&mut self, link: Link) {
        self.way.reconfigure(self.now, link);
    }

    /// Gives a flow's application something else to send from now on.
    pub(crate) fn supply(&mut self, flow: usize, supply: Supply) {
        let (now, flow) = (self.now, &mut self.flows[flow]);
        flow.supply = supply;
        if let Supply::Each(time, _) = supply {
            flow.next = now + time;
        }
        flow.write();
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

    /// Bytes that each flow's client read meanwhile.
    pub(crate) fn received_in(&mut self, time: Duration) -> Vec<u64> {
        let before: Vec<_> = self.flows.iter().map(|flow| flow.received).collect();
        (self.longest_wait, self.waits) = (Duration::ZERO, (Duration::ZERO, 0));
        self.run_for(time);
        let flows = self.flows.iter().zip(before);
        flows.map(|(flow, before)| flow.received - before).collect()
    }

    pub(crate) fn mean_wait(&self) -> Duration {
        self.waits.0 / self.waits.1.max(1)
    }

    pub(crate) fn statistics(&mut self, flow: usize) -> PathStatistics {
        let flow = &mut self.flows[flow];
        let connection = flow.server_connection.unwrap();
        flow.server.path_statistics(connection).unwrap()
    }

    fn step(&mut self) -> Option<Timestamp> {
        let now = self.began + (self.now - Timestamp::ZERO);
        while let Some(delivery) = self.way.dequeue(self.now) {
            let packet = delivery.packet;
            let waited = (self.now - packet.entered).saturating_sub(self.delay);
            self.longest_wait = self.longest_wait.max(waited);
            self.waits = (self.waits.0 + waited, self.waits.1 + 1);
            let flow = &mut self.flows[packet.flow];
            take(&mut flow.client, now, SERVER, &packet.payload);
        }
        let mut next = self.way.poll_timeout();
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            while let Some(delivery) = flow.back.dequeue(self.now) {
                take(&mut flow.server, now, &address(at), &delivery.packet);
            }
            let timer = flow.turn(now, self.now, at, &mut self.way);
            let timer = timer.map(|at| Timestamp::ZERO + at.saturating_duration_since(self.began));
            let more = [timer, flow.back.poll_timeout(), flow.next_supply()];
            next = more.into_iter().flatten().chain(next).min();
        }
        [next, self.way.poll_timeout()].into_iter().flatten().min()
    }
}

/// Each client has an address of its own.
fn address(flow: usize) -> String {
    let mut address: SocketAddr = CLIENT.parse().unwrap();
    address.set_port(1_000 + u16::try_from(flow).unwrap());
    address.to_string()
}

fn take(to: &mut Endpoint, now: Instant, from: &str, payload: &[u8]) {
    let datagram = Datagram {
        remote: from.parse().unwrap(),
        local_ip: None,
        ecn: None,
        payload,
    };
    to.handle_datagram(now, datagram);
}

impl Flow {
    fn new(at: usize, began: Instant, back: &Link, what: (Congestion, Supply)) -> Self {
        let (congestion, supply) = what;
        let client = ClientConfig::new(tls::client());
        let mut server = ServerConfig::new(tls::server());
        server.transport.congestion = congestion;
        let seed = u8::try_from(at).unwrap();
        let mut client = Endpoint::client(&client, [1 + seed; 32]).unwrap();
        let to = SERVER.parse().unwrap();
        Self {
            client_connection: client.connect(began, to, "localhost", ()).unwrap(),
            client,
            server: Endpoint::server(&server, [101 + seed; 32]).unwrap(),
            server_connection: None,
            stream: None,
            back: Way::new(back.clone(), 1),
            supply,
            waiting: 0,
            next: Timestamp::ZERO,
            received: 0,
        }
    }

    fn next_supply(&self) -> Option<Timestamp> {
        let is_later = matches!(self.supply, Supply::Each(..)) && self.stream.is_some();
        is_later.then_some(self.next)
    }

    fn turn(
        &mut self,
        now: Instant,
        at: Timestamp,
        flow: usize,
        way: &mut Way<Packet>,
    ) -> Option<Instant> {
        self.supply(at);
        self.server.handle_timeout(now);
        self.client.handle_timeout(now);
        loop {
            let done = self.server_events() + self.client_events();
            let mut buf = Vec::new();
            let mut sent = 0;
            while let Some(transmit) = self.server.poll_transmit(now, &mut buf) {
                sent += 1;
                for payload in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                    let size = DataSize::from_bytes((payload.len() + HEADERS) as u64);
                    let packet = Packet {
                        flow,
                        entered: at,
                        payload: payload.to_vec(),
                    };
                    let _ = way.enqueue(at, size, packet);
                }
            }
            while let Some(transmit) = self.client.poll_transmit(now, &mut buf) {
                sent += 1;
                for payload in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
                    let size = DataSize::from_bytes((payload.len() + HEADERS) as u64);
                    let _ = self.back.enqueue(at, size, payload.to_vec());
                }
            }
            if done + sent == 0 {
                let timers = [self.server.poll_timeout(), self.client.poll_timeout()];
                return timers.into_iter().flatten().min();
            }
        }
    }

    /// Hands over what the application has to send by now.
    fn supply(&mut self, at: Timestamp) {
        if let Supply::Each(time, bytes) = self.supply
            && self.stream.is_some()
        {
            self.next = self.next.max(at);
            if self.next == at {
                self.next = at + time;
                self.waiting += bytes;
            }
            self.write();
        }
    }

    fn write(&mut self) {
        let (Some(connection), Some(stream)) = (self.server_connection, self.stream) else {
            return;
        };
        let connection = self.server.connection(connection).unwrap();
        loop {
            let len = match self.supply {
                Supply::Endless => CHUNK,
                Supply::Each(..) => self.waiting,
            };
            let mut chunks = [Bytes::from(vec![0; len])];
            if len == 0 || !connection.write(stream, &mut chunks).unwrap() {
                let left = chunks[0].len();
                self.waiting = self.waiting.min(left);
                return;
            }
            self.waiting = 0;
        }
    }

    fn server_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((handle, event)) = self.server.poll_event() {
            count += 1;
            self.server_connection = Some(handle);
            match event {
                Event::Connected => {
                    let connection = self.server.connection(handle).unwrap();
                    self.stream = connection.open(Direction::Unidirectional);
                    self.write();
                }
                Event::Writable { .. } => self.write(),
                Event::Closed { reason } => panic!("{reason:?}"),
                _ => {}
            }
        }
        count
    }

    fn client_events(&mut self) -> usize {
        let mut count = 0;
        while let Some((_, event)) = self.client.poll_event() {
            count += 1;
            if let Event::Opened { stream } | Event::Readable { stream } = event {
                let connection = self.client.connection(self.client_connection).unwrap();
                while let Read::Data(bytes) = connection.read(stream) {
                    self.received += bytes.len() as u64;
                }
            }
        }
        count
    }
}
