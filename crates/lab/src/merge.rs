//! Parts of a plan that were measured apart become one run.

use crate::Error;
use crate::folder::{RunFolder, read_alone, read_run};
use crate::side_by_side::check;
use altway_record::{Manifest, Running, SCHEMA_VERSION, Sample, Shard};
use std::path::{Path, PathBuf};

/// A run that is merged.
struct Source {
    path: PathBuf,
    manifest: Manifest,
    samples: Vec<Sample>,
    /// Transfers that were made alone as well.
    alone: Vec<Sample>,
}

/// Joins the runs of one plan's shards in a new run folder below `parent`, which can be reported
/// and resumed like any other; a shard that is missing is what a resume then measures.
///
/// # Errors
/// A run can't be read; the runs are not of one plan and build; a shard stands twice; or the folder
/// can't be written.
pub fn merge(runs: &[PathBuf], parent: &Path) -> Result<RunFolder, Error> {
    let mut sources = Vec::new();
    for path in runs {
        let (manifest, samples) = read_run(path)?;
        sources.push(Source {
            path: path.clone(),
            manifest,
            samples,
            alone: read_alone(path)?,
        });
    }
    let Some(first) = sources.first() else {
        return Err(Error::NoRun(parent.into()));
    };
    for (place, source) in sources.iter().enumerate() {
        source.check(first)?;
        let shard = source.manifest.shard;
        if let Some(same) = sources[..place]
            .iter()
            .find(|one| one.manifest.shard == shard)
        {
            return Err(source.unlike(same, format!("both are shard {shard}")));
        }
    }
    let parts = sources.iter().map(|source| source.manifest.to_part());
    let manifest = Manifest {
        shard: Shard::WHOLE,
        merged: parts.collect(),
        running: None,
        ..first.manifest.clone()
    };
    let stamp = manifest
        .started_at
        .replace(['-', ':', 'Z'], "")
        .replace('T', "-");
    let mut folder = RunFolder::create(parent, &format!("{stamp}-merged"), manifest)?;
    let running = running(&sources);
    let (samples, alone): (Vec<_>, Vec<_>) = sources
        .into_iter()
        .map(|source| (source.samples, source.alone))
        .unzip();
    for transfer in in_order(samples) {
        folder.append(transfer)?;
    }
    for transfer in in_order(alone) {
        folder.append_alone(transfer)?;
    }
    if let Some(mut running) = running {
        running.alone = check(folder.samples(), folder.alone());
        folder.conclude(running)?;
    }
    Ok(folder)
}

/// Joins the conditions under which the sources ran, one after the other; `None` if one of them was not concluded.
fn running(sources: &[Source]) -> Option<Running> {
    let parts = sources.iter().map(|source| source.manifest.running.clone());
    parts
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .reduce(|one, other| Running {
            side_by_side: one.side_by_side.max(other.side_by_side),
            wall_ms: one.wall_ms + other.wall_ms,
            transfers_ms: one.transfers_ms + other.transfers_ms,
            alone: None,
        })
}

impl Source {
    fn check(&self, first: &Self) -> Result<(), Error> {
        let (this, that) = (&self.manifest, &first.manifest);
        let build = |manifest: &Manifest| {
            let version = manifest.altway_version.clone();
            (version, manifest.altway_commit.clone())
        };
        let differs = if this.schema_version != SCHEMA_VERSION {
            format!("it has schema version {}", this.schema_version)
        } else if this.plan != that.plan {
            "their plans differ".into()
        } else if build(this) != build(that) {
            "they were measured by different builds".into()
        } else if this.shard.of() != that.shard.of() {
            let (this, that) = (this.shard, that.shard);
            format!("one is shard {this}, the other {that}")
        } else {
            return Ok(());
        };
        Err(self.unlike(first, differs))
    }

    fn unlike(&self, first: &Self, reason: String) -> Error {
        Error::DifferentRuns {
            first: first.path.clone(),
            second: self.path.clone(),
            reason,
        }
    }
}

