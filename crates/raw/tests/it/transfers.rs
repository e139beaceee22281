//! Payload that arrives, and the report of it.

use crate::common::Serving;
use altway_raw::{Cipher, Congestion, Direction, Options, Run, Sizes, TransportKind, Tuning, send};

/// Sizes of transfers: nothing, one byte, an odd number, and more than any buffer holds.
const SIZES: [u64; 4] = [0, 1, 65_537, 3_000_000];

fn run(options: &Options) -> Run {
    let run = send(options).unwrap_or_else(|error| panic!("{options:?}: {error}"));
    let requests = options.requests.get();
    assert_eq!(run.up_bytes, options.sizes.up * requests, "{run:?}");
    assert_eq!(run.down_bytes, options.sizes.down * requests, "{run:?}");
    assert_adds_up(&run);
    run
}

/// Asserts that what one end sent the other received, and that the rates are those of the counts.
fn assert_adds_up(run: &Run) {
    let (client, server) = (&run.client.costs, &run.server.costs);
    assert_eq!(client.sent_bytes, run.up_bytes);
    assert_eq!(client.received_bytes, run.down_bytes);
    assert_eq!(server.sent_bytes, run.down_bytes);
    assert_eq!(server.received_bytes, run.up_bytes);
    assert_eq!(server.connections, 1);
    let bytes = run.up_bytes + run.down_bytes;
    match run.mb_per_s {
        None => assert_eq!(bytes, 0),
        // The wall time is rounded to microseconds in the report, not in the rate.
        Some(rate) => {
            let us = bytes as f64 / rate;
            assert!((us - run.wall_us as f64).abs() <= 1.0, "{us} µs: {run:?}");
        }
    }
    for side in [&run.client, &run.server] {
        let calls = side.costs.calls;
        let total = calls.read + calls.write + calls.receive + calls.send + calls.wait;
        assert_eq!(calls.total(), total);
        assert!(total > 0 || bytes == 0, "{run:?}");
        let per_mb = (bytes > 0).then(|| total as f64 * 1e6 / bytes as f64);
        assert_eq!(side.calls_per_mb, per_mb);
        let tcp = calls.read + calls.write;
        let udp = calls.receive + calls.send;
        let (own, other) = if run.over == TransportKind::Quic {
            (udp, tcp)
        } else {
            (tcp, udp)
        };
        assert_eq!(other, 0);
        assert!(own > 0 || bytes == 0, "{run:?}");
        let path = side.costs.path.as_ref().unwrap();
        assert!(path.packet_bytes >= 536, "{path:?}");
        assert!(path.min_rtt_us.unwrap() < 1_000_000, "{path:?}");
    }
}

#[test]
fn every_size_arrives_in_every_direction_over_every_transport() {
    let serving = Serving::start();
    for over in TransportKind::ALL {
        for size in SIZES {
            for direction in [Direction::Up, Direction::Down, Direction::Both] {
                run(&serving.options(over, Sizes::bulk(direction, size)));
            }
        }
    }
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let serving = Serving::start();
    for over in TransportKind::ALL {
        let mut options = serving.options(over, Sizes::exchange(100, 10_000));
        options.requests = 50.try_into().unwrap();
        let run = run(&options);
        let times = run.transfer.unwrap();
        assert_eq!(times.count, 50);
        assert!(times.max_us <= run.wall_us && times.min_us > 0, "{run:?}");
    }
}

#[test]
fn a_single_transfer_has_no_distribution() {
    let serving = Serving::start();
    let run = run(&serving.options(TransportKind::Tcp, Sizes::bulk(Direction::Down, 10)));
    assert_eq!(run.transfer, None);
}

#[test]
fn the_other_cipher_carries_the_same_bytes() {
    let serving = Serving::start();
    for over in [TransportKind::Tls, TransportKind::Quic] {
        let mut options = serving.options(over, Sizes::bulk(Direction::Both, 1_000_000));
        options.tuning.cipher = Cipher::ChaCha20;
        run(&options);
    }
}

