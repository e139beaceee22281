//! Servers behind a proxy at whose address the server itself listens: what it passes on there comes back to it (RFC 9110
//! section 7.6).
//!
//! Such a loop may be meant, where another site or another listener answers there. Addresses are compared, and `localhost`; no other
//! name is looked up for that: while the server runs a request ends that has come back often.

use altway_config::{
    Action, ListenAddress, Listener, Plan, Upstream, UpstreamPlace, UpstreamProtocol,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// The most warnings at a start.
const MOST: usize = 8;

/// Returns the servers behind routes at whose address the server listens, each with the path of the key that names it.
pub(in crate::commands) fn loops(plan: &Plan) -> Vec<(String, &Upstream)> {
    let mut found = Vec::new();
    for (site_index, site) in plan.sites().iter().enumerate() {
        for (index, route) in site.routes.iter().enumerate() {
            if let Action::Proxy(proxy) = &route.action {
                let own = proxy.upstreams.iter().filter(|it| is_own(it, plan));
                let key = format!("site.{site_index}.route.{index}.proxy");
                found.extend(own.map(|it| (key.clone(), it)));
            }
        }
    }
    found
}

/// Returns warnings of the first of them.
pub(super) fn warnings(plan: &Plan) -> Vec<String> {
    let found = loops(plan).into_iter().take(MOST);
    found.map(|(_, upstream)| warning(upstream)).collect()
}

/// The warning of a server behind that is this one.
pub(in crate::commands) fn warning(upstream: &Upstream) -> String {
    format!(
        "this server itself listens at `{upstream}`: what is passed on there comes back, and goes round if the same route has it again"
    )
}

fn is_own(upstream: &Upstream, plan: &Plan) -> bool {
    let UpstreamPlace::Tcp(host, port) = &upstream.place else {
        return false;
    };
    let has_transport = |it: &Listener| match upstream.protocol {
        UpstreamProtocol::Http3 => it.has_http3(),
        _ => true,
    };
    let addresses = addresses_of(host);
    let is_at = |listener: &ListenAddress, ip: IpAddr| {
        let of_this_machine = || listener.ip == Some(ip) || is_of_this_machine(ip);
        let ip = Some(ip);
        listener.covers(&ListenAddress { ip, port: *port }) && of_this_machine()
    };
    let mut listeners = plan.config().listen.listeners.iter();
    listeners.any(|it| has_transport(it) && addresses.iter().any(|ip| is_at(&it.address, *ip)))
}

/// The addresses of a host that are known without asking anybody. A connection to the unspecified one is to the loopback.
fn addresses_of(host: &str) -> Vec<IpAddr> {
    const LOOPBACK: [IpAddr; 2] = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let name = host.strip_suffix('.').unwrap_or(host);
    match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => vec![LOOPBACK[usize::from(ip.is_ipv6())]],
        Ok(ip) => vec![ip],
        Err(_) if name.eq_ignore_ascii_case("localhost") => LOOPBACK.to_vec(),
        Err(_) => Vec::new(),
    }
}

/// Returns true if an address is one of this machine: no socket can be bound to another.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::{NoFiles, read};

    /// Returns true if a server that listens so has itself behind it.
    fn is_own(listen: &str, upstream: &str) -> bool {
        let text = format!(
            "[listen]\n{listen}\n[[site]]\ndefault = true\nroute = [{{ proxy = {upstream:?} }}]\n"
        );
        let plan = read("a.toml", &text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"));
        let found = loops(&plan);
        let expected = "site.0.route.0.proxy";
        assert!(found.iter().all(|(key, _)| key == expected), "{found:?}");
        !found.is_empty()
    }

    #[test]
    fn an_upstream_is_this_server_where_a_listener_takes_its_address_and_port() {
        let every = "https = [\"*:8443\"]";
        for (listen, upstream, expected) in [
            (every, "http://localhost:8443", true),
            (every, "https://LOCALHOST.:8443", true),
            (every, "http://127.0.0.1:8443", true),
            (every, "http://127.9.9.9:8443", true),
            (every, "http://[::1]:8443", true),
            (every, "http://0.0.0.0:8443", true),
            (every, "h3://localhost:8443", true),
            (every, "http://localhost:8444", false),
            // Addresses for documents, which no machine has (RFC 5737, RFC 3849).
            (every, "http://192.0.2.1:8443", false),
            (every, "http://[2001:db8::1]:8443", false),
            (every, "http://nobody.invalid:8443", false),
            (every, "unix:/run/api.sock", false),
            ("https = [\"0.0.0.0:8443\"]", "http://[::1]:8443", false),
            ("https = [\"0.0.0.0:8443\"]", "http://127.0.0.1:8443", true),
            ("https = [\"[::]:8443\"]", "http://127.0.0.1:8443", true),
            (
                "https = [\"127.0.0.1:8443\"]",
                "http://localhost:8443",
                true,
            ),
            ("https = [\"127.0.0.1:8443\"]", "http://0.0.0.0:8443", true),
            (
                "https = [\"127.0.0.1:8443\"]",
                "http://127.0.0.2:8443",
                false,
            ),
            (
                "https = [\"192.0.2.1:8443\"]",
                "http://192.0.2.1:8443",
                true,
            ),
            (
                "https = [\"192.0.2.1:8443\"]",
                "http://localhost:8443",
                false,
            ),
            ("http = [\"*:8080\"]", "http://localhost:8080", true),
            ("http = [\"*:8080\"]", "h3://localhost:8080", false),
            ("https = [\"*:0\"]", "http://localhost:8443", false),
        ] {
            assert_eq!(is_own(listen, upstream), expected, "{listen} {upstream}");
        }
    }
}
