//! Names of sites.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The longest name (RFC 1035 section 2.3.4), in characters without the last dot.
const MAX_NAME: usize = 253;

/// The longest label of a name (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

/// The name of a site: of a host in lower case (`example.org`), of all hosts one level below one
/// (`*.example.org`), or an IP address (`192.0.2.1`, `[2001:db8::1]`). A name in another script (`bücher.example`) is
/// read as its ASCII form.
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
        let Some(ascii) = ascii_form(text) else {
            return bad("no internationalized domain name (RFC 5890) has these letters");
        };
        let lower = ascii
            .strip_suffix('.')
            .unwrap_or(&ascii)
            .to_ascii_lowercase();
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

/// The name as clients and authorities send it: `xn--bcher-kva.example` of `bücher.example` (UTS 46).
fn ascii_form(text: &str) -> Option<Cow<'_, str>> {
    match text.is_ascii() {
        true => Some(text.into()),
        false => idna::domain_to_ascii(text).ok().map(Cow::Owned),
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
    fn a_name_in_any_script_is_that_of_its_ascii_form() {
        for (text, ascii) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("*.BÜCHER.example.", "*.xn--bcher-kva.example"),
            ("straße.example", "xn--strae-oqa.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ] {
            assert_eq!(name(text).to_string(), ascii);
            assert_eq!(name(text), name(ascii));
        }
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
            ("b\u{fffd}cher.example", "internationalized"),
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
