//! A manifest for rows that have lost theirs: all that `samples.csv` tells, and nothing made up.

use crate::{
    Build, Cell, Host, LinkName, LinkSettings, LinkWords, MAX_PAIRS, Manifest, Page, Plan, Policy,
    Protocol, SCHEMA_VERSION, Sample, Sampling, Scenario, Shard, transfers,
};
use altway_units::DataSize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The name of the plan of which only the rows are known.
pub const UNNAMED_PLAN: &str = "unknown";

/// Cells of a matrix around the rows, at most: axes of which few values were measured together would make
/// it far larger than what was measured.
const MAX_CELLS: usize = 100_000;

/// Sessions of a client beyond its first, at most: a visit has no more.
const MAX_FURTHER_SESSIONS: u32 = 999;

/// Reasons for which rows alone make no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconstructError {
    /// A file without rows.
    #[error("it has no rows")]
    Empty,
    /// The conditions have so little in common that a matrix of them would be too large.
    #[error("its conditions make a matrix of more than {MAX_CELLS} cells")]
    TooLarge,
    /// A block's number is beyond what a plan can ask for.
    #[error("its blocks are beyond {MAX_PAIRS}")]
    TooManyBlocks,
}

impl Manifest {
    /// Puts a manifest together from the rows of a run, which then carry the number that their cell has in
    /// it. What the rows don't tell is empty; [`Manifest::from_samples`] is set.
    ///
    /// The baseline is the protocol of the null arm, else HTTP/2, else the first by name. Transfers of
    /// several requests are taken for pages.
    ///
    /// # Errors
    /// There are no rows, or they fit no plan.
    ///
    /// # Panics
    /// Never: the plan that it begins with is valid.
    pub fn reconstruct(samples: &mut [Sample]) -> Result<Self, ReconstructError> {
        let plan = plan(samples)?;
        let cells: Vec<Cell> = plan.cells();
        for sample in samples.iter_mut() {
            let condition = sample.condition();
            let same = |cell: &&Cell| {
                Cell { index: 0, ..**cell }
                    == Cell {
                        index: 0,
                        ..condition
                    }
            };
            let cell = cells.iter().find(same);
            sample.cell = cell.expect("each axis has the values of all rows").index;
        }
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            altway_version: String::new(),
            altway_commit: None,
            build: Build::default(),
            command: Vec::new(),
            started_at: String::new(),
            plan,
            shard: Shard::WHOLE,
            merged: Vec::new(),
            host: Host::default(),
            link: LinkSettings {
                backend: String::new(),
                mtu_bytes: 0,
                realtime_priority: None,
                processors_kept_awake: false,
                privilege: String::new(),
                limitations: Vec::new(),
            },
            networks: Vec::new(),
            running: None,
            programs: BTreeMap::new(),
            from_samples: true,
        })
    }
}

fn plan(samples: &[Sample]) -> Result<Plan, ReconstructError> {
    if samples.is_empty() {
        return Err(ReconstructError::Empty);
    }
    let last_block = samples.iter().map(|sample| sample.block).max().unwrap_or(0);
    let pairs = last_block
        .checked_add(1)
        .filter(|pairs| *pairs <= MAX_PAIRS);
    let base =
        "name = \"unknown\"\nrate = \"unlimited\"\ndelay = \"0ms\"\nsize = \"1B\"\npairs = 1";
    let base: Plan = base.parse().expect("a constant that the tests read");
    let links: Vec<LinkName> = axis(samples, |cell| cell.link);
    let link = |name: LinkName| LinkWords::named(name, String::new());
    let mut delays = axis(samples, |cell| cell.delay);
    delays.sort();
    let plan = Plan {
        name: UNNAMED_PLAN.into(),
        description: String::new(),
        topologies: axis(samples, |cell| cell.topology),
        servers: axis(samples, |cell| cell.server),
        clients: axis(samples, |cell| cell.client),
        congestions: axis(samples, |cell| cell.congestion),
        initial_windows: axis(samples, |cell| cell.initial_window),
        certificates: axis(samples, |cell| cell.certificate),
        certificate_compressions: axis(samples, |cell| cell.certificate_compression),
        connections: axis(samples, |cell| cell.connection),
        links: links.into_iter().map(link).collect(),
        rates: axis(samples, |cell| cell.rate),
        queues: axis(samples, |cell| cell.queue),
        losses: axis(samples, |cell| cell.loss),
        sizes: axis(samples, |cell| cell.size),
        delays,
        protocols: protocols(samples),
        policies: policies(samples),
        apart: apart(samples),
        null_arm: samples.iter().any(|sample| sample.null_arm),
        scenario: scenario(samples),
        pairs: pairs.ok_or(ReconstructError::TooManyBlocks)?,
        stopping: None,
        sampling: Sampling::Grid,
        warm_ups: 0,
        seed: 0,
        ..base
    };
    let product = plan.cell_count();
    match usize::try_from(product).is_ok_and(|cells| cells <= MAX_CELLS) {
        true => Ok(plan),
        false => Err(ReconstructError::TooLarge),
    }
}

