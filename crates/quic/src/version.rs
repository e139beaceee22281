//! The versions of QUIC that are spoken (RFC 9000, RFC 9369).
//!
//! The versions differ in nothing but numbers: what tells packets' types apart, and what keys are
//! derived from. Version 2 is there so that the network's middleboxes learn not to rely on version 1's.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A version of QUIC. Written `1` or `2`. Default: 1, which every peer speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 9000.
    #[default]
    V1,
    /// RFC 9369.
    V2,
}

impl Version {
    /// All, in the order in which a server offers them.
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The number that stands in long headers. RFC 9369 section 3.1: "The Version field of long headers
    /// is 0x6b3343cf."
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 0x6b33_43cf,
        }
    }

    /// Returns the version's place in [`ALL`](Self::ALL).
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the version by which TLS derives keys.
    pub(crate) const fn tls(self) -> rustls::quic::Version {
        match self {
            Self::V1 => rustls::quic::Version::V1,
            Self::V2 => rustls::quic::Version::V2,
        }
    }

    /// The version of this number, if it is spoken.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.number() == number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V1 => "1",
            Self::V2 => "2",
        })
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut all = Self::ALL.into_iter();
        all.find(|version| version.to_string() == text)
            .ok_or(Error::InvalidConfig {
                field: "quic version",
                expected: "1 or 2",
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_what_it_prints() {
        for version in Version::ALL {
            assert_eq!(version.to_string().parse::<Version>().unwrap(), version);
            assert_eq!(Version::from_number(version.number()), Some(version));
            assert_eq!(Version::ALL[version.index()], version);
        }
        for text in ["", "0", "3", "v1", "01", "1 "] {
            let error = text.parse::<Version>().unwrap_err().to_string();
            assert!(error.starts_with("quic version is out of range"), "{text}");
        }
        for number in [0, 2, 0xff00_001d] {
            assert_eq!(Version::from_number(number), None);
        }
    }
}
