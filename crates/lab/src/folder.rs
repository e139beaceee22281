//! The run folder: `manifest.json`, `plan.toml`, `samples.csv` and what is made from them.

use crate::Error;
use crate::checksums::CHECKSUMS;
use crate::table::{Table, folder_error};
use altway_record::{Manifest, Plan, RUN_PLAN, Running, SCHEMA_VERSION, Sample, read_samples};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const SAMPLES: &str = "samples.csv";
const ALONE: &str = "alone.csv";

/// A run folder that this process may write to; locked against others as long as it is open.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    manifest: Manifest,
    table: Table,
    /// Transfers that were made alone as well; `None` before the first.
    alone: Option<Table>,
}

impl RunFolder {
    /// Makes a new folder below `parent`, named by the run's start and its plan.
    ///
    /// # Errors
    /// The folder can't be made or written.
    pub fn create(parent: &Path, stamp: &str, manifest: Manifest) -> Result<Self, Error> {
        fs::create_dir_all(parent).map_err(folder_error("create", parent))?;
        let path = make_unused(parent, &format!("{stamp}-{}", manifest.plan.name))?;
        write_plan(&path, &manifest.plan)?;
        write_whole(&path.join(MANIFEST), manifest.to_json().as_bytes())?;
        let table = Table::open(&path, SAMPLES)?;
        Ok(Self {
            path,
            manifest,
            table,
            alone: None,
        })
    }

    /// Opens a run to go on with it. A row that a crash or a full disk cut off is removed.
    ///
    /// # Errors
    /// There is no run, it is damaged, or another process is writing to it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let manifest = read_manifest(path)?;
        if manifest.schema_version != SCHEMA_VERSION {
            return Err(Error::OldSchema {
                found: manifest.schema_version,
            });
        }
        let table = Table::open(path, SAMPLES)?;
        // They are of a report, and what is measured now is not in it.
        let _ = fs::remove_file(path.join(CHECKSUMS));
        let has_alone = path.join(ALONE).exists();
        let alone = has_alone.then(|| Table::open(path, ALONE)).transpose()?;
        Ok(Self {
            path: path.into(),
            manifest,
            table,
            alone,
        })
    }

    /// Adds the rows of a transfer, which get the next ordinal. On a full disk the file keeps its last
    /// whole transfer.
    ///
    /// # Errors
    /// The rows can't be written; then none of them is in the file.
    pub fn append(&mut self, rows: Vec<Sample>) -> Result<(), Error> {
        self.table.append(rows)
    }

    /// Adds the rows of a transfer that was made alone, to be held against the run's.
    ///
    /// # Errors
    /// As for [`RunFolder::append`].
    pub fn append_alone(&mut self, rows: Vec<Sample>) -> Result<(), Error> {
        let table = match &mut self.alone {
            Some(table) => table,
            none => none.insert(Table::open(&self.path, ALONE)?),
        };
        table.append(rows)
    }

    /// Writes down how the run went so far.
    ///
    /// # Errors
    /// The manifest can't be written; the old one is still there.
    pub fn conclude(&mut self, running: Running) -> Result<(), Error> {
        self.manifest.running = Some(running);
        write_whole(
            &self.path.join(MANIFEST),
            self.manifest.to_json().as_bytes(),
        )
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The circumstances under which the run is measured.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The rows so far.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        self.table.samples()
    }

    /// The rows of what was made alone as well.
    #[must_use]
    pub fn alone(&self) -> &[Sample] {
        self.alone.as_ref().map_or(&[], Table::samples)
    }
}

/// Reads a run without the right to write to it.
///
/// # Errors
/// There is no run, or it is damaged.
pub fn read_run(path: &Path) -> Result<(Manifest, Vec<Sample>), Error> {
    let manifest = read_manifest(path)?;
    Ok((manifest, read_table(path.join(SAMPLES))?))
}

/// Reads the transfers that a run made alone as well, without the right to write to it.
pub(crate) fn read_alone(path: &Path) -> Result<Vec<Sample>, Error> {
    read_table(path.join(ALONE))
}

/// No rows, if there is no file yet.
pub(crate) fn read_table(path: PathBuf) -> Result<Vec<Sample>, Error> {
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        other => other.map_err(folder_error("read", &path))?,
    };
    read_samples(&text).map_err(|source| Error::Samples { path, source })
}