/// The values that the rows have of an axis, as they come.
fn axis<T: PartialEq>(samples: &[Sample], of: impl Fn(&Cell) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for sample in samples {
        let value = of(&sample.condition());
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn protocols(samples: &[Sample]) -> Vec<Protocol> {
    let mut all: Vec<Protocol> = Vec::new();
    for sample in samples {
        if !all.contains(&sample.protocol) {
            all.push(sample.protocol);
        }
    }
    let of_null_arm = samples.iter().find(|sample| sample.null_arm);
    let baseline = of_null_arm.map_or(Protocol::H2, |sample| sample.protocol);
    all.sort_by_key(|protocol| (*protocol != baseline, protocol.to_string()));
    all
}

fn policies(samples: &[Sample]) -> Vec<Policy> {
    let mut all = Vec::new();
    for policy in samples.iter().filter_map(|sample| sample.policy) {
        if !all.contains(&policy) {
            all.push(policy);
        }
    }
    all
}

/// A time before each session but the first; how long it was, rows don't tell.
fn apart(samples: &[Sample]) -> Vec<Duration> {
    let sessions = samples
        .iter()
        .map(|sample| sample.session)
        .max()
        .unwrap_or(0);
    vec![Duration::ZERO; sessions.min(MAX_FURTHER_SESSIONS) as usize]
}

/// The scenario of the rows: one request is a download; several are taken for a page, with the
/// sizes that a transfer had.
fn scenario(samples: &[Sample]) -> Scenario {
    let several = |sample: &&Sample| sample.requests > 1 && sample.valid && sample.session == 0;
    let Some(first) = transfers(samples).find(several) else {
        return Scenario::Download;
    };
    let of_transfer = samples
        .iter()
        .filter(|sample| sample.ordinal == first.ordinal);
    let objects = of_transfer.filter(|sample| sample.request > 0);
    Scenario::Page(Page {
        html: DataSize::from_bytes(first.body_bytes),
        objects: objects
            .map(|sample| DataSize::from_bytes(sample.body_bytes))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_samples;

    fn rows() -> Vec<Sample> {
        read_samples(include_str!("../../report/tests/data/samples.csv")).unwrap()
    }

    #[test]
    fn rows_find_their_cells_again_in_whatever_order_they_come() {
        let text = include_str!("../../report/tests/data/manifest.json");
        let known = Manifest::from_json(text).unwrap();
        let mut backwards = rows();
        backwards.reverse();
        let manifest = Manifest::reconstruct(&mut backwards).unwrap();
        assert!(manifest.from_samples);
        assert_eq!(manifest.plan.delays, known.plan.delays);
        assert_eq!(manifest.plan.protocols, known.plan.protocols);
        assert_eq!(
            (manifest.plan.pairs, manifest.plan.cell_count()),
            (known.plan.pairs, 3)
        );
        let cells = manifest.plan.cells();
        for sample in &backwards {
            assert_eq!(cells[sample.cell as usize], sample.condition());
        }
        assert_eq!(manifest.plan.scenario, Scenario::Download);
    }

    #[test]
    fn rows_that_fit_no_plan_are_refused() {
        let refused = |rows: &mut Vec<Sample>| Manifest::reconstruct(rows).unwrap_err();
        assert_eq!(refused(&mut Vec::new()), ReconstructError::Empty);
        let mut far = rows();
        far[0].block = u32::MAX;
        assert_eq!(refused(&mut far), ReconstructError::TooManyBlocks);
        let mut apart: Vec<Sample> = (0..400_u64)
            .map(|i| Sample {
                delay_us: i,
                size_bytes: 1 + i,
                ..rows()[0].clone()
            })
            .collect();
        assert_eq!(refused(&mut apart), ReconstructError::TooLarge);
    }
}
