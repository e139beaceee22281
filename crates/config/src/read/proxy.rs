//! Routes with `proxy`.

use super::walk::{Table, Walk};
use crate::keys;
use crate::{
    BadField, FieldChanges, FieldPattern, HeaderField, HealthCheck, Proxy, ProxyRetry,
    ProxyTimeouts,
};
use altway_document::entries;

/// The keys that say more of `proxy`.
const OF_PROXY: [&str; 16] = [
    "balance",
    "health",
    "retry",
    "host",
    "strip-prefix",
    "add-prefix",
    "request-headers",
    "response-headers",
    "trust",
    "roots",
    "server-name",
    "client-certificate",
    "send-proxy-protocol",
    "upstream-requests",
    "max-body",
    "timeouts",
];

/// Makes a field of a name and a value.
pub(super) type NewField = fn(&str, &str) -> Result<HeaderField, BadField>;

/// Makes a pattern of names.
type NewPattern = fn(&str) -> Result<FieldPattern, BadField>;

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
        proxy.strip_prefix = self.parsed(table, "strip-prefix");
        proxy.add_prefix = self.parsed(table, "add-prefix");
        let request = (
            HeaderField::of_request as NewField,
            FieldPattern::of_request as NewPattern,
        );
        proxy.request_headers = self.field_changes(table, "request-headers", request);
        let response = (
            HeaderField::of_response as NewField,
            FieldPattern::of_response as NewPattern,
        );
        proxy.response_headers = self.field_changes(table, "response-headers", response);
        proxy.trust = self.list(table, "trust", true).unwrap_or_default();
        proxy.roots = self.file_path(table, "roots");
        proxy.server_name = self.parsed(table, "server-name");
        if let Some(value) = table.get("client-certificate") {
            let (path, section) = (table.path("client-certificate"), &keys::CLIENT_CERTIFICATE);
            proxy.client_certificate = self.certificate(value, &path, section);
        }
        proxy.send_proxy_protocol = self
            .switch(table, "send-proxy-protocol")
            .unwrap_or_default();
        proxy.timeouts = self.timeouts(table);
        if let Some(most) = self.count(table, "upstream-requests", 1, keys::MOST) {
            proxy.upstream_requests = most;
        }
        proxy.max_body = self.size(table, "max-body");
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

    fn field_changes(
        &mut self,
        of: &Table<'_, '_>,
        key: &str,
        (field, pattern): (NewField, NewPattern),
    ) -> FieldChanges {
        let Some(table) = self.table(of, key, &keys::FIELD_CHANGES) else {
            return FieldChanges::default();
        };
        let mut remove = Vec::new();
        for (_, value) in self.values(&table, "remove", true).unwrap_or_default() {
            if let Some(text) = self.as_text(value, "remove") {
                remove.extend(self.accept(value.span(), pattern(text)));
            }
        }
        FieldChanges {
            remove,
            set: self.fields(&table, "set", field),
            append: self.fields(&table, "append", field),
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
