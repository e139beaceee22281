//! Routes that are carried to other servers: the words of a configuration as those of the proxy.

use crate::answers::{fields_of, replace};
use crate::{Error, secret};
use altway_config::{Balance as BalancePlan, FieldChanges as FieldChangesPlan};
use altway_config::{FieldPattern as FieldPatternPlan, HeaderField, Limits, PathPrefix, TlsName};
use altway_config::{Proxy as ProxyPlan, Route, Site, Upstream, UpstreamPlace, UpstreamProtocol};
use altway_proxy::{Proxy, Settings, Statistics};
use altway_units::DataSize;
use altway_upstream::balance::{Balance, HashKey};
use altway_upstream::rewrite::{FieldChanges, FieldPattern, PathChange};
use altway_upstream::{
    Address, Check, ClientCertificate, Group, MinRate, Options, Protocol, Roots, Server,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::ServerName;
use std::sync::Arc;

/// The service of a route, under the limits of its server; counts what it does in `statistics`.
pub(crate) fn service(
    site: &Site,
    route: &Route,
    proxy: &ProxyPlan,
    limits: &Limits,
    statistics: &Arc<Statistics>,
) -> Result<Proxy, Error> {
    let pool = pool(site, route);
    let mut options = options(proxy)?;
    options.max_body = Some(limits.body_limit(site, proxy).as_bytes());
    let group = Group::after(options, statistics.group(&pool).as_ref())?;
    let text = |prefix: &Option<PathPrefix>| prefix.as_ref().map(|it| it.as_str().to_owned());
    let settings = Settings {
        client_prefix: limits.client_prefix,
        path: PathChange {
            strip: text(&proxy.strip_prefix),
            add: text(&proxy.add_prefix),
        },
        response_fields: changes(&proxy.response_headers),
        trusted: proxy.trust.clone(),
        fields: fields_of(site, route),
        statistics: Arc::clone(statistics),
        pool,
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
        .map(|upstream| server(upstream, proxy.server_name.as_ref()))
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
    options.request_fields = changes(&proxy.request_headers);
    options.roots = roots(proxy);
    options.client_certificate = client_certificate(proxy)?;
    options.send_proxy_protocol = proxy.send_proxy_protocol;
    options.max_body = proxy.max_body.map(DataSize::as_bytes);
    options.max_requests = proxy.upstream_requests.min(MOST_REQUESTS);
    options.connect_timeout = proxy.timeouts.connect;
    options.head_timeout = proxy.timeouts.head;
    options.idle_timeout = proxy.timeouts.idle;
    options.min_rate = proxy.timeouts.slowest.map(|rate| MinRate {
        bytes: rate.bytes(),
        time: rate.after(),
    });
    Ok(options)
}

fn roots(proxy: &ProxyPlan) -> Roots {
    proxy.roots.clone().map_or(Roots::System, Roots::File)
}

fn client_certificate(proxy: &ProxyPlan) -> Result<Option<ClientCertificate>, Error> {
    let Some(plan) = &proxy.client_certificate else {
        return Ok(None);
    };
    let (place, key) = secret::read(&plan.key)?;
    let read = ClientCertificate::from_pem(&plan.chain, &place, &key)?;
    Ok(Some(read))
}

/// Returns the faults of a route with `proxy`: the key that names each, and its error. Opens files, and connects to
/// nobody.
#[must_use]
pub fn check(proxy: &ProxyPlan) -> Vec<(&'static str, Error)> {
    let mut faults = Vec::new();
    if proxy.upstreams.iter().any(|it| it.is_tls)
        && let Err(error) = roots(proxy).check()
    {
        let key = if proxy.roots.is_some() {
            "roots"
        } else {
            "proxy"
        };
        faults.push((key, error.into()));
    }
    if let Err(error) = client_certificate(proxy) {
        faults.push(("client-certificate", error));
    }
    let names = proxy
        .upstreams
        .iter()
        .map(|it| server(it, proxy.server_name.as_ref()));
    if let Some(error) = names.filter_map(Result::err).next() {
        let key = if proxy.server_name.is_some() {
            "server-name"
        } else {
            "proxy"
        };
        faults.push((key, error));
    }
    faults
}

fn changes(plan: &FieldChangesPlan) -> FieldChanges {
    let pattern = |it: &FieldPatternPlan| match it.as_str().strip_suffix('*') {
        Some(prefix) => Some(FieldPattern::Prefix(prefix.to_owned())),
        // A checked plan has names only.
        None => it.as_str().parse().ok().map(FieldPattern::Name),
    };
    let fields = |new: &[HeaderField]| {
        let mut fields = HeaderMap::new();
        replace(&mut fields, new);
        fields
    };
    FieldChanges {
        remove: plan.remove.iter().filter_map(pattern).collect(),
        set: fields(&plan.set),
        append: fields(&plan.append),
    }
}

/// The largest number that a worker can count; it never has as many.
const MOST_REQUESTS: usize = u32::MAX as usize;

/// The name of a server in TLS: `asked_for`, or its host.
fn server(upstream: &Upstream, asked_for: Option<&TlsName>) -> Result<Server, Error> {
    let tls = match &upstream.place {
        UpstreamPlace::Tcp(host, _) if upstream.is_tls => {
            let name = asked_for.map_or(host.as_str(), TlsName::as_str);
            let read = ServerName::try_from(name.to_owned());
            Some(read.map_err(|_| Error::ServerName(name.to_owned()))?)
        }
        _ => None,
    };
    Ok(Server {
        address: match &upstream.place {
            UpstreamPlace::Tcp(host, port) => Address::Tcp(host.clone(), *port),
            UpstreamPlace::Unix(path) => Address::Unix(path.clone()),
        },
        protocol: match upstream.protocol {
            UpstreamProtocol::Http1 => Protocol::Http1,
            UpstreamProtocol::Http2 => Protocol::Http2,
            UpstreamProtocol::Http3 => Protocol::Http3,
        },
        tls,
    })
}
