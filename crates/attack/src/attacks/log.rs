//! A log that nobody reads.

use std::time::Duration;

use anyhow::Result;

use crate::bystander::{self, Protocol};
use crate::client::h2::{self, Http2};
use crate::server::{SMALL, Setup};
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[Attack::new(
    "log-that-nobody-reads",
    "1,500 requests whose access log goes into a pipe that nobody reads, then SIGTERM",
    requests,
)
.against(|_| Setup {
    options: ["--access-log", "-", "--grace", "1s"]
        .map(str::to_owned)
        .to_vec(),
    unread_stderr: true,
    ..Setup::default()
})
.then(terminate)];

const REQUESTS: usize = 1500;
/// The grace, and what the process may need beyond it.
const ENDED: Duration = Duration::from_secs(4);

fn requests(context: &mut AttackContext<'_>) -> Result<()> {
    let mut client = Http2::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
    let mut answered = 0;
    for begin in (0..REQUESTS).step_by(50) {
        let requests = (begin..begin + 50).flat_map(|n| {
            h2::get(
                u32::try_from(2 * n + 1).unwrap_or(u32::MAX),
                &format!("/{SMALL}"),
                &[],
            )
        });
        let written = client.write(&requests.collect::<Vec<_>>());
        let statuses = client.statuses(50, Duration::from_millis(500));
        if written.is_err() || statuses.is_empty() {
            break;
        }
        answered += statuses.len();
    }
    context.check(
        "requests answered",
        "1500",
        answered.to_string(),
        answered == REQUESTS,
    );
    // Lines are written in blocks, and at the latest after a while: then is when a worker may hang.
    std::thread::sleep(Duration::from_millis(500));
    let status = bystander::fetch(&context.target(), Protocol::H2, bystander::ADDRESS);
    let met = status.as_ref().is_ok_and(|status| *status == 200);
    context.check("a new client afterwards", "200", format!("{status:?}"), met);
    Ok(())
}

fn terminate(context: &mut AttackContext<'_>) -> Result<()> {
    let ended = context.server.terminate(ENDED)?;
    let measured = ended.map_or("it runs on".into(), |after| {
        format!("{:.1} s", after.as_secs_f64())
    });
    context.check(
        "SIGTERM with a grace of 1 s ends it",
        "in 4 s",
        measured,
        ended.is_some(),
    );
    Ok(())
}
