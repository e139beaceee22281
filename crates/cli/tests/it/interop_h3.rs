//! HTTP/3 between altway and programs that we did not write: their clients with our server, our client
//! with their servers. What they can't do is said where it is left out.

pub(crate) mod browsers;
mod clients;
pub(crate) mod echo;
pub(crate) mod foreign;
mod ours;
mod servers;

use crate::common::{Dir, success};
use aws_lc_rs::digest;
use std::path::PathBuf;

/// A file that no client gets in one piece; its size.
const BIG: usize = 10_000_000;

/// The same for cases where a slow client's time goes into something else.
const MEDIUM: usize = 2_000_000;

/// A size that no peer lets come before it is read: flow control stops it in the middle.
const HUGE: usize = 40_000_000;

/// A size above the bytes that flow control lets pass unread, either way.
const UPLOAD: usize = 3_000_001;

/// A name that browsers are told to find on the loopback; others use `localhost`.
pub(crate) const HOST: &str = "altway.test";

/// A folder with files of some sizes, and altway's certificates.
pub(crate) struct Ground {
    pub(crate) dir: Dir,
    /// The certificate of the authority that all servers' are signed by.
    pub(crate) authority: PathBuf,
    /// The digest of the servers' key, as Chromium wants it.
    spki: String,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let dir = Dir::new();
        dir.file("site/small.txt", "small");
        dir.file("site/medium.bin", content(MEDIUM));
        dir.file("site/big.bin", content(BIG));
        let certs = success(&mut dir.altway(["certs", HOST, "--json"]));
        let certs: serde_json::Value = serde_json::from_str(&certs).unwrap();
        Self {
            dir,
            authority: certs["ca_certificate"].as_str().unwrap().into(),
            spki: certs["spki_sha256_base64"].as_str().unwrap().into(),
        }
    }

    /// Adds a file that only a few cases need.
    fn with_huge(self) -> Self {
        self.dir.file("site/huge.bin", content(HUGE));
        self
    }
}

/// Bytes without a period that divides a frame, a packet or a window.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

/// The digest in hexadecimal digits, as peers report it.
fn sha256(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
