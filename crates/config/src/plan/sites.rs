//! Checks of what does not go together in sites and between them.

use super::check::Check;
use super::redirects::is_endless;
use crate::{
    Action, Config, Files, MAX_RESPONSE_BODY, MAX_ROUTES, MAX_SITES, PathPattern, Protocol,
    Redirect, Respond, Route, Site, SiteName,
};
use altway_select::ModelKind;
use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

impl Check<'_> {
    pub(super) fn sites(&mut self, config: &Config) {
        let count = config.sites.len();
        // What was said and could not be read has its own fault, here and below.
        if count == 0 && !self.is_set("site") {
            self.fault(
                "",
                "no [[site]] says what is served",
                "add [[site]] with `default = true` and a [[site.route]] with `files = \"DIR\"`",
            );
        }
        if count > MAX_SITES {
            let hint = "serve the others from another process";
            self.fault(
                "",
                format!("there are {count} sites, more than {MAX_SITES}"),
                hint,
            );
            return;
        }
        self.names(&config.sites);
        self.defaults(&config.sites);
        for (index, site) in config.sites.iter().enumerate() {
            self.site(config, site, &format!("site.{index}"));
        }
    }

    fn names(&mut self, sites: &[Site]) {
        let mut seen: HashMap<&SiteName, String> = HashMap::new();
        for (index, site) in sites.iter().enumerate() {
            for (at, name) in site.names.iter().enumerate() {
                let path = format!("site.{index}.names.{at}");
                let Some(first) = seen.get(name) else {
                    seen.insert(name, path);
                    continue;
                };
                let first = self.at(first);
                self.fault(
                    &path,
                    format!("the name `{name}` is taken already{first}"),
                    "a name is of one site: remove it from the other, or join the two",
                );
            }
        }
    }

    fn defaults(&mut self, sites: &[Site]) {
        let path = |index: usize| format!("site.{index}.default");
        let mut defaults = sites.iter().enumerate().filter(|(_, site)| site.is_default);
        let Some((first, _)) = defaults.next() else {
            return;
        };
        for (index, _) in defaults {
            let first = self.at(&path(first));
            self.fault(
                &path(index),
                format!("there is a default site already{first}"),
                "one site has the requests that no name is for: leave `default` out of the others",
            );
        }
    }

    fn site(&mut self, config: &Config, site: &Site, path: &str) {
        let said = |key: &str| self.is_set(&format!("{path}.{key}"));
        let (names, routes) = (said("names"), said("route"));
        if site.names.is_empty() && !site.is_default && !names {
            self.fault(
                path,
                "the site has no names, so no request comes to it",
                "give `names = [\"example.org\"]`, or `default = true`",
            );
        }
        if site.routes.is_empty() && !routes {
            self.fault(
                path,
                "the site has no routes, so every request would be answered 404",
                "add [[site.route]] with `files`, `proxy`, `redirect`, `respond` or `upload`",
            );
        }
        if site.routes.len() > MAX_ROUTES {
            let count = site.routes.len();
            let hint = "patterns like `/api/*` and `*.png` say much in one";
            self.fault(
                path,
                format!("the site has {count} routes, more than {MAX_ROUTES}"),
                hint,
            );
            return;
        }
        self.transport_of(config, site, path);
        self.reachable(&site.routes, path);
        for (index, route) in site.routes.iter().enumerate() {
            let path = format!("{path}.route.{index}");
            self.route(route, &path);
            if is_endless(config, site, index) {
                self.endless(route, &path);
            }
        }
    }

    fn transport_of(&mut self, config: &Config, site: &Site, path: &str) {
        let (clear, protocols) = (self.is_clear_text(&config.listen), config.listen.protocols);
        if clear && !site.certificates.is_empty() {
            self.fault(
                &format!("{path}.certificate"),
                "the site has a certificate, and the server listens in clear text only",
                "leave `certificate` out, or listen with `https`",
            );
        }
        if site.client_certificates.is_some() {
            let key = format!("{path}.client-certificates");
            let has_name = site.names.iter().any(|name| !name.is_address());
            if clear {
                self.fault(
                    &key,
                    "the site asks for clients' certificates, and the server listens in clear text only",
                    "leave `client-certificates` out, or listen with `https`",
                );
            } else if !(has_name
                || site.is_default
                || site.names.is_empty()
                || has_unnamed_clients(config, site))
            {
                self.fault(
                    &key,
                    "clients that connect to an address say no name, and count as those of the first site that has an address",
                    "give the site a host name, or `default = true`",
                );
            }
        }
        if site.policy == ModelKind::FixedH3 && !clear && !protocols.contains(Protocol::H3) {
            self.fault(
                &format!("{path}.policy"),
                "the policy `h3` offers HTTP/3, which `protocols` in [listen] leaves out",
                "add `h3` to `protocols`, or take another policy",
            );
        }
    }

    /// The first route that matches has a request: one whose paths an earlier one has all has none.
    fn reachable(&mut self, routes: &[Route], path: &str) {
        for (index, route) in routes.iter().enumerate() {
            let before = &routes[..index];
            let Some(first) = before
                .iter()
                .position(|other| other.path.covers(&route.path))
            else {
                continue;
            };
            let (own, other) = (&route.path, &routes[first].path);
            let place = self.route_at(path, first);
            self.fault(
                &self.path_of_route(path, index),
                format!("the route never has a request: an earlier one, `{other}`{place}, has all of `{own}`"),
                "the first route that matches counts: put the narrower one first",
            );
        }
    }

    /// Returns the path of a route's pattern, or of the route where that is left out.
    fn path_of_route(&self, site: &str, index: usize) -> String {
        let route = format!("{site}.route.{index}");
        let pattern = format!("{route}.path");
        if self.is_set(&pattern) {
            pattern
        } else {
            route
        }
    }

    fn route_at(&self, site: &str, index: usize) -> String {
        self.at(&self.path_of_route(site, index))
    }

    fn route(&mut self, route: &Route, path: &str) {
        match &route.action {
            Action::Files(files) => self.files(files, path),
            Action::Proxy(proxy) => self.proxy(proxy, &route.path, path),
            Action::Redirect(redirect) => self.redirect(redirect, &route.path, path),
            Action::Respond(respond) => self.respond(respond, path),
            Action::Upload(upload) => self.upload(upload, &route.path, path),
        }
    }

    fn files(&mut self, files: &Files, path: &str) {
        self.twice(&files.index, path, "index");
        self.twice(&files.precompressed, path, "precompressed");
        self.twice(&files.compress, path, "compress");
        for (index, rule) in files.cache.iter().enumerate() {
            let earlier = files.cache[..index]
                .iter()
                .find(|other| other.path.covers(&rule.path));
            if let Some(earlier) = earlier {
                self.fault(
                    &format!("{path}.cache.{index}"),
                    format!(
                        "the rule for `{}` never counts: an earlier one, `{}`, has all its paths",
                        rule.path, earlier.path
                    ),
                    "the first rule that matches counts: put the narrower one first",
                );
            }
        }
        for (index, page) in files.error_pages.iter().enumerate() {
            let status = page.status;
            if !(400..=599).contains(&status) {
                self.fault(
                    &format!("{path}.error-pages.{index}"),
                    format!("`{status}` is not the status of an error: expected 400 to 599"),
                    "like `error-pages = { 404 = \"/404.html\" }`",
                );
            }
            if files.error_pages[..index]
                .iter()
                .any(|other| other.status == status)
            {
                let hint = "leave one of them out";
                self.fault(
                    &format!("{path}.error-pages.{index}"),
                    format!("there is a page for {status} already"),
                    hint,
                );
            }
        }
    }

    pub(super) fn twice<T: Eq + Hash + Display>(&mut self, values: &[T], path: &str, key: &str) {
        let mut seen = std::collections::HashSet::new();
        for (index, value) in values.iter().enumerate() {
            if !seen.insert(value) {
                self.fault(
                    &format!("{path}.{key}.{index}"),
                    format!("`{value}` stands twice in `{key}`"),
                    "leave one of them out",
                );
            }
        }
    }

    fn redirect(&mut self, redirect: &Redirect, pattern: &PathPattern, path: &str) {
        let (to, status) = (&redirect.to, redirect.status);
        let target = to.to_string();
        if !Redirect::STATUSES.contains(&status) {
            self.fault(
                &format!("{path}.redirect.status"),
                format!(
                    "`{status}` is not the status of a redirect: expected 301, 302, 303, 307 or 308"
                ),
                "308 is permanent, 307 for now; with 303 the client comes with GET",
            );
        }
        let has_rest = matches!(pattern, PathPattern::Prefix(_) | PathPattern::All);
        if target.contains("{rest}") && !has_rest {
            self.fault(
                &format!("{path}.redirect.to"),
                format!("`{{rest}}` is what `*` stands for in a route like `/old/*`, and this one is `{pattern}`"),
                "take `{path}` for the whole path",
            );
        }
    }

    fn endless(&mut self, route: &Route, path: &str) {
        let (target, pattern) = match &route.action {
            Action::Redirect(redirect) => (&redirect.to, &route.path),
            _ => return,
        };
        let (again, hint) = match target.is_of_the_same_site() {
            true => (
                "is one of the paths of its own route",
                "lead to a path that another route has, or to another host",
            ),
            false => (
                "leads to its own site and route",
                "have another [[site]] for the names that are led on",
            ),
        };
        self.fault(
            &format!("{path}.redirect.to"),
            format!("the redirect never ends: `{target}` {again}, `{pattern}`"),
            hint,
        );
    }

    fn respond(&mut self, respond: &Respond, path: &str) {
        let status = respond.status;
        if !(200..=599).contains(&status) {
            self.fault(
                &format!("{path}.respond.status"),
                format!("`{status}` is not the status of an answer: expected 200 to 599"),
                "200 is the default",
            );
        }
        if matches!(status, 204 | 205 | 304) && !respond.body.is_empty() {
            self.fault(
                &format!("{path}.respond.body"),
                format!("a response with status {status} has no body"),
                "leave `body` out, or take another status",
            );
        }
        if respond.body.len() > MAX_RESPONSE_BODY {
            self.fault(
                &format!("{path}.respond.body"),
                format!("`body` is longer than {MAX_RESPONSE_BODY} bytes"),
                "put it into a file, and serve that with `files`",
            );
        }
    }
}

/// Returns true if clients that say no name are those of this site: the first that has an address, the default site before
/// others.
fn has_unnamed_clients(config: &Config, site: &Site) -> bool {
    let of = |is_default| {
        config
            .sites
            .iter()
            .filter(move |it| it.is_default == is_default)
    };
    let mut in_order = of(true).chain(of(false));
    let first = in_order.find(|site| site.names.iter().any(SiteName::is_address));
    first.is_some_and(|first| std::ptr::eq(first, site))
}
