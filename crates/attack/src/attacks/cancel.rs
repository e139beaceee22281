//! Requests that are taken back, and other work for nothing, on one HTTP/3 or HTTP/2 connection: the server
//! counts it and closes.

use std::time::{Duration, Instant};

use anyhow::Result;
use quinn_proto::{Dir, VarInt};

use crate::client::h2::{self, Http2};
use crate::client::h3::{self, Http3};
use crate::server::{LARGE, SMALL};
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "h3-stop-sending",
        "requests with STOP_SENDING in the same packet",
        |context| {
            churn(context, |client| {
                let Some(id) = client.get(&format!("/{SMALL}"), &[]) else {
                    return false;
                };
                let _ = client
                    .quic
                    .connection
                    .recv_stream(id)
                    .stop(VarInt::from_u32(0x10c));
                true
            })
        },
    ),
    Attack::new(
        "h3-reset-stream",
        "requests with RESET_STREAM in the same packet",
        |context| {
            churn(context, |client| {
                let request = h3::request("GET", "/", &[]);
                let Some(id) = client.quic.open(Dir::Bi, &request) else {
                    return false;
                };
                let _ = client
                    .quic
                    .connection
                    .send_stream(id)
                    .reset(VarInt::from_u32(0x10c));
                true
            })
        },
    ),
    Attack::new(
        "h3-empty-streams",
        "request streams that end before they begin",
        |context| {
            churn(context, |client| {
                let Some(id) = client.quic.open(Dir::Bi, &[]) else {
                    return false;
                };
                client.quic.finish(id);
                true
            })
        },
    ),
    Attack::new(
        "h3-malformed-heads",
        "requests whose head lacks what it must have",
        |context| {
            churn(context, |client| {
                let head = h3::frame(1, &[0, 0]);
                let Some(id) = client.quic.open(Dir::Bi, &head) else {
                    return false;
                };
                client.quic.finish(id);
                true
            })
        },
    ),
    Attack::new(
        "h3-data-first",
        "requests that begin with DATA",
        |context| {
            churn(context, |client| {
                client.quic.open(Dir::Bi, &h3::frame(0, b"x")).is_some()
            })
        },
    ),
    Attack::new(
        "h2-rapid-reset",
        "requests over HTTP/2 with RST_STREAM behind each",
        rapid_reset,
    ),
];

/// Requests after which the connection must have been closed.
const MOST: usize = 2000;
/// Lines that one connection may cause in the log.
const LINES: usize = 50;

fn churn(context: &mut AttackContext<'_>, one: fn(&mut Http3) -> bool) -> Result<()> {
    let mut client = Http3::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
    client.quic.turn();
    let (mut made, begun) = (0, Instant::now());
    let limit = context.pick(Duration::from_secs(2), Duration::from_secs(6));
    while client.quic.lost().is_none() && begun.elapsed() < limit {
        match one(&mut client) {
            true => {
                made += 1;
                client.quic.turn();
            }
            false => client.quic.drive(Duration::from_millis(2), |_| false),
        }
    }
    let (code, closed) = (client.quic.close_code(), client.quic.lost().is_some());
    let measured = format!("{made} requests, code {code:?}");
    context.check(
        "the connection is closed",
        format!("by {MOST} requests"),
        measured,
        closed && made <= MOST,
    );
    let lines = context.server.log().lines().count();
    context.check(
        "lines in the log",
        format!("≤ {LINES}"),
        lines.to_string(),
        lines <= LINES,
    );
    Ok(())
}

fn rapid_reset(context: &mut AttackContext<'_>) -> Result<()> {
    // Without windows no response is complete when it is taken back.
    let mut client = Http2::connect(&context.target(), AttackContext::ATTACKER, 0)?;
    let both = (0..MOST).flat_map(|n| {
        let stream = u32::try_from(2 * n + 1).unwrap_or(u32::MAX);
        [
            h2::get(stream, &format!("/{LARGE}"), &[]),
            h2::frame(h2::RST_STREAM, 0, stream, &8_u32.to_be_bytes()),
        ]
        .concat()
    });
    let written = client.write(&both.collect::<Vec<_>>());
    let ended = written.is_err() || client.is_ended(Duration::from_secs(2));
    context.check(
        "the connection is closed",
        format!("by {MOST} requests"),
        ended.to_string(),
        ended,
    );
    Ok(())
}
