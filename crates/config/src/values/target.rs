//! Targets of redirects.

use altway_document::did_you_mean;
use std::fmt;
use std::str::FromStr;

/// Names that may stand in braces.
const PLACEHOLDERS: [&str; 4] = ["host", "path", "query", "rest"];

/// The URL that a redirect leads to, a path of the same site or an absolute one, in which `{host}`,
/// `{path}`, `{query}` and `{rest}` stand for parts of the request.
///
/// Text form: `/new/{rest}`, `https://www.example.org{path}{query}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedirectTarget(String);

/// The parts of a request that a [`RedirectTarget`] may name, as they were sent: percent-encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requested<'r> {
    /// The authority, with its port if there is one: `{host}`.
    pub host: &'r str,
    /// The path: `{path}`.
    pub path: &'r str,
    /// The query without its `?`, if there is one: `{query}` is the `?` and it, or nothing.
    pub query: Option<&'r str>,
    /// The part of the path that the `*` of the route's pattern stands for: `{rest}`.
    pub rest: &'r str,
}

impl RedirectTarget {
    /// The value of Location. A target that begins with `/` never leads to another host, whatever was
    /// asked for: of several slashes or backslashes at its beginning one is left.
    #[must_use]
    pub fn resolve(&self, request: Requested<'_>) -> String {
        let mut url = String::with_capacity(self.0.len() + request.path.len());
        let mut left = self.0.as_str();
        while let Some((before, (name, after))) = left
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            url.push_str(before);
            match name {
                "host" => url.push_str(request.host),
                "path" => url.extend([
                    if request.path.starts_with('/') {
                        ""
                    } else {
                        "/"
                    },
                    request.path,
                ]),
                "rest" => url.push_str(request.rest),
                _ => {
                    if let Some(query) = request.query {
                        url.push('?');
                        url.push_str(query);
                    }
                }
            }
            left = after;
        }
        url.push_str(left);
        if self.is_of_the_same_site() {
            // `//evil.example` would be another host's (RFC 3986 section 4.2), and browsers take `\` for `/`.
            let path = url.trim_start_matches(['/', '\\']);
            return format!("/{path}");
        }
        url
    }

    /// Returns true if the target is a path of the site that was asked.
    #[must_use]
    pub fn is_of_the_same_site(&self) -> bool {
        self.0.starts_with('/') || self.0.starts_with("{path}")
    }
}

impl fmt::Display for RedirectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RedirectTarget {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let target = Self(text.into());
        check_characters(text)?;
        check_placeholders(text)?;
        if target.is_of_the_same_site() {
            if text.starts_with("//") {
                return Err(BadTarget::Start(text.into()));
            }
            return Ok(target);
        }
        let rest = ["https://", "http://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| BadTarget::Start(text.into()))?;
        // A host that the client's path could finish would be one of the client's choice.
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match host.split_once("{path}") {
            Some((host, _)) => host,
            None => host,
        };
        let host_is_open = host.is_empty() || host.contains("{rest}") || host.contains("{query}");
        if host_is_open {
            Err(BadTarget::Host(text.into()))
        } else {
            Ok(target)
        }
    }
}

fn check_characters(text: &str) -> Result<(), BadTarget> {
    let is_url = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`|".contains(&byte);
    if text.bytes().all(is_url) {
        Ok(())
    } else {
        Err(BadTarget::Characters(text.into()))
    }
}

fn check_placeholders(text: &str) -> Result<(), BadTarget> {
    let mut left = text;
    while let Some(open) = left.find(['{', '}']) {
        let end = left[open..]
            .find('}')
            .filter(|end| *end > 0 && left[open..].starts_with('{'));
        let end = end.ok_or_else(|| BadTarget::Braces(text.into()))?;
        let name = &left[open + 1..open + end];
        if !PLACEHOLDERS.contains(&name) {
            return Err(BadTarget::Placeholder(name.into()));
        }
        left = &left[open + end + 1..];
    }
    Ok(())
}

/// A text that no redirect can lead to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTarget {
    /// The text is neither a path nor an absolute URL of HTTP.
    #[error(
        "`{0}` is not where a redirect can lead: it begins with one `/`, `https://` or `http://`"
    )]
    Start(String),
    /// The target's host is missing, or is what a client sends.
    #[error(
        "`{0}` is not where a redirect can lead: it names no host, or lets the request choose it"
    )]
    Host(String),
    /// Characters that no URL has.
    #[error("`{}` is not a URL: expected ASCII, other characters as `%` and two digits", .0.escape_debug())]
    Characters(String),
    /// A brace without its other.
    #[error(
        "`{0}` has a brace without its other: expected {{host}}, {{path}}, {{query}} or {{rest}}"
    )]
    Braces(String),
    /// No part of a request has this name.
    #[error(
        "`{{{0}}}` is no part of a request: expected {{host}}, {{path}}, {{query}} or {{rest}}"
    )]
    Placeholder(String),
}

impl BadTarget {
    /// Returns what may have been meant.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Placeholder(name) => did_you_mean(name, PLACEHOLDERS),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolve(target: &str, path: &str, query: Option<&str>, rest: &str) -> String {
        let target: RedirectTarget = target.parse().unwrap();
        let host = "example.org";
        target.resolve(Requested {
            host,
            path,
            query,
            rest,
        })
    }

    #[test]
    fn parts_of_the_request_stand_in_the_target() {
        let query = Some("q=1");
        assert_eq!(
            resolve("https://www.{host}{path}{query}", "/a", query, "a"),
            "https://www.example.org/a?q=1"
        );
        assert_eq!(resolve("/new/{rest}", "/old/a/b", None, "a/b"), "/new/a/b");
        assert_eq!(resolve("/{query}", "/", None, ""), "/");
    }

    #[test]
    fn no_request_leads_to_another_host() {
        assert_eq!(
            resolve("/{rest}", "/old//evil.example", None, "/evil.example"),
            "/evil.example"
        );
        assert_eq!(
            resolve("{path}", "//evil.example", None, ""),
            "/evil.example"
        );
        for open in [
            "https://{rest}",
            "https://a{rest}.org/",
            "https://{path}",
            "//a",
            "https://a{query}",
        ] {
            assert!(open.parse::<RedirectTarget>().is_err(), "{open}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for text in [
            "", "a", "ftp://a", "/a b", "/ü", "/{", "/}", "/{pth}", "/{}", "https://",
        ] {
            assert!(text.parse::<RedirectTarget>().is_err(), "{text}");
        }
        let error = "/{pth}".parse::<RedirectTarget>().unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean `path`?"));
    }

    proptest! {
        #[test]
        fn a_path_of_the_same_site_stays_one(target in "/[a{}path rest/\\\\]{0,12}", path in "[/\\\\a]{0,6}") {
            if let Ok(target) = target.parse::<RedirectTarget>() {
                let url = target.resolve(Requested { host: "h", path: &path, query: None, rest: &path });
                prop_assert!(url.starts_with('/') && !url.starts_with("//") && !url.starts_with("/\\"));
            }
        }
    }
}
