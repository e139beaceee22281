//! The arithmetic by hand, and one short run of all variants.

use super::*;
use crate::costs::{Calls, Costs, Cpu, Path};

/// A run of 10⁹ bytes down that cost both ends together so many seconds and calls, and took one
/// second.
fn run(variant: Variant, cpu_s: f64, calls: u64) -> Run {
    let costs = Costs {
        received_bytes: 1_000_000_000,
        cpu: Cpu {
            user_us: (cpu_s * 0.125e6) as u64,
            system_us: (cpu_s * 0.375e6) as u64,
        },
        calls: Calls {
            read: calls / 2,
            ..Calls::default()
        },
        path: Some(Path {
            packets_sent: 10,
            retransmissions: 1,
            ..Path::default()
        }),
        ..Costs::default()
    };
    Run {
        over: variant.over(),
        server_address: String::new(),
        requests: 1,
        up_bytes: 0,
        down_bytes: costs.received_bytes,
        connect_us: 0,
        wall_us: 1_000_000,
        mb_per_s: Some(1_000.0),
        transfer: None,
        client: costs.clone().into(),
        server: costs.into(),
    }
}

fn round() -> Round {
    let cpu = |variant| match variant {
        Variant::Tcp => 0.2,
        Variant::TcpUncopied => 0.1,
        Variant::Tls => 1.0,
        Variant::TlsUnencrypted => 0.6,
        Variant::Quic => 2.0,
        Variant::QuicUnencrypted => 1.5,
        _ => 4.0,
    };
    Round(
        Variant::ALL
            .map(|variant| run(variant, cpu(variant), 40_000))
            .into(),
    )
}

fn percent(shares: &Shares, over: TransportKind, part: &str) -> f64 {
    let share = |share: &&Share| share.over == over && share.part == part;
    let found = shares.shares.iter().find(share).unwrap();
    let percent = found.percent.unwrap();
    assert_eq!(percent.low, percent.high);
    (percent.median * 1e6).round() / 1e6
}

#[test]
fn every_variant_stands_at_its_place() {
    for (index, variant) in Variant::ALL.into_iter().enumerate() {
        assert_eq!(variant as usize, index);
        assert_eq!(variant.over(), variant.base().over());
    }
}

#[test]
fn shares_follow_from_what_was_switched_off() {
    // 40,000 calls of 500 ns are 0.02 s.
    let shares = evaluate(1_000_000_000, &vec![round(); 6], 500.0);
    let parts = |over| {
        ["encryption", "copies", "system calls", "protocol"]
            .map(|part| percent(&shares, over, part))
    };
    assert_eq!(parts(TransportKind::Tcp), [0.0, 50.0, 10.0, 40.0]);
    assert_eq!(parts(TransportKind::Tls), [40.0, 10.0, 2.0, 48.0]);
    assert_eq!(parts(TransportKind::Quic), [25.0, 5.0, 1.0, 69.0]);
    let no_gso = &shares.variants[Variant::QuicNoGso as usize];
    assert_eq!(no_gso.cpu_percent.median, 200.0);
    assert_eq!(
        (no_gso.packets.median, no_gso.retransmissions.median),
        (20.0, 2.0)
    );
    assert_eq!(no_gso.calls_per_mb.median, 40.0);
    assert_eq!(shares.quic_of_tls_percent.median, 100.0);
    assert_eq!(no_gso.kernel_percent.median, 75.0);
}

#[test]
fn all_variants_run_and_none_costs_nothing() {
    let options = SharesOptions {
        size: 2_000_000,
        rounds: NonZeroUsize::new(2).unwrap(),
        ..SharesOptions::default()
    };
    let mut seen = Vec::new();
    let shares = shares(&options, |round, variant| seen.push((round, variant))).unwrap();
    assert_eq!(seen.len(), 2 * Variant::ALL.len());
    assert_eq!(seen[0], (1, Variant::Tcp));
    assert_eq!(seen[Variant::ALL.len()], (2, Variant::TcpUncopied));
    assert_eq!(shares.variants.len(), Variant::ALL.len());
    for measured in &shares.variants {
        assert!(measured.mb_per_s.min > 0.0, "{measured:?}");
        assert!(measured.cpu_s_per_gb.min > 0.0, "{measured:?}");
        assert!(measured.calls_per_mb.min > 0.0, "{measured:?}");
    }
    let calls = |variant| shares.variants[variant as usize].calls_per_mb.median;
    assert!(calls(Variant::QuicOnePacket) > 2.0 * calls(Variant::Quic));
    let packets = |variant| shares.variants[variant as usize].packets.median;
    assert!(packets(Variant::QuicMtu65507) < packets(Variant::Quic));
    assert!(packets(Variant::Quic) < packets(Variant::QuicMtu1200));
    for over in TransportKind::ALL {
        let of = shares.shares.iter().filter(|share| share.over == over);
        assert_eq!(of.count(), 4);
    }
}
