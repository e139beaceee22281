//! The three HTTP versions that altway speaks, as plans and results name them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An HTTP version. Text form: `h1`, `h2`, `h3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 over TCP (RFC 9112).
    H1,
    /// HTTP/2 over TCP (RFC 9113).
    H2,
    /// HTTP/3 over QUIC (RFC 9114).
    H3,
}

impl Protocol {
    /// The name for people: `HTTP/2`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "HTTP/1.1",
            Self::H2 => "HTTP/2",
            Self::H3 => "HTTP/3",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        })
    }
}

/// A text that names no HTTP version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a protocol: expected h1, h2 or h3")]
pub struct UnknownProtocol(String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        match text {
            "h1" => Ok(Self::H1),
            "h2" => Ok(Self::H2),
            "h3" => Ok(Self::H3),
            other => Err(UnknownProtocol(other.into())),
        }
    }
}
