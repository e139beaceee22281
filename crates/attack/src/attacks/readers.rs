//! Readers of downloads that don't read, or hardly.

use std::time::{Duration, Instant};

use anyhow::Result;
use quinn_proto::StreamId;

use crate::client::h2::{self, Http2};
use crate::client::h3::Http3;
use crate::client::tls::{Tls, tcp};
use crate::server::LARGE;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "h1-downloads-unread",
        "downloads over HTTP/1.1 that nobody reads",
        unread,
    )
    .in_clear_text(),
    Attack::new(
        "h1-tls-downloads-unread",
        "downloads over HTTP/1.1 and TLS that nobody reads",
        unread_tls,
    ),
    Attack::new(
        "slow-readers",
        "a reader that takes nothing, and one that takes 512 bytes each 10 s, over HTTP/1.1, HTTP/2 and HTTP/3",
        slow,
    )
    .only_in_full(),
];

/// Receive buffer of an attacker: its own side of the kernel's memory is not the server's fault.
const RECEIVE_BUFFER: usize = 4096;
/// Bound of the kernel's memory of 2,000 downloads.
const KERNEL: f64 = 256.0;

fn request() -> Vec<u8> {
    format!("GET /{LARGE} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

fn unread(context: &mut AttackContext<'_>) -> Result<()> {
    use std::io::Write;
    let mut held = Vec::new();
    for _ in 0..context.pick(200, 2000) {
        if let Ok(mut stream) = tcp(
            &context.target(),
            AttackContext::ATTACKER,
            Some(RECEIVE_BUFFER),
        ) && stream.write_all(&request()).is_ok()
        {
            held.push(stream);
        }
    }
    check_kernel(context, held.len());
    Ok(())
}

fn unread_tls(context: &mut AttackContext<'_>) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..context.pick(100, 2000) {
        let stream = tcp(
            &context.target(),
            AttackContext::ATTACKER,
            Some(RECEIVE_BUFFER),
        );
        let tls = stream.and_then(|stream| Tls::over(stream, &context.target(), b"http/1.1"));
        if let Ok(mut tls) = tls
            && tls.write(&request()).is_ok()
        {
            held.push(tls);
        }
    }
    check_kernel(context, held.len());
    Ok(())
}

fn check_kernel(context: &mut AttackContext<'_>, connections: usize) {
    std::thread::sleep(context.pick(Duration::from_millis(500), Duration::from_secs(3)));
    let kernel = context
        .usage()
        .kernel_tcp
        .saturating_sub(context.idle.kernel_tcp);
    let bar = KERNEL * connections as f64 / 2000.0;
    let mebibytes = kernel as f64 / f64::from(1 << 20);
    context.check(
        "connections",
        "≥ 1",
        connections.to_string(),
        connections > 0,
    );
    context.check_at_most(
        &format!("kernel's memory of {connections} downloads"),
        bar,
        mebibytes,
        " MiB",
    );
}

/// The longest that a reader may stay that takes less than 100 bytes a second: the 60 s that are looked at, a quarter of
/// them until it is looked for, and a step of the readers.
const LIMIT: Duration = Duration::from_secs(86);
const STEP: Duration = Duration::from_secs(10);

/// A reader over one of the protocols; each takes `bytes` when asked to, and says whether it is still
/// served.
enum Reader {
    H1(Box<Tls>),
    H2(Box<Http2>),
    H3(Box<Http3>, StreamId),
}

impl Reader {
    fn all(context: &AttackContext<'_>) -> Result<Vec<(&'static str, Self)>> {
        let target = context.target();
        let stream = tcp(&target, AttackContext::ATTACKER, Some(RECEIVE_BUFFER))?;
        let mut tls = Tls::over(stream, &target, b"http/1.1")?;
        tls.write(&request())?;
        let mut over_h2 = Http2::connect(&target, AttackContext::ATTACKER, 0)?;
        over_h2.write(&h2::get(1, &format!("/{LARGE}"), &[]))?;
        let mut over_h3 = Http3::connect(&target, AttackContext::ATTACKER, 512)?;
        let stream = over_h3.get(&format!("/{LARGE}"), &[]);
        let stream = stream.ok_or_else(|| anyhow::anyhow!("no stream"))?;
        over_h3.quic.turn();
        Ok(vec![
            ("HTTP/1.1", Self::H1(Box::new(tls))),
            ("HTTP/2", Self::H2(Box::new(over_h2))),
            ("HTTP/3", Self::H3(Box::new(over_h3), stream)),
        ])
    }

    fn take(&mut self, bytes: u32) -> bool {
        match self {
            Self::H1(tls) => is_open(tls, bytes),
            Self::H2(client) => {
                let credit = bytes.max(1).to_be_bytes();
                let granted = match bytes {
                    0 => Ok(()),
                    _ => client.write(&h2::frame(h2::WINDOW_UPDATE, 0, 1, &credit)),
                };
                granted.is_ok() && !is_over(client)
            }
            Self::H3(client, stream) => {
                client.quic.turn();
                let (_, over) = match bytes {
                    0 => (Vec::new(), client.quic.is_reset(*stream)),
                    _ => client.quic.read(*stream, bytes as usize),
                };
                client.quic.turn();
                !over && client.quic.lost().is_none()
            }
        }
    }
}

/// Returns true if the server has ended the stream or the connection.
fn is_over(client: &mut Http2) -> bool {
    loop {
        match client.next(Duration::from_millis(20)) {
            Ok(Some(frame)) if matches!(frame.kind, h2::RST_STREAM | h2::GOAWAY) => return true,
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Takes bytes off the socket, encrypted as they are; whether the server still holds the connection.
fn is_open(tls: &mut Tls, bytes: u32) -> bool {
    use std::io::Read;
    if bytes > 0 {
        let mut buffer = vec![0; bytes as usize];
        let _ = tls.tcp().read(&mut buffer);
    }
    // A connection that the server reset has an error; one that it shut down is not established.
    let Ok(local) = tls.tcp().local_addr() else {
        return false;
    };
    let taken = tls.tcp().take_error();
    matches!(taken, Ok(None)) && is_established(local.port())
}

/// Returns true if the socket of this port is in the state ESTABLISHED (01 in /proc/net/tcp).
fn is_established(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let local = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (own, _, state) = (words.next(), words.next(), words.next());
        own.is_some_and(|own| own.ends_with(&local)) && state == Some("01")
    })
}

fn slow(context: &mut AttackContext<'_>) -> Result<()> {
    let idle = Reader::all(context)?
        .into_iter()
        .map(|(name, reader)| (name, 0, reader));
    let trickling = Reader::all(context)?
        .into_iter()
        .map(|(name, reader)| (name, 512, reader));
    let mut readers: Vec<_> = idle.chain(trickling).collect();
    let begun = Instant::now();
    let mut ends = Vec::new();
    while !readers.is_empty() && begun.elapsed() < LIMIT {
        std::thread::sleep(STEP);
        readers.retain_mut(|(name, bytes, reader)| {
            let open = reader.take(*bytes);
            if !open {
                ends.push(format!("{name} {bytes} B"));
            }
            open
        });
    }
    let left: Vec<_> = readers
        .iter()
        .map(|(name, bytes, _)| format!("{name} {bytes} B"))
        .collect();
    let bar = format!("all six in {} s", LIMIT.as_secs());
    context.check(
        "slow readers that were closed",
        bar,
        format!("not: {left:?}"),
        left.is_empty(),
    );
    Ok(())
}
