//! Several packets that a program or the kernel hands over in one piece: the link has them one by one.

use crate::cases::{
    BACKEND, Case, at_client, at_server, cases, lossy, report, start_with, wait_for_the_end,
};
use altway_emulate::{Backend, Emulation};
use altway_link::{Config, Direction, UdpTreatment, seed_for};
use altway_units::{DataSize, Ratio, Timestamp};

pub(crate) const ALL: &[Case] = cases! {
    anyone: [
        datagrams_of_one_piece_are_lost_one_by_one_as_the_model_says,
        datagrams_of_one_piece_are_policed_one_by_one_and_tcp_is_not,
        segments_of_one_piece_are_packets_of_the_wire,
        what_the_link_corrupts_reaches_no_program,
    ],
    root: []
};

/// The numbers of the datagrams that arrive of so many that were sent in pieces of 40.
fn flood_in_pieces(link: &Emulation, count: u64) -> Vec<u64> {
    let before = report(link).up.packets_in;
    let server = at_server(link, "sink");
    at_client(link, &format!("flood-in-pieces {count}")).words();
    wait_for_the_end(link, before + count);
    let mut words = server.words();
    words.remove(0);
    words
}

fn datagrams_of_one_piece_are_lost_one_by_one_as_the_model_says() {
    let link = start_with(lossy(5), Config::default());
    let mut model = Direction::new(lossy(5), seed_for(7, true));
    let size = DataSize::from_bytes(1_500);
    let expected: Vec<u64> = (0..2_000)
        .filter(|ordinal| model.enqueue(Timestamp::ZERO, size, *ordinal).is_ok())
        .collect();
    link.restart(lossy(5), Config::default(), 7)
        .expect("the link runs");
    assert_eq!(flood_in_pieces(&link, 2_000), expected);
    let report = report(&link);
    assert_eq!(report.up.bytes_in, 2_000 * 1_500);
    assert_eq!(report.hidden_drops, 0);
}

fn datagrams_of_one_piece_are_policed_one_by_one_and_tcp_is_not() {
    const BYTES: u64 = 5_000_000;
    let policed = || Config {
        // A packet each 1.5 s, after the first hundred.
        udp: "rate 8kbit burst 150KB".parse().expect("as it is printed"),
        ..Config::default()
    };
    let link = start_with(policed(), policed());
    let arrived = flood_in_pieces(&link, 1_000);
    assert!(arrived.iter().take(100).copied().eq(0..100), "{arrived:?}");
    assert!(arrived.len() < 200, "{arrived:?}");
    let up = report(&link).up;
    assert_eq!(up.packets_udp_dropped, 1_000 - arrived.len() as u64);

    let _server = at_server(&link, &format!("tcp-server {BYTES}"));
    assert_eq!(at_client(&link, "tcp-client").words()[0], BYTES);
    assert_eq!(report(&link).down.packets_udp_dropped, 0);
    let blocked = || Config {
        udp: UdpTreatment::Block,
        ..Config::default()
    };
    link.restart(blocked(), blocked(), 1)
        .expect("the link runs");
    assert!(flood_in_pieces(&link, 100).is_empty());
    assert_eq!(report(&link).validity(), Ok(()));
}

fn segments_of_one_piece_are_packets_of_the_wire() {
    const BYTES: u64 = 20_000_000;
    let link = start_with(Config::default(), Config::default());
    let _server = at_server(&link, &format!("tcp-server {BYTES}"));
    assert_eq!(at_client(&link, "tcp-client").words()[0], BYTES);
    let down = report(&link).down;
    assert!(down.packets_in >= BYTES / 1_448, "{down:?}");
    assert!(down.bytes_in <= down.packets_in * 1_500, "{down:?}");
    assert_eq!(report(&link).hidden_drops, 0);
    let is_tun = *BACKEND.lock().expect("nobody panics with it") == Some(Backend::Tun);
    if is_tun {
        let pieces = at_client(&link, "received-pieces").words()[0];
        assert!(pieces < down.packets_out / 2, "{pieces} of {down:?}");
    }
}

fn what_the_link_corrupts_reaches_no_program() {
    let corrupting = || Config {
        corruption: Ratio::from_percent(20).expect("at most 100"),
        ..Config::default()
    };
    let link = start_with(corrupting(), Config::default());
    let arrived = flood_in_pieces(&link, 1_000);
    let up = report(&link).up;
    assert!((100..300).contains(&up.packets_corrupted), "{up:?}");
    assert_eq!(arrived.len() as u64, up.packets_out - up.packets_corrupted);
    assert!(arrived.is_sorted(), "{arrived:?}");
    assert_eq!(report(&link).hidden_drops, 0);
}
