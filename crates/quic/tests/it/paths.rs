//! Transfers over bad paths, and what the endpoints learn of their paths.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::{CloseReason, Congestion, Direction, ServerConfig};
use altway_units::Ratio;

use crate::engine::QuicEndpoint;
use crate::pair::{CLIENT, Pair, delay, pattern};

fn lossy(ms: u64, percent: u32) -> Link {
    Link {
        loss: Ratio::from_percent(percent).unwrap().into(),
        ..delay(ms)
    }
}

/// Sends one megabyte each way.
fn transfer(mut pair: Pair) -> Pair {
    let stream = pair.client.open(Direction::Bidirectional);
    pair.client.send(stream, pattern(1_000_000));
    pair.run_for(Duration::from_millis(1));
    pair.run_until(|pair| pair.server.received.contains_key(&stream));
    pair.server.send(stream, pattern(1_000_000));
    assert!(pair.run_until(|pair| pair.client.ended.len() + pair.server.ended.len() == 2));
    assert_eq!(pair.client.received[&stream], pattern(1_000_000));
    assert_eq!(pair.server.received[&stream], pattern(1_000_000));
    pair.run_for(Duration::from_secs(1));
    pair
}

#[test]
fn loss_costs_time_and_not_bytes_under_every_congestion_control() {
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
        let pair = Pair::with(lossy(30, 5), |client, server| {
            client.transport.congestion = congestion;
            server.transport.congestion = congestion;
        });
        transfer(pair.connected());
    }
}

#[test]
fn a_black_hole_ends_in_a_time_out() {
    let mut pair = Pair::new().connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(10_000_000));
    pair.run_for(Duration::from_millis(3));
    pair.black_hole = true;
    assert!(pair.run_until(|pair| pair.client.closed.is_some() && pair.server.closed.is_some()));
    assert_eq!(pair.client.closed, Some(CloseReason::TimedOut));
}

#[test]
fn a_path_that_comes_back_in_time_carries_on() {
    let mut pair = Pair::new().connected();
    let stream = pair.client.open(Direction::Unidirectional);
    pair.client.send(stream, pattern(10_000_000));
    pair.run_for(Duration::from_millis(3));
    pair.black_hole = true;
    pair.run_for(Duration::from_secs(10));
    pair.black_hole = false;
    assert!(pair.run_until(|pair| pair.server.ended == [stream]));
    assert_eq!(pair.server.received[&stream], pattern(10_000_000));
}

#[test]
fn statistics_tell_the_links_truth() {
    let mut pair = transfer(Pair::over(lossy(40, 2)).connected());
    let handle = pair.server.connection.unwrap();
    let statistics = pair.server.endpoint.path_statistics(handle).unwrap();
    assert_eq!(statistics.min_rtt, Duration::from_millis(80));
    let loss = statistics.packets_lost as f64 / statistics.packets_sent as f64;
    let truth = pair.server.loss();
    assert!((loss - truth).abs() < 0.01, "{loss} of {truth}");
    assert!(statistics.bytes_acked >= 1_000_000, "{statistics:?}");
    assert!(statistics.bytes_acked <= statistics.bytes_sent);
    assert!(statistics.congestion_events > 0);
    assert_eq!(statistics.mtu, 1452);
}

#[test]
fn packets_grow_to_what_the_path_carries_but_not_past_what_the_peer_takes() {
    for takes in [65_507, 9_000, 1_472, 1_200] {
        let pair = Pair::with(delay(1), |client, server| {
            client.transport.max_udp_payload = takes;
            server.transport.mtu_upper_bound = 65_507;
        });
        let mut pair = transfer(pair.connected());
        assert_eq!(
            mtu_of_server(&mut pair),
            takes,
            "of a peer that takes {takes}"
        );
    }
}

fn mtu_of_server(pair: &mut Pair) -> u16 {
    let server = pair.server.connection.unwrap();
    pair.server.endpoint.path_statistics(server).unwrap().mtu
}

/// Returns the number of the server's datagrams that are larger than the smallest that every path
/// carries.
fn large_datagrams(pair: &Pair) -> usize {
    let sizes = pair.server.flight.iter().map(Vec::len);
    sizes.filter(|size| *size > 1_200).count()
}

#[test]
fn one_probe_finds_that_a_path_carries_what_ethernet_does() {
    let mut pair = Pair::over(delay(10)).connected();
    pair.run_for(Duration::from_secs(5));
    assert_eq!(
        (mtu_of_server(&mut pair), large_datagrams(&pair)),
        (1_452, 1)
    );
}

