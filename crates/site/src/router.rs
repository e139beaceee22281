//! Finding the site and the route of a request, by its host and path.

use altway_config::{PathPattern, Site};
use altway_serve::Dispatch;
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Finds a request's site by its host, and its route by its path: a look-up by name, then the site's patterns in
/// their order, of which the first that matches has the request.
#[derive(Debug, Default)]
pub struct Router {
    /// Sites by host names in lower case, and addresses as requests write them.
    exact: FxHashMap<Box<[u8]>, usize>,
    /// Sites by the part after `*.`.
    wildcard: FxHashMap<Box<[u8]>, usize>,
    default: Option<usize>,
    sites: Vec<Routes>,
    /// Answers requests for hosts that no site has.
    nobody: usize,
}

/// The routes of a site with the places of what answers.
#[derive(Debug)]
struct Routes {
    patterns: Vec<(PathPattern, usize)>,
    /// Answers where no pattern matches.
    none: usize,
}

impl Router {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a site with its routes; `none` answers where none of them matches.
    pub(crate) fn add(&mut self, site: &Site, patterns: Vec<(PathPattern, usize)>, none: usize) {
        let place = self.sites.len();
        self.sites.push(Routes { patterns, none });
        for name in &site.names {
            if let Some(exact) = name.exact() {
                self.exact.insert(exact.into_bytes().into(), place);
            } else if let Some(parent) = name.wildcard() {
                self.wildcard.insert(parent.as_bytes().into(), place);
            }
        }
        if site.is_default {
            self.default = Some(place);
        }
    }

    /// Says what answers requests for hosts that no site has.
    pub(crate) fn set_nobody(&mut self, nobody: usize) {
        self.nobody = nobody;
    }

    fn site(&self, authority: &[u8]) -> Option<&Routes> {
        let host = host(authority);
        let exact = || self.exact.get(&*host);
        let wildcard = || {
            let dot = host.iter().position(|byte| *byte == b'.')?;
            // One label, which is not empty.
            (dot > 0).then(|| self.wildcard.get(&host[dot + 1..]))?
        };
        let place = exact().or_else(wildcard).copied().or(self.default)?;
        self.sites.get(place)
    }
}

impl Dispatch for Router {
    fn dispatch(&self, authority: &[u8], path: &[u8]) -> Option<usize> {
        let Some(site) = self.site(authority) else {
            return Some(self.nobody);
        };
        // Patterns are text, and match no path that is none.
        let path = String::from_utf8_lossy(path);
        let mut patterns = site.patterns.iter();
        let found = patterns.find(|(pattern, _)| pattern.matches(&path));
        Some(found.map_or(site.none, |(_, target)| *target))
    }

    fn knows(&self, authority: &[u8]) -> bool {
        self.site(authority).is_some()
    }

    fn has_route(&self, authority: &[u8], path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        let site = self.site(authority);
        site.is_some_and(|site| site.patterns.iter().any(|(it, _)| it.matches(&path)))
    }
}

/// The host of an authority: without port and last dot, in lower case.
fn host(authority: &[u8]) -> Cow<'_, [u8]> {
    let is_address = authority.first() == Some(&b'[');
    let end = match is_address {
        true => authority
            .iter()
            .position(|byte| *byte == b']')
            .map(|it| it + 1),
        false => authority.iter().position(|byte| *byte == b':'),
    };
    let host = &authority[..end.unwrap_or(authority.len())];
    let host = host.strip_suffix(b".").unwrap_or(host);
    match host.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(names: &[&str], is_default: bool) -> Site {
        Site {
            names: names.iter().map(|name| name.parse().unwrap()).collect(),
            is_default,
            ..Site::default()
        }
    }

    /// Two sites, and 99 for nobody.
    fn router(is_default: bool) -> Router {
        let mut router = Router::new();
        let patterns = [("/api/*", 1), ("*.png", 2), ("/*", 3)];
        let patterns = patterns.map(|(pattern, target)| (pattern.parse().unwrap(), target));
        router.add(
            &site(&["a.example", "[2001:db8::1]"], false),
            patterns.into(),
            4,
        );
        router.add(
            &site(&["b.example", "*.b.example"], is_default),
            Vec::new(),
            10,
        );
        router.set_nobody(99);
        router
    }

    #[test]
    fn the_first_pattern_that_matches_has_the_request() {
        let router = router(false);
        let target = |path: &[u8]| router.dispatch(b"a.example", path);
        for (path, expected) in [
            (&b"/api/x.png"[..], 1),
            (b"/api", 3),
            (b"/x.png", 2),
            (b"/", 3),
            (b"/\xff.png", 2),
        ] {
            assert_eq!(target(path), Some(expected), "{path:?}");
        }
    }

    #[test]
    fn hosts_are_compared_as_names_are() {
        let router = router(false);
        let target = |authority: &str| router.dispatch(authority.as_bytes(), b"/").unwrap();
        for (authority, expected) in [
            ("a.example", 3),
            ("A.Example.:8443", 3),
            ("[2001:db8::1]:443", 3),
            ("b.example", 10),
            ("x.b.example", 10),
            ("x.y.b.example", 99),
            (".b.example", 99),
            ("c.example", 99),
            ("", 99),
        ] {
            assert_eq!(target(authority), expected, "{authority}");
        }
    }

    #[test]
    fn the_default_site_has_what_no_site_has() {
        assert_eq!(router(true).dispatch(b"c.example", b"/"), Some(10));
        assert_eq!(router(true).dispatch(b"", b"/"), Some(10));
        assert_eq!(router(true).dispatch(b"a.example", b"/"), Some(3));
    }
}
