//! Rates over paths whose loss limits both transports: a page of 1 MB shows them with much chance.

use super::*;

/// A path that loses packets: seconds of a round trip, share of packets, and bit/s that a page shows over TCP and over QUIC in the
/// median. Chromium's pages over links of 600 Mbit/s and 1 Gbit/s.
const PATHS: [(f64, f64, [f64; 2]); 4] = [
    (0.050, 0.025, [2.2e6, 2.6e6]),
    (0.050, 0.050, [1.0e6, 1.3e6]),
    (0.025, 0.025, [4.0e6, 4.5e6]),
    (0.025, 0.050, [1.9e6, 2.4e6]),
];

/// Packets of a page of 1 MB.
const PACKETS: f64 = 717.0;

/// Points of the normal distribution and their weights, for means over chance (Gauss and Hermite).
const CHANCE: [(f64, f64); 5] = [
    (-2.857, 0.01126),
    (-1.356, 0.22208),
    (0.0, 0.53333),
    (1.356, 0.22208),
    (2.857, 0.01126),
];

fn page_of(transport: Transport, rtt: f64, lost: f64, rate: f64) -> Observation {
    let size = DataSize::from_bytes(1_000_000);
    let rtt = Duration::from_secs_f64(rtt);
    Observation {
        min_rtt: Some(rtt),
        smoothed_rtt: Some(rtt),
        packets_sent: PACKETS as u64,
        packets_lost: lost as u64,
        bulk: Some(Bulk {
            size,
            rate: Bandwidth::from_bps(rate as u64).unwrap(),
            app_limited: false,
        }),
        ..Observation::new(transport)
    }
}

/// The offer after a visit over TCP and one over QUIC, which showed these rates.
fn offer(rtt: f64, lost: f64, rates: [f64; 2]) -> Offer {
    let selector = with("learned", |config| config.learn_after = 1_000);
    let (client, host) = (client("chromium-linux", 1), host());
    let later = NOW + Duration::from_secs(30);
    for (transport, now) in [(Transport::Tcp, NOW), (Transport::Quic, later)] {
        let seen = page_of(transport, rtt, lost, rates[transport as usize]);
        selector.connected(&client, &host, transport, now);
        selector.observe(&client, &host, &seen, now);
    }
    let moment = DecisionRequest {
        min_rtt: Some(Duration::from_secs_f64(rtt)),
        ..over(Transport::Quic, later)
    };
    selector.decide(&client, &host, &moment).offer
}

/// The share of clients from which HTTP/3 is taken back, where a rate deviates by `deviation` (ln).
fn taken_back((rtt, loss, rates): (f64, f64, [f64; 2]), deviation: f64) -> f64 {
    let mut share = 0.0;
    let lost = PACKETS * loss;
    for (packets, of_packets) in CHANCE {
        for (tcp, of_tcp) in CHANCE {
            for (quic, of_quic) in CHANCE {
                let by_chance = [tcp, quic].map(|it| (deviation * it).exp());
                let rates = [rates[0] * by_chance[0], rates[1] * by_chance[1]];
                let lost = (lost + lost.sqrt() * packets).max(0.0);
                if offer(rtt, lost, rates) == Offer::Http2 {
                    share += of_packets * of_tcp * of_quic;
                }
            }
        }
    }
    share
}

#[test]
fn chance_takes_http3_back_from_few_clients_of_lossy_paths() {
    for path in PATHS {
        for (deviation, most) in [(0.2, 0.03), (0.4, 0.09)] {
            let share = taken_back(path, deviation);
            assert!(share <= most, "{path:?}, {deviation}: {share:.3}");
        }
    }
}

#[test]
fn throttled_udp_is_seen_on_a_lossy_path_too() {
    for (rtt, loss, [tcp, _]) in PATHS {
        let rates = [tcp, tcp / 5.0];
        assert_eq!(offer(rtt, PACKETS * loss, rates), Offer::Http2, "{loss}");
    }
}
