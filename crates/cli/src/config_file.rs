//! A configuration on the disk: read with what it includes, its faults as an error of the command.

use crate::hint::usage_error;
use altway_config::{ConfigFiles, Faults, Places, Plan, read_with_places};
use anyhow::Result;
use std::error::Error;
use std::path::Path;
use std::{fmt, fs, io};

/// Reads a configuration and what it includes.
///
/// # Errors
/// The configuration can't be read, or has faults.
pub(crate) fn load(file: &Path) -> Result<(Plan, Places)> {
    let name = file.display().to_string();
    let text = text_of(file).map_err(|reason| {
        usage_error(
            format!("cannot read the configuration `{name}`: {reason}"),
            "give a file: docs/configuration.md has examples, `altway config show -- DIR` makes one",
        )
    })?;
    read_with_places(&name, &text, &mut Disk).map_err(|faults| refused(&name, faults))
}

/// The numbers of a plan's sites and routes, in words.
pub(crate) fn extent(plan: &Plan) -> String {
    let counted = |count: usize, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {what}{plural}")
    };
    let routes = plan.sites().iter().map(|site| site.routes.len()).sum();
    let sites = counted(plan.sites().len(), "site");
    format!("{sites}, {}", counted(routes, "route"))
}

/// The error of a configuration with faults.
pub(crate) fn refused(name: &str, faults: Faults) -> anyhow::Error {
    let file = name.into();
    Refused { file, faults }.into()
}

/// The error of options that make no configuration.
pub(crate) fn of_options(faults: Faults) -> anyhow::Error {
    match faults.as_slice() {
        [one] => usage_error(one.message.clone(), one.hint.clone().unwrap_or_default()),
        _ => refused("the options", faults),
    }
}

/// All that is wrong, below a line that counts it.
#[derive(Debug)]
struct Refused {
    file: String,
    faults: Faults,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.as_slice().len();
        if count > 1 {
            writeln!(f, "{count} faults in `{}`\n", self.file)?;
        }
        self.faults.fmt(f)
    }
}

impl Error for Refused {}

/// The files that there are.
struct Disk;

impl ConfigFiles for Disk {
    fn names(&mut self, folder: &str) -> Result<Vec<String>, String> {
        let folder = if folder.is_empty() { "." } else { folder };
        let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            names.extend(name.into_string());
        }
        Ok(names)
    }

    fn text(&mut self, path: &str) -> Result<String, String> {
        text_of(Path::new(path)).map_err(|error| error.to_string())
    }
}

/// The text of a file, and little more than a configuration may have of one that is longer.
fn text_of(path: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut text = String::new();
    let most = altway_config::MAX_TEXT as u64 + 1;
    fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    Ok(text)
}
