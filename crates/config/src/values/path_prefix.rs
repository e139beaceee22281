//! Beginnings of paths that a proxy takes away or puts in front.

use std::fmt;
use std::str::FromStr;

/// The beginning of a path, of whole segments: `/api`, `/v2/users`. It begins with `/` and does not end with one.
///
/// The characters stand for themselves: letters, digits and `-._~!$&'()+,;=:@` (RFC 3986 section 3.3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathPrefix(String);

impl PathPrefix {
    /// The text, with its `/` in front.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for PathPrefix {
    type Err = BadPathPrefix;

    fn from_str(text: &str) -> Result<Self, BadPathPrefix> {
        let of_a_segment =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=:@".contains(&byte);
        let is_segment = |it: &str| !matches!(it, "" | "." | "..") && it.bytes().all(of_a_segment);
        let bad = |reason| {
            Err(BadPathPrefix {
                text: text.into(),
                reason,
            })
        };
        let Some(segments) = text.strip_prefix('/') else {
            return bad("it begins with `/`");
        };
        if text.ends_with('/') {
            return bad("it ends before a `/`, which stays");
        }
        if text.contains('*') {
            return bad("it is for all paths below it, without `*`");
        }
        match segments.split('/').all(is_segment) {
            true => Ok(Self(text.into())),
            false => {
                bad("between its slashes are letters, digits and `-._~!$&'()+,;=:@`, and no `..`")
            }
        }
    }
}

/// A text that paths can't begin with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the beginning of a path: {reason}", text.escape_debug())]
pub struct BadPathPrefix {
    text: String,
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_whole_segments() {
        for text in ["/api", "/v2/users", "/~me", "/a.b;c=1"] {
            assert_eq!(text.parse::<PathPrefix>().unwrap().to_string(), text);
        }
        for text in [
            "", "/", "api", "/api/", "/api/*", "//a", "/a//b", "/a/../b", "/.", "/a%20b", "/a b",
            "/a?b", "/ü",
        ] {
            assert!(text.parse::<PathPrefix>().is_err(), "{text}");
        }
    }
}
