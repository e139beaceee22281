//! The circumstances under which a run was measured.

use crate::{Congestion, InitialWindow, Plan, Shard, Topology};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The version of the run folder's schema (docs/data/run-folder.md): raised when a file's meaning
/// changes, so that an older altway refuses what it would misread.
pub const SCHEMA_VERSION: u32 = 2;

/// The versions that this altway can read.
pub const SCHEMA_VERSIONS_READ: RangeInclusive<u32> = 1..=SCHEMA_VERSION;

/// `manifest.json`: everything that is needed to judge a run and to repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the schema that the run was written in; only one of [`SCHEMA_VERSION`] can be
    /// gone on with.
    pub schema_version: u32,
    /// Version of altway.
    pub altway_version: String,
    /// Commit that it was built from, when it was built in a repository.
    pub altway_commit: Option<String>,
    /// The build of the binary.
    #[serde(default)]
    pub build: Build,
    /// The command line that started the run.
    pub command: Vec<String>,
    /// Time at which the run started: RFC 3339, UTC.
    pub started_at: String,
    /// The plan, ranges resolved and defaults filled in.
    pub plan: Plan,
    /// The part of the plan that the run measures.
    #[serde(default)]
    pub shard: Shard,
    /// Runs that it was merged from; empty for a run that was measured in one place.
    #[serde(default)]
    pub merged: Vec<Part>,
    /// The machine.
    pub host: Host,
    /// The settings of the link in the first of the networks.
    pub link: LinkSettings,
    /// The networks of the run, one for each topology, congestion control and initial window; where those of several
    /// workers differ, each kind once.
    #[serde(default)]
    pub networks: Vec<Network>,
    /// The time that the run took so far, and what transfers side by side did to it; `None` before
    /// it was first ended or stopped.
    #[serde(default)]
    pub running: Option<Running>,
    /// Programs that took part beside altway, by their name: what each says of its version.
    #[serde(default)]
    pub programs: BTreeMap<String, String>,
    /// True if the manifest was put together from the rows alone, which tell nothing of what is not
    /// in them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub from_samples: bool,
}

/// The build of a run's binary; `None` where it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Build {
    /// True if files of the repository differed from the commit, which then does not identify the
    /// build.
    pub dirty: Option<bool>,
    /// The compiler with its version.
    pub compiler: Option<String>,
    /// The target that it was compiled for.
    pub target: Option<String>,
    /// The profile: `release`, or `debug`, whose figures say little.
    pub profile: Option<String>,
}

/// A network of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Place where the link was emulated.
    pub topology: Topology,
    /// Congestion control of the server.
    pub congestion: Congestion,
    /// First congestion window of the server.
    #[serde(default)]
    pub initial_window: InitialWindow,
    /// The settings of the network's link.
    pub link: LinkSettings,
}

/// The time that a run took, and the effect of transfers side by side.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Running {
    /// Transfers that were made at once at most.
    pub side_by_side: u32,
    /// Time within which transfers were made: without setting up, and without pauses.
    pub wall_ms: u64,
    /// Time of the transfers themselves, all added up, those made side by side too: from the first
    /// request to the last byte.
    pub transfers_ms: u64,
    /// The times of transfers side by side, held against the same transfers alone; `None` when none
    /// were made so.
    pub alone: Option<ConcurrencyCheck>,
}

/// The time that transfers take with others beside them, against the time that they take alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConcurrencyCheck {
    /// Transfers that were made both ways, over links with the same seed.
    pub pairs: u64,
    /// The difference in time, in per cent; above 0: longer side by side (Hodges–Lehmann estimate).
    pub difference_percent: f64,
    /// Lower end of its 95 % interval (signed rank); `None` with fewer than six pairs.
    pub low_percent: Option<f64>,
    /// Upper end of the interval.
    pub high_percent: Option<f64>,
}

impl Running {
    /// The share of the wall time in which transfers were under way, in per cent; above 100 where
    /// they were made side by side.
    #[must_use]
    pub fn transfers_percent(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run fit 2^53")]
        (self.wall_ms > 0).then(|| self.transfers_ms as f64 / self.wall_ms as f64 * 100.0)
    }
}

/// A run that others were merged with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The part of the plan that the run measured.
    pub shard: Shard,
    /// The command line that started it.
    pub command: Vec<String>,
    /// Time at which it started: RFC 3339, UTC.
    pub started_at: String,
    /// The machine.
    pub host: Host,
    /// The settings of its link.
    pub link: LinkSettings,
}

/// The machine that a run was measured on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and kernel release.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// Number of processors that the run could use.
    pub cpu_count: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Kernel settings that bear on transport, by their name.
    pub sysctls: BTreeMap<String, String>,
    /// The distribution, as `/etc/os-release` has it; this and what follows is `None` where it can't be
    /// told.
    #[serde(default)]
    pub os: Option<String>,
    /// Revision of the processor's microcode.
    #[serde(default)]
    pub microcode: Option<String>,
    /// The kernel's way to choose the processor's frequency (`scaling_governor`).
    #[serde(default)]
    pub governor: Option<String>,
    /// The kernel's source of time (`current_clocksource`).
    #[serde(default)]
    pub clock_source: Option<String>,
    /// The virtual machine that it is in, or `none`.
    #[serde(default)]
    pub hypervisor: Option<String>,
}

