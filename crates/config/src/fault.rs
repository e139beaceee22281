//! Faults of a configuration.

use altway_document::Place;
use std::fmt;

/// The most faults that are told of one configuration; those beyond are counted.
pub const MAX_FAULTS: usize = 100;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place; `None`: in what was not read from a file.
    pub place: Option<Place>,
    /// The fault in a sentence.
    pub message: String,
    /// A hint that may help.
    pub hint: Option<String>,
}

/// `altway.toml:3:9: what is wrong`, and in a second line the hint.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a configuration, one at least: those of the first file first, each file's
/// from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `result`, unless something is wrong.
    ///
    /// # Errors
    /// There are faults.
    pub fn none_or<T>(faults: Vec<Fault>, result: T) -> Result<T, Self> {
        if faults.is_empty() {
            Ok(result)
        } else {
            Err(Self(faults))
        }
    }

    /// The faults.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.0
    }
}

/// The faults below each other, at most [`MAX_FAULTS`].
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().take(MAX_FAULTS).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{fault}")?;
        }
        match self.0.len().saturating_sub(MAX_FAULTS) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}
