//! Bytes that a server sends to an address that nobody has shown to receive at: three times what
//! came from there at most (RFC 9000 section 8.1), counted datagram by datagram.

use std::time::{Duration, Instant};

use altway_quic::{Event, Limits, Retry};

use crate::engine::{Endpoint, QuicEndpoint};
use crate::pair::{Pair, delay};
use crate::tls;
use crate::wire::{
    client, client_address, connect, events, give, initial, pass, sent, server, server_address,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A server whose certificate chain makes its first flight some 14 KB long.
fn server_with_long_chain(change: impl FnOnce(&mut Limits)) -> Endpoint {
    server(|config| {
        config.tls = tls::server_with_chain(30);
        change(&mut config.limits);
    })
}

fn bytes<'a>(datagrams: impl IntoIterator<Item = &'a Vec<u8>>) -> usize {
    datagrams.into_iter().map(Vec::len).sum()
}

/// Counts both ways, of a client that hears nothing.
struct Count {
    server: Endpoint,
    now: Instant,
    came: usize,
    left: usize,
    /// First answer of the server.
    answer: Option<Vec<u8>>,
}

impl Count {
    /// A client that sends this datagram.
    fn of(server: Endpoint, datagram: &[u8]) -> Self {
        let mut count = Self {
            server,
            now: Instant::now(),
            came: 0,
            left: 0,
            answer: None,
        };
        count.send(datagram);
        count
    }

    fn send(&mut self, datagram: &[u8]) {
        give(&mut self.server, self.now, client_address(1), datagram);
        self.came += datagram.len();
        self.pass(Duration::from_millis(100));
    }

    fn pass(&mut self, time: Duration) {
        let said = pass(&mut self.server, self.now, time);
        self.now += time;
        self.left += bytes(said.iter().map(|(_, payload)| payload));
        let (came, left) = (self.came, self.left);
        assert!(left <= 3 * came, "{left} bytes for {came}");
        let mut said = said.into_iter().map(|(_, payload)| payload);
        self.answer = self.answer.take().or_else(|| said.next());
    }

    /// Runs until all is over; returns the bytes that came and left.
    fn end(&mut self) -> (usize, usize) {
        self.pass(MINUTE);
        (self.came, self.left)
    }

    /// A packet of so many bytes to the connection, of which the server can read the header alone.
    fn noise(&self, first: u8, length: usize) -> Vec<u8> {
        let answer = self.answer.as_ref().unwrap();
        let server_id = &answer[6 + usize::from(answer[5])..];
        let id = &server_id[..=usize::from(server_id[0])];
        let token: &[u8] = if first & 0x30 == 0 { &[0] } else { &[] };
        let header = [&[first, 0, 0, 0, 1][..], id, &[0], token].concat();
        let rest = u16::try_from(length - header.len() - 2).unwrap();
        let rest_length = (0x4000 | rest).to_be_bytes();
        [&header, &rest_length[..], &vec![7; rest.into()]].concat()
    }
}

/// The first datagram, as long as this: what follows the packet is noise.
fn first(length: usize) -> Vec<u8> {
    let mut first = initial(&mut client(|_| {}), Instant::now());
    first.resize(length, 0x55);
    first
}

#[test]
fn a_silent_client_is_sent_three_times_its_first_datagram_at_most() {
    for length in [1200, 1201, 1250, 1357, 1452, 2000, 9000] {
        let server = server_with_long_chain(|_| {});
        let (came, left) = Count::of(server, &first(length)).end();
        assert_eq!(came, length);
        // And not much less, or hand-shakes would wait without need.
        assert!(left + 1200 > 3 * came.min(4000), "{left} for {came}");
    }
}

/// Retransmissions count as well.
#[test]
fn a_short_flight_is_repeated_as_long_as_it_is_paid_for() {
    let (came, left) = Count::of(server(|_| {}), &first(1200)).end();
    assert!(left > 2 * came, "{left} for {came}");
}

