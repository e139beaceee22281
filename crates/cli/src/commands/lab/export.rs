//! `altway lab export`: a run as one archive, for who is to check or to cite it.

use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_lab::{Deposit, Error};
use anyhow::Result;
use std::path::PathBuf;

/// Pack a run into one archive, with all that others need to check, repeat and cite it.
///
/// The archive holds the run folder's files, a README, a data dictionary, schemas, the licence, CITATION.cff, the description
/// of an RO-Crate, and checksums. The same run gives the same bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway lab export runs/20261122-100000-delay-sweep --author 'Doe, Jo'
  altway lab export RUN --author 'Doe, Jo' --author 'An Institute' --license CC0-1.0")]
pub(super) struct Arguments {
    /// The run folder.
    run: PathBuf,
    /// Author of the data: a person as `Family, Given`, or the name of an organisation; may be given several
    /// times.
    #[arg(long, value_name = "NAME", required = true)]
    author: Vec<String>,
    /// The licence of the data, by its SPDX identifier.
    #[arg(long, value_name = "SPDX", default_value = "CC-BY-4.0", value_parser = spdx)]
    license: String,
    /// The title of the data [default: made from the plan's name].
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The archive [default: RUN.tar.gz in this folder].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    if arguments.author.iter().any(|name| name.trim().is_empty()) {
        return Err(usage_error(
            "an author has no name",
            "say who measured: --author 'Doe, Jo'",
        ));
    }
    let out = match &arguments.output {
        Some(out) => out.clone(),
        None => archive_of(&std::path::absolute(&arguments.run)?),
    };
    let deposit = Deposit {
        authors: arguments.author.clone(),
        license: arguments.license.clone(),
        title: arguments.title.clone(),
    };
    altway_lab::export(&arguments.run, &out, &deposit).map_err(with_hint)?;
    printer.data(&format!("{}\n", out.display()))?;
    Ok(Answer::Done)
}

fn archive_of(run: &std::path::Path) -> PathBuf {
    let name = run
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    PathBuf::from(format!("{}.tar.gz", name.unwrap_or_else(|| "run".into())))
}

fn with_hint(error: Error) -> anyhow::Error {
    match error {
        Error::Changed { .. } => usage_error(
            error.to_string(),
            "if the change is meant, `altway lab report` makes the report and its checksums anew",
        ),
        other => other.into(),
    }
}

/// An identifier as SPDX has them: it stands in a URL.
fn spdx(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.+".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.into()),
        false => Err("expected an SPDX identifier, as CC-BY-4.0, CC0-1.0 or ODbL-1.0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_archive_is_named_by_its_run() {
        assert_eq!(
            archive_of(Path::new("/runs/a-run")),
            Path::new("a-run.tar.gz")
        );
        assert_eq!(archive_of(Path::new("/")), Path::new("run.tar.gz"));
    }

    #[test]
    fn a_licence_is_an_identifier() {
        assert_eq!(spdx("CC0-1.0").as_deref(), Ok("CC0-1.0"));
        assert!(spdx("").is_err() && spdx("mine, all mine").is_err());
    }
}
