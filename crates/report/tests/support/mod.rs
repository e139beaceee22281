//! Synthetic runs: a plan, and transfers whose times follow a formula with seeded noise.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use altway_record::{
    Build, Cell, Host, LinkSettings, Manifest, Plan, Protocol, SCHEMA_VERSION, Sample, Shard,
};
use std::collections::BTreeMap;

/// A manifest around the plan that `toml` describes.
pub(crate) fn manifest(toml: &str) -> Manifest {
    let plan: Plan = toml.parse().unwrap();
    let null_arm = toml.contains("null_arm = true");
    let plan = Plan { null_arm, ..plan };
    Manifest {
        schema_version: SCHEMA_VERSION,
        altway_version: "0.1.0".into(),
        altway_commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        build: Build::default(),
        command: vec![
            "altway".into(),
            "lab".into(),
            "run".into(),
            plan.name.clone(),
        ],
        started_at: "2026-01-02T03:04:05Z".into(),
        plan,
        shard: Shard::WHOLE,
        merged: vec![],
        host: Host {
            kernel: "Linux 6.1.0".into(),
            cpu: "Example CPU at 3 GHz".into(),
            cpu_count: 2,
            memory_bytes: 8 << 30,
            sysctls: BTreeMap::from([("net.ipv4.tcp_congestion_control".into(), "cubic".into())]),
            ..Host::default()
        },
        link: LinkSettings {
            backend: "tun".into(),
            mtu_bytes: 1500,
            realtime_priority: Some(true),
            processors_kept_awake: true,
            privilege: "root".into(),
            limitations: vec![],
        },
        networks: vec![],
        running: None,
        programs: BTreeMap::new(),
        from_samples: false,
    }
}

/// Valid transfers, one of every block, cell and protocol.
pub(crate) fn samples(plan: &Plan) -> Vec<Sample> {
    let mut noise = Noise(plan.seed);
    let mut samples = Vec::new();
    for block in 0..plan.pairs {
        for cell in plan.cells() {
            let shared = noise.draw();
            for protocol in &plan.protocols {
                let time = model(&cell, *protocol) * (1.0 + 0.01 * shared + 0.008 * noise.draw());
                samples.push(sample(
                    samples.len() as u64,
                    block,
                    &cell,
                    *protocol,
                    time as u64,
                ));
            }
            if plan.null_arm {
                let protocol = plan.protocols[0];
                let time = model(&cell, protocol) * (1.0 + 0.01 * shared + 0.008 * noise.draw());
                let again = sample(samples.len() as u64, block, &cell, protocol, time as u64);
                samples.push(Sample {
                    null_arm: true,
                    ..again
                });
            }
        }
    }
    samples
}

/// Three rates over four delays and four losses.
pub(crate) const MAP: &str = "name = \"map\"\nrate = [\"20mbit\", \"50mbit\", \"100mbit\"]\n\
    delay = [\"0ms\", \"5ms\", \"15ms\", \"25ms\"]\nloss = [\"0%\", \"1%\", \"3%\", \"5%\"]\n\
    size = \"2MB\"\npairs = 12";

/// The delay in ms at which neither is faster on [`MAP`] by [`mapped`], at a loss in per cent and
/// the rate's ordinal. Straight on the scales of the axes, so that it is exact between the cells.
pub(crate) fn zero_of_map(loss: f64, rate: usize) -> f64 {
    (0.02 + 0.08 * rate as f64 - 0.08 * loss.ln_1p()) / 0.008
}

