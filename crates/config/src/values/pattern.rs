//! Patterns of the paths that a route or a rule is for.

use std::fmt;
use std::str::FromStr;

/// Paths of requests, compared with a request's path after percent-decoding, in the same case.
///
/// Text form: `/about` (this path alone), `/api/*` (what begins with `/api/`, that itself included),
/// `*.png` (what ends so), `/*` (every path).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum PathPattern {
    /// Every path.
    #[default]
    All,
    /// This path alone.
    Exact(String),
    /// Paths that begin so; it begins and ends with `/`.
    Prefix(String),
    /// Paths that end so; it begins with `.`.
    Suffix(String),
}

impl PathPattern {
    /// Returns true if the path, decoded and without its query, is meant.
    #[must_use]
    pub fn matches(&self, path: impl AsRef<[u8]>) -> bool {
        let path = path.as_ref();
        match self {
            Self::All => true,
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            Self::Suffix(suffix) => path.ends_with(suffix.as_bytes()),
        }
    }

    /// Returns the part of a matching path that `*` stands for: of a prefix the part after it, of every
    /// path the part after its first `/`, else the whole path.
    #[must_use]
    pub fn rest<'p>(&self, path: &'p str) -> &'p str {
        match self {
            Self::Prefix(prefix) => path.strip_prefix(prefix.as_str()).unwrap_or(path),
            Self::All => path.strip_prefix('/').unwrap_or(path),
            Self::Exact(_) | Self::Suffix(_) => path,
        }
    }

    /// Returns true if every path of `other` is one of this pattern's too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (_, Self::Exact(path)) => self.matches(path),
            (Self::Prefix(whole), Self::Prefix(part)) => part.starts_with(whole.as_str()),
            (Self::Suffix(whole), Self::Suffix(part)) => part.ends_with(whole.as_str()),
            _ => false,
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("/*"),
            Self::Exact(path) => f.pad(path),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Suffix(suffix) => write!(f, "*{suffix}"),
        }
    }
}

impl FromStr for PathPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = |reason| {
            Err(BadPattern {
                pattern: text.into(),
                reason,
            })
        };
        if let Some(reason) = never_in_a_path(text) {
            return bad(reason);
        }
        if let Some(suffix) = text.strip_prefix('*') {
            let is_ending = suffix.starts_with('.') && suffix.len() > 1;
            if !is_ending || suffix.contains(['*', '/']) {
                return bad("a `*` at the beginning is followed by an ending, like `*.png`");
            }
            return Ok(Self::Suffix(suffix.into()));
        }
        if !text.starts_with('/') {
            return bad("it begins with `/`, or is an ending like `*.png`");
        }
        let (path, is_prefix) = match text.strip_suffix('*') {
            Some(path) => (path, true),
            None => (text, false),
        };
        if path.contains('*') || (is_prefix && !path.ends_with('/')) {
            return bad(
                "a `*` stands after the last `/`, like `/api/*`, or before an ending, like `*.png`",
            );
        }
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return bad("no request has a path with `.` or `..` between slashes");
        }
        Ok(match (path, is_prefix) {
            ("/", true) => Self::All,
            (path, true) => Self::Prefix(path.into()),
            (path, false) => Self::Exact(path.into()),
        })
    }
}

/// Returns the reason for which no decoded path has this in it, if there is one.
fn never_in_a_path(text: &str) -> Option<&'static str> {
    if text.contains(['?', '#']) {
        return Some("queries are not looked at: leave out what begins with `?` or `#`");
    }
    if text.contains('%') {
        return Some("characters stand for themselves: write them without `%`");
    }
    text.contains(char::is_control)
        .then_some("it has a control character in it")
}

/// A text that is no pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a pattern of paths: {reason}", pattern.escape_debug())]
pub struct BadPattern {
    /// Pattern that was found.
    pattern: String,
    /// Fault of the pattern.
    reason: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> PathPattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_mean_a_path_a_beginning_or_an_ending() {
        assert!(pattern("/about").matches("/about"));
        assert!(!pattern("/about").matches("/about/"));
        assert!(pattern("/api/*").matches("/api/"));
        assert!(pattern("/api/*").matches("/api/a/b"));
        assert!(!pattern("/api/*").matches("/api"));
        assert!(pattern("*.tar.gz").matches("/x/y.tar.gz"));
        assert!(pattern("/*").matches("/"));
        assert_eq!(pattern("/api/*").rest("/api/a/b"), "a/b");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_reason() {
        for (text, reason) in [
            ("api", "begins with `/`"),
            ("", "begins with `/`"),
            ("/api*", "after the last `/`"),
            ("/*/x", "after the last `/`"),
            ("/a/*.png", "after the last `/`"),
            ("*png", "followed by an ending"),
            ("*", "followed by an ending"),
            ("*.", "followed by an ending"),
            ("/a?b", "queries"),
            ("/a%20b", "without `%`"),
            ("/a/../b", "no request has"),
        ] {
            let error = text.parse::<PathPattern>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_that_covers_another_matches_what_it_matches(
            first in "(/[ab]{0,2}){1,2}(/\\*)?|\\*\\.[ab]{1,2}",
            second in "(/[ab]{0,2}){1,2}(/\\*)?|\\*\\.[ab]{1,2}",
            path in "(/[ab.]{0,2}){1,3}",
        ) {
            let (first, second) = (pattern(&first), pattern(&second));
            prop_assert_eq!(pattern(&first.to_string()), first.clone());
            prop_assert!(!(first.covers(&second) && second.matches(&path)) || first.matches(&path));
        }
    }
}
