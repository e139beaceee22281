//! Routes with `proxy`.

use super::walk::{Table, Walk};
use crate::keys;
use crate::{HealthCheck, Proxy, ProxyRetry, ProxyTimeouts};
use altway_document::entries;

/// The keys that say more of `proxy`.
const OF_PROXY: [&str; 8] = [
    "balance",
    "health",
    "retry",
    "host",
    "trust",
    "roots",
    "upstream-requests",
    "timeouts",
];

impl Walk {
    pub(super) fn proxy(&mut self, table: &Table<'_, '_>) -> Option<Proxy> {
        if !table.has("proxy") {
            self.refuse_keys_of_proxy(table);
        }
        self.refuse_empty(table, "proxy");
        let upstreams = self.list(table, "proxy", true);
        let mut proxy = Proxy::to(upstreams.clone().unwrap_or_default());
        proxy.balance = self.parsed(table, "balance").unwrap_or_default();
        proxy.health = self.health(table);
        proxy.retry = self.proxy_retry(table);
        proxy.host = self.parsed(table, "host");
        proxy.trust = self.list(table, "trust", true).unwrap_or_default();
        proxy.roots = self.file_path(table, "roots");
        proxy.timeouts = self.timeouts(table);
        if let Some(most) = self.count(table, "upstream-requests", 1, keys::MOST) {
            proxy.upstream_requests = most;
        }
        upstreams.filter(|it| !it.is_empty()).map(|_| proxy)
    }

    fn refuse_keys_of_proxy(&mut self, table: &Table<'_, '_>) {
        for (key, _) in entries(table.tree) {
            let name: &str = key.get_ref();
            if OF_PROXY.contains(&name) {
                let message = format!("`{name}` belongs to `proxy`, which this route has not");
                let hint = "leave it out, or give `proxy = \"http://localhost:3000\"`";
                self.fault(key.span(), message, Some(hint.into()));
            }
        }
    }

    fn health(&mut self, of: &Table<'_, '_>) -> Option<HealthCheck> {
        let table = self.table(of, "health", &keys::HEALTH)?;
        if !table.has("path") {
            self.missing(&table, "path", "\"/healthz\"");
        }
        let path = self.parsed(&table, "path");
        let every = self.time(&table, "every");
        Some(HealthCheck {
            path: path?,
            every: every.unwrap_or(HealthCheck::DEFAULT_EVERY),
        })
    }

    fn proxy_retry(&mut self, of: &Table<'_, '_>) -> ProxyRetry {
        let mut retry = ProxyRetry::default();
        if let Some(table) = self.table(of, "retry", &keys::RETRY) {
            let most = u64::from(crate::MAX_ATTEMPTS);
            if let Some(attempts) = self.count(&table, "attempts", 1, most) {
                retry.attempts = attempts;
            }
            if let Some(size) = self.size(&table, "keep-body") {
                retry.keep_body = size;
            }
        }
        retry
    }

    fn timeouts(&mut self, of: &Table<'_, '_>) -> ProxyTimeouts {
        let mut timeouts = ProxyTimeouts::default();
        if let Some(table) = self.table(of, "timeouts", &keys::TIMEOUTS) {
            for (key, time) in [
                ("connect", &mut timeouts.connect),
                ("head", &mut timeouts.head),
                ("idle", &mut timeouts.idle),
            ] {
                if let Some(given) = self.time(&table, key) {
                    *time = given;
                }
            }
            timeouts.slowest = self.parsed(&table, "slowest");
        }
        timeouts
    }
}