#[test]
fn a_client_that_trickles_is_sent_three_times_that_at_most() {
    for first_byte in [0xc0, 0xe0] {
        for length in [50, 399, 400, 401, 1199] {
            let mut count = Count::of(server_with_long_chain(|_| {}), &first(1200));
            let noise = count.noise(first_byte, length);
            for _ in 0..20 {
                count.send(&noise);
            }
            let (came, left) = count.end();
            assert!(left + 1200 > 3 * came.min(4000), "{left} for {came}");
        }
    }
}

/// Only who can read what the server sent has the keys of Handshake packets.
#[test]
fn noise_that_looks_like_a_handshake_packet_validates_nothing() {
    let mut client = client(|_| {});
    let now = Instant::now();
    let first = initial(&mut client, now);
    let mut count = Count::of(server_with_long_chain(|_| {}), &first);
    let noise = count.noise(0xe0, 60);
    count.send(&noise);
    // Before a packet that can be read, which anybody can make who saw the first.
    let probes = pass(&mut client, now, Duration::from_secs(10));
    for (_, probe) in &probes[1..] {
        count.send(&[&noise[..], probe].concat());
    }
    assert_eq!(count.server.statistics().unvalidated, 1);
    count.end();
}

#[test]
fn a_hand_shake_that_is_given_up_is_closed_within_what_is_left() {
    let limit = Duration::from_secs(2);
    let server = server_with_long_chain(|limits| limits.handshake_timeout = Some(limit));
    let mut count = Count::of(server, &first(1250));
    count.end();
    assert_eq!(count.server.statistics().connections, 0);
}

#[test]
fn retry_and_refusal_are_shorter_than_what_they_answer() {
    let retry = |limits: &mut Limits| limits.retry = Retry::Always;
    let (came, left) = Count::of(server_with_long_chain(retry), &first(1200)).end();
    assert!((1..came).contains(&left), "{left} for {came}");
    let mut closed = server_with_long_chain(|_| {});
    closed.shutdown();
    let (came, left) = Count::of(closed, &first(1200)).end();
    assert!((1..came).contains(&left), "{left} for {came}");
}

/// Somebody else's bytes must not pay for what the victim is sent.
#[test]
fn datagrams_of_another_address_buy_nothing() {
    let now = Instant::now();
    let mut server = server_with_long_chain(|_| {});
    let first = first(1200);
    give(&mut server, now, client_address(1), &first);
    let mut left = bytes(&sent(&mut server, now));
    for _ in 0..10 {
        give(&mut server, now, client_address(2), &first);
        events(&mut server);
        left += bytes(&sent(&mut server, now));
    }
    assert!(left <= 3 * first.len(), "{left}");
}

/// A client with a token has shown it already.
#[test]
fn a_validated_client_is_sent_all_at_once() {
    let now = Instant::now();
    let mut server = server_with_long_chain(|limits| limits.retry = Retry::Always);
    let mut client = client(|_| {});
    connect(&mut client, now);
    give(
        &mut server,
        now,
        client_address(1),
        &sent(&mut client, now)[0],
    );
    for retry in sent(&mut server, now) {
        give(&mut client, now, server_address(), &retry);
    }
    let second = sent(&mut client, now);
    give(&mut server, now, client_address(1), &second[0]);
    let flight = bytes(&sent(&mut server, now));
    assert!(flight > 3 * second[0].len(), "{flight}");
}

/// The limit costs round trips, and nobody waits for a timer: 3.6 KB, 3.6 KB more for the client's
/// answer, and the rest once its first Handshake packet has come.
#[test]
fn a_long_flight_takes_round_trips_and_no_time_outs() {
    let mut pair = Pair::with(delay(50), |_, server| {
        server.tls = tls::server_with_chain(30);
    });
    assert!(pair.run_until(|pair| pair.client.connected));
    let took = pair.elapsed();
    assert!(took <= Duration::from_millis(310), "{took:?}");
    let mut pair = pair.connected();
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.endpoint.statistics().unvalidated, 0);
    let heard = events(&mut pair.server.endpoint);
    assert!(!heard.contains(&Event::Connected), "told before");
}
