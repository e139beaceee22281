//! A policy that is simulated, as it is named and as it is built.

use super::super::surface;
use altway_select::{ModelKind, ParseModelError, Surface};
use altway_simulate::{AlwaysH2, AlwaysH3, Clairvoyant, MONTH, Policy, SelectorPolicy};
use anyhow::Result;
use std::fmt;
use std::str::FromStr;

/// A policy's name: a model of the server's, or `clairvoyant`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Candidate {
    Model(ModelKind),
    Clairvoyant,
}

impl FromStr for Candidate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "clairvoyant" {
            return Ok(Self::Clairvoyant);
        }
        let model = text.parse();
        model.map(Self::Model).map_err(|error| match error {
            ParseModelError::Unknown(_) => format!("{error}; or `clairvoyant`"),
            other => other.to_string(),
        })
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(model) => model.fmt(f),
            Self::Clairvoyant => f.pad("clairvoyant"),
        }
    }
}

/// The beginning of each run of a candidate.
pub(super) enum PolicySource {
    H2,
    H3,
    Clairvoyant,
    SelectorPolicy(ModelKind, Box<Surface>),
}

impl Candidate {
    /// Reads the file that it names.
    pub(super) fn read(&self) -> Result<PolicySource> {
        let model = match self {
            Self::Clairvoyant => return Ok(PolicySource::Clairvoyant),
            Self::Model(ModelKind::FixedH2) => return Ok(PolicySource::H2),
            Self::Model(ModelKind::FixedH3) => return Ok(PolicySource::H3),
            Self::Model(model) => model,
        };
        let surface = Box::new(surface::of(model)?);
        Ok(PolicySource::SelectorPolicy(model.clone(), surface))
    }
}

impl PolicySource {
    /// The policy, which has not seen anybody.
    pub(super) fn policy(&self, remembered: usize) -> Box<dyn Policy> {
        match self {
            Self::H2 => Box::new(AlwaysH2),
            Self::H3 => Box::new(AlwaysH3 { max_age: MONTH }),
            Self::Clairvoyant => Box::new(Clairvoyant),
            Self::SelectorPolicy(model, surface) => {
                let surface = Surface::clone(surface);
                Box::new(SelectorPolicy::remembering(remembered, model, surface))
            }
        }
    }
}
