//! Redirects that never end: checked by following one as a browser does.

use crate::values::{RedirectTarget, Requested};
use crate::{Action, Config, Listen, PathPattern, Redirect, Route, Security, Site, SiteName};
use std::num::NonZeroU16;

/// Redirects in a row after which a browser gives up.
const MAX_REDIRECTS: usize = 20;

/// Text in the place of `*` in the path that is followed: nothing that another route would name.
const ANY: &str = "~";

/// The port of `https` that URLs leave out.
const HTTPS_PORT: u16 = 443;

/// Returns true if clients that come to the route `index` of a site are led back to that route again and again.
pub(super) fn is_endless(config: &Config, site: &Site, index: usize) -> bool {
    let Action::Redirect(redirect) = &site.routes[index].action else {
        return false;
    };
    let pattern = &site.routes[index].path;
    let has_rest = matches!(pattern, PathPattern::Prefix(_) | PathPattern::All);
    if !has_rest && redirect.to.to_string().contains("{rest}") {
        // A fault by itself.
        return false;
    }
    let Some(target) = within_site(config, site, redirect) else {
        return false;
    };
    let mut path = a_path_of(pattern);
    for _ in 0..MAX_REDIRECTS {
        if first(&site.routes, &path) != Some(index) {
            return false;
        }
        let next = target.resolve(Requested {
            host: "",
            path: &path,
            query: None,
            rest: pattern.rest(&path),
        });
        let end = next.find(['?', '#']).unwrap_or(next.len());
        path = next[..end].to_owned();
    }
    true
}

fn first(routes: &[Route], path: &str) -> Option<usize> {
    routes.iter().position(|route| route.path.matches(path))
}

fn a_path_of(pattern: &PathPattern) -> String {
    match pattern {
        PathPattern::All => format!("/{ANY}"),
        PathPattern::Exact(path) => path.clone(),
        PathPattern::Prefix(prefix) => format!("{prefix}{ANY}"),
        PathPattern::Suffix(suffix) => format!("/{ANY}{suffix}"),
    }
}

/// The target as a path of the site; `None`: it leads elsewhere, or may do so.
fn within_site(config: &Config, site: &Site, redirect: &Redirect) -> Option<RedirectTarget> {
    if redirect.to.is_of_the_same_site() {
        return Some(redirect.to.clone());
    }
    let target = redirect.to.to_string();
    let rest = target.strip_prefix("https://")?;
    let end = rest.find(['/', '{', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.strip_suffix(":443").unwrap_or(authority);
    let is_own = has_https_port(&config.listen) && is_named(config, site, host);
    // What follows a `{host}` in the place of the host is the request's to choose.
    let is_path = path.is_empty() || path.starts_with('/') || path.starts_with("{path}");
    let path = match path {
        "" => "/",
        path => path,
    };
    (is_own && is_path).then(|| path.parse().ok()).flatten()
}

/// Returns true if a site has the requests for a host: by its name, or by a wildcard where no other site has that name.
fn is_named(config: &Config, site: &Site, host: &str) -> bool {
    let named = |site: &Site, is_exact: bool| {
        let is_meant = |name: &SiteName| name.exact().is_some() == is_exact && name.matches(host);
        site.names.iter().any(is_meant)
    };
    let is_elsewhere = || config.sites.iter().any(|site| named(site, true));
    named(site, true) || named(site, false) && !is_elsewhere()
}

/// Returns true if clients of a URL without a port come to this server.
fn has_https_port(listen: &Listen) -> bool {
    let mut secure = listen
        .listeners
        .iter()
        .filter(|it| it.security == Security::Tls);
    secure.any(|it| {
        let seen = it.alt_svc_port.or(listen.alt_svc_port);
        seen.map_or(it.address.port, NonZeroU16::get) == HTTPS_PORT
    })
}
