//! Routes that are carried to other servers: the words of a configuration as those of the proxy.

use crate::Error;
use crate::answers::fields_of;
use altway_config::{Balance as BalancePlan, Proxy as ProxyPlan, Route, Site};
use altway_config::{Upstream, UpstreamPlace};
use altway_proxy::{Proxy, Settings, Statistics};
use altway_upstream::balance::{Balance, HashKey};
use altway_upstream::{Address, Check, Group, Options, Protocol, Roots, Server, Slowest};
use http::{HeaderName, HeaderValue};
use rustls::pki_types::ServerName;
use std::sync::Arc;

/// The service of a route; counts what it does in `statistics`.
pub(crate) fn service(
    site: &Site,
    route: &Route,
    proxy: &ProxyPlan,
    statistics: &Arc<Statistics>,
) -> Result<Proxy, Error> {
    let group = Group::new(options(proxy)?)?;
    let settings = Settings {
        trusted: proxy.trust.clone(),
        fields: fields_of(site, route),
        statistics: Arc::clone(statistics),
        pool: pool(site, route),
    };
    Ok(Proxy::new(group, settings))
}

/// The name of a route's servers in metrics: the site's first name, and the path.
fn pool(site: &Site, route: &Route) -> String {
    let name = site.names.first().map(ToString::to_string);
    format!("{}{}", name.unwrap_or_default(), route.path)
}

/// The options of the group of servers that a route names.
///
/// # Errors
/// A server's name is none that a certificate can be for.
pub fn options(proxy: &ProxyPlan) -> Result<Options, Error> {
    let servers = proxy
        .upstreams
        .iter()
        .map(server)
        .collect::<Result<_, _>>()?;
    let mut options = Options::new(servers);
    options.balance = match &proxy.balance {
        BalancePlan::RoundRobin => Balance::RoundRobin,
        BalancePlan::LeastRequests => Balance::LeastRequests,
        BalancePlan::HashClient => Balance::Hash(HashKey::Client),
        BalancePlan::HashField(name) => match HeaderName::try_from(name.as_str()) {
            Ok(name) => Balance::Hash(HashKey::Field(name)),
            // A checked plan has none of these.
            Err(_) => Balance::RoundRobin,
        },
    };
    options.check = proxy.health.as_ref().map(|health| Check {
        path: health.path.as_str().to_owned(),
        every: health.every,
    });
    options.attempts = proxy.retry.attempts;
    options.keep_body = proxy.retry.keep_body.as_bytes() as usize;
    let host = proxy.host.as_ref();
    options.host = host.and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    options.roots = proxy.roots.clone().map_or(Roots::System, Roots::File);
    options.max_requests = proxy.upstream_requests.min(MOST_REQUESTS);
    options.connect_timeout = proxy.timeouts.connect;
    options.head_timeout = proxy.timeouts.head;
    options.idle_timeout = proxy.timeouts.idle;
    options.slowest = proxy.timeouts.slowest.map(|rate| Slowest {
        bytes: rate.bytes(),
        time: rate.after(),
    });
    Ok(options)
}

/// The largest number that a worker can count; it never has as many.
const MOST_REQUESTS: usize = u32::MAX as usize;

fn server(upstream: &Upstream) -> Result<Server, Error> {
    let tls = match &upstream.place {
        UpstreamPlace::Tcp(host, _) if upstream.is_tls => {
            let name = ServerName::try_from(host.clone());
            Some(name.map_err(|_| Error::ServerName(host.clone()))?)
        }
        _ => None,
    };
    Ok(Server {
        address: match &upstream.place {
            UpstreamPlace::Tcp(host, port) => Address::Tcp(host.clone(), *port),
            UpstreamPlace::Unix(path) => Address::Unix(path.clone()),
        },
        protocol: match upstream.is_http2 {
            true => Protocol::Http2,
            false => Protocol::Http1,
        },
        tls,
    })
}
