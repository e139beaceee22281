//! Names of sites.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The longest name (RFC 1035 section 2.3.4), in characters without the last dot.
const MAX_NAME: usize = 253;

/// The longest label of a name (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

/// The name of a site: of a host in lower case (`example.org`), of all hosts one level below one
/// (`*.example.org`), or an IP address (`192.0.2.1`, `[2001:db8::1]`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteName(Name);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    Host(String),
    /// The part after `*.`.
    Below(String),
    Address(IpAddr),
}

impl SiteName {
    /// The name of the one host, or of the address (an IPv6 address in brackets, as requests write it),
    /// for a table of names; `None` of a wildcard.
    #[must_use]
    pub fn exact(&self) -> Option<String> {
        match &self.0 {
            Name::Host(name) => Some(name.clone()),
            Name::Below(_) => None,
            Name::Address(_) => Some(self.to_string()),
        }
    }

    /// Returns true if the name is an address.
    #[must_use]
    pub fn is_address(&self) -> bool {
        matches!(self.0, Name::Address(_))
    }

    /// The part of a wildcard after `*.`, which one label and a dot precede in a host's name.
    #[must_use]
    pub fn wildcard(&self) -> Option<&str> {
        match &self.0 {
            Name::Below(parent) => Some(parent),
            _ => None,
        }
    }

    /// Returns true if a request's host is meant: without port, in any case, with or without the last
    /// dot. A server asks every exact name before wildcards.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match &self.0 {
            Name::Host(name) => name.eq_ignore_ascii_case(host),
            Name::Below(parent) => host.split_once('.').is_some_and(|(label, rest)| {
                !label.is_empty() && parent.eq_ignore_ascii_case(rest)
            }),
            Name::Address(address) => parse_address(host) == Some(*address),
        }
    }
}

fn parse_address(text: &str) -> Option<IpAddr> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Host(name) => f.pad(name),
            Name::Below(parent) => write!(f, "*.{parent}"),
            Name::Address(IpAddr::V4(address)) => address.fmt(f),
            Name::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl FromStr for SiteName {
    type Err = BadSiteName;

    fn from_str(text: &str) -> Result<Self, BadSiteName> {
        let bad = |reason| {
            Err(BadSiteName {
                name: text.into(),
                reason,
            })
        };
        if let Some(address) = parse_address(text) {
            return Ok(Self(Name::Address(address)));
        }
        if text.contains("://") || text.contains('/') {
            return bad("it is the name of a host alone, without `https://` and path");
        }
        if text.contains(':') {
            return bad("it is the name of a host alone, without a port");
        }
        if !text.is_ascii() {
            return bad("it must be in its ASCII form, which begins with `xn--`");
        }
        let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (wildcard, name) = match lower.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, lower.as_str()),
        };
        if name.contains('*') || lower == "*" {
            return bad("a `*` stands for one whole label at the beginning, like `*.example.org`");
        }
        if !is_host(name) {
            return bad(
                "expected labels of letters, digits, `-` and `_`, 63 characters each at most, between dots",
            );
        }
        let name = name.to_owned();
        Ok(Self(if wildcard {
            Name::Below(name)
        } else {
            Name::Host(name)
        }))
    }
}

fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

/// A text that is no name of a site.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a site's name: {reason}")]
pub struct BadSiteName {
    /// Name that was found.
    name: String,
    /// Fault of the name.
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SiteName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_met_in_any_case_and_a_wildcard_by_one_label() {
        assert_eq!(name("Example.ORG.").to_string(), "example.org");
        assert!(name("example.org").matches("EXAMPLE.org."));
        assert!(!name("example.org").matches("www.example.org"));
        let below = name("*.example.org");
        assert!(below.matches("www.example.org"));
        for host in [
            "example.org",
            "a.b.example.org",
            ".example.org",
            "wwwexample.org",
        ] {
            assert!(!below.matches(host), "{host}");
        }
        assert!(name("2001:db8::1").matches("[2001:db8::1]"));
        assert_eq!(name("2001:db8::1").to_string(), "[2001:db8::1]");
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_reason() {
        for (text, reason) in [
            ("https://example.org", "without `https://`"),
            ("example.org:443", "without a port"),
            ("*", "one whole label"),
            ("a.*.org", "one whole label"),
            ("www*.example.org", "one whole label"),
            ("*.*.org", "one whole label"),
            ("bücher.example", "xn--"),
            ("a..org", "labels"),
            ("", "labels"),
            ("-a.org", "labels"),
            ("a b.org", "labels"),
        ] {
            let error = text.parse::<SiteName>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