/// The same as [`samples`], with times whose difference follows [`zero_of_map`] and 2 % of noise.
pub(crate) fn mapped(plan: &Plan) -> Vec<Sample> {
    let mut noise = Noise(plan.seed);
    let mut samples = samples(plan);
    for sample in samples
        .iter_mut()
        .filter(|one| one.protocol == Protocol::H3)
    {
        let rate = plan
            .rates
            .iter()
            .position(|rate| rate.limit().map(altway_units::Bandwidth::as_bps) == sample.rate_bps);
        let loss = f64::from(sample.loss_ppb) / 1e7;
        let delay = sample.delay_us as f64 / 1e3;
        let zero = zero_of_map(loss, rate.unwrap_or(0));
        let ratio = 0.008 * (zero - delay) + 0.02 * noise.draw();
        let baseline = model(&sample.condition(), Protocol::H2) * ratio.exp();
        sample.total_us = Some(baseline as u64);
        sample.compared_us = sample.total_us;
    }
    samples
}

/// Seconds of transfer, and round trips: HTTP/3 needs fewer of them and a little more work. µs.
fn model(cell: &Cell, protocol: Protocol) -> f64 {
    let bits = cell.size.as_bytes() as f64 * 8.0 * 1.04;
    let transfer = bits / cell.rate.limit().map_or(1e9, |rate| rate.as_bps() as f64) * 1e6;
    let rtt = 2.0 * cell.delay.as_secs_f64() * 1e6;
    let loss = 1.0 + 20.0 * cell.loss.as_f64();
    match protocol {
        Protocol::H1 => (transfer + 5.0 * rtt) * loss * 1.01,
        Protocol::H2 => (transfer + 5.0 * rtt) * loss,
        Protocol::H3 => (transfer * 1.05 + 4.2 * rtt) * loss,
    }
}

/// A valid transfer that took `total_us`.
pub(crate) fn sample(
    ordinal: u64,
    block: u32,
    cell: &Cell,
    protocol: Protocol,
    total_us: u64,
) -> Sample {
    Sample {
        ordinal,
        block,
        cell: cell.index,
        attempt: 1,
        request: 0,
        requests: 1,
        protocol,
        null_arm: false,
        protocol_used: Some(protocol),
        topology: cell.topology,
        server: cell.server,
        client: cell.client,
        congestion: cell.congestion,
        initial_window_packets: cell.initial_window,
        certificate: cell.certificate,
        certificate_compression: cell.certificate_compression,
        connection: cell.connection,
        link: cell.link,
        queue: cell.queue,
        rate_bps: cell.rate.limit().map(altway_units::Bandwidth::as_bps),
        delay_us: cell.delay.as_micros() as u64,
        loss_ppb: cell.loss.as_parts_per_billion(),
        size_bytes: cell.size.as_bytes(),
        link_seed: 1000 + u64::from(block),
        started_unix_ms: 1_767_323_045_000 + ordinal as i64 * 2_000,
        start_us: 0,
        connect_us: Some(total_us / 20),
        first_byte_us: Some(total_us / 10),
        total_us: Some(total_us),
        compared_us: Some(total_us),
        body_bytes: cell.size.as_bytes(),
        up_packets: 400,
        up_lost_packets: (400.0 * cell.loss.as_f64()) as u64,
        up_queue_dropped_packets: 0,
        down_packets: 720,
        down_lost_packets: (720.0 * cell.loss.as_f64()) as u64,
        down_queue_dropped_packets: 2,
        down_backlog_max_bytes: 60_000,
        codel_dropped_packets: 0,
        duplicated_packets: 0,
        reordered_packets: 0,
        corrupted_packets: 0,
        beside: 0,
        lateness_us_p99: Some(60.0 + (ordinal % 17) as f64),
        hidden_drops_packets: 0,
        client_involuntary_switches: ordinal % 3,
        server_involuntary_switches: 1,
        client_cpu_us: Some(20_000),
        server_cpu_us: Some(10_000),
        policy: None,
        session: 0,
        alt_svc_ma_s: None,
        valid: true,
        fault: String::new(),
    }
}

/// The same transfer, but it did not count.
pub(crate) fn spoiled(sample: &Sample, fault: &str) -> Sample {
    Sample {
        valid: false,
        fault: fault.into(),
        total_us: None,
        compared_us: None,
        ..sample.clone()
    }
}

/// Normal enough: the sum of twelve uniform numbers.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn draw(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// SplitMix64's step.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
