//! Crowds of connections of one address: does another address still get in?

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bystander::{self, Protocol};
use crate::client::h2::Http2;
use crate::client::h3::Http3;
use crate::client::tls::tcp;
use crate::server::IDLE_TIMEOUT;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "idle-crowd-over-tcp",
        "11,000 connections of one address that say nothing",
        silent,
    )
    .within(400),
    Attack::new(
        "idle-crowd-over-h2",
        "11,000 idle HTTP/2 connections of one address",
        over_h2,
    )
    .within(400)
    .only_in_full(),
    Attack::new(
        "idle-crowd-over-h3",
        "11,000 idle HTTP/3 connections of one address",
        over_h3,
    )
    .within(400)
    .lingering(IDLE_TIMEOUT)
    .only_in_full(),
];

/// Number of connections: more than a worker takes.
const CROWD: usize = 11_000;
/// The time in which another address must be served.
const SERVED: Duration = Duration::from_secs(1);

/// Opens connections until there are enough or several in a row are refused.
fn crowd<T>(mut open: impl FnMut() -> std::io::Result<T>) -> Vec<T> {
    let (mut held, mut refused) = (Vec::new(), 0);
    while held.len() < CROWD && refused < 3 {
        match open() {
            Ok(connection) => held.push(connection),
            Err(_) => refused += 1,
        }
    }
    held
}

fn silent(context: &mut AttackContext<'_>) -> Result<()> {
    let target = context.target();
    let held = crowd(|| tcp(&target, AttackContext::ATTACKER, None));
    check(context, held.len());
    Ok(())
}

fn over_h2(context: &mut AttackContext<'_>) -> Result<()> {
    let target = context.target();
    let held = crowd(|| Http2::connect(&target, AttackContext::ATTACKER, 65_535));
    check(context, held.len());
    Ok(())
}

fn over_h3(context: &mut AttackContext<'_>) -> Result<()> {
    let target = context.target();
    let held = crowd(|| Http3::connect(&target, AttackContext::ATTACKER, 65_535));
    check(context, held.len());
    Ok(())
}

fn check(context: &mut AttackContext<'_>, held: usize) {
    context.check("connections opened", "≥ 1", held.to_string(), held > 0);
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let begun = Instant::now();
        let status = bystander::fetch(&context.target(), protocol, bystander::ADDRESS);
        let took = begun.elapsed();
        let met = status.as_ref().is_ok_and(|status| *status == 200) && took <= SERVED;
        let measured = format!("{status:?} in {} ms", took.as_millis());
        context.check(
            format!("another address over {protocol:?}"),
            "200 in 1 s",
            measured,
            met,
        );
    }
}