/// All transfers, block by block as one machine would have made them, numbered anew.
fn in_order(shards: Vec<Vec<Sample>>) -> Vec<Vec<Sample>> {
    let mut all: Vec<Vec<Sample>> = Vec::new();
    for samples in shards {
        let transfers = samples.chunk_by(|a, b| a.ordinal == b.ordinal);
        all.extend(transfers.map(<[Sample]>::to_vec));
    }
    all.sort_by_key(|rows| (rows[0].block, rows[0].cell, rows[0].ordinal));
    for (ordinal, rows) in (0..).zip(&mut all) {
        rows.iter_mut().for_each(|row| row.ordinal = ordinal);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scheduler;
    use altway_record::read_samples;
    use std::fs;

    /// A run folder with the rows of one shard, made from a run that is in the repository.
    fn shard(parent: &Path, shard: &str, change: impl Fn(&mut Manifest)) -> PathBuf {
        let manifest = include_str!("../../report/tests/data/manifest.json");
        let mut manifest = Manifest::from_json(manifest).unwrap();
        manifest.schema_version = SCHEMA_VERSION;
        manifest.shard = shard.parse().unwrap();
        change(&mut manifest);
        let cells = manifest.plan.part(manifest.shard);
        let mut samples =
            read_samples(include_str!("../../report/tests/data/samples.csv")).unwrap();
        samples.retain(|sample| cells.iter().any(|cell| cell.index == sample.cell));
        let name = shard.replace('/', "-");
        let mut folder = RunFolder::create(parent, &name, manifest).unwrap();
        for sample in samples {
            let sample = Sample {
                beside: 1,
                ..sample
            };
            folder.append(vec![sample]).unwrap();
        }
        folder.path().to_owned()
    }

    fn went(wall_ms: u64) -> Running {
        Running {
            side_by_side: 1,
            wall_ms,
            transfers_ms: wall_ms - 1,
            alone: None,
        }
    }

    fn refused(second: &str, change: impl Fn(&mut Manifest)) -> String {
        let parent = tempfile::tempdir().unwrap();
        let runs = [
            shard(parent.path(), "1/2", |_| ()),
            shard(parent.path(), second, change),
        ];
        let out = parent.path().join("out");
        let error = merge(&runs, &out).unwrap_err().to_string();
        assert!(!out.exists(), "{error}");
        error
    }

    #[test]
    fn the_shards_of_a_plan_become_the_whole_run() {
        let parent = tempfile::tempdir().unwrap();
        let runs = ["2/2", "1/2"].map(|part| shard(parent.path(), part, |_| ()));
        let folder = merge(&runs, &parent.path().join("out")).unwrap();
        let (manifest, samples) = (folder.manifest(), folder.samples());
        assert_eq!((manifest.shard, manifest.merged.len()), (Shard::WHOLE, 2));
        let original = read_samples(include_str!("../../report/tests/data/samples.csv")).unwrap();
        assert_eq!(samples.len(), original.len());
        assert!(
            (0..)
                .zip(samples)
                .all(|(ordinal, row)| row.ordinal == ordinal)
        );
        let again = fs::read_to_string(folder.path().join("samples.csv")).unwrap();
        assert_eq!(read_samples(&again).unwrap(), samples);
    }

    #[test]
    fn what_was_made_alone_is_held_against_all_shards() {
        let parent = tempfile::tempdir().unwrap();
        let runs = ["1/2", "2/2"].map(|part| {
            let path = shard(parent.path(), part, |_| ());
            let mut folder = RunFolder::open(&path).unwrap();
            let sample = folder.samples()[0].clone();
            let alone = Sample {
                beside: 0,
                ..sample
            };
            folder.append_alone(vec![alone]).unwrap();
            folder.conclude(went(10)).unwrap();
            path
        });
        let folder = merge(&runs, &parent.path().join("out")).unwrap();
        assert_eq!(folder.alone().len(), 2);
        let running = folder.manifest().running.clone().unwrap();
        assert_eq!((running.wall_ms, running.transfers_ms), (20, 18));
        let check = running.alone.unwrap();
        assert_eq!((check.pairs, check.difference_percent), (2, 0.0));
    }

    #[test]
    fn a_missing_shard_is_what_is_left_to_measure() {
        let parent = tempfile::tempdir().unwrap();
        let run = shard(parent.path(), "1/2", |_| ());
        let folder = merge(&[run], &parent.path().join("out")).unwrap();
        let manifest = folder.manifest();
        let scheduler = Scheduler::new(&manifest.plan, manifest.shard, folder.samples());
        let missing = manifest.plan.part("2/2".parse().unwrap());
        assert!(
            scheduler
                .left()
                .iter()
                .all(|left| missing.contains(&left.cell) || left.count < 3)
        );
    }

    #[test]
    fn runs_that_do_not_belong_together_are_refused() {
        assert!(refused("1/2", |_| ()).ends_with("both are shard 1/2"));
        assert!(refused("2/3", |_| ()).ends_with("one is shard 2/3, the other 1/2"));
        let plans = refused("2/2", |manifest| manifest.plan.seed = 99);
        assert!(plans.ends_with("their plans differ"), "{plans}");
        let builds = refused("2/2", |manifest| manifest.altway_commit = None);
        assert!(builds.ends_with("different builds"), "{builds}");
    }
}
