//! The cache of open files: names without end, and few descriptors.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::spellings::spelled;
use crate::bystander::{self, Protocol};
use crate::client::h2::{self, Http2};
use crate::server::{LARGE, SMALL, Setup};
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "spellings-use-up-descriptors",
        "ten connections ask for 1,100 spellings of a small file each, where 1,024 files may be open",
        descriptors,
    )
    .against(|_| Setup {
        max_files: Some(1024),
        ..Setup::default()
    }),
    Attack::new(
        "deleted-file-keeps-its-space",
        "a file that was asked for is deleted, and nobody asks for others",
        deleted,
    ),
];

const SPELLINGS: usize = 1100;

fn descriptors(context: &mut AttackContext<'_>) -> Result<()> {
    let mut statuses = BTreeMap::new();
    for connection in 0..context.pick(2, 10) {
        let Ok(mut client) = Http2::connect(&context.target(), AttackContext::ATTACKER, 65_535)
        else {
            *statuses.entry(0).or_default() += SPELLINGS;
            continue;
        };
        for status in ask_for_spellings(&mut client, connection) {
            *statuses.entry(status).or_insert(0) += 1;
        }
    }
    let unserved: usize = statuses
        .iter()
        .filter(|(status, _)| **status != 200)
        .map(|(_, n)| n)
        .sum();
    context.check(
        "spellings answered otherwise than by 200",
        "none",
        format!("{statuses:?}"),
        unserved == 0,
    );
    thread::sleep(context.pick(Duration::from_secs(1), Duration::from_secs(60)));
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let status = bystander::fetch(&context.target(), protocol, bystander::ADDRESS);
        let met = status.as_ref().is_ok_and(|status| *status == 200);
        context.check(
            format!("a new client over {protocol:?} afterwards"),
            "200",
            format!("{status:?}"),
            met,
        );
    }
    Ok(())
}

/// The statuses; 0 for a request without one.
fn ask_for_spellings(client: &mut Http2, connection: usize) -> Vec<u16> {
    const AT_ONCE: usize = 50;
    let mut statuses = Vec::new();
    for begin in (0..SPELLINGS).step_by(AT_ONCE) {
        let numbers = begin..begin + AT_ONCE;
        let requests = numbers.flat_map(|n| {
            let stream = u32::try_from(2 * n + 1).unwrap_or(u32::MAX);
            h2::get(stream, &spelled(SMALL, connection * SPELLINGS + n), &[])
        });
        let mut answered = match client.write(&requests.collect::<Vec<_>>()) {
            Ok(()) => client.statuses(AT_ONCE, Duration::from_secs(2)),
            Err(_) => Vec::new(),
        };
        answered.resize(AT_ONCE, 0);
        statuses.extend(answered);
    }
    statuses
}

fn deleted(context: &mut AttackContext<'_>) -> Result<()> {
    let path = format!("/{LARGE}");
    let mut client = Http2::connect(&context.target(), AttackContext::ATTACKER, 1000)?;
    client.write(&h2::get(1, &path, &[]))?;
    let served = client.statuses(1, Duration::from_secs(2));
    context.check(
        "the file is served",
        "[200]",
        format!("{served:?}"),
        served == [200],
    );
    drop(client);
    fs::remove_file(context.server.site().join(LARGE))?;
    let (begun, pid) = (Instant::now(), context.server.pid());
    let limit = Duration::from_secs(15);
    let freed = crate::context::within(limit, || !holds_deleted(pid));
    let after = format!("{freed}, {:.1} s", begun.elapsed().as_secs_f64());
    context.check("its space is free", "within 15 s", after, freed);
    Ok(())
}

/// Returns true if a process has a file open that has no name any more.
fn holds_deleted(pid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut files = descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    files.any(|file| {
        file.to_string_lossy()
            .contains(&format!("{LARGE} (deleted)"))
    })
}
