//! Values of `[acme]`: the directory of a certificate authority, an address for its mail, a profile.

use std::fmt;
use std::str::FromStr;

/// The longest text of each, in characters.
const MAX_TEXT: usize = 256;

/// The URL of an authority's directory (RFC 8555 section 7.1.1), which is `https` (RFC 8555 section 6.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryUrl(String);

impl DirectoryUrl {
    /// Let's Encrypt.
    pub const LETS_ENCRYPT: &'static str = "https://acme-v02.api.letsencrypt.org/directory";

    /// The same for trying things out: its certificates are trusted by nobody, and its rate limits are wide.
    pub const LETS_ENCRYPT_STAGING: &'static str =
        "https://acme-staging-v02.api.letsencrypt.org/directory";

    /// Returns the URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for DirectoryUrl {
    fn default() -> Self {
        Self(Self::LETS_ENCRYPT.into())
    }
}

impl FromStr for DirectoryUrl {
    type Err = BadAcmeValue;

    fn from_str(text: &str) -> Result<Self, BadAcmeValue> {
        let expected = "the URL of an authority's directory, which begins with `https://`";
        let url = is_url(text, "https://").then(|| Self(text.into()));
        url.ok_or_else(|| BadAcmeValue::new(text, expected))
    }
}

/// The URL of a program that is asked whether a name may have a certificate. It is `http`: the program runs on this machine,
/// or in a network that is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AskUrl(String);

impl AskUrl {
    /// Returns the URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AskUrl {
    type Err = BadAcmeValue;

    fn from_str(text: &str) -> Result<Self, BadAcmeValue> {
        let expected = "the URL of a program that is asked, which begins with `http://`";
        let url = is_url(text, "http://").then(|| Self(text.into()));
        url.ok_or_else(|| BadAcmeValue::new(text, expected))
    }
}

impl fmt::Display for AskUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// An address to which an authority may write of what concerns the account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Email(String);

impl FromStr for Email {
    type Err = BadAcmeValue;

    fn from_str(text: &str) -> Result<Self, BadAcmeValue> {
        // RFC 8555 section 7.3: one address, without header fields.
        let is_email = text.split_once('@').is_some_and(|(user, domain)| {
            !user.is_empty() && !domain.is_empty() && !domain.contains('@')
        });
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic())
            && !text.contains(['?', ',', ':', '<', '>']);
        let email = (is_email && is_plain && is_short(text)).then(|| Self(text.into()));
        email.ok_or_else(|| BadAcmeValue::new(text, "an address of mail, like `ops@example.org`"))
    }
}

/// The name of a profile that an authority has for its certificates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeProfile(String);

impl FromStr for AcmeProfile {
    type Err = BadAcmeValue;

    fn from_str(text: &str) -> Result<Self, BadAcmeValue> {
        let is_name = !text.is_empty()
            && is_short(text)
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let profile = is_name.then(|| Self(text.into()));
        profile.ok_or_else(|| BadAcmeValue::new(text, "the name of a profile, like `shortlived`"))
    }
}

/// Returns true if a text is a URL that begins so, without user information and fragment.
fn is_url(text: &str, scheme: &str) -> bool {
    let rest = text.strip_prefix(scheme).unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_short(text)
        && is_port
        && !host.is_empty()
        && !authority.contains('@')
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !text.contains(['#', '\\', '"', '<', '>'])
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_TEXT
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for AcmeProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text that is not what a key of `[acme]` holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}", .text.escape_debug())]
pub struct BadAcmeValue {
    text: String,
    expected: &'static str,
}

impl BadAcmeValue {
    fn new(text: &str, expected: &'static str) -> Self {
        let text = text.chars().take(MAX_TEXT).collect();
        Self { text, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_an_https_url() {
        for text in [
            DirectoryUrl::LETS_ENCRYPT,
            DirectoryUrl::LETS_ENCRYPT_STAGING,
            "https://localhost:14000/dir",
            "https://[::1]:14000/dir?x=1",
            "https://[::1]/dir",
        ] {
            assert_eq!(text.parse::<DirectoryUrl>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "https://",
            "https:///dir",
            "http://ca.example/dir",
            "https://ca.example:0/dir",
            "https://ca.example:x/dir",
            "https://me@ca.example/dir",
            "https://ca.example/dir#a",
            "https://ca.example/d ir",
        ] {
            assert!(text.parse::<DirectoryUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_is_asked_over_http() {
        for text in [
            "http://127.0.0.1:9123/allowed",
            "http://app",
            "http://[::1]/a?b=c",
        ] {
            assert_eq!(text.parse::<AskUrl>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "http://",
            "https://app/",
            "app:80",
            "http://me@app/",
            "http://app:0/",
        ] {
            assert!(text.parse::<AskUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_email_is_one_address() {
        assert!("ops@example.org".parse::<Email>().is_ok());
        for text in [
            "",
            "ops",
            "@example.org",
            "ops@",
            "a@b@c",
            "a@b,c@d",
            "mailto:a@b",
            "a@b?c=d",
        ] {
            assert!(text.parse::<Email>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_profile_is_a_name() {
        assert!("tlsserver".parse::<AcmeProfile>().is_ok());
        for text in ["", "a b", "a/b"] {
            assert!(text.parse::<AcmeProfile>().is_err(), "{text}");
        }
    }
}