#[test]
fn quic_carries_the_same_bytes_with_every_help_of_the_kernel_switched_off() {
    let as_it_is = Tuning::default();
    let variants = [
        Tuning {
            gso: false,
            ..as_it_is
        },
        Tuning {
            gro: false,
            ..as_it_is
        },
        Tuning {
            batches: false,
            ..as_it_is
        },
        Tuning {
            mtu: Some(1_200),
            ..as_it_is
        },
        Tuning {
            mtu: Some(8_972),
            ..as_it_is
        },
        Tuning {
            mtu: Some(65_507),
            ..as_it_is
        },
    ];
    for tuning in variants {
        let serving = Serving::start_with(|options| options.tuning = tuning);
        let mut options =
            serving.options(TransportKind::Quic, Sizes::bulk(Direction::Both, 2_000_000));
        options.tuning = tuning;
        let run = run(&options);
        let path = run.client.costs.path.unwrap();
        let most = tuning.mtu.map_or(65_507, u64::from);
        assert!(path.packet_bytes <= most, "{path:?}");
    }
}

#[test]
fn both_ends_tell_the_congestion_control_that_was_asked_for() {
    let reno = Tuning {
        congestion: Some(Congestion::NewReno),
        ..Tuning::default()
    };
    let serving = Serving::start_with(|options| options.tuning = reno);
    for over in TransportKind::ALL {
        let mut options = serving.options(over, Sizes::bulk(Direction::Both, 100_000));
        options.tuning = reno;
        let run = run(&options);
        for side in [&run.client, &run.server] {
            assert_eq!(side.costs.path.as_ref().unwrap().congestion, "reno");
        }
    }
}

#[test]
fn what_is_not_copied_is_counted_all_the_same() {
    let zero_copy = Tuning {
        copies: false,
        ..Tuning::default()
    };
    let serving = Serving::start_with(|options| options.tuning = zero_copy);
    for verify in [false, true] {
        let mut options =
            serving.options(TransportKind::Tcp, Sizes::bulk(Direction::Both, 3_000_001));
        options.tuning = zero_copy;
        options.verify = verify;
        options.requests = 3.try_into().unwrap();
        run(&options);
    }
}

#[test]
fn one_datagram_a_call_costs_a_call_for_each() {
    let tuning = Tuning {
        batches: false,
        mtu: Some(1_452),
        ..Tuning::default()
    };
    let serving = Serving::start_with(|options| options.tuning = tuning);
    let mut options = serving.options(TransportKind::Quic, Sizes::bulk(Direction::Down, 1_000_000));
    options.tuning = tuning;
    let costs = run(&options).server.costs;
    assert!(costs.calls.send >= 1_000_000 / 1_452, "{costs:?}");
}

#[test]
fn packets_are_as_large_as_the_interface_carries() {
    let serving = Serving::start();
    let options = serving.options(
        TransportKind::Quic,
        Sizes::bulk(Direction::Both, 10_000_000),
    );
    let run = run(&options);
    for side in [&run.client, &run.server] {
        let path = side.costs.path.as_ref().unwrap();
        assert!(path.packet_bytes > 9_000, "{path:?}");
        assert!(path.packets_sent < 10_000_000 / 1_452, "{path:?}");
    }
}

#[test]
fn one_end_alone_bounds_the_packets_of_both() {
    let serving = Serving::start();
    let mut options = serving.options(TransportKind::Quic, Sizes::bulk(Direction::Both, 1_000_000));
    options.tuning.mtu = Some(1_300);
    let run = run(&options);
    for side in [&run.client, &run.server] {
        let path = side.costs.path.as_ref().unwrap();
        assert!(path.packet_bytes <= 1_300, "{path:?}");
    }
}

#[test]
fn json_has_the_fields_that_the_documentation_names() {
    let serving = Serving::start();
    let run = run(&serving.options(TransportKind::Tcp, Sizes::bulk(Direction::Down, 1_000)));
    let json = serde_json::to_value(&run).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(
        keys(&json),
        [
            "client",
            "connect_us",
            "down_bytes",
            "mb_per_s",
            "over",
            "requests",
            "server",
            "server_address",
            "transfer",
            "up_bytes",
            "wall_us",
        ]
    );
    for side in ["client", "server"] {
        assert_eq!(
            keys(&json[side]),
            [
                "calls",
                "calls_per_mb",
                "connections",
                "cpu",
                "cpu_s_per_gb",
                "path",
                "received_bytes",
                "sent_bytes",
            ]
        );
        assert_eq!(
            keys(&json[side]["calls"]),
            ["read", "receive", "send", "wait", "write"]
        );
        assert_eq!(keys(&json[side]["cpu"]), ["system_us", "user_us"]);
        assert_eq!(
            keys(&json[side]["path"]),
            [
                "congestion",
                "min_rtt_us",
                "packet_bytes",
                "packets_sent",
                "retransmissions",
                "rtt_us"
            ]
        );
    }
    assert_eq!(json["over"], "tcp");
}
