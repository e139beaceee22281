//! Checks of what goes together in routes with `proxy`.

use super::check::Check;
use crate::{
    MAX_ATTEMPTS, MAX_KEEP_BODY, MAX_UPSTREAMS, PathPattern, PathPrefix, Proxy, Upstream,
    UpstreamProtocol,
};
use std::time::Duration;

/// The least time between two checks.
const LEAST_EVERY: Duration = Duration::from_millis(100);

impl Check<'_> {
    pub(super) fn proxy(&mut self, proxy: &Proxy, pattern: &PathPattern, path: &str) {
        self.twice(&proxy.upstreams, path, "proxy");
        let count = proxy.upstreams.len();
        if count > MAX_UPSTREAMS {
            self.fault(
                &format!("{path}.proxy"),
                format!("`proxy` names {count} servers, more than {MAX_UPSTREAMS}"),
                "put a balancer between, or split the paths among several routes",
            );
        }
        if proxy
            .health
            .as_ref()
            .is_some_and(|it| it.every < LEAST_EVERY)
        {
            self.fault(
                &format!("{path}.health.every"),
                "`every` must be 100ms or more",
                "leave it out for its default, 5s",
            );
        }
        if !(1..=MAX_ATTEMPTS).contains(&proxy.retry.attempts) {
            self.fault(
                &format!("{path}.retry.attempts"),
                format!("`attempts` must be from 1 to {MAX_ATTEMPTS}"),
                "leave it out for its default, 2",
            );
        }
        if proxy.retry.keep_body.as_bytes() > MAX_KEEP_BODY {
            self.fault(
                &format!("{path}.retry.keep-body"),
                format!(
                    "`keep-body` is {}: expected 16MiB at most",
                    proxy.retry.keep_body
                ),
                "each request in progress may hold as much in memory",
            );
        }
        self.towards_servers(proxy, path);
        if let Some(prefix) = &proxy.strip_prefix {
            self.strip_prefix(prefix, pattern, path);
        }
        let times = [
            ("connect", proxy.timeouts.connect),
            ("head", proxy.timeouts.head),
            ("idle", proxy.timeouts.idle),
        ];
        for (key, time) in times {
            if time < Duration::from_millis(1) {
                self.fault(
                    &format!("{path}.timeouts.{key}"),
                    format!("`{key}` must be 1ms or more"),
                    "leave it out for its default",
                );
            }
        }
    }

    /// Checks what is for servers of some kinds only.
    fn towards_servers(&mut self, proxy: &Proxy, path: &str) {
        let of_tls = [
            ("roots", proxy.roots.is_some()),
            ("server-name", proxy.server_name.is_some()),
            ("client-certificate", proxy.client_certificate.is_some()),
        ];
        let has_tls = proxy.upstreams.iter().any(|it| it.is_tls);
        for (key, _) in of_tls.iter().filter(|(_, given)| *given && !has_tls) {
            self.fault(
                &format!("{path}.{key}"),
                format!("`{key}` is for servers that speak TLS, and none of these does"),
                "leave it out, or name servers by `https://`",
            );
        }
        let is_http3 = |it: &Upstream| it.protocol == UpstreamProtocol::Http3;
        if proxy.send_proxy_protocol && proxy.upstreams.iter().any(is_http3) {
            self.fault(
                &format!("{path}.send-proxy-protocol"),
                "`send-proxy-protocol` is for TCP and Unix sockets, and a server of HTTP/3 is among these",
                "leave it out: the server is told the client in Forwarded and X-Forwarded-For",
            );
        }
    }

    /// A route for other paths never has one that begins so.
    fn strip_prefix(&mut self, prefix: &PathPrefix, pattern: &PathPattern, path: &str) {
        let below = format!("{prefix}/");
        let begins_so = match pattern {
            PathPattern::All | PathPattern::Suffix(_) => true,
            PathPattern::Exact(exact) => exact == prefix.as_str() || exact.starts_with(&below),
            PathPattern::Prefix(start) => start.starts_with(&below) || below.starts_with(start),
        };
        if !begins_so {
            self.fault(
                &format!("{path}.strip-prefix"),
                format!("no path of the route, `{pattern}`, begins with `{prefix}`"),
                "paths are stripped as clients send them, from their first `/`",
            );
        }
    }
}
