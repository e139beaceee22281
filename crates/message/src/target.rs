//! Targets: schemes, authorities and paths.

use std::net::Ipv6Addr;

use crate::Refusal;
use crate::field::{are_all, table};

/// A scheme that this server answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`, over connections in clear text.
    Http,
    /// `https`, over TLS and QUIC.
    Https,
}

/// Bytes of the longest scheme. The http crate takes no longer ones, and IANA has registered none.
const MAX_SCHEME: usize = 64;

/// A checked target (RFC 9110 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The scheme that the request names, or else its connection's; none where that is not known either.
    pub scheme: Option<Scheme>,
    /// The host and port asked; none in HTTP/1.0 without Host.
    pub authority: Option<Authority<'a>>,
    /// The path with the query, beginning with a slash; `*` for the server as a whole (OPTIONS); none
    /// in CONNECT. Of a target in absolute form whose path is empty, which is the same as a slash, the query alone.
    pub path: Option<&'a [u8]>,
}

/// A host and an optional port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// A name or an address, IPv6 in brackets. Case does not count.
    pub host: &'a [u8],
    /// The port, if there is one.
    pub port: Option<u16>,
}

impl Scheme {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Refusal> {
        // Nearly every request has it so.
        match text {
            b"https" => return Ok(Self::Https),
            b"http" => return Ok(Self::Http),
            _ => {}
        }
        let (first, rest) = text.split_first().ok_or(Refusal::SchemeSyntax)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let is_short = text.len() <= MAX_SCHEME;
        if !first.is_ascii_alphabetic() || !rest.iter().all(is_part) || !is_short {
            return Err(Refusal::SchemeSyntax);
        }
        if text.eq_ignore_ascii_case(b"http") {
            return Ok(Self::Http);
        }
        let https = text.eq_ignore_ascii_case(b"https");
        https.then_some(Self::Https).ok_or(Refusal::SchemeUnknown)
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl<'a> Authority<'a> {
    /// Parses `uri-host [ ":" port ]` (RFC 9110 section 7.2). The host is never empty and has no percent
    /// sign, an address in brackets is one of IPv6 without a zone, and a colon has a port behind it.
    ///
    /// # Errors
    /// [`Refusal::UserInformation`] or [`Refusal::Authority`].
    pub fn parse(text: &'a [u8]) -> Result<Self, Refusal> {
        // With user information it is never a host and a port.
        Self::host_and_port(text).ok_or_else(|| match text.contains(&b'@') {
            true => Refusal::UserInformation,
            false => Refusal::Authority,
        })
    }

    fn host_and_port(text: &'a [u8]) -> Option<Self> {
        let end = match text.first() {
            Some(b'[') => text.iter().position(|byte| *byte == b']').map(|at| at + 1),
            _ => text.iter().position(|byte| *byte == b':'),
        };
        let (host, port) = text.split_at(end.unwrap_or(text.len()));
        if !is_name(host) && !is_address(host) {
            return None;
        }
        let port = match port {
            [] => None,
            [b':', digits @ ..] => Some(port_number(digits)?),
            _ => return None,
        };
        Some(Self { host, port })
    }

    /// Returns whether both are the same, case and the scheme's own port aside (RFC 3986 section
    /// 6.2).
    #[must_use]
    pub fn is_same(&self, other: &Authority<'_>, scheme: Option<Scheme>) -> bool {
        let port = |port: Option<u16>| port.or(scheme.map(Scheme::port));
        self.host.eq_ignore_ascii_case(other.host) && port(self.port) == port(other.port)
    }
}

/// Checks a path with its query, by the bytes that browsers send (RFC 3986 section 3.3 and 3.4, and the
/// few others that they leave as they are).
pub(crate) fn check_path(path: &[u8]) -> Result<(), Refusal> {
    if path.first() != Some(&b'/') {
        return Err(Refusal::TargetForm);
    }
    check_path_bytes(path)
}

/// Checks the bytes of a path with its query, or of a query alone, which begins with a question mark.
pub(crate) fn check_path_bytes(text: &[u8]) -> Result<(), Refusal> {
    let query = text.iter().position(|byte| *byte == b'?');
    let (path, query) = text.split_at(query.unwrap_or(text.len()));
    let is_good = are_all(path, &PATH_BYTES) && are_all(query, &QUERY_BYTES);
    if is_good {
        return Ok(());
    }
    match text.contains(&b'#') {
        true => Err(Refusal::Fragment),
        false => Err(Refusal::PathByte),
    }
}

fn is_address(host: &[u8]) -> bool {
    let inner = host.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
    let text = inner.and_then(|inner| std::str::from_utf8(inner).ok());
    text.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// RFC 3986 section 3.2.2, without percent-encoding, which some decode and some don't.
fn is_name(host: &[u8]) -> bool {
    !host.is_empty() && are_all(host, &NAME_BYTES)
}

fn port_number(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 {
        return None;
    }
    let number = crate::checks::decimal(digits)?;
    u16::try_from(number).ok()
}

static NAME_BYTES: [bool; 256] =
    table(b"-._~!$&'()*+,;=0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
static PATH_BYTES: [bool; 256] = graphic_without(b"#<>\\^`");
static QUERY_BYTES: [bool; 256] = graphic_without(b"#\"<>");

const fn graphic_without(without: &[u8]) -> [bool; 256] {
    let (mut bytes, mut byte) = ([false; 256], b'!');
    while byte <= b'~' {
        bytes[byte as usize] = true;
        byte += 1;
    }
    let mut index = 0;
    while index < without.len() {
        bytes[without[index] as usize] = false;
        index += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("a.example", "a.example", None),
            ("A_b-c.example:8443", "A_b-c.example", Some(8443)),
            ("127.0.0.1:0", "127.0.0.1", Some(0)),
            ("[::1]", "[::1]", None),
            ("[2001:db8::1]:65535", "[2001:db8::1]", Some(65535)),
        ] {
            let host = host.as_bytes();
            assert_eq!(
                Authority::parse(text.as_bytes()),
                Ok(Authority { host, port })
            );
        }
    }

    #[test]
    fn what_else_an_authority_could_be_is_refused() {
        for text in [
            "",
            ":",
            ":80",
            "a:",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:000080",
            "a:+8",
            "a b",
            "a/",
            "a?b",
            "a#b",
            "a\\b",
            "a%41",
            "[::1",
            "::1",
            "[::1]80",
            "[1.2.3.4]",
            "[v1.a]",
            "[fe80::1%25eth0]",
            "[]",
            "[::1]:",
            "a[::1]",
            "ä",
            "a\t",
            "a\u{7f}",
        ] {
            assert_eq!(
                Authority::parse(text.as_bytes()),
                Err(Refusal::Authority),
                "{text:?}"
            );
        }
        for text in ["u@a", "@a", "a@", "u:p@a:80"] {
            assert_eq!(
                Authority::parse(text.as_bytes()),
                Err(Refusal::UserInformation)
            );
        }
    }

    #[test]
    fn the_port_of_the_scheme_is_the_same_as_none() {
        let same = |a: &str, b: &str, scheme| {
            let [a, b] = [a, b].map(|text| Authority::parse(text.as_bytes()).unwrap());
            a.is_same(&b, scheme)
        };
        assert!(same("A.example", "a.EXAMPLE:443", Some(Scheme::Https)));
        assert!(!same("a.example", "a.example:443", Some(Scheme::Http)));
        assert!(!same("a.example", "a.example:443", None));
        assert!(!same("a.example", "b.example", Some(Scheme::Https)));
    }

    #[test]
    fn schemes_are_known_or_none() {
        assert_eq!(Scheme::parse(b"HTTP"), Ok(Scheme::Http));
        assert_eq!(Scheme::parse(b"https"), Ok(Scheme::Https));
        let longest = "a".repeat(MAX_SCHEME);
        for text in ["ftp", "h2c", "coap+tcp", &longest] {
            assert_eq!(Scheme::parse(text.as_bytes()), Err(Refusal::SchemeUnknown));
        }
        let longer = "a".repeat(MAX_SCHEME + 1);
        assert_eq!(Scheme::parse(longer.as_bytes()), Err(Refusal::SchemeSyntax));
        for text in [
            "",
            "http://localhost/?",
            "http x",
            "1http",
            "http:",
            "h\u{e9}",
        ] {
            assert_eq!(Scheme::parse(text.as_bytes()), Err(Refusal::SchemeSyntax));
        }
    }

    #[test]
    fn a_path_has_the_bytes_that_browsers_send() {
        for path in [
            "/",
            "//a",
            "/a.txt?q",
            "/a|b/{c}[d]?e=f|g^h\\i`{j}",
            "/%zz",
            "/?",
            "/a?b?c",
        ] {
            assert_eq!(check_path(path.as_bytes()), Ok(()), "{path}");
        }
        for path in ["/a.txt#x", "/a.txt?q#x", "/#"] {
            assert_eq!(
                check_path(path.as_bytes()),
                Err(Refusal::Fragment),
                "{path}"
            );
        }
        for path in [
            "/a b", "/a\\b", "/a\u{7f}", "/ä", "/<a>", "/?<", "/a\n", "/?a\0", "/a\t",
        ] {
            assert_eq!(
                check_path(path.as_bytes()),
                Err(Refusal::PathByte),
                "{path}"
            );
        }
        for path in ["", "a", "*", "?a", "http://a/"] {
            assert_eq!(
                check_path(path.as_bytes()),
                Err(Refusal::TargetForm),
                "{path}"
            );
        }
    }
}
