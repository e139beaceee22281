//! A run from its first transfer to its last: the loop that makes, checks and keeps them.

use crate::client::Fetched;
use crate::director::{ATTEMPTS, Director, Left};
use crate::environment::{Environments, MTU};
use crate::folder::RunFolder;
use crate::progress::{Pace, Progress, estimate};
use crate::rows::Seen;
use crate::schedule::Transfer;
use crate::{Error, host};
use altway_emulate::{Backend, Emulation, Privilege};
use altway_link::{Config, Queue, Rate};
use altway_record::{
    Cell, LinkSettings, Manifest, Plan, QueueLimit, SCHEMA_VERSION, Sample, Shard,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After so many transfers in a row that did not count, the run ends: something is wrong that
/// repeating won't mend.
const HOPELESS_AFTER: u32 = 2 * ATTEMPTS;

/// Who runs the lab, and as what.
#[derive(Debug, Clone)]
pub struct Context {
    /// The altway binary, whose `serve`, `load` and `certs` are used.
    pub binary: PathBuf,
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// The command line, for the manifest.
    pub command: Vec<String>,
    /// What [`altway_emulate::enter`] gave.
    pub privilege: Privilege,
    /// What is to move the packets of the links; `None` takes the first that this machine has.
    pub backend: Option<Backend>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every transfer was made (or given up after its last attempt).
    Complete,
    /// It was asked to stop; what was measured is kept.
    Stopped,
}

/// A run that is ready to measure.
#[derive(Debug)]
pub struct Campaign {
    plan: Plan,
    environments: Environments,
    folder: RunFolder,
    director: Director,
    pace: Pace,
    failures_in_a_row: u32,
}

impl Campaign {
    /// Sets networks and their ends up, and makes a new run folder below `parent`. When the set-up
    /// fails, no folder is left behind.
    ///
    /// # Errors
    /// A program is missing, or the network, a server or the folder can't be made.
    pub fn begin(
        context: &Context,
        plan: &Plan,
        shard: Shard,
        parent: &Path,
    ) -> Result<Self, Error> {
        if !plan.cells().iter().any(|cell| shard.has(cell)) {
            let cells = plan.cell_count();
            return Err(Error::EmptyShard { cells, shard });
        }
        let environments = Environments::set_up(&context.binary, plan, context.backend)?;
        let network = environments.any_network();
        let now = jiff::Timestamp::now();
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            altway_version: context.version.clone(),
            altway_commit: context.commit.clone(),
            command: context.command.clone(),
            started_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            plan: plan.clone(),
            shard,
            merged: Vec::new(),
            host: host::describe(network),
            link: link_settings(context, network)?,
            programs: environments.programs.clone(),
        };
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        let folder = RunFolder::create(parent, &stamp, manifest)?;
        Ok(Self::new(environments, folder))
    }

    /// Sets up to go on with the run in `path`.
    ///
    /// # Errors
    /// As for [`Campaign::begin`]; or the folder holds no run, or one of another build.
    pub fn resume(context: &Context, path: &Path) -> Result<Self, Error> {
        let folder = RunFolder::open(path)?;
        let manifest = folder.manifest();
        let begun = build(&manifest.altway_version, manifest.altway_commit.as_deref());
        let this = build(&context.version, context.commit.as_deref());
        if begun != this {
            return Err(Error::OtherBuild { begun, this });
        }
        let environments = Environments::set_up(&context.binary, &manifest.plan, context.backend)?;
        Ok(Self::new(environments, folder))
    }

    fn new(environments: Environments, folder: RunFolder) -> Self {
        let manifest = folder.manifest();
        let plan = manifest.plan.clone();
        let director = Director::new(&plan, manifest.shard, folder.samples());
        Self {
            plan,
            environments,
            folder,
            director,
            pace: Pace::default(),
            failures_in_a_row: 0,
        }
    }

    /// Makes the transfers that are still to be made, each kept before the next begins; calls
    /// `observe` after each, and once before the first. Setting `stop` ends the run within a
    /// fraction of a second; the transfer under way is then not counted.
    ///
    /// # Errors
    /// The folder can't be written, the link or a server can't be kept up, or transfer after
    /// transfer fails. What was measured is kept and can be resumed.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        observe(&self.progress(None));
        loop {
            let batch = self.director.next_batch();
            if batch.is_empty() {
                return Ok(End::Complete);
            }
            for transfer in &batch {
                let begun = Instant::now();
                if self.make(transfer, stop)? == End::Stopped {
                    return Ok(End::Stopped);
                }
                self.pace
                    .learn(&transfer.cell, transfer.protocol, begun.elapsed());
                observe(&self.progress(Some(transfer)));
            }
        }
    }

    /// The folder and what is in it so far.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// How many transfers are still to be made, at most.
    #[must_use]
    pub fn transfers_left(&self) -> u64 {
        Left::total(&self.director.left())
    }

    /// How long they will take, about.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.pace.predict(&self.director.left())
    }

    /// Makes one transfer until it counts, or until its attempts are used up.
    fn make(&mut self, transfer: &Transfer, stop: &AtomicBool) -> Result<End, Error> {
        for attempt in 1..=ATTEMPTS {
            if stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            let Some(rows) = self.measure(transfer, attempt, stop)? else {
                return Ok(End::Stopped);
            };
            let first = rows[0].clone();
            self.folder.append(rows)?;
            self.director.learn(&first);
            if first.valid {
                self.failures_in_a_row = 0;
                return Ok(End::Complete);
            }
            tracing::debug!(fault = %first.fault, attempt, "the transfer does not count");
            self.failures_in_a_row += 1;
            if self.failures_in_a_row >= HOPELESS_AFTER {
                return Err(Error::Hopeless {
                    attempts: self.failures_in_a_row,
                    fault: first.fault,
                });
            }
        }
        Ok(End::Complete)
    }

    /// The rows of one attempt, at least one; `None` when it was stopped.
    fn measure(
        &mut self,
        transfer: &Transfer,
        attempt: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Sample>>, Error> {
        let cell = &transfer.cell;
        self.environments.keep_the_server_up(cell)?;
        let network = self.environments.network(cell);
        let link = link_config(cell);
        network.restart(link.clone(), link, transfer.link_seed)?;
        let started_unix_ms = jiff::Timestamp::now().as_millisecond();
        let switches_before = self.environments.server_switches(cell);
        let fetched = self.environments.fetch(cell, transfer.protocol, stop);
        let report = network.report()?;
        let server_switches = self.environments.server_switches(cell);
        let (fetched, client_switches) = match fetched {
            Fetched::Stopped => return Ok(None),
            Fetched::Failed(reason) => (Err(reason), 0),
            Fetched::Measured {
                records,
                involuntary_switches,
            } => (Ok(records), involuntary_switches),
        };
        let seen = Seen {
            transfer,
            attempt,
            ordinal: self.folder.next_ordinal(),
            started_unix_ms,
            report,
            client_switches,
            server_switches: server_switches.saturating_sub(switches_before),
            fetched,
        };
        Ok(Some(seen.rows(&self.plan)))
    }

    fn progress(&self, last: Option<&Transfer>) -> Progress {
        let left = self.director.left();
        let first = self.plan.protocols[0];
        let others = || {
            self.plan
                .protocols
                .iter()
                .copied()
                .filter(|one| *one != first)
        };
        let estimate = last.and_then(|last| {
            let held_against = others().find(|one| *one == last.protocol);
            let held_against = held_against.or_else(|| others().next())?;
            estimate(self.folder.samples(), last.cell, held_against, first)
        });
        let done = self.director.done() as u64;
        Progress {
            done,
            total: done + Left::total(&left),
            remaining: self.pace.predict(&left),
            estimate,
        }
    }
}

