//! The way from an experiment to a folder under `results/` and a table.

use super::contender::Contender;
use super::experiment::Experiment;
use super::folder::{Folder, Setup};
use super::process::Stop;
use super::server::ServerSetup;
use super::site::Site;
use super::summary::{self, Line};
use super::table;
use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// An experiment, and the folder and table that are made of it.
pub(crate) struct Run {
    /// Ends the folder's name.
    pub(crate) name: &'static str,
    pub(crate) experiment: Experiment,
    /// The folder in which the run's folder is made.
    pub(crate) parent: PathBuf,
    pub(crate) table: fn(&[Line]) -> String,
}

impl Run {
    /// Measures, keeps every record, and prints the table.
    ///
    /// # Errors
    /// Something can't be started or written, or somebody asked to stop. What was measured by then is
    /// kept.
    pub(crate) fn carry_out(&self, programs: &Path, stop: &Stop) -> Result<()> {
        let experiment = &self.experiment;
        let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
        let altway = Contender::Altway.program(programs);
        let site = Site::make(temporary.path(), &altway.context("altway was built")?)?;
        let setup = Setup::of(experiment, programs)?;
        let mut folder = Folder::create(&self.parent, &setup.folder_name(self.name), &setup)?;
        shell::say(&format!("seed {}", experiment.seed));

        let mut records = Vec::new();
        let place = ServerSetup {
            folder: temporary.path(),
            site: &site,
            programs,
        };
        let result = experiment.run(place, stop, |record| {
            folder.keep(&record)?;
            records.push(record);
            Ok(())
        });
        // What was measured before a failure is worth as much as without it.
        let lines = summary::summarize(&records);
        let text = (self.table)(&lines);
        folder.finish(&table::csv(&lines)?, &text)?;
        shell::data(&text)?;
        shell::say(&format!("written to {}", folder.path().display()));
        result?;
        if stop.is_asked_for() {
            bail!("stopped: the rounds above are all there is");
        }
        Ok(())
    }
}
