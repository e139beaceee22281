//! Datagrams of no connection, and of connections that never become one.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bystander::{self, Protocol};
use crate::client::quic::Quic;
use crate::server::HANDSHAKE_TIMEOUT;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "half-open-initials",
        "first datagrams from many addresses that say no more",
        half_open,
    )
    .within(96)
    .lingering(HANDSHAKE_TIMEOUT),
    Attack::new(
        "initial-again-and-again",
        "one first datagram many times, and garbled",
        repeated,
    )
    .within(16),
    Attack::new(
        "datagrams-of-no-connection",
        "unknown versions and unknown connection IDs",
        unknown,
    )
    .within(16),
];

/// Datagrams that come each millisecond: 1 Gbit/s of first datagrams. Several times as many are too many for one core to
/// take from the kernel, and those that find the socket's buffer full are lost, whoever sent them.
const EACH_MILLISECOND: u32 = 100;

/// Bytes that may go to an address for each that came from it (RFC 9000 section 8.1).
const RATIO: f64 = 3.0;

fn half_open(context: &mut AttackContext<'_>) -> Result<()> {
    let mut held = Vec::new();
    for n in 0..context.pick(100, 3000) {
        let from = format!("127.0.3.{}", 1 + n % 200).parse()?;
        let mut quic = Quic::start(&context.target(), from, 65_535)?;
        let sent: usize = quic
            .transmits()
            .iter()
            .filter_map(|datagram| quic.socket().send(datagram).ok())
            .sum();
        held.push((quic, sent));
    }
    let status = bystander::fetch(&context.target(), Protocol::H3, bystander::ADDRESS);
    let met = status.as_ref().is_ok_and(|status| *status == 200);
    context.check("a new client over H3", "200", format!("{status:?}"), met);
    thread::sleep(Duration::from_secs(1));
    let ratios = held
        .iter()
        .map(|(quic, sent)| drain(quic.socket()).iter().sum::<usize>() as f64 / *sent as f64);
    let worst = ratios.fold(0.0, f64::max);
    context.check_at_most("bytes to an address for each from it", RATIO, worst, " ×");
    Ok(())
}

/// Sizes of the datagrams that have arrived.
fn drain(socket: &UdpSocket) -> Vec<usize> {
    let mut buffer = vec![0; 65_536];
    let _ = socket.set_nonblocking(true);
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).collect()
}

fn repeated(context: &mut AttackContext<'_>) -> Result<()> {
    let mut quic = Quic::start(&context.target(), AttackContext::ATTACKER, 65_535)?;
    let datagrams = quic.transmits();
    let first = datagrams.first().context("there is a first datagram")?;
    let mut garbled = first.clone();
    if let Some(last) = garbled.last_mut() {
        *last ^= 1;
    }
    let (before, times) = (context.usage().cpu, context.pick(2000, 50_000));
    let begun = Instant::now();
    for pair in 0..times {
        let due = begun + Duration::from_millis((2 * pair / EACH_MILLISECOND).into());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = quic.socket().send(first);
        let _ = quic.socket().send(&garbled);
    }
    thread::sleep(Duration::from_millis(500));
    let received: usize = drain(quic.socket()).iter().sum();
    let ratio = received as f64 / (f64::from(2 * times) * first.len() as f64);
    context.check_at_most("bytes sent for each received", RATIO, ratio, " ×");
    let cpu = context.usage().cpu.saturating_sub(before);
    context.check_at_most("processor time of the server", 4.0, cpu.as_secs_f64(), " s");
    Ok(())
}

/// Answers to one datagram.
fn answers(context: &AttackContext<'_>, datagram: &[u8]) -> Result<Vec<usize>> {
    let socket = UdpSocket::bind((AttackContext::ATTACKER, 0))?;
    socket.connect(context.target().address)?;
    socket.send(datagram)?;
    thread::sleep(Duration::from_millis(150));
    Ok(drain(&socket))
}

fn unknown(context: &mut AttackContext<'_>) -> Result<()> {
    let version = [
        0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    let padded = |len: usize| [&version[..], &vec![0; len - version.len()]].concat();
    let negotiation = answers(context, &padded(1200))?;
    let met = negotiation.len() == 1 && negotiation[0] <= 100;
    context.check(
        "an unknown version in 1,200 B",
        "one short answer",
        format!("{negotiation:?}"),
        met,
    );
    let short = answers(context, &padded(1199))?;
    context.check(
        "an unknown version in 1,199 B",
        "no answer",
        format!("{short:?}"),
        short.is_empty(),
    );
    let mut packet = vec![0x40; 200];
    fastrand::fill(&mut packet[1..]);
    let reset = answers(context, &packet)?;
    let met = reset.iter().all(|size| *size < packet.len()) && reset.len() <= 1;
    context.check(
        "an unknown connection ID in 200 B",
        "shorter, or none",
        format!("{reset:?}"),
        met,
    );
    let tiny = answers(context, &packet[..21])?;
    context.check(
        "an unknown connection ID in 21 B",
        "no answer",
        format!("{tiny:?}"),
        tiny.is_empty(),
    );
    resets(context, &mut packet)
}

/// Stateless resets are rare, whatever comes.
fn resets(context: &mut AttackContext<'_>, packet: &mut [u8]) -> Result<()> {
    let socket = UdpSocket::bind((AttackContext::ATTACKER, 0))?;
    socket.connect(context.target().address)?;
    let (begun, mut answered) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(1) {
        fastrand::fill(&mut packet[1..]);
        let _ = socket.send(packet);
        answered += drain(&socket).len();
    }
    context.check_at_most("stateless resets in a second", 110.0, answered as f64, "");
    Ok(())
}