/// The settings of an emulated link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSettings {
    /// The backend that carried the packets: `tun`, `packet` or `netem`.
    pub backend: String,
    /// Largest IP packet in bytes.
    pub mtu_bytes: u16,
    /// True if the link thread ran with real-time priority; `None` where the kernel was the link.
    pub realtime_priority: Option<bool>,
    /// True if the processors were kept from sleeping, without which packets are late at times.
    pub processors_kept_awake: bool,
    /// The privilege of the run: root, or a user namespace.
    pub privilege: String,
    /// Settings that the run wanted and could not have, in sentences.
    pub limitations: Vec<String>,
}

/// Reasons for which a manifest can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// A text that is not a manifest.
    #[error("manifest.json is damaged")]
    Json(#[from] serde_json::Error),
    /// A manifest of a schema version that this altway does not read.
    #[error("the run has schema version {found}, this altway reads versions 1 to {SCHEMA_VERSION}")]
    Schema {
        /// The version found.
        found: u64,
    },
}

impl Manifest {
    /// Reads `manifest.json`.
    ///
    /// # Errors
    /// It is damaged, or of another schema version.
    pub fn from_json(text: &str) -> Result<Self, ManifestError> {
        let mut value: Value = serde_json::from_str(text)?;
        let found = value["schema_version"].as_u64().unwrap_or(0);
        let known = u32::try_from(found).is_ok_and(|v| SCHEMA_VERSIONS_READ.contains(&v));
        if !known {
            return Err(ManifestError::Schema { found });
        }
        if found == 1 {
            upgrade_plan(&mut value["plan"]);
        }
        Ok(serde_json::from_value(value)?)
    }

    /// The run as a part of a merged run.
    #[must_use]
    pub fn to_part(&self) -> Part {
        Part {
            shard: self.shard,
            command: self.command.clone(),
            started_at: self.started_at.clone(),
            host: self.host.clone(),
            link: self.link.clone(),
        }
    }

    /// The text of `manifest.json`, with a line end.
    ///
    /// # Panics
    /// Never: the manifest holds nothing that JSON can't.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("all keys are texts");
        format!("{text}\n")
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Says what a plan of schema 1 left unsaid, for there was nothing else.
fn upgrade_plan(plan: &mut Value) {
    let queue = match plan["queue"].take() {
        Value::Null => json!("default"),
        size => size,
    };
    let more = [
        ("queues", json!([queue])),
        ("congestions", json!([plan["congestion"].take()])),
        ("topologies", json!(["direct"])),
        ("servers", json!(["altway"])),
        ("commands", json!([])),
        ("clients", json!(["altway"])),
        ("connections", json!(["cold"])),
        ("null_arm", json!(false)),
        ("scenario", json!("download")),
        ("stopping", Value::Null),
        ("sampling", json!("grid")),
        ("warm_ups", json!(0)),
    ];
    if let Value::Object(plan) = plan {
        plan.extend(more.map(|(key, value)| (key.into(), value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let plan = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1";
        Manifest {
            schema_version: SCHEMA_VERSION,
            altway_version: "0.1.0".into(),
            altway_commit: None,
            build: Build::default(),
            command: vec!["altway".into(), "lab".into(), "run".into()],
            started_at: "2026-01-01T00:00:00Z".into(),
            plan: plan.parse().unwrap(),
            shard: Shard::WHOLE,
            merged: vec![],
            host: Host {
                kernel: "Linux 6.1".into(),
                cpu: "a processor".into(),
                cpu_count: 2,
                memory_bytes: 1 << 30,
                sysctls: BTreeMap::from([("net.core.rmem_max".into(), "212992".into())]),
                ..Host::default()
            },
            link: LinkSettings {
                backend: "tun".into(),
                mtu_bytes: 1500,
                realtime_priority: Some(true),
                processors_kept_awake: true,
                privilege: "root".into(),
                limitations: vec![],
            },
            networks: vec![],
            running: None,
            programs: BTreeMap::new(),
            from_samples: false,
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        assert_eq!(
            Manifest::from_json(&manifest().to_json()).unwrap(),
            manifest()
        );
    }

    #[test]
    fn refuses_another_schema_version_and_damage() {
        let newer = manifest()
            .to_json()
            .replace("\"schema_version\": 2", "\"schema_version\": 3");
        let message = Manifest::from_json(&newer).unwrap_err().to_string();
        assert_eq!(
            message,
            "the run has schema version 3, this altway reads versions 1 to 2"
        );
        assert!(
            Manifest::from_json("{}")
                .unwrap_err()
                .to_string()
                .contains("version 0")
        );
        assert!(
            Manifest::from_json("{")
                .unwrap_err()
                .to_string()
                .contains("damaged")
        );
    }
    #[test]
    fn reads_what_the_first_schema_wrote() {
        let text = include_str!("../../report/tests/data/manifest.json");
        let manifest = Manifest::from_json(text).unwrap();
        assert_eq!(
            (manifest.schema_version, manifest.plan.cell_count()),
            (1, 3)
        );
        assert_eq!(
            (manifest.plan.transfers(), manifest.shard),
            (30, Shard::WHOLE)
        );
    }
}
