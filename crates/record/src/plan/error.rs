//! Reasons for which a text is no plan.

use super::{MAX_PAIRS, MAX_TRANSFERS};
use crate::AxisError;
use altway_document::Place;

/// Reasons for which a text is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A text that is not TOML, or a value of the wrong type; the message names line and column.
    #[error("{}{}", in_file(.file.as_ref()), .fault.to_string().trim_end())]
    Toml {
        /// The included file that it stands in; `None`: the plan itself.
        file: Option<String>,
        /// The fault that TOML's reader found. It is not the error's source, or it would be printed
        /// twice.
        fault: Box<toml::de::Error>,
    },
    /// A key that no plan has.
    #[error("{place}: unknown key `{key}`{}", suggestion(.nearest.as_ref()))]
    UnknownKey {
        /// The key found.
        key: String,
        /// The place.
        place: Place,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// A key that every plan must have is missing.
    #[error("the key `{0}` is missing")]
    Missing(&'static str),
    /// A value that can't be.
    #[error("{place}: `{key}`: {fault}")]
    Axis {
        /// The key.
        key: &'static str,
        /// The place.
        place: Place,
        /// The fault of the value. It is not the error's source, or it would be printed twice.
        fault: AxisError,
    },
    /// Delays that were given beside the plan and can't be.
    #[error("the delays can't be used: {0}")]
    Delays(AxisError),
    /// A value of a table that can't be.
    #[error("{place}: `{key}`: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The place.
        place: Place,
        /// The fault of the value, in a sentence.
        reason: String,
    },
    /// A file that the plan names can't be had.
    #[error("{place}: `{key}`: {reason}")]
    File {
        /// The key that names it.
        key: &'static str,
        /// The place.
        place: Place,
        /// The reason, in a sentence.
        reason: String,
    },
    /// A name that makes no good folder.
    #[error(
        "`{0}` is not a plan's name: expected 1 to 64 lower-case letters, digits and `-`, starting with a letter or digit"
    )]
    Name(String),
    /// No pairs, or too many.
    #[error("`pairs` is {0}: expected 1 to {MAX_PAIRS}")]
    Pairs(u32),
    /// The matrix is too large.
    #[error("the plan asks for {0} transfers: expected at most {MAX_TRANSFERS}")]
    TooLarge(u64),
    /// An object without a byte, which can't be fetched.
    #[error("`size` holds an object of 0 bytes")]
    EmptyObject,
    /// Values that are good each by itself but not together.
    #[error("{what}")]
    Impossible {
        /// The values that don't go together, in a sentence.
        what: String,
        /// Advice on what to write instead.
        hint: String,
    },
}

fn in_file(file: Option<&String>) -> String {
    file.map_or_else(String::new, |file| format!("{file}: "))
}

fn suggestion(nearest: Option<&&'static str>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}
