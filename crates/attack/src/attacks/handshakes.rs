//! TLS handshakes that don't go on, or go on in odd ways.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::ClientConnection;

use crate::client::tls::{Tls, is_timeout, tcp};
use crate::{Arena, Attack};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "tls-stopped",
        "handshakes that stop after five bytes",
        stopped,
    )
    .within(128),
    Attack::new(
        "tls-odd-records",
        "handshake messages in odd pieces and without end",
        odd,
    )
    .within(16),
    Attack::new("tls-key-updates", "key updates without end", key_updates).within(16),
];

fn stopped(arena: &mut Arena<'_>) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..arena.pick(500, 5000) {
        if let Ok(mut stream) = tcp(&arena.target(), Arena::ATTACKER, None)
            && stream.write_all(&[22, 3, 1, 0, 200]).is_ok()
        {
            held.push(stream);
        }
    }
    std::thread::sleep(arena.pick(Duration::from_millis(300), Duration::from_secs(12)));
    let left = arena
        .usage()
        .descriptors
        .saturating_sub(arena.idle.descriptors);
    let bar = arena.pick(500, 16);
    arena.check(
        "connections that are still open",
        format!("≤ {bar}"),
        left.to_string(),
        left <= bar,
    );
    Ok(())
}

/// The records of a ClientHello.
fn client_hello(arena: &Arena<'_>) -> Result<(ClientConnection, Vec<u8>)> {
    let config = Arc::new(arena.target().tls(b"http/1.1"));
    let mut session = ClientConnection::new(config, "localhost".try_into()?)?;
    let mut records = Vec::new();
    session.write_tls(&mut records)?;
    Ok((session, records))
}

fn odd(arena: &mut Arena<'_>) -> Result<()> {
    let (mut session, records) = client_hello(arena)?;
    let mut stream = tcp(&arena.target(), Arena::ATTACKER, None)?;
    let bytewise: Vec<u8> = records[5..]
        .iter()
        .flat_map(|byte| [22, 3, 1, 0, 1, *byte])
        .collect();
    stream.write_all(&bytewise)?;
    let served = session.complete_io(&mut stream).is_ok() && !session.is_handshaking();
    arena.check(
        "a ClientHello in records of a byte",
        "served",
        format!("served: {served}"),
        served,
    );
    let piece = [&[22, 3, 1, 0x40, 0][..], &[0; 0x4000]].concat();
    let long = [
        &[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff][..],
        &piece.repeat(200),
    ]
    .concat();
    let empty = [22, 3, 1, 0, 0].repeat(20_000);
    let ccs = [&records[..], &[20, 3, 3, 0, 1, 1].repeat(20_000)].concat();
    for (name, bytes) in [
        ("a message of 16 MB", long),
        ("empty records", empty),
        ("ChangeCipherSpec flood", ccs),
    ] {
        let mut stream = tcp(&arena.target(), Arena::ATTACKER, None)?;
        let written = stream.write_all(&bytes).is_ok();
        let closed = !written || is_closed(&mut stream);
        arena.check(name, "closed", format!("closed: {closed}"), closed);
    }
    Ok(())
}

fn is_closed(stream: &mut std::net::TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !is_timeout(&error),
        }
    }
}

fn key_updates(arena: &mut Arena<'_>) -> Result<()> {
    let mut tls = Tls::connect(&arena.target(), Arena::ATTACKER, b"http/1.1")?;
    let mut made = 0;
    for _ in 0..1000 {
        if tls.session().refresh_traffic_keys().is_err() || tls.write(&[]).is_err() {
            break;
        }
        made += 1;
    }
    let ending = tls.read_to_end(Duration::from_secs(1));
    arena.check(
        "key updates",
        "closed",
        format!("closed: {} after {made} at most", ending.closed),
        ending.closed,
    );
    Ok(())
}
