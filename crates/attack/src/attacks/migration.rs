//! Forged source addresses on an established QUIC connection: the server answers where it was not asked.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::client::h3::Http3;
use crate::client::quic::Quic;
use crate::server::LARGE;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "forged-sources-idle",
        "one small packet of an idle connection from each of many other addresses",
        |context| forged_addresses(context, false),
    ),
    Attack::new(
        "forged-sources-in-a-download",
        "one small packet of a downloading connection from each of many other addresses",
        |context| forged_addresses(context, true),
    ),
];

/// Bytes that may go to an address for each that came from it (RFC 9000 sections 8.1 and 9.3).
const RATIO: f64 = 3.0;

fn forged_addresses(context: &mut AttackContext<'_>, downloading: bool) -> Result<()> {
    let target = context.target();
    let mut client = Http3::connect(&target, AttackContext::ATTACKER, 1 << 20)?;
    client.quic.drive(Duration::from_millis(200), |_| false);
    if downloading {
        client
            .get(&format!("/{LARGE}"), &[])
            .context("no stream is allowed")?;
        client.quic.drive(Duration::from_millis(20), |_| false);
    }
    let mut worst: f64 = 0.0;
    let (mut sent, mut received) = (0, 0);
    for address in 0..context.pick(30, 300) {
        let forged = UdpSocket::bind(format!("127.0.1.{}:0", 1 + address % 200))?;
        forged.connect(target.address)?;
        forged.set_nonblocking(true)?;
        let Some(bytes) = send_one(&mut client.quic, &forged) else {
            break;
        };
        // Probes that are lost are sent again: some round trips' time.
        let answered = count(
            &forged,
            context.pick(Duration::from_millis(40), Duration::from_millis(100)),
        );
        worst = worst.max(answered as f64 / bytes as f64);
        (sent, received) = (sent + bytes, received + answered);
        if downloading {
            client.quic.turn();
        }
    }
    let total = received as f64 / (sent.max(1)) as f64;
    context.check_at_most("bytes to an address for each from it", RATIO, worst, " ×");
    context.check_at_most("the same over all addresses", RATIO, total, " ×");
    context.check(
        "bytes sent from other addresses",
        "> 0",
        sent.to_string(),
        sent > 0,
    );
    Ok(())
}

/// Sends the connection's next packet, a PING by itself, through another socket; its size.
fn send_one(quic: &mut Quic, through: &UdpSocket) -> Option<u64> {
    quic.connection.ping();
    let datagrams = quic.transmits();
    let mut sent = 0;
    for datagram in datagrams {
        through.send(&datagram).ok()?;
        sent += datagram.len() as u64;
    }
    (sent > 0).then_some(sent)
}

/// Bytes that arrive within `time`.
fn count(socket: &UdpSocket, time: Duration) -> u64 {
    let deadline = Instant::now() + time;
    let (mut bytes, mut buffer) = (0, vec![0; 65_536]);
    while Instant::now() < deadline {
        match socket.recv(&mut buffer) {
            Ok(len) => bytes += len as u64,
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    bytes
}