/// The newest run folder below `parent`, by its name; `None` when there is none.
///
/// # Errors
/// The folder can't be read.
pub fn newest_run(parent: &Path) -> Result<Option<PathBuf>, Error> {
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(folder_error("read", parent))?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.join(MANIFEST).exists()).max())
}

/// Writes a whole file, so that a reader sees the old or the new one, never a part.
///
/// # Errors
/// The file can't be written; the old one is still there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        Error::Folder {
            action: "write",
            path: path.into(),
            source,
        }
    })
}

pub(crate) fn read_manifest(path: &Path) -> Result<Manifest, Error> {
    let file = path.join(MANIFEST);
    let text = match fs::read_to_string(&file) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Err(Error::NoRun(path.into()));
        }
        other => other.map_err(folder_error("read", &file))?,
    };
    Manifest::from_json(&text).map_err(|source| Error::Manifest { path: file, source })
}

/// The plan as a file that `altway lab run` takes, and the traces that it names, which lie beside it.
pub(crate) fn plan_files(plan: &Plan) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::from([(RUN_PLAN.to_owned(), plan.to_toml().into_bytes())]);
    for link in &plan.links {
        for (key, trace) in link.traces() {
            let text = trace.map(|text| text.as_bytes().to_vec());
            files.extend(text.map(|text| (format!("{}.{key}", link.name), text)));
        }
    }
    files
}

/// Writes the plan of a run beside it where that has none, as early runs have not.
///
/// # Errors
/// The file can't be written.
pub fn write_missing_plan(folder: &Path, manifest: &Manifest) -> Result<(), Error> {
    match folder.join(RUN_PLAN).exists() {
        true => Ok(()),
        false => write_plan(folder, &manifest.plan),
    }
}

fn write_plan(folder: &Path, plan: &Plan) -> Result<(), Error> {
    let files = plan_files(plan);
    let mut files = files.iter();
    files.try_for_each(|(name, text)| write_whole(&folder.join(name), text))
}

/// Reads a run of which nothing but `samples.csv` may be left: the folder that it is in, what is known of
/// it, and its rows. `path` is that folder, or a file of rows.
///
/// # Errors
/// There is neither, or it is damaged.
pub fn read_run_or_samples(path: &Path) -> Result<(PathBuf, Manifest, Vec<Sample>), Error> {
    let (folder, file) = match path.is_file() {
        true => (path.parent().unwrap_or(Path::new("")), path.to_owned()),
        false => (path, path.join(SAMPLES)),
    };
    let is_of_run = file.file_name().is_some_and(|name| name == SAMPLES);
    if !file.exists() || is_of_run && folder.join(MANIFEST).exists() {
        let (manifest, samples) = read_run(folder)?;
        return Ok((folder.into(), manifest, samples));
    }
    let mut samples = read_table(file.clone())?;
    let manifest = Manifest::reconstruct(&mut samples);
    let manifest = manifest.map_err(|source| Error::Alone { path: file, source })?;
    Ok((folder.into(), manifest, samples))
}