fn link_config(cell: &Cell) -> Config {
    let rate = Rate::from(cell.rate.limit());
    Config {
        queue: match cell.queue {
            QueueLimit::Default => Queue::default_for(&rate),
            QueueLimit::Bytes(size) => Queue::Bytes(size),
            QueueLimit::Unlimited => Queue::Unlimited,
        },
        rate,
        delay: cell.delay,
        loss: cell.loss.into(),
        ..Config::default()
    }
}

fn link_settings(context: &Context, network: &Emulation) -> Result<LinkSettings, Error> {
    Ok(LinkSettings {
        backend: network.backend().name().into(),
        mtu_bytes: MTU,
        realtime_priority: network.report()?.realtime_priority,
        processors_kept_awake: network.keeps_awake(),
        privilege: match context.privilege {
            Privilege::Root => "root".into(),
            Privilege::UserNamespace => "user namespace".into(),
        },
        limitations: limitations(network),
    })
}

fn limitations(network: &Emulation) -> Vec<String> {
    let of_backend = network.backend().limitation().map(ToOwned::to_owned);
    let unset = network.unset().iter().map(ToString::to_string);
    of_backend.into_iter().chain(unset).collect()
}

fn build(version: &str, commit: Option<&str>) -> String {
    commit.map_or_else(
        || version.to_owned(),
        |commit| format!("{version} ({commit})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_its_version_and_commit() {
        assert_eq!(build("0.1.0", None), "0.1.0");
        assert_eq!(build("0.1.0", Some("abc")), "0.1.0 (abc)");
    }

    #[test]
    fn the_queue_is_what_the_cell_says() {
        let queue = |queue: &str| {
            let text = format!(
                "name = \"p\"\nrate = \"5mbit\"\ndelay = \"1ms\"\nsize = \"1KB\"\npairs = 1\nqueue = \"{queue}\""
            );
            link_config(&text.parse::<Plan>().unwrap().cells()[0]).queue
        };
        assert_eq!(queue("unlimited"), Queue::Unlimited);
        assert_eq!(
            queue("7KB"),
            Queue::Bytes(altway_units::DataSize::from_bytes(7_000))
        );
        let rate: altway_units::Bandwidth = "5mbit".parse().unwrap();
        assert_eq!(queue("default"), Queue::default_for(&rate.into()));
    }
}
