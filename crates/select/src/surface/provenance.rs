//! Provenance of a surface: runs of the lab, and how well it fits them.

use super::Congestion;
use serde::{Deserialize, Serialize};

/// The runs and programs from which a surface was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Sources {
    /// A note on what else is to be known of it.
    pub note: String,
    /// Congestion control of TCP and of QUIC in the cells that it was fitted to or tried on, each pair once: four at most.
    /// Empty: it is not known.
    pub congestion: Vec<[Congestion; 2]>,
    /// Cells that it was fitted to.
    pub cells: u32,
    /// Median of |ln(T3/T2) as predicted − as measured|.
    pub median_error: f64,
    /// The same of cells that were left out of the fit, where that was tried.
    pub held_out_error: Option<f64>,
    /// The runs that it was fitted to or tried on.
    pub runs: Vec<Source>,
}

/// A run of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// Name of its folder.
    pub name: String,
    /// Name of its plan.
    pub plan: String,
    /// The time at which it began, RFC 3339.
    pub started: String,
    /// Commit of the altway that measured, where it is known.
    #[serde(default)]
    pub commit: Option<String>,
}
