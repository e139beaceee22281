//! Address validation: when clients must show that they receive at their address, and what counts
//! as showing it.

use std::time::{Duration, Instant, SystemTime};

use altway_quic::{CloseReason, Event, Retry, TokenCache, Tokens, Version};

use crate::engine::{Endpoint, QuicConnection, QuicEndpoint};
use crate::wire::{
    client, client_address, connect, events, exchange, give, initial, pass, sent, server,
    server_address, server_with_limits,
};

/// The form and type bits of a Retry packet.
fn is_retry(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xf0
}

/// A client that has been answered by Retry; its next packet.
fn asked(from: u32, server: &mut Endpoint, now: Instant) -> (Endpoint, Vec<u8>) {
    let mut asked = client(|_| {});
    give(server, now, client_address(from), &initial(&mut asked, now));
    let [retry] = &sent(server, now)[..] else {
        panic!("one answer")
    };
    assert!(is_retry(retry));
    give(&mut asked, now, server_address(), retry);
    let next = sent(&mut asked, now).remove(0);
    (asked, next)
}

fn is_connected(heard: &[Event]) -> bool {
    heard.contains(&Event::Connected)
}

#[test]
fn clients_are_asked_from_the_threshold_on_and_served_once_they_answer() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Beyond(2));
    let mut silent = client(|_| {});
    for number in 0..2 {
        let first = initial(&mut silent, now);
        give(&mut server, now, client_address(number), &first);
        assert!(sent(&mut server, now).iter().all(|it| !is_retry(it)));
    }
    assert_eq!(server.statistics().unvalidated, 2);
    let mut third = client(|_| {});
    connect(&mut third, now);
    let heard = exchange(&mut third, client_address(2), &mut server, now);
    assert!(is_connected(&heard), "{heard:?}");
    let statistics = server.statistics();
    assert_eq!((statistics.retries, statistics.unvalidated), (1, 2));
    assert_eq!(statistics.connections, 3);
}

#[test]
fn a_hand_shake_that_is_done_counts_no_more() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Beyond(1));
    let mut clients = client(|_| {});
    for _ in 0..5 {
        connect(&mut clients, now);
        let heard = exchange(&mut clients, client_address(1), &mut server, now);
        assert!(is_connected(&heard));
    }
    let statistics = server.statistics();
    assert_eq!((statistics.retries, statistics.unvalidated), (0, 0));
}

#[test]
fn an_operator_can_have_all_asked_or_none() {
    let now = Instant::now();
    for (retry, retries) in [(Retry::Always, 3), (Retry::Never, 0)] {
        let mut server = server_with_limits(|limits| limits.retry = retry);
        for number in 0..3 {
            let mut client = client(|_| {});
            connect(&mut client, now);
            let heard = exchange(&mut client, client_address(number), &mut server, now);
            assert!(is_connected(&heard), "{retry}: {heard:?}");
        }
        assert_eq!(server.statistics().retries, retries);
    }
}

#[test]
fn a_full_server_refuses_and_does_not_ask() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| {
        limits.retry = Retry::Always;
        limits.max_connections = 1;
    });
    let mut clients = client(|_| {});
    connect(&mut clients, now);
    exchange(&mut clients, client_address(1), &mut server, now);
    connect(&mut clients, now);
    let heard = exchange(&mut clients, client_address(1), &mut server, now);
    assert!(matches!(&heard[..], [Event::Closed { .. }]), "{heard:?}");
    assert_eq!(server.statistics().retries, 1);
}

#[test]
fn handshakes_are_counted_once_by_what_came_of_them() {
    let now = Instant::now();
    let limit = Duration::from_secs(5);
    let mut server = server_with_limits(|limits| {
        limits.handshake_timeout = Some(limit);
        limits.max_connections = 2;
    });
    let counts = |server: &Endpoint| {
        let counts = server.statistics().handshakes;
        let refused = counts.refused;
        [counts.completed, counts.failed, counts.timed_out, refused]
    };
    let mut clients = client(|_| {});
    // The certificate is not for that name.
    clients
        .connect(now, server_address(), "elsewhere", ())
        .unwrap();
    let heard = exchange(&mut clients, client_address(1), &mut server, now);
    assert!(!is_connected(&heard));
    assert_eq!(counts(&server), [0, 1, 0, 0]);
    let later = now + Duration::from_secs(20);
    pass(&mut server, now, Duration::from_secs(20));
    for expected in [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 1]] {
        if expected == counts(&server) {
            let silent = initial(&mut client(|_| {}), later);
            give(&mut server, later, client_address(2), &silent);
        } else {
            connect(&mut clients, later);
            exchange(&mut clients, client_address(1), &mut server, later);
        }
        assert_eq!(counts(&server), expected);
    }
    pass(&mut server, later, 2 * limit);
    assert_eq!(counts(&server), [1, 1, 1, 1]);
}

fn worker(tokens: &Tokens) -> Endpoint {
    server(|config| {
        config.limits.retry = Retry::Always;
        config.tokens = Some(tokens.clone());
    })
}

/// The kernel may bring the answer to a Retry to another worker.
#[test]
fn workers_that_share_tokens_take_each_others() {
    let now = Instant::now();
    let tokens = Tokens::new([3; 32], now, SystemTime::UNIX_EPOCH);
    let (mut first, mut second) = (worker(&tokens), worker(&tokens));
    let (mut client, next) = asked(1, &mut first, now);
    give(&mut second, now, client_address(1), &next);
    let heard = exchange(&mut client, client_address(1), &mut second, now);
    assert!(is_connected(&heard), "{heard:?}");
    assert_eq!(second.statistics().retries, 0);
}