#[test]
fn a_path_that_carries_less_is_found_by_few_probes() {
    // A tunnel over Ethernet; 6in4 with another in it; what carries no more than it must.
    for (carries, mtu) in [(1_392, 1_325), (1_330, 1_325), (1_200, 1_200)] {
        let mut pair = Pair::over(delay(10));
        pair.mtu = carries;
        let mut pair = transfer(pair.connected());
        assert_eq!(mtu_of_server(&mut pair), mtu, "of {carries}");
        let lost = pair.server.flight.iter().filter(|it| it.len() > carries);
        // Each size is tried three times.
        assert!(lost.count() <= 6, "of {carries}");
    }
}

/// A server that knows of loopback, and a client there.
fn near(takes: u16, change: impl FnOnce(&mut ServerConfig)) -> Pair {
    let mut pair = Pair::with(delay(1), |client, server| {
        client.transport.max_udp_payload = takes;
        server.transport.loopback_mtu = Some(65_488);
        change(server);
    });
    pair.client.address = "127.0.0.1:1000".parse().unwrap();
    pair
}

#[test]
fn packets_to_the_same_machine_are_large_after_one_probe_and_never_small() {
    for congestion in [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr] {
        let mut pair = near(65_527, |server| server.transport.congestion = congestion);
        pair = transfer(pair.connected());
        let server = pair.server.connection.unwrap();
        let statistics = pair.server.endpoint.path_statistics(server).unwrap();
        assert_eq!(statistics.mtu, 65_488, "{congestion:?}");
        let flight = pair.server.flight.iter().map(Vec::len);
        let large = flight.filter(|size| *size > 1452).count();
        // A megabyte in 16 of them but for its beginning, and the probe.
        assert!((12..=20).contains(&large), "{large} with {congestion:?}");
    }
}

#[test]
fn a_probe_to_the_same_machine_holds_nothing_up() {
    let mut pair = near(65_527, |_| {}).connected();
    let probe = |pair: &Pair| {
        pair.server
            .flight
            .iter()
            .any(|packet| packet.len() == 65_488)
    };
    assert!(pair.run_until(probe));
    let (began, stream) = (pair.elapsed(), pair.server.open(Direction::Unidirectional));
    pair.server.send(stream, pattern(10_000));
    assert!(pair.run_until(|pair| pair.client.ended == [stream]));
    assert_eq!(pair.elapsed() - began, Duration::from_millis(1));
}

#[test]
fn a_client_on_the_same_machine_is_sent_no_larger_packets_than_it_takes() {
    for (takes, mtu) in [(1_200, 1_200), (1_472, 1_200), (40_000, 40_000)] {
        let mut pair = near(takes, |_| {});
        pair = transfer(pair.connected());
        let server = pair.server.connection.unwrap();
        let statistics = pair.server.endpoint.path_statistics(server).unwrap();
        assert_eq!(statistics.mtu, mtu, "of one that takes {takes}");
        assert!(
            pair.server
                .flight
                .iter()
                .all(|packet| packet.len() <= usize::from(takes))
        );
    }
}

#[test]
fn who_is_elsewhere_is_sent_what_networks_carry() {
    let mut pair = near(65_527, |_| {});
    pair.client.address = CLIENT.parse().unwrap();
    pair = transfer(pair.connected());
    let server = pair.server.connection.unwrap();
    let statistics = pair.server.endpoint.path_statistics(server).unwrap();
    assert_eq!(statistics.mtu, 1452);
    let largest = pair.server.flight.iter().map(Vec::len).max();
    assert_eq!(largest, Some(1452));
}

#[test]
fn a_download_is_bound_by_the_rate() {
    let rate = Rate::Fixed("20mbit".parse().unwrap());
    let link = Link {
        queue: Queue::default_for(&rate),
        rate,
        ..delay(20)
    };
    let mut pair = Pair::over(link).connected();
    let stream = pair.server.open(Direction::Unidirectional);
    let began = pair.elapsed();
    pair.server.send(stream, pattern(5_000_000));
    assert!(pair.run_until(|pair| pair.client.ended == [stream]));
    // 2 s of bytes; headers, slow start and what the queue dropped.
    let took = (pair.elapsed() - began).as_secs_f64();
    assert!((2.0..2.6).contains(&took), "{took} s");
}
