//! The kernel's figures of a TCP connection (`tcp_info`), held against the link that it runs over.

use crate::cases::{
    Case, TRIES, at_client, at_server, bottleneck, cases, delayed, lossy, report, start, start_with,
};
use crate::programs::PORT;
use crate::topologies::topologies;
use altway_emulate::{Emulation, Options};
use altway_link::Config;
use std::time::Duration;

pub(crate) const ALL: &[Case] = cases! {
    anyone: [
        the_kernel_tells_the_links_round_trip_and_rate,
        the_kernel_tells_what_was_lost,
        the_kernel_marks_an_application_with_little_to_send,
        the_kernel_tells_when_the_last_byte_was_acknowledged,
        connections_begin_with_the_window_that_was_asked_for,
    ],
    root: []
};

/// Figures that the `tcp-source` program reports of a download of so many bytes.
struct Told {
    min_rtt_us: u64,
    payload_rate: u64,
    segments: u64,
    retransmissions: u64,
    in_vain: u64,
    bytes_acked: u64,
}

fn download(link: &Emulation, bytes: u64) -> Told {
    let server = at_server(link, &format!("tcp-source {bytes}"));
    assert_eq!(at_client(link, "tcp-client").words()[0], bytes);
    let words: [u64; 6] = server.words().try_into().expect("six words");
    Told {
        min_rtt_us: words[0],
        payload_rate: words[1],
        segments: words[2],
        retransmissions: words[3],
        in_vain: words[4],
        bytes_acked: words[5],
    }
}

/// Within 2 % + 0.2 ms.
fn is_round_trip(us: u64, truth: u64) -> bool {
    us.abs_diff(truth) <= truth / 50 + 200
}

fn the_kernel_tells_the_links_round_trip_and_rate() {
    let way = bottleneck(20);
    let link = start_with(way.clone(), way);
    let bytes = 12 << 20;
    let measure = || {
        let told = download(&link, bytes);
        // The FIN counts as a byte.
        assert_eq!(told.bytes_acked, bytes + 1);
        // 1,448 bytes of payload are a packet of 1,500.
        let rate = told.payload_rate as f64 * 8.0 * 1_500.0 / 1_448.0 / 20e6;
        let right = is_round_trip(told.min_rtt_us, 40_000) && (0.95..=1.05).contains(&rate);
        if !right {
            eprintln!("{} µs, {rate} of the rate", told.min_rtt_us);
        }
        right
    };
    // Other programs may make the ends wait.
    assert!((0..TRIES).any(|_| measure()));
}

fn the_kernel_tells_what_was_lost() {
    let link = start_with(Config::default(), lossy(5));
    let told = download(&link, 2 << 20);
    let lost = report(&link).down.packets_lost;
    assert!(told.retransmissions > 0);
    assert!(told.segments - told.retransmissions >= (2 << 20) / 1_448);
    // Whatever was lost is sent again, but for the SYN, the FIN and acknowledgements alone; what is sent
    // again for no loss (a tail-loss probe, a time-out) arrives twice.
    assert!(
        told.retransmissions + 3 >= lost,
        "{} of {lost}",
        told.retransmissions
    );
    let needed = told.retransmissions.saturating_sub(told.in_vain);
    let n = told.segments as f64;
    let bound = 4.0 * (n * 0.05 * 0.95).sqrt();
    assert!((needed as f64 - n * 0.05).abs() < bound, "{needed} of {n}");
}

fn the_kernel_marks_an_application_with_little_to_send() {
    let link = start_with(delayed(25), delayed(25));
    let measure = || {
        let server = at_server(&link, "tcp-trickle");
        at_client(&link, "tcp-client").words();
        let words = server.words();
        assert_eq!(words[0], 1, "application-limited");
        words[1..].iter().all(|us| is_round_trip(*us, 50_000))
    };
    assert!((0..TRIES).any(|_| measure()));
}

fn the_kernel_tells_when_the_last_byte_was_acknowledged() {
    let way = bottleneck(25);
    let link = start_with(way.clone(), way);
    // 500,000 bytes take half a second. The second time a single look comes long after that.
    let measure = |wait: u64, most_looks: u64| {
        let server = at_server(&link, &format!("tcp-answer 500000 {wait}"));
        let client = at_client(&link, "tcp-taker 500000");
        let (came, told) = (client.words()[0], server.words());
        let way_back = Duration::from_micros(told[0].saturating_sub(came));
        // The way back, a delayed acknowledgement's 40 ms, and the kernel's ticks.
        let right = (15..=75).contains(&way_back.as_millis()) && told[1] <= most_looks;
        if !right {
            eprintln!("{way_back:?} at {told:?}");
        }
        right
    };
    for (wait, looks) in [(1, 100), (1_000, 1)] {
        assert!(
            (0..TRIES).any(|_| measure(wait, looks)),
            "a wait of {wait} ms"
        );
    }
}

fn connections_begin_with_the_window_that_was_asked_for() {
    for topology in topologies() {
        for (initial_window, expected) in [(None, 10), (Some(32), 32)] {
            let link = start(Options {
                topology,
                initial_window,
                proxy_ports: vec![PORT],
                ..Options::default()
            });
            let server = at_server(&link, "tcp-window");
            at_client(&link, "tcp-client").words();
            assert_eq!(server.words(), [expected], "{topology}");
        }
    }
}