/// Two runs that start in the same second get `-2`, `-3`, … behind the name.
fn make_unused(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    let mut path = parent.join(name);
    for suffix in 2.. {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = parent.join(format!("{name}-{suffix}"));
            }
            other => return other.map_err(folder_error("create", &path)).map(|()| path),
        }
    }
    unreachable!("a folder holds fewer names than there are numbers")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::tests::sample;
    use altway_record::{Build, CSV_HEADER, Host, LinkSettings, Shard};

    pub(crate) fn manifest() -> Manifest {
        let plan = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1";
        Manifest {
            schema_version: SCHEMA_VERSION,
            altway_version: "0".into(),
            altway_commit: None,
            build: Build::default(),
            command: vec![],
            started_at: String::new(),
            plan: plan.parse().unwrap(),
            shard: Shard::WHOLE,
            merged: vec![],
            host: Host {
                kernel: String::new(),
                cpu: String::new(),
                cpu_count: 1,
                memory_bytes: 0,
                sysctls: BTreeMap::new(),
                ..Host::default()
            },
            link: LinkSettings {
                backend: "tun".into(),
                mtu_bytes: 1500,
                realtime_priority: Some(false),
                processors_kept_awake: false,
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
    fn what_was_appended_is_there_when_the_run_is_opened_again() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        assert!(folder.path().ends_with("stamp-p"));
        folder.append(vec![sample()]).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        let again = RunFolder::open(&path).unwrap();
        assert_eq!(
            (again.samples(), again.manifest()),
            (&[sample()][..], &manifest())
        );
    }

    #[test]
    fn the_plan_of_a_folder_is_the_plan_of_its_run_traces_included() {
        let parent = tempfile::tempdir().unwrap();
        let trace = "time_s,rate_mbit\n0,20\n3,2\n";
        fs::write(parent.path().join("t.csv"), trace).unwrap();
        let text = "name = \"p\"\nrate = \"unlimited\"\ndelay = \"0ms..2ms by 1ms\"\nsize = \"1MB\"\n\
                    pairs = 1\nlink = [{ name = \"lte\", rate_trace = \"t.csv\" }]";
        let file = parent.path().join("p.toml");
        fs::write(&file, text).unwrap();
        let plan = crate::plans::read(file.to_str().unwrap()).unwrap();
        let manifest = Manifest {
            plan: plan.clone(),
            ..manifest()
        };
        let folder = RunFolder::create(parent.path(), "stamp", manifest).unwrap();
        let copy = folder.path().join(RUN_PLAN);
        assert_eq!(crate::plans::read(copy.to_str().unwrap()).unwrap(), plan);
    }

    #[test]
    fn what_was_made_alone_and_how_the_run_went_are_kept_beside_the_rows() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        assert!(folder.alone().is_empty() && !folder.path().join(ALONE).exists());
        folder.append_alone(vec![sample()]).unwrap();
        let running = Running {
            wall_ms: 7,
            ..Running::default()
        };
        folder.conclude(running.clone()).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        let again = RunFolder::open(&path).unwrap();
        assert_eq!((again.alone().len(), again.samples().len()), (1, 0));
        assert_eq!(again.manifest().running, Some(running));
    }

    #[test]
    fn a_run_without_its_samples_begins_anew() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        fs::remove_file(path.join(SAMPLES)).unwrap();
        drop(RunFolder::open(&path).unwrap());
        assert_eq!(fs::read_to_string(path.join(SAMPLES)).unwrap(), CSV_HEADER);
    }

    #[test]
    fn two_runs_of_one_second_get_two_folders() {
        let parent = tempfile::tempdir().unwrap();
        let first = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        let second = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        assert_ne!(first.path(), second.path());
        assert!(second.path().ends_with("stamp-p-2"));
    }

    #[test]
    fn a_folder_that_is_written_to_is_not_opened_twice() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        assert!(matches!(
            RunFolder::open(folder.path()),
            Err(Error::InUse(_))
        ));
        assert!(read_run(folder.path()).is_ok());
    }

    #[test]
    fn a_folder_without_a_run_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        assert!(matches!(
            RunFolder::open(parent.path()),
            Err(Error::NoRun(_))
        ));
        assert!(matches!(read_run(parent.path()), Err(Error::NoRun(_))));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn rows_without_their_manifest_are_read_by_folder_or_file() {
        let parent = tempfile::tempdir().unwrap();
        let rows = include_bytes!("../../report/tests/data/samples.csv");
        for name in [SAMPLES, "theirs.csv"] {
            fs::write(parent.path().join(name), rows).unwrap();
        }
        for path in [parent.path().to_owned(), parent.path().join("theirs.csv")] {
            let (folder, manifest, samples) = read_run_or_samples(&path).unwrap();
            assert_eq!((folder.as_path(), samples.len()), (parent.path(), 31));
            assert!(manifest.from_samples);
        }
        let none = read_run_or_samples(&parent.path().join("none"));
        assert!(matches!(none, Err(Error::NoRun(_))), "{none:?}");
        let made = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        let (_, known, _) = read_run_or_samples(&made.path().join(SAMPLES)).unwrap();
        assert!(!known.from_samples);
    }

    #[test]
    fn a_run_of_an_older_schema_is_read_but_not_gone_on_with() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "stamp", manifest()).unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        let old = include_bytes!("../../report/tests/data/manifest.json");
        write_whole(&path.join(MANIFEST), old).unwrap();
        assert!(matches!(
            RunFolder::open(&path),
            Err(Error::OldSchema { found: 1 })
        ));
        assert!(read_run(&path).is_ok());
    }
}
