//! A run from its beginning to its end: what is set up, written down, measured, and resumed.

use crate::coordinator::Coordinator;
use crate::environment::Environments;
use crate::folder::RunFolder;
use crate::link_profile::LinkProfiles;
use crate::progress::Progress;
use crate::scheduler::RemainingTransfers;
use crate::side_by_side::{Sharing, worker_count};
use crate::traces::TraceFiles;
use crate::workers::{RunContext, WorkerPool};
use crate::{Error, host};
use altway_emulate::{Backend, Emulation, LinkReport, Privilege};
use altway_record::{Build, LinkSettings, Manifest, Network, Plan, SCHEMA_VERSION, Shard};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Build, machine and rights with which the lab runs.
#[derive(Debug, Clone)]
pub struct Context {
    /// The altway binary, whose `serve`, `load` and `certs` are used.
    pub binary: PathBuf,
    /// The version.
    pub version: String,
    /// The commit it was built from.
    pub commit: Option<String>,
    /// Options with which it was built.
    pub build: Build,
    /// The command line, for the manifest.
    pub command: Vec<String>,
    /// Privilege that [`altway_emulate::enter`] returned.
    pub privilege: Privilege,
    /// Backend that is to move the packets of the links; `None` takes the first that this machine has.
    pub backend: Option<Backend>,
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every transfer was made (or given up after its last attempt).
    Complete,
    /// The run was asked to stop; what was measured is kept.
    Stopped,
}

/// A run that is ready to measure.
#[derive(Debug)]
pub struct Experiment {
    plan: Plan,
    profiles: LinkProfiles,
    /// Environments in which transfers are made, at least one: each has networks and servers of its own.
    environments: Vec<Environments>,
    coordinator: Coordinator,
}

impl Experiment {
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
        if plan.part(shard).is_empty() {
            return Err(Error::EmptyShard { shard });
        }
        let set_up = SetUp::of(context, plan)?;
        let first = &set_up.environments[0];
        let networks = set_up.networks(context)?;
        let now = jiff::Timestamp::now();
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            altway_version: context.version.clone(),
            altway_commit: context.commit.clone(),
            build: context.build.clone(),
            command: context.command.clone(),
            started_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            plan: plan.clone(),
            shard,
            merged: Vec::new(),
            host: host::describe(first_of(first)),
            link: networks[0].link.clone(),
            networks,
            running: None,
            programs: first.programs.clone(),
            from_samples: false,
        };
        let stamp = now.strftime("%Y%m%d-%H%M%S").to_string();
        let folder = RunFolder::create(parent, &stamp, manifest)?;
        Ok(set_up.experiment(folder))
    }

    /// Sets up to go on with the run in `path`.
    ///
    /// # Errors
    /// As for [`Experiment::begin`]; or the folder holds no run, or one of another build.
    pub fn resume(context: &Context, path: &Path) -> Result<Self, Error> {
        let folder = RunFolder::open(path)?;
        let manifest = folder.manifest();
        let begun = build(&manifest.altway_version, manifest.altway_commit.as_deref());
        let this = build(&context.version, context.commit.as_deref());
        if begun != this {
            return Err(Error::OtherBuild { begun, this });
        }
        let set_up = SetUp::of(context, &manifest.plan)?;
        Ok(set_up.experiment(folder))
    }

    /// Makes the transfers that are still to be made, each kept as soon as it is made; calls `observe`
    /// after each, and once before the first. Setting `stop` ends the run within a fraction of a
    /// second; the transfers under way are then not counted.
    ///
    /// # Errors
    /// The folder can't be written, the link or a server can't be kept up, or transfer after
    /// transfer fails. What was measured is kept and can be resumed.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<End, Error> {
        let halt = AtomicBool::new(false);
        let context = RunContext {
            plan: &self.plan,
            profiles: &self.profiles,
            halt: &halt,
        };
        let (environments, coordinator) = (&mut self.environments, &mut self.coordinator);
        std::thread::scope(|scope| {
            let mut workers = WorkerPool::start(scope, environments, context, stop);
            coordinator.work(&mut workers, observe)
        })
    }

    /// The folder and what is in it so far.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.coordinator.folder
    }

    /// Number of transfers that are made at once at most.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.environments.len()
    }

    /// Number of transfers that are still to be made, at most.
    #[must_use]
    pub fn transfers_left(&self) -> u64 {
        RemainingTransfers::total(&self.coordinator.scheduler.left())
    }

    /// Time that they will take, about.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.coordinator.time_left()
    }
}

/// The networks and servers of a run, before it has a folder.
struct SetUp {
    plan: Plan,
    profiles: LinkProfiles,
    sharing: Sharing,
    environments: Vec<Environments>,
}

impl SetUp {
    fn of(context: &Context, plan: &Plan) -> Result<Self, Error> {
        let profiles = LinkProfiles::of(plan)?;
        let sharing = Sharing::of(plan, &profiles);
        let count = match sharing.is_empty() {
            true => 1,
            false => worker_count(plan, processors()),
        };
        let one = |worker| {
            Environments::set_up(
                &context.binary,
                plan,
                &profiles,
                context.backend,
                worker,
                TraceFiles::default(),
            )
        };
        let environments = (0..count).map(one).collect::<Result<_, _>>()?;
        Ok(Self {
            plan: plan.clone(),
            profiles,
            sharing,
            environments,
        })
    }

    fn experiment(self, folder: RunFolder) -> Experiment {
        Experiment {
            coordinator: Coordinator::new(folder, self.sharing, self.environments.len()),
            plan: self.plan,
            profiles: self.profiles,
            environments: self.environments,
        }
    }

    /// The networks of all workers, each kind once.
    fn networks(&self, context: &Context) -> Result<Vec<Network>, Error> {
        let mut networks: Vec<Network> = Vec::new();
        // One network keeps them awake for all.
        let awake = self.environments[0]
            .networks()
            .any(|(_, one)| one.keeps_awake());
        for of_worker in &self.environments {
            for ((topology, congestion, initial_window), network) in of_worker.networks() {
                let network = Network {
                    topology,
                    congestion,
                    initial_window,
                    link: LinkSettings {
                        processors_kept_awake: awake,
                        ..link_settings(context, &self.plan, network)?
                    },
                };
                if !networks.contains(&network) {
                    networks.push(network);
                }
            }
        }
        Ok(networks)
    }
}

/// Number of processors that this process may use.
#[must_use]
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn first_of(environments: &Environments) -> &Emulation {
    let first = environments.networks().next();
    first.expect("a plan has a topology").1
}

fn link_settings(
    context: &Context,
    plan: &Plan,
    network: &Emulation,
) -> Result<LinkSettings, Error> {
    let report = network.report()?;
    Ok(LinkSettings {
        backend: network.backend().name().into(),
        mtu_bytes: plan.mtu,
        realtime_priority: report.realtime_priority,
        processors_kept_awake: network.keeps_awake(),
        privilege: match context.privilege {
            Privilege::Root => "root".into(),
            Privilege::UserNamespace => "user namespace".into(),
        },
        limitations: limitations(network, &report),
    })
}

fn limitations(network: &Emulation, report: &LinkReport) -> Vec<String> {
    let late = (report.arrivals_by_kernel == Some(false)).then_some(
        "the kernel doesn't note when packets come to the link (root and Linux 5.12 can have it): their \
         delay begins when the link has read them, some 10 µs later, or 100 in a virtual machine",
    );
    let known = network.backend().limitation().into_iter().chain(late);
    let unset = network.unset().iter().map(ToString::to_string);
    known.map(ToOwned::to_owned).chain(unset).collect()
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
}
