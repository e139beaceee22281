//! Acknowledgements asked for less often (draft-ietf-quic-ack-frequency), and what that costs.

use std::time::Duration;

use altway_link::{Config as Link, Queue, Rate};
use altway_quic::Direction;

use crate::pair::{Pair, delay, pattern};

/// Result of a download over 20 Mbit/s and 40 ms there and back, if the server asks for this.
struct Download {
    /// Datagrams of the client's, nearly all of them acknowledgements.
    datagrams: usize,
    time: Duration,
}

fn download(bytes: usize, threshold: Option<u32>) -> Download {
    let rate = Rate::Fixed("20mbit".parse().unwrap());
    let link = Link {
        queue: Queue::default_for(&rate),
        rate,
        ..delay(20)
    };
    let mut pair = Pair::with(link, |_, server| {
        server.transport.ack_threshold = threshold;
    })
    .connected();
    pair.client.named.clear();
    let began = pair.elapsed();
    let stream = pair.server.open(Direction::Unidirectional);
    pair.server.send(stream, pattern(bytes));
    assert!(pair.run_until(|pair| pair.client.ended == [stream]));
    assert_eq!(pair.client.received[&stream], pattern(bytes));
    Download {
        datagrams: pair.client.named.len(),
        time: pair.elapsed() - began,
    }
}

#[test]
fn a_sender_that_asks_for_fewer_acknowledgements_gets_fewer() {
    let usual = download(5_000_000, None);
    // Every second packet is acknowledged without being asked.
    let same = download(5_000_000, Some(1));
    assert!(same.datagrams.abs_diff(usual.datagrams) < usual.datagrams / 50);
    for (threshold, fraction) in [(3, 2), (9, 5), (19, 10)] {
        let fewer = download(5_000_000, Some(threshold));
        // What is lost, and the end, are told of at once all the same.
        let bound = usual.datagrams * 3 / 2 / fraction;
        assert!(
            fewer.datagrams < bound,
            "{} for {threshold}",
            fewer.datagrams
        );
        assert!(fewer.time < usual.time.mul_f64(1.03), "{:?}", fewer.time);
    }
}

/// A sender of less than the threshold waits for the peer's delay: the reason why nobody is asked
/// by default.
#[test]
fn a_short_download_pays_for_a_high_threshold() {
    let usual = download(20_000, None);
    let little = download(20_000, Some(3));
    assert!(little.time < usual.time.mul_f64(1.01), "{:?}", little.time);
    let late = download(20_000, Some(9)).time - usual.time;
    let most = Duration::from_millis(25);
    assert!((most / 2..=most).contains(&late), "{late:?}");
}
