//! The values of each table as TOML writes them.

use crate::{
    Acme, AcmeOnDemand, Action, Certificate, ClientCertificates, Config, ExternalAccount,
    FieldChanges, Files, HeaderField, HealthCheck, Limits, Listen, Listener, Log, Protocols, Proxy,
    ProxyRetry, ProxyTimeouts, Redirect, Respond, Retry, Route, Sandbox, Secret, Security, Site,
    Transport, Upload,
};
use altway_document::quoted;
use altway_units::{DataSize, duration};
use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// Values by their keys; `None`: the key can stand in the table and has no value.
pub(super) type Values = HashMap<&'static str, Option<String>>;

impl Config {
    pub(super) fn root_values(&self) -> Values {
        Values::from([
            ("state", path(self.state.as_ref())),
            ("threads", number(self.threads)),
            ("grace", time(Some(self.grace))),
            ("takeover", path(self.takeover.as_ref())),
            ("admin", text(self.admin.as_ref())),
            ("user", text(self.user.as_ref())),
            ("group", text(self.group.as_ref())),
            ("sandbox", Some(sandbox(&self.sandbox))),
            ("ticket-keys", paths(&self.ticket_keys)),
        ])
    }
}

impl Listen {
    pub(super) fn values(&self) -> Values {
        let at = |wanted: &dyn Fn(Security) -> bool| {
            let listeners = self.listeners.iter().filter(|it| wanted(it.security));
            let addresses: Vec<_> = listeners.map(|it| self.listener(it)).collect();
            (!addresses.is_empty()).then(|| format!("[{}]", addresses.join(", ")))
        };
        let behind = self
            .listeners
            .iter()
            .any(|it| it.security == Security::BehindTlsProxy);
        Values::from([
            ("https", at(&|security| security == Security::Tls)),
            ("http", at(&|security| security != Security::Tls)),
            ("behind-tls-proxy", Some(behind.to_string())),
            ("protocols", Some(protocols(self.protocols))),
            ("alt-svc-port", number(self.alt_svc_port)),
            ("proxy-protocol-from", Some(list(&self.proxy_protocol_from))),
            ("spread", text(Some(self.spread))),
        ])
    }

    /// An address, or a table where the listener has something to itself.
    fn listener(&self, of: &Listener) -> String {
        let address = quoted(&of.address.to_string());
        let mut own = String::new();
        if of.protocols != self.protocols {
            own += &format!(", protocols = {}", protocols(of.protocols));
        }
        if let Some(port) = of.alt_svc_port {
            own += &format!(", alt-svc-port = {port}");
        }
        if of.security == Security::ClearText && !self.is_clear_text() {
            own += ", redirect = false";
        }
        match own.is_empty() {
            true => address,
            false => format!("{{ address = {address}{own} }}"),
        }
    }
}

impl Transport {
    pub(super) fn values(&self) -> Values {
        Values::from([
            ("congestion", text(self.congestion)),
            ("quic-congestion", text(self.quic_congestion)),
            ("initial-window", number(Some(self.initial_window))),
            ("early-data", text(Some(self.early_data))),
            (
                "certificate-compression",
                number(Some(self.certificate_compression)),
            ),
            ("server-id", text(Some(&self.server_id))),
        ])
    }
}

impl Limits {
    pub(super) fn values(&self) -> Values {
        let retry = match self.retry {
            Retry::Beyond(limit) => number(Some(limit)),
            word => text(Some(word)),
        };
        Values::from([
            ("max-memory", text(self.max_memory)),
            ("client-prefix", text(Some(self.client_prefix))),
            ("max-connections", number(self.max_connections)),
            (
                "max-connections-per-client",
                number(self.max_connections_per_client),
            ),
            ("max-handshakes", number(self.max_handshakes)),
            (
                "max-handshakes-per-client",
                number(self.max_handshakes_per_client),
            ),
            ("max-requests", number(self.max_requests)),
            (
                "max-requests-per-client",
                number(self.max_requests_per_client),
            ),
            ("requests-per-prefix", text(self.requests_per_prefix)),
            (
                "max-concurrent-requests",
                number(self.max_concurrent_requests),
            ),
            ("max-held", text(self.max_held)),
            ("max-held-per-client", text(self.max_held_per_client)),
            ("max-quic-held", text(self.max_quic_held)),
            (
                "max-quic-held-per-client",
                text(self.max_quic_held_per_client),
            ),
            ("max-cached", text(self.max_cached)),
            ("retry", retry),
            ("handshake-timeout", time(self.handshake_timeout)),
            ("header-timeout", time(self.header_timeout)),
            ("idle-timeout", time(self.idle_timeout)),
            ("slowest", text(self.slowest)),
            ("max-body", text(self.max_body)),
        ])
    }
}

