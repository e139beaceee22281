//! The certificate that a server shows.

use crate::short_text::ShortText;
use crate::words::{text_in_files, words};
use altway_units::DataSize;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// A certificate that the lab makes.
    MadeCertificate, "a certificate" {
        /// One certificate with an ECDSA key, some 600 bytes.
        Ecdsa = "ecdsa",
        /// Leaf, intermediate and root with RSA keys, some 4 KB.
        RsaChain = "rsa-chain",
    }
}

/// The certificate that a server shows: what its handshake weighs. QUIC may send three times what
/// came from a client whose address is not validated (RFC 9000 section 8.1), TCP is not bound so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certificate {
    /// A certificate that the lab makes.
    Made(MadeCertificate),
    /// A chain of the user's, by the name of its file; [`Plan::chains`](crate::Plan::chains) has more of it.
    Chain(ChainName),
}

impl Certificate {
    /// One certificate with an ECDSA key.
    pub const ECDSA: Self = Self::Made(MadeCertificate::Ecdsa);
    /// A chain of RSA keys.
    pub const RSA_CHAIN: Self = Self::Made(MadeCertificate::RsaChain);
}

impl Default for Certificate {
    fn default() -> Self {
        Self::ECDSA
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(made) => made.fmt(f),
            Self::Chain(name) => name.fmt(f),
        }
    }
}

/// A word, or the name of a file, which has a dot.
impl FromStr for Certificate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.contains('.') {
            true => text.parse().map(Self::Chain),
            false => text
                .parse()
                .map(Self::Made)
                .map_err(|error: <MadeCertificate as FromStr>::Err| error.to_string()),
        }
    }
}

text_in_files!(Certificate);

/// The longest name of a chain's file in bytes.
pub const MAX_CHAIN_NAME: usize = 48;

/// The name of a chain's file, without its folder: 1 to [`MAX_CHAIN_NAME`] letters, digits, `-`, `_` and `.`, the first
/// of them a letter or a digit, and one of them a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainName(ShortText<MAX_CHAIN_NAME>);

impl ChainName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for ChainName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let begins = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if !begins || text.len() > MAX_CHAIN_NAME || !text.contains('.') || !text.bytes().all(good)
        {
            return Err(format!(
                "`{text}` can't name a chain: a file's name has 1 to {MAX_CHAIN_NAME} letters, digits, `-`, `_` and `.`"
            ));
        }
        Ok(Self(ShortText::new(text)))
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

text_in_files!(ChainName);

/// A chain of certificates with its key, of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The name in tables and files.
    pub name: ChainName,
    /// The file: PEM, the leaf first, and the leaf's key.
    pub path: String,
    /// Number of certificates.
    pub certificates: usize,
    /// Bytes of all certificates (DER), as a handshake sends them uncompressed.
    pub size: DataSize,
}

impl Chain {
    /// Reads the chain and its key from `text`, which the file at `path` holds.
    ///
    /// # Errors
    /// It holds no certificate or no key, or its name can't be used.
    pub fn read(path: &str, text: &str) -> Result<Self, String> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let sizes: Vec<u64> = certificates(text).map(der_bytes).collect();
        if sizes.is_empty() {
            return Err(format!(
                "{path} holds no certificate: expected PEM, the leaf first"
            ));
        }
        if !text.contains("PRIVATE KEY-----") {
            return Err(format!(
                "{path} holds no key: expected the leaf's beside the chain, as `cat chain.pem key.pem` gives"
            ));
        }
        Ok(Self {
            name: name.parse()?,
            path: path.into(),
            certificates: sizes.len(),
            size: DataSize::from_bytes(sizes.iter().sum()),
        })
    }
}

/// The base64 of each certificate (RFC 7468).
fn certificates(text: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    let parts = text.split(BEGIN).skip(1);
    parts.filter_map(|part| Some(part.split_once("-----END CERTIFICATE-----")?.0))
}

/// Four letters of base64 are three bytes.
fn der_bytes(base64: &str) -> u64 {
    let is_digit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    base64.chars().filter(is_digit).count() as u64 * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 and 4 bytes.
    const TEXT: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n\
        -----BEGIN CERTIFICATE-----\nAAAA\nAA==\n-----END CERTIFICATE-----\n\
        -----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

    #[test]
    fn a_chain_is_known_by_its_file_and_by_what_it_weighs() {
        let chain = Chain::read("certs/example.org.pem", TEXT).unwrap();
        assert_eq!(chain.name.as_str(), "example.org.pem");
        assert_eq!(
            (chain.certificates, chain.size),
            (2, DataSize::from_bytes(7))
        );
        assert_eq!(chain.path, "certs/example.org.pem");
    }

    #[test]
    fn what_is_no_chain_with_a_key_is_refused() {
        let error = |path, text| Chain::read(path, text).unwrap_err();
        assert!(error("a.pem", "nothing").contains("a.pem holds no certificate"));
        let (keyless, _) = TEXT.split_once("-----BEGIN PRIVATE").unwrap();
        assert!(error("a.pem", keyless).contains("a.pem holds no key"));
        for name in [
            "a,b.pem",
            ".pem",
            "..",
            "nodot",
            &format!("{}.pem", "x".repeat(48)),
        ] {
            assert!(error(name, TEXT).contains("can't name a chain"), "{name}");
        }
    }

    #[test]
    fn certificates_are_read_as_they_are_printed() {
        for text in ["ecdsa", "rsa-chain", "example.org.pem"] {
            assert_eq!(text.parse::<Certificate>().unwrap().to_string(), text);
        }
        let slip = "ecdsaa".parse::<Certificate>().unwrap_err();
        assert!(slip.contains("did you mean `ecdsa`?"), "{slip}");
    }
}
