//! The surroundings of a cell's link: its place on the path, the client and the server at its ends,
//! and the state in which the connection begins.

use crate::Protocol;
use crate::axis::AxisValue;
use crate::short_text::ShortText;
use crate::words::{text_in_files, words};
use altway_document::nearest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

words! {
    /// Place on the path where the link is emulated.
    Topology, "a topology" {
        /// One shaped hop between client and server.
        Direct = "direct",
        /// A router forwards, and shapes both directions.
        Router = "router",
        /// A router with a TCP proxy and a UDP proxy: it shapes towards the client, and the
        /// server's own interface shapes towards the router.
        Proxied = "proxied",
        /// One hop, and each end shapes what it sends, on its own interface, in large pieces of TCP.
        Egress = "egress",
        /// The same, and TCP hands over each packet by itself.
        EgressPackets = "egress-packets",
    }
}

words! {
    /// The client.
    Client, "a client" {
        /// `altway load`.
        Altway = "altway",
        /// curl, in its installed version.
        Curl = "curl",
        /// Chromium, in its installed version, without a window.
        Chromium = "chromium",
        /// Firefox, in its installed version, without a window.
        Firefox = "firefox",
    }
}

impl Client {
    /// Returns whether it loads pages, and decides itself when it asks for what they name.
    #[must_use]
    pub fn is_browser(self) -> bool {
        matches!(self, Self::Chromium | Self::Firefox)
    }
}

words! {
    /// Set-up of the connection: measured with the transfer, or done before it.
    Connection, "a connection" {
        /// The transfer includes the set-up: TCP and TLS, or QUIC.
        Cold = "cold",
        /// The transfer does not include the set-up: one small object was fetched on the connection
        /// before.
        Warm = "warm",
    }
}

words! {
    /// The congestion control of the server's TCP and of its QUIC: what decides most on lossy paths.
    Congestion, "a congestion control" {
        /// RFC 9438, of both transports.
        Cubic = "cubic",
        /// RFC 9002 §7 and RFC 5681, of both transports.
        Reno = "reno",
        /// BBR of both transports: the kernel's version, and draft-ietf-ccwg-bbr for QUIC.
        Bbr = "bbr",
        /// The kernel's BBR of TCP, and Cubic of QUIC, as where a host's default was changed and its QUIC
        /// servers were left as they are.
        TcpBbrQuicCubic = "tcp-bbr-quic-cubic",
    }
}

impl Congestion {
    /// The kernel's name of TCP's.
    #[must_use]
    pub fn tcp(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr | Self::TcpBbrQuicCubic => "bbr",
        }
    }

    /// The kernel's name of QUIC's.
    #[must_use]
    pub fn quic(self) -> &'static str {
        match self {
            Self::Cubic | Self::TcpBbrQuicCubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// The longest name of a server in bytes.
pub const MAX_SERVER_NAME: usize = 24;

/// The name of a server: 1 to [`MAX_SERVER_NAME`] lower-case letters, digits, `-` and `.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(ShortText<MAX_SERVER_NAME>);

impl ServerName {
    /// altway itself.
    pub const ALTWAY: Self = Self(ShortText::new("altway"));

    /// The servers that a plan may name without saying how they are started.
    pub const PRESETS: [&'static str; 5] = ["altway", "nginx", "caddy", "h2o", "quic-go"];

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Default for ServerName {
    fn default() -> Self {
        Self::ALTWAY
    }
}

/// A text that can't name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a server's name: expected 1 to {MAX_SERVER_NAME} lower-case letters, digits, `-` and `.`"
)]
pub struct BadServerName(String);

impl FromStr for ServerName {
    type Err = BadServerName;

    fn from_str(text: &str) -> Result<Self, BadServerName> {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        if text.is_empty() || text.len() > MAX_SERVER_NAME || !text.bytes().all(good) {
            return Err(BadServerName(text.into()));
        }
        Ok(Self(ShortText::new(text)))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

text_in_files!(ServerName);

/// A preset, for a name without a command means one.
impl AxisValue for ServerName {
    fn read(text: &str) -> Result<Self, String> {
        if Self::PRESETS.contains(&text) {
            return Ok(Self(ShortText::new(text)));
        }
        let presets = Self::PRESETS.join(", ");
        let suggestion = nearest(text, Self::PRESETS)
            .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Err(format!(
            "`{text}` is not a server: expected one of {presets}, or a table with a `command`{suggestion}"
        ))
    }
}

/// A server that is not altway: any program that serves a folder over TLS.
///
/// `{folder}`, `{address}`, `{port}`, `{certificate}`, `{key}` and `{config}` in `command` and
/// `config` stand for what the lab fills in. It may put itself into the background; all that it starts ends with
/// the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerCommand {
    /// The name in tables and files.
    pub name: ServerName,
    /// Program and arguments, separated by blanks; quotes hold words together, as in a shell.
    pub command: String,
    /// Content of the file `{config}`; without it there is no such file.
    pub config: Option<String>,
    /// Protocols that the server speaks.
    pub protocols: Vec<Protocol>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in ServerName::PRESETS.into_iter().chain(["my-server.2"]) {
            assert_eq!(name.parse::<ServerName>().unwrap().to_string(), name);
        }
        assert_eq!(ServerName::ALTWAY.as_str(), "altway");
        for bad in ["", "Big", "a,b", &"x".repeat(MAX_SERVER_NAME + 1)] {
            assert!(bad.parse::<ServerName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_slip_in_a_preset_is_mended() {
        let error = ServerName::read("nginz").unwrap_err();
        assert!(error.ends_with("did you mean `nginx`?"), "{error}");
    }

    #[test]
    fn words_survive_serde() {
        let json = serde_json::to_string(&[Topology::Proxied, Topology::Direct]).unwrap();
        assert_eq!(json, r#"["proxied","direct"]"#);
        let error = serde_json::from_str::<Topology>(r#""proxed""#).unwrap_err();
        assert!(error.to_string().contains("did you mean `proxied`?"));
    }
}
