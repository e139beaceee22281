//! All that clients can make a server hold, at once and from many addresses: does the process stay below
//! the memory that it was given?

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::Result;
use quinn_proto::Dir;

use super::spellings::spelled;
use crate::client::h2::{self, Http2};
use crate::client::h3::{self, Http3};
use crate::client::packet;
use crate::client::tls::{Tls, tcp};
use crate::server::{IDLE_TIMEOUT, LARGE, Setup, Target};
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[Attack::new(
    "memory-limit",
    "windows of zero, unread downloads, uploads, unfinished heads, gapped bytes and idle connections of many addresses, where 128 MiB are allowed",
    together,
)
.against(|_| Setup::with(&["--max-memory", "128MiB"]))
.within(MEMORY)
.lingering(IDLE_TIMEOUT)];

/// Value of `--max-memory`, in MiB.
const MEMORY: u64 = 128;
/// Memory that the allocator may keep beyond it, in MiB.
const MARGIN: u64 = 16;
/// Receive buffer of an attacker.
const RECEIVE_BUFFER: usize = 4096;
/// Bytes of a head that does not end.
const UNFINISHED: usize = 60_000;
/// Type of HTTP/3's frame of a field section.
const HEADERS: u64 = 1;
/// Requests on a connection.
const STREAMS: usize = 100;

/// Connections that hold what they can.
#[derive(Default)]
struct Held {
    over_h1: Vec<Tls>,
    over_h2: Vec<Http2>,
    over_h3: Vec<Http3>,
}

fn together(context: &mut AttackContext<'_>) -> Result<()> {
    let target = context.target();
    let mut held = Held::default();
    for address in 0..context.pick(3, 12) {
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, address));
        held.attack(&target, from, context.pick(2, 40));
    }
    std::thread::sleep(context.pick(Duration::from_millis(500), Duration::from_secs(3)));
    let open = held.over_h1.len() + held.over_h2.len() + held.over_h3.len();
    context.check("connections", "≥ 1", open.to_string(), open > 0);
    let resident = context.usage().resident >> 20;
    context.check(
        "memory of the process",
        format!("≤ {MEMORY} MiB and {MARGIN} MiB"),
        format!("{resident} MiB"),
        resident <= MEMORY + MARGIN,
    );
    Ok(())
}

impl Held {
    /// Attacks in every way from one address, with `each` connections of a kind. A server may refuse any of them.
    fn attack(&mut self, target: &Target, from: IpAddr, each: usize) {
        for n in 0..each {
            self.over_h1.extend(unread(target, from));
            self.over_h2.extend(unanswered(target, from, n * STREAMS));
            self.over_h2.extend(Http2::connect(target, from, 65_535));
            self.over_h3.extend(ranges(target, from));
            self.over_h3.extend(uploads(target, from));
            self.over_h3.extend(gapped(target, from));
            self.over_h1.extend(unfinished_head(target, from));
            self.over_h3.extend(unfinished_heads(target, from));
        }
    }
}

/// A download over HTTP/1.1 that nobody reads.
fn unread(target: &Target, from: IpAddr) -> std::io::Result<Tls> {
    let stream = tcp(target, from, Some(RECEIVE_BUFFER))?;
    let mut tls = Tls::over(stream, target, b"http/1.1")?;
    tls.write(format!("GET /{LARGE} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())?;
    Ok(tls)
}

/// Requests over HTTP/2 for which there are windows of zero.
fn unanswered(target: &Target, from: IpAddr, first: usize) -> std::io::Result<Http2> {
    let mut client = Http2::connect(target, from, 0)?;
    let requests = (0..STREAMS).zip((1..).step_by(2)).flat_map(|(n, stream)| {
        let range = format!("bytes={n}-");
        h2::get(stream, &spelled(LARGE, first + n), &[("range", &range)])
    });
    client.write(&requests.collect::<Vec<_>>())?;
    Ok(client)
}

/// The same over HTTP/3.
fn ranges(target: &Target, from: IpAddr) -> std::io::Result<Http3> {
    let mut client = Http3::connect(target, from, 0)?;
    client.quic.turn();
    for n in 0..STREAMS {
        client.get(&spelled(LARGE, n), &[("range", &format!("bytes={n}-"))]);
    }
    client.quic.drive(Duration::from_millis(5), |_| false);
    Ok(client)
}

/// Uploads over HTTP/3 that nobody wants and that don't end.
fn uploads(target: &Target, from: IpAddr) -> std::io::Result<Http3> {
    let mut client = Http3::connect(target, from, 0)?;
    client.quic.turn();
    let mut upload = h3::request("POST", "/", &[]);
    upload.extend(h3::frame(0, &[b'x'; 16 << 10]));
    for _ in 0..STREAMS {
        client.quic.open(Dir::Bi, &upload);
    }
    client.quic.drive(Duration::from_millis(20), |_| false);
    Ok(client)
}

/// A head over HTTP/1.1 that does not end.
fn unfinished_head(target: &Target, from: IpAddr) -> std::io::Result<Tls> {
    let stream = tcp(target, from, Some(RECEIVE_BUFFER))?;
    let mut tls = Tls::over(stream, target, b"http/1.1")?;
    let value = "x".repeat(UNFINISHED);
    tls.write(format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {value}").as_bytes())?;
    Ok(tls)
}

/// Heads over HTTP/3 that do not end, as many as there may be requests.
fn unfinished_heads(target: &Target, from: IpAddr) -> std::io::Result<Http3> {
    let mut client = Http3::connect(target, from, 65_535)?;
    client.quic.turn();
    let whole = h3::frame(HEADERS, &[0; UNFINISHED]);
    for _ in 0..STREAMS {
        client.quic.open(Dir::Bi, &whole[..UNFINISHED]);
    }
    client.quic.drive(Duration::from_millis(20), |_| false);
    Ok(client)
}

/// Bytes with gaps between them on as many streams as there may be.
fn gapped(target: &Target, from: IpAddr) -> std::io::Result<Http3> {
    const BYTES_EACH: u64 = 20;
    let mut client = Http3::connect(target, from, 65_535)?;
    client.quic.drive(Duration::from_millis(5), |_| false);
    let open = |client: &mut Http3| client.quic.connection.streams().open(Dir::Bi);
    let ids: Vec<_> = std::iter::from_fn(|| open(&mut client))
        .take(STREAMS)
        .collect();
    let mut sealer = client.quic.sealer();
    for k in 0..BYTES_EACH {
        for ids in ids.chunks(10) {
            let byte = |id| packet::stream(u64::from(id), 2 * k + 1, b"x");
            let frames: Vec<_> = ids.iter().copied().flat_map(byte).collect();
            let _ = client.quic.socket().send(&sealer.packet(&frames));
        }
    }
    Ok(client)
}
