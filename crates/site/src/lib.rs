//! The sites of a configuration as something that a server serves: routes, the actions behind them, certificates,
//! and the policy of each name.
//!
//! [`site`] makes one [`altway_serve::Site`] of a [`Plan`], in which a [`Router`] finds a request's site by its
//! host and its route by its path; [`certificates`] reads what the sites name; [`hosts`] says which names are decided
//! for by which policy. A running server is given all three again when its configuration has changed. Left to
//! others: listening, limits and logs, which are the server's as a whole.

mod answers;
mod certificates;
mod error;
mod files;
mod proxy;
mod router;
mod secret;
mod uncovered_names;
mod upload;

pub use certificates::{certificates, own_names, with_client_auth};
pub use error::Error;
pub use files::options as files_options;
pub use proxy::{check as check_proxy, options as upstream_options};
use router::RouteEntry;
pub use router::Router;
pub use secret::SecretError;
pub use uncovered_names::{UncoveredNames, uncovered_names};
pub use upload::{UPLOAD_BYTES, UploadFolderError, check as check_upload};

use altway_config::{Action, PathPattern, Plan, Route, Site as SitePlan};
use altway_proxy::Statistics;
use altway_serve::{HostPolicy, Site};
use answers::{Answers, Respond};
use http::StatusCode;
use std::sync::Arc;
use upload::Uploads;

/// The sites of a plan, told apart by a [`Router`]. Opens the folders of uploads, and nothing else yet.
///
/// A request for a host that no site has is answered 421 (Misdirected Request, RFC 9110 section 15.5.20); one for
/// which its site has no route 404, with the site's fields; one whose path a server behind could read as that of another
/// route 400. A default site whose one route has every path needs no
/// router.
///
/// # Errors
/// [`Error`].
pub fn site(plan: &Plan) -> Result<Site, Error> {
    site_counted(plan, &Arc::default())
}

/// The same; what its routes with `proxy` do is counted in `statistics`.
///
/// # Errors
/// [`Error`].
pub fn site_counted(plan: &Plan, statistics: &Arc<Statistics>) -> Result<Site, Error> {
    if let [only] = plan.sites()
        && let [route] = &only.routes[..]
        && only.is_default
        && route.path == PathPattern::All
    {
        return target(plan, only, route, statistics);
    }
    let mut targets = Vec::new();
    let mut router = Router::new();
    for site in plan.sites() {
        let mut routes = Vec::with_capacity(site.routes.len());
        for route in &site.routes {
            routes.push(RouteEntry {
                pattern: route.path.clone(),
                target: targets.len(),
                is_proxied: matches!(route.action, Action::Proxy(_)),
            });
            targets.push(target(plan, site, route, statistics)?);
        }
        let none = targets.len();
        let not_found = Respond::status(StatusCode::NOT_FOUND, &site.headers);
        targets.push(Site::service(Answers::Respond(not_found)));
        router.add(site, routes, none);
    }
    router.set_nobody(targets.len());
    let misdirected = Respond::status(StatusCode::MISDIRECTED_REQUEST, &[]);
    targets.push(Site::service(Answers::Respond(misdirected)));
    router.set_ambiguous(targets.len());
    let ambiguous = Respond::status(StatusCode::BAD_REQUEST, &[]);
    targets.push(Site::service(Answers::Respond(ambiguous)));
    Ok(Site::dispatched(router, targets))
}

fn target(
    plan: &Plan,
    site: &SitePlan,
    route: &Route,
    statistics: &Arc<Statistics>,
) -> Result<Site, Error> {
    Ok(match &route.action {
        Action::Files(files) => files::site(site, route, files)?,
        Action::Proxy(proxy) => {
            let limits = &plan.config().limits;
            Site::responder(proxy::service(site, route, proxy, limits, statistics)?)
        }
        Action::Redirect(redirect) => {
            Site::service(Answers::redirect(site, route, redirect.clone()))
        }
        Action::Respond(respond) => Site::service(Answers::respond(site, route, respond)),
        Action::Upload(upload) => {
            let client_prefix = plan.config().limits.client_prefix;
            Site::service(Uploads::new(site, route, upload, client_prefix)?)
        }
        action => unreachable!("an action that this crate does not know: {action:?}"),
    })
}

/// The names of the sites with their policies, for [`Options::hosts`](altway_serve::Options::hosts).
#[must_use]
pub fn hosts(plan: &Plan) -> Vec<HostPolicy> {
    let of = |site: &SitePlan| {
        let names = site.names.iter().map(ToString::to_string);
        let named = |name| {
            let mut host = HostPolicy::new(name, site.policy.clone());
            host.beacon = site.beacon;
            host
        };
        names.map(named).collect::<Vec<_>>()
    };
    plan.sites().iter().flat_map(of).collect()
}
