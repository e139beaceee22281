//! Clients that don't exist, or never come to an end: what they cost is bounded, and the others are
//! served.

use std::time::{Duration, Instant};

use altway_quic::{CloseReason, Datagram, Direction, Event, Retry};

use crate::engine::{Endpoint, QuicEndpoint};
use crate::pair::{Pair, delay, pattern};
use crate::wire::{
    client, client_address, connect, events, exchange, give, initial, pass, sent,
    server_with_limits,
};

/// Unvalidated handshakes that may be in progress.
const THRESHOLD: usize = 50;

/// Sends the first packets of clients with forged addresses, one for each number.
fn flood(server: &mut Endpoint, now: Instant, numbers: std::ops::Range<u32>) {
    let mut forger = client(|_| {});
    for number in numbers {
        let first = initial(&mut forger, now);
        give(server, now, client_address(number), &first);
        events(server);
        sent(server, now);
    }
}

#[test]
fn forged_clients_cost_no_more_than_the_threshold_however_many_there_are() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Beyond(THRESHOLD));
    for (from, to) in [(0, 100), (100, 1_000), (1_000, 3_000)] {
        flood(&mut server, now, from..to);
        let statistics = server.statistics();
        assert_eq!(statistics.connections, THRESHOLD);
        assert_eq!(statistics.unvalidated, THRESHOLD);
        assert_eq!(statistics.retries, u64::from(to) - THRESHOLD as u64);
    }
}

#[test]
fn where_none_is_asked_the_limit_of_connections_holds() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| {
        limits.retry = Retry::Never;
        limits.max_connections = 20;
    });
    flood(&mut server, now, 0..500);
    assert_eq!(server.statistics().connections, 20);
}

/// Answers wait in a queue of bounded length, as when the socket is full.
#[test]
fn a_flood_in_one_turn_is_answered_as_far_as_there_is_room() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    let first = initial(&mut client(|_| {}), now);
    for number in 0..10_000 {
        give(&mut server, now, client_address(number), &first);
    }
    assert_eq!(sent(&mut server, now).len(), 256);
    assert_eq!(server.statistics().connections, 0);
}

#[test]
fn connections_are_served_on_in_a_flood_and_new_ones_come_in() {
    let mut pair = Pair::with(delay(10), |_, server| {
        server.limits.retry = Retry::Beyond(THRESHOLD);
    })
    .connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(1_000_000));
    let mut forger = client(|_| {});
    let mut number = 0;
    while pair.server.ended != [stream] {
        for _ in 0..20 {
            number += 1;
            let now = pair.now();
            let payload = initial(&mut forger, now);
            let datagram = Datagram {
                remote: client_address(number),
                local_ip: None,
                ecn: None,
                payload: &payload,
            };
            pair.server.endpoint.handle_datagram(now, datagram);
        }
        pair.run_for(Duration::from_millis(5));
        assert!(pair.elapsed() < Duration::from_secs(2), "it stands still");
    }
    assert!(number > THRESHOLD as u32);
    assert_eq!(pair.server.received[&stream], pattern(1_000_000));
    let (now, server) = (pair.now(), &mut pair.server.endpoint);
    assert_eq!(server.statistics().connections, THRESHOLD + 1);
    let mut late = client(|_| {});
    connect(&mut late, now);
    let heard = exchange(&mut late, client_address(0), server, now);
    assert!(heard.contains(&Event::Connected), "{heard:?}");
}

/// Three times the probe time-out of RFC 9002 before the first round trip, for which a connection that
/// was closed absorbs what still comes (RFC 9000 section 10.2): 3 × (999 + 25) ms.
const CLOSING: Duration = Duration::from_millis(3_072);

#[test]
fn a_hand_shake_that_nobody_goes_on_with_is_forgotten() {
    let now = Instant::now();
    let limit = Duration::from_secs(10);
    let mut server = server_with_limits(|limits| limits.handshake_timeout = Some(limit));
    flood(&mut server, now, 0..10);
    pass(&mut server, now, limit - Duration::from_millis(1));
    assert_eq!(server.statistics().unvalidated, 10);
    pass(&mut server, now + limit, CLOSING);
    let statistics = server.statistics();
    assert_eq!((statistics.connections, statistics.unvalidated), (0, 0));
}

#[test]
fn of_a_crowd_that_came_together_few_are_given_up_in_a_turn() {
    let (now, limit) = (Instant::now(), Duration::from_secs(10));
    let mut server = server_with_limits(|limits| {
        limits.handshake_timeout = Some(limit);
        limits.retry = Retry::Never;
    });
    flood(&mut server, now, 0..500);
    let late = now + limit;
    let mut turns = 0;
    while server.open_connections() > 0 {
        let before = server.open_connections();
        assert!(server.poll_timeout().is_some_and(|due| due <= late));
        server.handle_timeout(late);
        sent(&mut server, late);
        let given_up = before - server.open_connections();
        assert!((1..=100).contains(&given_up), "{given_up} at once");
        turns += 1;
    }
    assert!(turns >= 5, "{turns}");
}

/// Each packet keeps the idle time-out away.
#[test]
fn a_client_that_trickles_is_given_up_all_the_same() {
    let (ten, thirty) = (Duration::from_secs(10), Duration::from_secs(30));
    for (limit, after) in [(Some(ten), ten), (None, thirty)] {
        trickle(limit, after);
    }
}

fn trickle(limit: Option<Duration>, after: Duration) {
    let began = Instant::now();
    let mut server = server_with_limits(|limits| limits.handshake_timeout = limit);
    let mut deaf = client(|config| config.transport.idle_timeout = Duration::from_secs(1_000));
    connect(&mut deaf, began);
    let said = pass(&mut deaf, began, Duration::from_secs(100));
    assert!(said.len() > 5);
    let (mut last, given_up) = (began, began + after + CLOSING);
    for (now, payload) in said.into_iter().take_while(|(now, _)| *now < given_up) {
        pass(&mut server, last, now - last);
        give(&mut server, now, client_address(1), &payload);
        assert_eq!(events(&mut server), []);
        assert_eq!(server.statistics().connections, 1);
        last = now;
    }
    pass(&mut server, last, given_up - last);
    assert_eq!(server.statistics().connections, 0);
}

#[test]
fn a_client_gives_up_a_server_that_does_not_finish() {
    let now = Instant::now();
    let mut client =
        client(|config| config.limits.handshake_timeout = Some(Duration::from_secs(5)));
    connect(&mut client, now);
    sent(&mut client, now);
    client.handle_timeout(now + Duration::from_secs(5));
    assert_eq!(
        events(&mut client),
        [Event::Closed {
            reason: CloseReason::TimedOut
        }]
    );
}

#[test]
fn a_hand_shake_that_is_done_in_time_is_not_given_up_later() {
    let mut pair = Pair::with(delay(100), |client, server| {
        let limit = Duration::from_millis(450);
        client.limits.handshake_timeout = Some(limit);
        server.limits.handshake_timeout = Some(limit);
        server.limits.retry = Retry::Always;
    })
    .connected();
    pair.run_for(Duration::from_secs(10));
    assert_eq!((&pair.client.closed, &pair.server.closed), (&None, &None));
}
