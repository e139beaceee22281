//! Frames of QUIC within valid encryption: floods that cost nothing to send, and lies.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::packet::{self, Sealer, frame};
use crate::client::quic::Quic;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "quic-frame-floods",
        "packets full of frames that ask for work",
        floods,
    )
    .within(16),
    Attack::new(
        "quic-lies",
        "frames that no honest client sends",
        false_frames,
    )
    .within(16),
];

fn connect(context: &AttackContext<'_>) -> Result<(Quic, Sealer)> {
    let mut quic = Quic::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
    quic.drive(Duration::from_millis(50), |_| false);
    let sealer = quic.sealer();
    Ok((quic, sealer))
}

/// Frames of the `n`th packet.
type Flood = fn(u64) -> Vec<u8>;

fn floods(context: &mut AttackContext<'_>) -> Result<()> {
    let floods: [(&str, Flood); 7] = [
        ("PING", |_| frame(1, &[]).repeat(60)),
        ("PATH_CHALLENGE", |n| {
            [&[0x1a][..], &n.to_be_bytes()].concat().repeat(100)
        }),
        ("STREAMS_BLOCKED", |n| frame(0x16, &[n]).repeat(100)),
        ("MAX_DATA", |n| frame(0x10, &[n]).repeat(100)),
        ("ACK", |_| frame(2, &[0, 0, 0, 0]).repeat(100)),
        ("NEW_CONNECTION_ID", |n| {
            (0..20)
                .flat_map(|k| packet::new_connection_id(10 + 20 * n + k, 10 + 20 * n + k))
                .collect()
        }),
        ("DATA_BLOCKED", |n| frame(0x14, &[n]).repeat(100)),
    ];
    let time = context.pick(Duration::from_millis(150), Duration::from_secs(4));
    for (name, flood) in floods {
        let (quic, mut sealer) = connect(context)?;
        let before = context.usage();
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let _ = quic.socket().send(&sealer.packet(&flood(sent)));
            sent += 1;
            if sent % 16 == 0 {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
        let above = context.usage().resident.saturating_sub(before.resident) >> 20;
        context.check(
            format!("{sent} packets of {name}"),
            "≤ 8 MiB more",
            format!("{above} MiB"),
            above <= 8,
        );
    }
    Ok(())
}

fn false_frames(context: &mut AttackContext<'_>) -> Result<()> {
    let far = 1 << 40;
    let false_frames: [(&str, u64, Vec<u8>); 6] = [
        ("RETIRE_CONNECTION_ID of none", 0x0a, frame(0x19, &[1000])),
        (
            "ACK of what was not sent",
            0x0a,
            frame(2, &[1 << 30, 0, 0, 0]),
        ),
        ("CRYPTO far ahead", 0x0d, packet::crypto(far, b"x")),
        (
            "a stream beyond the limit",
            0x04,
            packet::stream(4 << 20, 0, b"x"),
        ),
        (
            "STREAM beyond the window",
            0x03,
            packet::stream(0, far, b"x"),
        ),
        (
            "MAX_STREAM_DATA of a stream that the server only receives on",
            0x05,
            frame(0x11, &[2, 1]),
        ),
    ];
    for (name, code, frames) in false_frames {
        let (quic, mut sealer) = connect(context)?;
        quic.socket().send(&sealer.packet(&frames))?;
        let found = close_code(&quic, &sealer);
        context.check(
            name,
            format!("closed with {code}"),
            format!("{found:?}"),
            found == Some(code),
        );
    }
    Ok(())
}

fn close_code(quic: &Quic, sealer: &Sealer) -> Option<u64> {
    let mut buffer = vec![0; 65_536];
    let deadline = Instant::now() + Duration::from_secs(1);
    let _ = quic.socket().set_nonblocking(false);
    let _ = quic
        .socket()
        .set_read_timeout(Some(Duration::from_millis(200)));
    while Instant::now() < deadline {
        let Ok(len) = quic.socket().recv(&mut buffer) else {
            continue;
        };
        if let Some(code) = sealer.close_code(&buffer[..len]) {
            return Some(code);
        }
    }
    None
}