#[test]
fn a_token_of_another_key_counts_as_none() {
    let now = Instant::now();
    let [mut first, mut second] =
        [3, 4].map(|key| worker(&Tokens::new([key; 32], now, SystemTime::UNIX_EPOCH)));
    let (_, next) = asked(1, &mut first, now);
    give(&mut second, now, client_address(1), &next);
    assert!(is_retry(&sent(&mut second, now)[0]));
    assert_eq!(second.statistics().connections, 0);
}

/// Returns the events of a client that shows its token of Retry so much later, from this address.
fn shown(later: Duration, from: u32) -> Vec<Event> {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    let (mut client, next) = asked(1, &mut server, now);
    let now = now + later;
    give(&mut server, now, client_address(from), &next);
    for answer in sent(&mut server, now) {
        give(&mut client, now, server_address(), &answer);
    }
    let mut heard = events(&mut client);
    heard.extend(exchange(
        &mut client,
        client_address(from),
        &mut server,
        now,
    ));
    assert_eq!(
        server.statistics().connections,
        usize::from(is_connected(&heard))
    );
    heard
}

#[test]
fn a_token_of_retry_counts_for_15_s_and_at_its_address() {
    assert!(is_connected(&shown(Duration::from_secs(15), 1)));
    for (later, from) in [(Duration::from_secs(16), 1), (Duration::ZERO, 2)] {
        let heard = shown(later, from);
        let [
            Event::Closed {
                reason: CloseReason::Transport { reason },
            },
        ] = &heard[..]
        else {
            panic!("{heard:?}")
        };
        assert!(reason.contains("invalid Retry Token"), "{reason}");
    }
}

/// Connects and closes; whether that took a Retry.
fn visit(client: &mut Endpoint, from: u32, server: &mut Endpoint, now: Instant) -> bool {
    let before = server.statistics().retries;
    let handle = connect(client, now);
    let heard = exchange(client, client_address(from), server, now);
    assert!(is_connected(&heard), "{heard:?}");
    client.connection(handle).unwrap().close(0, b"");
    exchange(client, client_address(from), server, now);
    server.statistics().retries > before
}

#[test]
fn a_client_that_comes_back_within_a_day_is_not_asked_again() {
    let now = Instant::now();
    let day = Duration::from_secs(24 * 3600);
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    let mut client = client(|_| {});
    assert!(visit(&mut client, 1, &mut server, now));
    assert!(!visit(&mut client, 1, &mut server, now));
    assert!(!visit(&mut client, 1, &mut server, now + day));
    let later = now + 2 * day + Duration::from_secs(1);
    assert!(visit(&mut client, 1, &mut server, later), "too old");
    assert!(visit(&mut client, 2, &mut server, later), "another address");
}

#[test]
fn a_client_gets_tokens_for_two_connections_at_once() {
    let now = Instant::now();
    let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
    let mut client = client(|_| {});
    visit(&mut client, 1, &mut server, now);
    let asked = (0..3).map(|_| {
        let first = initial(&mut client, now);
        give(&mut server, now, client_address(1), &first);
        is_retry(&sent(&mut server, now)[0])
    });
    assert_eq!(asked.collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn clients_that_share_their_tokens_show_those_of_their_own_version() {
    let now = Instant::now();
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut server = server_with_limits(|limits| limits.retry = Retry::Always);
        let tokens = TokenCache::new();
        for version in [first, second] {
            let mut client = client(|config| {
                config.version = Version::ALL[version];
                config.tokens = tokens.clone();
            });
            connect(&mut client, now);
            let heard = exchange(&mut client, client_address(1), &mut server, now);
            assert!(is_connected(&heard), "{heard:?}");
        }
        let asked = if first == second { 1 } else { 2 };
        assert_eq!(server.statistics().retries, asked, "{first}, {second}");
    }
}

/// Wherever it is shown the second time.
#[test]
fn a_new_token_counts_once() {
    let now = Instant::now();
    let tokens = Tokens::new([3; 32], now, SystemTime::UNIX_EPOCH);
    let (mut first, mut second) = (worker(&tokens), worker(&tokens));
    let mut client = client(|_| {});
    visit(&mut client, 1, &mut first, now);
    let once = initial(&mut client, now);
    give(&mut first, now, client_address(1), &once);
    assert!(!is_retry(&sent(&mut first, now)[0]));
    give(&mut second, now, client_address(1), &once);
    assert!(is_retry(&sent(&mut second, now)[0]));
}

#[test]
fn a_server_that_kept_its_key_takes_tokens_of_before_its_restart() {
    let now = Instant::now();
    let hour = Duration::from_secs(3600);
    let mut before = worker(&Tokens::new([3; 32], now, SystemTime::UNIX_EPOCH));
    let mut client = client(|_| {});
    visit(&mut client, 1, &mut before, now);
    for (hours, asks) in [(24, false), (25, true)] {
        let today = SystemTime::UNIX_EPOCH + hours * hour;
        let mut after = worker(&Tokens::new([3; 32], now, today));
        let first = initial(&mut client, now);
        give(&mut after, now, client_address(1), &first);
        assert_eq!(is_retry(&sent(&mut after, now)[0]), asks, "{hours} h");
    }
}