impl Log {
    pub(super) fn values(&self) -> Values {
        Values::from([
            ("access", path(self.access.as_ref())),
            ("format", text(Some(self.format))),
            ("selection", path(self.selection.as_ref())),
            ("qlog", path(self.qlog.as_ref())),
            ("keylog", path(self.keylog.as_ref())),
        ])
    }
}

impl Acme {
    pub(super) fn values(&self) -> Values {
        let account = self.external_account.as_ref();
        let account = account.map(|ExternalAccount { id, key }| {
            format!("{{ id = {}, key = {} }}", quoted(id), secret(key))
        });
        let challenges = (!self.challenges.is_empty()).then(|| list(&self.challenges));
        let on_demand = self.on_demand.as_ref();
        let on_demand = on_demand.map(|AcmeOnDemand { ask, names }| {
            let ask = quoted(&ask.to_string());
            format!("{{ ask = {ask}, names = {names} }}")
        });
        Values::from([
            ("email", text(self.email.as_ref())),
            ("directory", text(Some(&self.directory))),
            ("profile", text(self.profile.as_ref())),
            ("challenges", challenges),
            ("on-demand", on_demand),
            ("folder", path(self.folder.as_ref())),
            ("roots", path(self.roots.as_ref())),
            ("external-account", account),
        ])
    }
}

impl Site {
    pub(super) fn values(&self) -> Values {
        let certificates: Vec<_> = self.certificates.iter().map(certificate).collect();
        let certificate = match certificates.as_slice() {
            [] => self.issued_by.map(|issuer| quoted(&issuer.to_string())),
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        };
        Values::from([
            ("names", (!self.names.is_empty()).then(|| list(&self.names))),
            ("default", Some(self.is_default.to_string())),
            ("certificate", certificate),
            (
                "client-certificates",
                self.client_certificates.as_ref().map(clients),
            ),
            ("policy", text(Some(&self.policy))),
            ("beacon", text(self.beacon.as_ref())),
            ("headers", headers(&self.headers)),
            ("max-body", text(self.max_body)),
        ])
    }
}

impl Route {
    /// Returns the values of a route, its action's keys only.
    pub(super) fn values(&self) -> Values {
        let mut values = Values::from([
            ("path", text(Some(&self.path))),
            ("headers", headers(&self.headers)),
        ]);
        match &self.action {
            Action::Files(files) => values.extend(files.values()),
            Action::Proxy(proxy) => values.extend(proxy.values()),
            Action::Redirect(Redirect { to, status }) => {
                let to = quoted(&to.to_string());
                let status = if_not(*status, Redirect::DEFAULT_STATUS, "status");
                values.insert("redirect", Some(format!("{{ to = {to}{status} }}")));
            }
            Action::Respond(respond) => {
                values.insert("respond", Some(respond.value()));
            }
            Action::Upload(upload) => {
                values.insert("upload", Some(upload.value()));
            }
        }
        values
    }
}

impl Files {
    fn values(&self) -> Values {
        let rules = self.cache.iter();
        let rules = rules.map(|rule| (rule.path.to_string(), quoted(&rule.value)));
        let pages = self.error_pages.iter();
        let pages = pages.map(|page| (page.status.to_string(), quoted(page.page.as_str())));
        Values::from([
            ("files", path(Some(&self.root))),
            ("index", Some(list(&self.index))),
            ("fallback", text(self.fallback.as_ref())),
            ("clean-urls", Some(self.clean_urls.to_string())),
            ("listing", Some(self.listing.to_string())),
            ("precompressed", Some(list(&self.precompressed))),
            ("compress", Some(list(&self.compress))),
            ("cache", map(rules.collect())),
            ("error-pages", map(pages.collect())),
            ("hidden", Some(self.hidden.to_string())),
        ])
    }
}

