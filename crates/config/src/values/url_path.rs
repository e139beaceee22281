//! Paths of pages that a configuration names.

use std::fmt;
use std::str::FromStr;

/// The path of a page within a site, as a browser shows it: it begins with `/` and has no query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UrlPath(String);

impl UrlPath {
    /// The path, with its `/` in front.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for UrlPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for UrlPath {
    type Err = BadUrlPath;

    fn from_str(text: &str) -> Result<Self, BadUrlPath> {
        let is_path = text.starts_with('/')
            && !text.ends_with('/')
            && !text.contains(['?', '#', '%', '*', '\\'])
            && !text.contains(char::is_control)
            && text
                .split('/')
                .skip(1)
                .all(|part| !matches!(part, "" | "." | ".."));
        if is_path {
            Ok(Self(text.into()))
        } else {
            Err(BadUrlPath(text.into()))
        }
    }
}

/// A text that is not the path of a page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the path of a page: expected one like `/404.html`", .0.escape_debug())]
pub struct BadUrlPath(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_from_the_root_and_stays_below_it() {
        for text in ["/index.html", "/errors/404.html", "/über.html"] {
            assert_eq!(text.parse::<UrlPath>().unwrap().as_str(), text);
        }
        for text in [
            "",
            "/",
            "index.html",
            "/a/",
            "/../a",
            "/a//b",
            "/a?b",
            "/a%20b",
            "/*",
        ] {
            assert!(text.parse::<UrlPath>().is_err(), "{text}");
        }
    }
}
