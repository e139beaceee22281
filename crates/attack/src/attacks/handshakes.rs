//! TLS handshakes that don't go on, or go on in odd ways.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::ClientConnection;

use crate::client::tls::{Tls, is_timeout, tcp};
use crate::{Attack, AttackContext};

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

fn stopped(context: &mut AttackContext<'_>) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..context.pick(500, 5000) {
        if let Ok(mut stream) = tcp(&context.target(), AttackContext::ATTACKER, None)
            && stream.write_all(&[22, 3, 1, 0, 200]).is_ok()
        {
            held.push(stream);
        }
    }
    std::thread::sleep(context.pick(Duration::from_millis(300), Duration::from_secs(12)));
    let left = context
        .usage()
        .descriptors
        .saturating_sub(context.idle.descriptors);
    let bar = context.pick(500, 16);
    context.check(
        "connections that are still open",
        format!("≤ {bar}"),
        left.to_string(),
        left <= bar,
    );
    Ok(())
}

/// The records of a ClientHello.
fn client_hello(context: &AttackContext<'_>) -> Result<(ClientConnection, Vec<u8>)> {
    let config = Arc::new(context.target().tls(b"http/1.1"));
    let mut session = ClientConnection::new(config, "localhost".try_into()?)?;
    let mut records = Vec::new();
    session.write_tls(&mut records)?;
    Ok((session, records))
}

fn odd(context: &mut AttackContext<'_>) -> Result<()> {
    let (mut session, records) = client_hello(context)?;
    let mut stream = tcp(&context.target(), AttackContext::ATTACKER, None)?;
    let bytewise: Vec<u8> = records[5..]
        .iter()
        .flat_map(|byte| [22, 3, 1, 0, 1, *byte])
        .collect();
    stream.write_all(&bytewise)?;
    let served = session.complete_io(&mut stream).is_ok() && !session.is_handshaking();
    context.check(
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
        let mut stream = tcp(&context.target(), AttackContext::ATTACKER, None)?;
        let written = stream.write_all(&bytes).is_ok();
        let closed = !written || is_closed(&mut stream);
        context.check(name, "closed", format!("closed: {closed}"), closed);
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

fn key_updates(context: &mut AttackContext<'_>) -> Result<()> {
    let mut tls = Tls::connect(&context.target(), AttackContext::ATTACKER, b"http/1.1")?;
    let mut made = 0;
    for _ in 0..1000 {
        if tls.session().refresh_traffic_keys().is_err() || tls.write(&[]).is_err() {
            break;
        }
        made += 1;
    }
    let ending = tls.read_to_end(Duration::from_secs(1));
    context.check(
        "key updates",
        "closed",
        format!("closed: {} after {made} at most", ending.closed),
        ending.closed,
    );
    Ok(())
}
