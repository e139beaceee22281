//! A configuration on the disk: read with what it includes, its faults as an error of the command.

use crate::hint::{self, usage_error};
use crate::printer::counted;
use altway_config::{ConfigFiles, Fault, Faults, Places, Plan, read_with_places};
use altway_folder::read_file_start;
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
        let hint = match reason.kind() {
            io::ErrorKind::InvalidData => "have your editor save it as UTF-8",
            _ => "give a file: docs/configuration.md has examples, `altway config show -- DIR` makes one",
        };
        usage_error(
            format!("cannot read the configuration `{name}`: {reason}"),
            hint,
        )
    })?;
    read_with_places(&name, &text, &mut Disk).map_err(|faults| refused(&name, faults))
}

/// The numbers of a plan's sites and routes, in words.
pub(crate) fn extent(plan: &Plan) -> String {
    let routes = plan
        .sites()
        .iter()
        .map(|site| site.routes.len())
        .sum::<usize>();
    let sites = counted(plan.sites().len(), "site");
    format!("{sites}, {}", counted(routes, "route"))
}

/// The error of a configuration with faults.
pub(crate) fn refused(name: &str, faults: Faults) -> anyhow::Error {
    let file = name.into();
    Refused { file, faults }.into()
}

/// The fault of what the key at `path` names.
pub(crate) fn fault(places: &Places, path: &str, error: &anyhow::Error) -> Fault {
    let causes: Vec<_> = error.chain().map(ToString::to_string).collect();
    Fault {
        place: places.of(path).cloned(),
        message: causes.join(": "),
        hint: hint::of_configuration(error),
    }
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
    let most = altway_config::MAX_TEXT as u64 + 1;
    let (bytes, _) = read_file_start(path, most)?;
    // Of one that is longer, a character may be cut in two; its length is its fault.
    if bytes.len() as u64 == most {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("line {line} is not text in UTF-8"),
        )
    })
}
