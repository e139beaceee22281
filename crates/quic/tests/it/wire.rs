//! Datagrams by hand: what endpoints have to send, taken from them and given to whom a test likes, as
//! from any address, and without delay.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use altway_quic::{ClientConfig, ConnectionHandle, Datagram, Event, Limits, ServerConfig};

use crate::engine::{Endpoint, QuicEndpoint};
use crate::pair::SERVER;
use crate::tls;

/// The client's address of this number: no two have the same IP address.
pub(crate) fn client_address(number: u32) -> SocketAddr {
    (std::net::Ipv4Addr::from_bits(0x0a01_0000 + number), 1000).into()
}

pub(crate) fn server_address() -> SocketAddr {
    SERVER.parse().unwrap()
}

pub(crate) fn client(change: impl FnOnce(&mut ClientConfig)) -> Endpoint {
    let mut config = ClientConfig::new(tls::client());
    change(&mut config);
    Endpoint::client(&config, [1; 32]).unwrap()
}

pub(crate) fn server(change: impl FnOnce(&mut ServerConfig)) -> Endpoint {
    let mut config = ServerConfig::new(tls::server());
    change(&mut config);
    Endpoint::server(&config, [2; 32]).unwrap()
}

pub(crate) fn server_with_limits(change: impl FnOnce(&mut Limits)) -> Endpoint {
    server(|config| change(&mut config.limits))
}

/// Begins a connection.
pub(crate) fn connect(client: &mut Endpoint, now: Instant) -> ConnectionHandle {
    client
        .connect(now, server_address(), "localhost", ())
        .unwrap()
}

/// The first datagram of a connection that nothing becomes of.
pub(crate) fn initial(client: &mut Endpoint, now: Instant) -> Vec<u8> {
    connect(client, now);
    sent(client, now).remove(0)
}

/// All datagrams that an endpoint has.
pub(crate) fn sent(endpoint: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let (mut datagrams, mut buf) = (Vec::new(), Vec::new());
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        let size = transmit.segment_size.unwrap_or(transmit.size);
        datagrams.extend(buf.chunks(size).map(<[u8]>::to_vec));
    }
    datagrams
}

/// Gives an endpoint a datagram as from there, and lets it look for its events.
pub(crate) fn give(endpoint: &mut Endpoint, now: Instant, from: SocketAddr, payload: &[u8]) {
    let datagram = Datagram {
        remote: from,
        local_ip: None,
        ecn: None,
        payload,
    };
    endpoint.handle_datagram(now, datagram);
}

/// Everything that happened on an endpoint's connections.
pub(crate) fn events(endpoint: &mut Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| endpoint.poll_event())
        .map(|(_, event)| event)
        .collect()
}

/// Carries datagrams both ways as long as there are any. What the client heard.
pub(crate) fn exchange(
    client: &mut Endpoint,
    at: SocketAddr,
    server: &mut Endpoint,
    now: Instant,
) -> Vec<Event> {
    let mut heard = Vec::new();
    loop {
        let up = sent(client, now);
        up.iter().for_each(|payload| give(server, now, at, payload));
        events(server);
        let down = sent(server, now);
        let from = server_address();
        down.iter()
            .for_each(|payload| give(client, now, from, payload));
        heard.extend(events(client));
        if up.is_empty() && down.is_empty() {
            return heard;
        }
    }
}

/// Lets time pass for an endpoint that nobody sends anything. What it sends, and when.
pub(crate) fn pass(
    endpoint: &mut Endpoint,
    from: Instant,
    time: Duration,
) -> Vec<(Instant, Vec<u8>)> {
    let (mut now, end, mut said) = (from, from + time, Vec::new());
    loop {
        endpoint.handle_timeout(now);
        events(endpoint);
        said.extend(
            sent(endpoint, now)
                .into_iter()
                .map(|payload| (now, payload)),
        );
        match endpoint.poll_timeout() {
            Some(next) if next <= end => now = next.max(now),
            _ => return said,
        }
    }
}
