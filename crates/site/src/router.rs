//! Finding the site and the route of a request, by its host and path.

use altway_config::{PathPattern, Site};
use altway_serve::{Dispatch, HostTable};

/// Finds a request's site by its host, and its route by its path: a look-up by name, then the site's patterns in
/// their order, of which the first that matches has the request.
///
/// A server behind may read a path otherwise than this one: those of Java take what follows a `;` in a segment for parameters
/// of it, so that `/a/..;/b` is `/b` there, and `/b;x/c` is `/b/c`. A path that would lead to another route by that reading
/// is answered by none of them where the route has a proxy.
#[derive(Debug, Default)]
pub struct Router {
    /// Places of the sites.
    places: HostTable<usize>,
    default: Option<usize>,
    sites: Vec<Routes>,
    /// Answers requests for hosts that no site has.
    nobody: usize,
    /// Answers requests whose path leads to another route where its parameters don't count.
    ambiguous: usize,
}

/// The routes of a site with the places of what answers.
#[derive(Debug)]
struct Routes {
    routes: Vec<RouteEntry>,
    /// Answers where no pattern matches.
    none: usize,
}

/// A route: its paths, and the place of what answers them.
#[derive(Debug, Clone)]
pub(crate) struct RouteEntry {
    pub(crate) pattern: PathPattern,
    pub(crate) target: usize,
    /// True if another server reads the path.
    pub(crate) is_proxied: bool,
}

impl Routes {
    fn find(&self, path: &[u8]) -> Option<&RouteEntry> {
        self.routes.iter().find(|it| it.pattern.matches(path))
    }

    /// Returns true if a server that reads parameters in `path`, for which there is the route `found`, may read a path for
    /// which there is another.
    fn is_ambiguous(&self, path: &[u8], found: &RouteEntry) -> bool {
        let has_every_path = |it: &RouteEntry| it.pattern == PathPattern::All;
        if !found.is_proxied
            || !path.contains(&b';')
            || self.routes.first().is_some_and(has_every_path)
        {
            return false;
        }
        let other = without_parameters(path);
        let other = other.and_then(|other| Some(self.find(&other)?.target));
        other != Some(found.target)
    }
}

/// A path without the parameters of its segments (RFC 3986 section 3.3), and without segments that are then empty. `None`:
/// one of them is `.` or `..` then, and the path may lead anywhere.
fn without_parameters(path: &[u8]) -> Option<Vec<u8>> {
    let mut read = Vec::with_capacity(path.len());
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split(|byte| *byte == b';').next();
        let name = name.unwrap_or_default();
        if matches!(name, b"." | b"..") {
            return None;
        }
        if !name.is_empty() || segments.peek().is_none() {
            read.push(b'/');
            read.extend_from_slice(name);
        }
    }
    Some(read)
}

impl Router {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a site with its routes; `none` answers where none of them matches.
    pub(crate) fn add(&mut self, site: &Site, routes: Vec<RouteEntry>, none: usize) {
        let place = self.sites.len();
        self.sites.push(Routes { routes, none });
        for name in &site.names {
            self.places.insert(&name.to_string(), place);
        }
        if site.is_default {
            self.default = Some(place);
        }
    }

    /// Says what answers requests for hosts that no site has.
    pub(crate) fn set_nobody(&mut self, nobody: usize) {
        self.nobody = nobody;
    }

    /// Says what answers requests whose path leads to another route where its parameters don't count.
    pub(crate) fn set_ambiguous(&mut self, ambiguous: usize) {
        self.ambiguous = ambiguous;
    }

    fn site(&self, host: Option<usize>) -> Option<&Routes> {
        self.sites.get(host?)
    }
}

impl Dispatch for Router {
    fn host(&self, authority: &[u8]) -> Option<usize> {
        self.places.find(authority).copied().or(self.default)
    }

    fn dispatch(&self, host: Option<usize>, path: &[u8]) -> Option<usize> {
        let Some(site) = self.site(host) else {
            return Some(self.nobody);
        };
        Some(match site.find(path) {
            Some(found) if site.is_ambiguous(path, found) => self.ambiguous,
            Some(found) => found.target,
            None => site.none,
        })
    }

    fn has_route(&self, host: Option<usize>, path: &[u8]) -> bool {
        let site = self.site(host);
        site.is_some_and(|site| site.find(path).is_some())
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

    /// Routes by pattern and target; those of odd targets have a proxy.
    fn routes(routes: &[(&str, usize)]) -> Vec<RouteEntry> {
        let routes = routes.iter().map(|(pattern, target)| RouteEntry {
            pattern: pattern.parse().unwrap(),
            target: *target,
            is_proxied: target % 2 == 1,
        });
        routes.collect()
    }

    /// Two sites, and 99 for nobody.
    fn router(is_default: bool) -> Router {
        let mut router = Router::new();
        router.add(
            &site(&["a.example", "[2001:db8::1]"], false),
            routes(&[("/api/*", 1), ("*.png", 2), ("/*", 3)]),
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

    fn dispatch(router: &Router, authority: &str, path: &[u8]) -> Option<usize> {
        router.dispatch(router.host(authority.as_bytes()), path)
    }

    #[test]
    fn the_first_pattern_that_matches_has_the_request() {
        let router = router(false);
        let target = |path: &[u8]| dispatch(&router, "a.example", path);
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
    fn a_path_whose_parameters_hide_another_route_is_passed_to_no_server() {
        const AMBIGUOUS: usize = 98;
        let mut router = Router::new();
        let several = routes(&[("/admin/*", 2), ("*.png", 4), ("/app/*", 1), ("/*", 3)]);
        router.add(&site(&["several.example"], false), several, 0);
        router.add(&site(&["part.example"], false), routes(&[("/app/*", 1)]), 0);
        router.add(&site(&["all.example"], false), routes(&[("/*", 1)]), 0);
        router.set_ambiguous(AMBIGUOUS);
        let target = |host: &str, path: &str| dispatch(&router, host, path.as_bytes());
        for (path, expected) in [
            ("/app/a;b=c/d;e", 1),
            ("/app;v=1/a", AMBIGUOUS),
            ("/a;jsessionid=1", 3),
            ("/a;b/;c", 3),
            ("/a;b=..;c=.", 3),
            ("/;a", 3),
            // Files are read here, by their whole name.
            ("/admin/a;b", 2),
            ("/a;b.png", 4),
            ("/app/..;/admin/x", AMBIGUOUS),
            ("/app/..;a=b/admin/x", AMBIGUOUS),
            ("/app/.;/x", AMBIGUOUS),
            ("/admin;a=b/x", AMBIGUOUS),
            ("/;a/admin/x", AMBIGUOUS),
            ("/x.png;a", AMBIGUOUS),
        ] {
            assert_eq!(target("several.example", path), Some(expected), "{path}");
        }
        assert_eq!(target("part.example", "/app/..;/x"), Some(AMBIGUOUS));
        assert_eq!(target("part.example", "/app/a;b"), Some(1));
        assert_eq!(target("part.example", "/app;b/a"), Some(0));
        assert_eq!(target("all.example", "/app/..;/x"), Some(1));
    }

    #[test]
    fn hosts_are_compared_as_names_are() {
        let router = router(false);
        let target = |authority: &str| dispatch(&router, authority, b"/").unwrap();
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
        assert_eq!(dispatch(&router(true), "c.example", b"/"), Some(10));
        assert_eq!(dispatch(&router(true), "", b"/"), Some(10));
        assert_eq!(dispatch(&router(true), "a.example", b"/"), Some(3));
    }
}
