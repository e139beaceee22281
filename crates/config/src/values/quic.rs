//! Values of QUIC, in the words that `altway serve` takes.

use std::fmt;
use std::str::FromStr;

/// Clients of QUIC that must first show that they receive at their address (RFC 9000 section 8.1.2).
///
/// Text form: `always`, `never`, or a number of handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Every client that shows no token.
    Always,
    /// Clients that come while so many handshakes of clients that have not shown it are in progress.
    Beyond(usize),
    /// No client.
    Never,
}

impl Default for Retry {
    fn default() -> Self {
        Self::Beyond(1_000)
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.pad("always"),
            Self::Beyond(limit) => limit.fmt(f),
            Self::Never => f.pad("never"),
        }
    }
}

impl FromStr for Retry {
    type Err = BadRetry;

    fn from_str(text: &str) -> Result<Self, BadRetry> {
        match text {
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => text
                .parse()
                .map(Self::Beyond)
                .map_err(|_| BadRetry(text.into())),
        }
    }
}

/// A text that names no [`Retry`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time for Retry: expected always, never or a number of handshakes")]
pub struct BadRetry(String);

/// First bytes of every connection ID of QUIC, for a load balancer that steers by them: no, one or two
/// bytes.
///
/// Text form: hexadecimal, `7f` or `0102`; empty for none, which is the default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ServerId(String);

impl ServerId {
    /// Returns true if there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ServerId {
    type Err = BadServerId;

    fn from_str(text: &str) -> Result<Self, BadServerId> {
        let is_id =
            matches!(text.len(), 0 | 2 | 4) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(BadServerId(text.into()))
        }
    }
}

/// A text that names no [`ServerId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a server ID: expected 1 or 2 bytes in hexadecimal, like `7f`")]
pub struct BadServerId(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parses_what_it_prints_and_refuses_what_it_is_not() {
        for text in ["always", "never", "0", "1000"] {
            assert_eq!(text.parse::<Retry>().unwrap().to_string(), text);
        }
        for text in ["", "7f", "0102"] {
            assert_eq!(text.parse::<ServerId>().unwrap().to_string(), text);
        }
        assert!("-1".parse::<Retry>().is_err());
        for text in ["7", "010203", "0g"] {
            assert!(text.parse::<ServerId>().is_err(), "{text}");
        }
    }
}