impl Proxy {
    fn values(&self) -> Values {
        let in_table = |time: Duration| quoted(&duration::format(time));
        let health = self.health.as_ref().map(|HealthCheck { path, every }| {
            let (path, every) = (quoted(path.as_str()), in_table(*every));
            format!("{{ path = {path}, every = {every} }}")
        });
        let ProxyRetry {
            attempts,
            keep_body,
        } = self.retry;
        let kept = quoted(&keep_body.to_string());
        let retry = format!("{{ attempts = {attempts}, keep-body = {kept} }}");
        let ProxyTimeouts {
            connect,
            head,
            idle,
            slowest,
        } = self.timeouts;
        let [connect, head, idle] = [connect, head, idle].map(in_table);
        let slowest = slowest.map(|rate| format!(", slowest = {}", quoted(&rate.to_string())));
        let slowest = slowest.unwrap_or_default();
        let timeouts = format!("{{ connect = {connect}, head = {head}, idle = {idle}{slowest} }}");
        let usual = Self::to(Vec::new());
        let given = |is_usual: bool, value: String| (!is_usual).then_some(value);
        Values::from([
            ("proxy", Some(list(&self.upstreams))),
            (
                "balance",
                given(
                    self.balance == usual.balance,
                    quoted(&self.balance.to_string()),
                ),
            ),
            ("health", health),
            ("retry", given(self.retry == usual.retry, retry)),
            ("host", text(self.host.as_ref())),
            ("strip-prefix", text(self.strip_prefix.as_ref())),
            ("add-prefix", text(self.add_prefix.as_ref())),
            ("request-headers", field_changes(&self.request_headers)),
            ("response-headers", field_changes(&self.response_headers)),
            ("trust", (!self.trust.is_empty()).then(|| list(&self.trust))),
            ("roots", path(self.roots.as_ref())),
            ("server-name", text(self.server_name.as_ref())),
            (
                "client-certificate",
                self.client_certificate.as_ref().map(certificate),
            ),
            (
                "send-proxy-protocol",
                given(!self.send_proxy_protocol, "true".into()),
            ),
            (
                "upstream-requests",
                given(
                    self.upstream_requests == usual.upstream_requests,
                    self.upstream_requests.to_string(),
                ),
            ),
            (
                "max-body",
                self.max_body.map(|size| quoted(&size.to_string())),
            ),
            ("timeouts", given(self.timeouts == usual.timeouts, timeouts)),
        ])
    }
}

impl Respond {
    fn value(&self) -> String {
        let body = quoted(&self.body);
        let headers =
            headers(&self.headers).map_or_else(String::new, |it| format!(", headers = {it}"));
        format!("{{ status = {}, body = {body}{headers} }}", self.status)
    }
}

impl Upload {
    /// The keys whose values differ from the defaults.
    fn value(&self) -> String {
        let usual = Self::into_folder("");
        let size = |value: DataSize| quoted(&value.to_string());
        let entries = [
            (
                "methods",
                list(&self.methods),
                self.methods != usual.methods,
            ),
            ("body", size(self.body), self.body != usual.body),
            ("parts", self.parts.to_string(), self.parts != usual.parts),
            (
                "replace",
                self.replace.to_string(),
                self.replace != usual.replace,
            ),
            (
                "min-free",
                size(self.min_free),
                self.min_free != usual.min_free,
            ),
            (
                "slowest",
                quoted(&self.slowest.to_string()),
                self.slowest != usual.slowest,
            ),
            (
                "concurrent",
                self.concurrent.to_string(),
                self.concurrent != usual.concurrent,
            ),
            (
                "resumable",
                self.resumable.to_string(),
                self.resumable != usual.resumable,
            ),
        ];
        let mut text = format!("{{ folder = {}", quoted(&self.folder.to_string_lossy()));
        for (key, value, differs) in entries {
            if differs {
                text.push_str(&format!(", {key} = {value}"));
            }
        }
        text + " }"
    }
}

