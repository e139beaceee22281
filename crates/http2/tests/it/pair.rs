//! A client and a server joined by the link model, in virtual time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_http2::{Config, Connection, Event, Head, Output, Turn};
use altway_link::{Config as Link, Direction, seed_for};
use altway_units::{DataSize, Timestamp};

/// Bytes travel in pieces as TCP segments do; the link loses nothing, for TCP would mend that.
const SEGMENT: usize = 1448;

/// Segments that an end may have on the way: a fixed congestion window.
const WINDOW: u64 = 256;

/// Application at one end: what it does with its events, and what it sends by itself.
pub(crate) trait App {
    fn event(&mut self, turn: &mut Turn<'_>, event: Owned);
    /// Asked in every turn, for bodies.
    fn pump(&mut self, turn: &mut Turn<'_>);
}

/// An event with all that it borrowed.
#[derive(Debug)]
pub(crate) enum Owned {
    Request(altway_http2::StreamId, http::Request<()>, bool),
    Response(http::Response<()>, bool),
    Informational(u16),
    Data(altway_http2::StreamId, Vec<u8>, bool),
    Trailers(altway_http2::StreamId, http::HeaderMap),
    Other(String),
}

fn response(head: Head<'_>) -> http::Response<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = head.status().unwrap().try_into().unwrap();
    *response.headers_mut() = head.to_headers().unwrap();
    response
}

impl Owned {
    fn of(event: &Event<'_>) -> Self {
        match event {
            Event::Request { stream, head, end } => {
                Owned::Request(*stream, head.to_request().unwrap(), *end)
            }
            Event::Response { head, end, .. } => Owned::Response(response(*head), *end),
            Event::Informational { head, .. } => Owned::Informational(head.status().unwrap()),
            Event::Data { stream, data, end } => Owned::Data(*stream, data.to_vec(), *end),
            Event::Trailers { stream, head } => {
                Owned::Trailers(*stream, head.to_headers().unwrap())
            }
            other => Owned::Other(format!("{other:?}")),
        }
    }
}

struct End<A> {
    connection: Connection,
    app: A,
    output: Output,
    /// Into the network.
    link: Direction<Vec<u8>>,
}

/// A client and a server, and the network between them.
pub(crate) struct Pair<C, S> {
    client: End<C>,
    server: End<S>,
    start: Instant,
    now: Timestamp,
}

impl<C: App, S: App> Pair<C, S> {
    pub(crate) fn new(client: C, server: S, config: &Config, link: &Link) -> Self {
        let start = Instant::now();
        let config = Arc::new(config.clone());
        let up = Direction::new(link.clone(), seed_for(1, true));
        let down = Direction::new(link.clone(), seed_for(1, false));
        Self {
            client: End::new(Connection::client(Arc::clone(&config), start), client, up),
            server: End::new(Connection::server(config, start), server, down),
            start,
            now: Timestamp::ZERO,
        }
    }

    pub(crate) fn client(&mut self) -> &mut C {
        &mut self.client.app
    }

    pub(crate) fn server(&mut self) -> &mut S {
        &mut self.server.app
    }

    /// Virtual time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now - Timestamp::ZERO
    }

    /// Runs until `done`, or fails when nothing is left to happen or an hour has passed.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        loop {
            let now = self.start + self.elapsed();
            self.client.turn(now, self.now);
            self.server.turn(now, self.now);
            if done(self) {
                return;
            }
            let due = [
                self.client.link.poll_timeout(),
                self.server.link.poll_timeout(),
            ];
            let due = due.into_iter().flatten().min();
            let due = due.expect("something is on its way, or both wait forever");
            self.now = self.now.max(due);
            assert!(self.elapsed() < Duration::from_secs(3600), "never done");
            let now = self.start + self.elapsed();
            while let Some(delivery) = self.client.link.dequeue(self.now) {
                self.server.receive(now, &delivery.packet);
            }
            while let Some(delivery) = self.server.link.dequeue(self.now) {
                self.client.receive(now, &delivery.packet);
            }
        }
    }
}

impl<A: App> End<A> {
    fn new(connection: Connection, app: A, link: Direction<Vec<u8>>) -> Self {
        Self {
            connection,
            app,
            output: Output::new(),
            link,
        }
    }

    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        let mut input = bytes;
        let mut turn = self.connection.turn(now, &mut self.output);
        while let Some(event) = turn.receive(&mut input) {
            let event = Owned::of(&event);
            self.app.event(&mut turn, event);
        }
    }

    fn turn(&mut self, now: Instant, at: Timestamp) {
        self.receive(now, &[]);
        while self.link.counters().packets_queued < WINDOW {
            if self.output.is_empty() {
                let mut turn = self.connection.turn(now, &mut self.output);
                self.app.pump(&mut turn);
            }
            let bytes: Vec<u8> = self
                .output
                .slices()
                .flatten()
                .copied()
                .take(SEGMENT)
                .collect();
            if bytes.is_empty() {
                return;
            }
            self.output.advance(bytes.len());
            let size = DataSize::from_bytes(bytes.len() as u64 + 52);
            self.link
                .enqueue(at, size, bytes)
                .expect("the queue has room");
        }
    }
}
