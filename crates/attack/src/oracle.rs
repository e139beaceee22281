//! Conditions that must hold whatever clients do, and the run that finds out whether they do.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::Attack;
use crate::bystander::{Bystander, Service};
use crate::context::{AttackContext, Scale, within};
use crate::process::{Sampler, Usage};
use crate::server::Server;

/// Time in which memory and descriptors must be back once the attackers have gone.
const RECOVERY: Duration = Duration::from_secs(10);
/// Resident memory in bytes above idle that counts as back: what an allocator keeps for the next time.
const MAX_RETAINED_BYTES: u64 = 16 << 20;
/// Descriptors above idle that count as back: files of the site that were asked for.
const MAX_RETAINED_DESCRIPTORS: u64 = 16;
/// The bystander's p99 during an attack.
const P99_BAR: Duration = Duration::from_millis(5);

/// Requests of the bystander whose p99 says something: of fewer it would be the slowest but two.
const MIN_SAMPLES: usize = 300;
/// A short attack is made so many times at most for the bystander to have asked often enough.
const MAX_ROUNDS: usize = 20;

/// A bar, and whether it was met.
#[derive(Debug, Clone)]
pub struct Check {
    /// Subject of the check.
    pub what: String,
    /// The bound.
    pub bar: String,
    /// The figure found.
    pub measured: String,
    /// True if the figure is within the bound.
    pub met: bool,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.met { "met" } else { "MISSED" };
        write!(
            f,
            "{:<44} {:<28} {:<44} {verdict}",
            self.what, self.bar, self.measured
        )
    }
}

/// The checks of one attack.
#[derive(Debug, Clone)]
pub struct Report {
    /// The attack's name.
    pub attack: &'static str,
    /// All that was checked.
    pub checks: Vec<Check>,
}

impl Report {
    /// Returns true if every bar was met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.checks.iter().all(|check| check.met)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.attack)?;
        self.checks
            .iter()
            .try_for_each(|check| writeln!(f, "  {check}"))
    }
}

/// Runs an attack against `binary`.
///
/// # Errors
/// The server does not come up, or the attack cannot be made.
pub fn run(binary: &Path, attack: &Attack, scale: Scale) -> Result<Report> {
    let mut server = Server::start(binary, &(attack.setup)(scale))?;
    let pid = server.pid();
    let bystander = Bystander::start(server.target(), attack.bystander);
    // The bystander's connections are part of idle.
    std::thread::sleep(Duration::from_millis(300));
    let idle = Usage::of(pid);
    let sampler = Sampler::start(pid);
    let mut context = AttackContext {
        server: &mut server,
        scale,
        idle,
        checks: Vec::new(),
    };
    for round in 0..MAX_ROUNDS {
        let before = std::mem::take(&mut context.checks);
        (attack.run)(&mut context)
            .with_context(|| format!("the attack {} cannot be made", attack.name))?;
        context.checks = worse_of(before, std::mem::take(&mut context.checks));
        // What is left of a first round that lingers would be in the way of a second.
        let once = scale == Scale::Quick || !attack.lingers.is_zero();
        let last = round + 1 == MAX_ROUNDS || once;
        if last || bystander.asked() >= MIN_SAMPLES {
            break;
        }
    }
    let peak = sampler.stop();
    let recovered = recovery(idle, pid, RECOVERY + attack.lingers);
    let service = bystander.stop();
    let alive = alive(context.server);
    if let Some(afterwards) = attack.afterwards {
        afterwards(&mut context)?;
    }
    let mut checks = context.checks;
    checks.push(memory(attack, idle, peak));
    checks.extend(recovered);
    checks.push(alive);
    checks.extend(served(&service, scale));
    Ok(Report {
        attack: attack.name,
        checks,
    })
}

/// The checks of an attack that was made again: those missed stay missed.
fn worse_of(before: Vec<Check>, mut now: Vec<Check>) -> Vec<Check> {
    for missed in before.into_iter().filter(|check| !check.met) {
        match now.iter_mut().find(|check| check.what == missed.what) {
            Some(check) => *check = missed,
            None => now.push(missed),
        }
    }
    now
}

fn memory(attack: &Attack, idle: Usage, peak: Usage) -> Check {
    let above = peak.resident.saturating_sub(idle.resident);
    Check {
        what: "memory above idle".into(),
        bar: format!("≤ {} MiB", attack.memory >> 20),
        measured: format!("{} MiB", above >> 20),
        met: above <= attack.memory,
    }
}

fn recovery(idle: Usage, pid: u32, limit: Duration) -> [Check; 2] {
    let begun = Instant::now();
    let memory = within(limit, || {
        Usage::of(pid).resident <= idle.resident + MAX_RETAINED_BYTES
    });
    let after = begun.elapsed();
    let left = limit.saturating_sub(after);
    let descriptors = within(left, || {
        Usage::of(pid).descriptors <= idle.descriptors + MAX_RETAINED_DESCRIPTORS
    });
    let now = Usage::of(pid);
    let above = now.resident.saturating_sub(idle.resident) >> 20;
    [
        Check {
            what: "memory afterwards".into(),
            bar: format!(
                "≤ {} MiB above idle in {} s",
                MAX_RETAINED_BYTES >> 20,
                limit.as_secs()
            ),
            measured: format!("{above} MiB after {:.1} s", after.as_secs_f64()),
            met: memory,
        },
        Check {
            what: "descriptors afterwards".into(),
            bar: format!(
                "≤ {MAX_RETAINED_DESCRIPTORS} above idle in {} s",
                limit.as_secs()
            ),
            measured: format!(
                "{} above idle, after {:.1} s",
                now.descriptors.saturating_sub(idle.descriptors),
                begun.elapsed().as_secs_f64()
            ),
            met: descriptors,
        },
    ]
}

fn alive(server: &mut Server) -> Check {
    let panicked = server.log().contains("panicked");
    Check {
        what: "no panic".into(),
        bar: "none in the log".into(),
        measured: if panicked { "one" } else { "none" }.into(),
        met: server.is_alive() && !panicked,
    }
}

fn served(service: &Service, scale: Scale) -> Vec<Check> {
    let (asked, failed) = (
        service.times.len() + service.failures.len(),
        service.failures.len(),
    );
    let first = service.failures.first().map(|reason| format!(": {reason}"));
    let mut checks = vec![Check {
        what: "bystander's requests that failed".into(),
        bar: "none".into(),
        measured: format!("{failed} of {asked}{}", first.unwrap_or_default()),
        met: failed == 0 && asked > 0,
    }];
    if scale == Scale::Full {
        let p99 = service.quantile(0.99);
        checks.push(Check {
            what: "bystander's p99".into(),
            bar: format!("≤ {} ms", P99_BAR.as_millis()),
            measured: format!(
                "{:.1} ms (p50 {:.1})",
                p99.as_secs_f64() * 1e3,
                service.quantile(0.5).as_secs_f64() * 1e3
            ),
            met: p99 <= P99_BAR,
        });
    }
    checks
}