fn if_not(value: u16, default: u16, key: &str) -> String {
    if value == default {
        String::new()
    } else {
        format!(", {key} = {value}")
    }
}

fn sandbox(of: &Sandbox) -> String {
    let named = [("read", &of.read), ("write", &of.write)];
    let named = named.into_iter().filter_map(|(key, folders)| {
        let folders = paths(folders)?;
        Some(format!("{key} = {folders}"))
    });
    let named: Vec<_> = named.collect();
    match named.is_empty() || !of.is_on {
        true => of.is_on.to_string(),
        false => format!("{{ {} }}", named.join(", ")),
    }
}

fn clients(of: &ClientCertificates) -> String {
    let roots = quoted(&of.roots.to_string_lossy());
    let revocation = paths(&of.revocation);
    let revocation = revocation.map_or(String::new(), |it| format!(", revocation = {it}"));
    let required = match of.required {
        true => "",
        false => ", required = false",
    };
    format!("{{ roots = {roots}{revocation}{required} }}")
}

fn secret(of: &Secret) -> String {
    match of {
        Secret::File(file) => quoted(&file.to_string_lossy()),
        Secret::Env(name) => format!("{{ env = {} }}", quoted(name)),
        Secret::Credential(name) => format!("{{ credential = {} }}", quoted(name)),
    }
}

fn certificate(certificate: &Certificate) -> String {
    let of = |path: &PathBuf| quoted(&path.to_string_lossy());
    let key = secret(&certificate.key);
    let ocsp = certificate.ocsp.as_ref();
    let ocsp = ocsp.map_or_else(String::new, |file| format!(", ocsp = {}", of(file)));
    format!(
        "{{ chain = {}, key = {key}{ocsp} }}",
        of(&certificate.chain)
    )
}

/// Fields with the values of each name together, as there can be one key for each.
fn headers(fields: &[HeaderField]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for field in fields {
        if !names.contains(&field.name()) {
            names.push(field.name());
        }
    }
    let of = |name: &&str| {
        let values = fields.iter().filter(|field| field.name() == *name);
        let values: Vec<_> = values.map(|field| quoted(field.value())).collect();
        let value = match values.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        ((*name).to_owned(), value)
    };
    map(names.iter().map(of).collect())
}

fn field_changes(changes: &FieldChanges) -> Option<String> {
    let entries = [
        (
            "remove",
            (!changes.remove.is_empty()).then(|| list(&changes.remove)),
        ),
        ("set", headers(&changes.set)),
        ("append", headers(&changes.append)),
    ];
    let entries = entries.into_iter();
    map(entries
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect())
}

/// Entries whose values are TOML already, as they come.
fn map(entries: Vec<(String, String)>) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let is_bare = |key: &str| {
        key.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let name = |key: String| if is_bare(&key) { key } else { quoted(&key) };
    let entries = entries
        .into_iter()
        .map(|(key, value)| format!("{} = {value}", name(key)));
    Some(format!("{{ {} }}", entries.collect::<Vec<_>>().join(", ")))
}

fn protocols(of: Protocols) -> String {
    list(&of.iter().collect::<Vec<_>>())
}

fn list<T: Display>(values: &[T]) -> String {
    let texts: Vec<_> = values
        .iter()
        .map(|value| quoted(&value.to_string()))
        .collect();
    format!("[{}]", texts.join(", "))
}

fn text<T: Display>(value: Option<T>) -> Option<String> {
    value.map(|value| quoted(&value.to_string()))
}

fn number<T: Display>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn time(value: Option<Duration>) -> Option<String> {
    value.map(|time| quoted(&duration::format(time)))
}

fn paths(values: &[PathBuf]) -> Option<String> {
    let texts: Vec<_> = values
        .iter()
        .filter_map(|value| path(Some(value)))
        .collect();
    (!texts.is_empty()).then(|| format!("[{}]", texts.join(", ")))
}

fn path(value: Option<&PathBuf>) -> Option<String> {
    value.map(|path| quoted(&path.to_string_lossy()))
}
