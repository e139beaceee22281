//! A surface as it is named at the command line.

use crate::hint::usage_error;
use altway_select::{ModelKind, Surface};
use anyhow::Result;
use std::path::Path;

/// The surface that `named` goes by: `surface` and `learned` have the embedded one, `surface:FILE`, `learned:FILE` and
/// FILE that of a file.
pub(super) fn named(named: &str) -> Result<Surface> {
    let file = match named.parse() {
        Ok(ModelKind::Surface(None) | ModelKind::Learned(None)) => {
            return Ok(Surface::embedded().clone());
        }
        Ok(ModelKind::Surface(Some(file)) | ModelKind::Learned(Some(file))) => file,
        Ok(_) => {
            return Err(usage_error(
                format!("`{named}` predicts no times: it has no surface"),
                "name `surface`, `learned` or a surface file",
            ));
        }
        Err(_) => named.to_owned(),
    };
    read(Path::new(&file))
}

/// The surface of a policy: that of its file, or the embedded one.
pub(crate) fn of(policy: &ModelKind) -> Result<Surface> {
    match policy.file() {
        Some(file) => read(Path::new(file)),
        None => Ok(Surface::embedded().clone()),
    }
}

/// Reads a surface file.
pub(crate) fn read(file: &Path) -> Result<Surface> {
    let text = altway_folder::read_text_file(file).map_err(|error| {
        usage_error(
            format!("cannot read the surface {}: {error}", file.display()),
            "name `surface` for the one that ships, or a file that `altway policy fit` wrote",
        )
    })?;
    Surface::parse(&text).map_err(|error| {
        usage_error(
            format!("{} is no surface: {error}", file.display()),
            "`altway policy fit RUN… -o FILE` writes one",
        )
    })
}
