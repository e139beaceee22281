//! The keys of a file outside of its sites.

use super::walk::{Refusal, Table, Walk};
use crate::keys;
use crate::{
    Config, Limits, Listen, Listener, Log, LogFormat, Protocols, Retry, Sandbox, Security,
    Transport,
};
use altway_units::{DataSize, ParseError, duration};
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;

impl Walk {
    /// Reads the whole file into `config`, and gives what it includes, with where that is said.
    pub(super) fn server(
        &mut self,
        root: &Table<'_, '_>,
        config: &mut Config,
    ) -> Vec<super::include::Include> {
        self.keys(root, &keys::ROOT);
        config.state = self.file_path(root, "state");
        config.threads = self
            .count::<usize>(root, "threads", 1, crate::MAX_THREADS as u64)
            .and_then(std::num::NonZeroUsize::new);
        set(&mut config.grace, self.time(root, "grace"));
        config.takeover = self.file_path(root, "takeover");
        config.admin = self.admin(root);
        config.user = self.account(root, "user");
        config.group = self.account(root, "group");
        set(&mut config.sandbox, self.sandbox(root));
        config.ticket_keys = self.file_paths(root, "ticket-keys");
        self.refuse_empty(root, "ticket-keys");
        if let Some(table) = self.table(root, "listen", &keys::LISTEN) {
            config.listen = self.listen(&table);
        }
        if let Some(table) = self.table(root, "transport", &keys::TRANSPORT) {
            config.transport = self.transport(&table);
        }
        if let Some(table) = self.table(root, "limits", &keys::LIMITS) {
            config.limits = self.limits(&table);
        }
        if let Some(table) = self.table(root, "log", &keys::LOG) {
            config.log = self.log(&table);
        }
        config.acme = self.acme(root);
        self.sites(root, &mut config.sites);
        self.includes(root)
    }

    /// The name or number of a user or a group.
    fn account(&mut self, root: &Table<'_, '_>, key: &str) -> Option<String> {
        let value = root.get(key)?;
        let name = self.as_text(value, key)?;
        if name.is_empty() || name.contains(['\0', ':', '/', '\n']) {
            let message = format!("`{key}` is no name: {name:?}");
            self.fault(
                value.span(),
                message,
                Some("like `user = \"altway\"`".into()),
            );
            return None;
        }
        Some(name.to_owned())
    }

    fn sandbox(&mut self, root: &Table<'_, '_>) -> Option<Sandbox> {
        let value = root.get("sandbox")?;
        if let DeValue::Table(_) = value.get_ref() {
            let table = self.as_table(value, "sandbox", "sandbox", &keys::SANDBOX)?;
            return Some(Sandbox {
                is_on: true,
                read: self.file_paths(&table, "read"),
                write: self.file_paths(&table, "write"),
            });
        }
        let is_on = self.switch(root, "sandbox")?;
        Some(Sandbox {
            is_on,
            ..Sandbox::default()
        })
    }

    /// The paths of a key, one or several.
    pub(super) fn file_paths(&mut self, table: &Table<'_, '_>, key: &str) -> Vec<PathBuf> {
        let values = self.values(table, key, true).unwrap_or_default();
        let values = values.into_iter();
        values
            .filter_map(|(_, value)| self.as_file_path(value, key))
            .collect()
    }

    fn listen(&mut self, table: &Table<'_, '_>) -> Listen {
        let mut listen = Listen::default();
        set(&mut listen.protocols, self.protocols(table));
        let behind = self.switch(table, "behind-tls-proxy") == Some(true);
        let clear = match behind {
            true => Security::BehindTlsProxy,
            false if table.has("https") => Security::Redirect,
            false => Security::ClearText,
        };
        let https = self.listeners(table, "https", Security::Tls, listen.protocols);
        let http = self.listeners(table, "http", clear, listen.protocols);
        if https.is_some() || http.is_some() {
            let all = [https, http].into_iter().flatten().flatten();
            listen.listeners = all.collect();
        }
        for listener in &mut listen.listeners {
            if !table.has("https") && !table.has("http") {
                listener.protocols = listen.protocols;
            }
        }
        listen.alt_svc_port = self.alt_svc_port(table);
        self.refuse_empty(table, "https");
        self.refuse_empty(table, "http");
        if behind && !table.has("http") {
            let span = table
                .get("behind-tls-proxy")
                .map(toml::Spanned::span)
                .unwrap_or_default();
            let hint = "give `http`, the address that the proxy connects to, in place of `https`";
            let message = "`behind-tls-proxy` is about `http`, which is not given";
            self.fault(span, message, Some(hint.into()));
        }
        let proxies = self.list(table, "proxy-protocol-from", true);
        set(&mut listen.proxy_protocol_from, proxies);
        set(&mut listen.spread, self.parsed(table, "spread"));
        listen
    }

    fn alt_svc_port(&mut self, table: &Table<'_, '_>) -> Option<NonZeroU16> {
        let port = self.count::<u16>(table, "alt-svc-port", 1, 65_535)?;
        NonZeroU16::new(port)
    }

    /// The listeners of a key, each an address or a table with one.
    fn listeners(
        &mut self,
        table: &Table<'_, '_>,
        key: &str,
        security: Security,
        protocols: Protocols,
    ) -> Option<Vec<Listener>> {
        let mut listeners = Vec::new();
        for (path, value) in self.values(table, key, true)? {
            let DeValue::Table(_) = value.get_ref() else {
                let address = self.parsed_value(value, key);
                listeners.extend(address.map(|address| Listener {
                    address,
                    security,
                    protocols,
                    alt_svc_port: None,
                }));
                continue;
            };
            let Some(own) = self.as_table(value, &path, key, &keys::LISTENER) else {
                continue;
            };
            if !own.has("address") {
                self.missing(&own, "address", "\"*:443\"");
            }
            let security = self.security_of(&own, key, security);
            let protocols = self.protocols(&own).unwrap_or(protocols);
            let alt_svc_port = self.alt_svc_port(&own);
            if let Some(value) = own.get("alt-svc-port")
                && security != Security::Tls
            {
                let message =
                    format!("`alt-svc-port` is about `https`, and this is an address of `{key}`");
                self.fault(value.span(), message, Some("leave it out".into()));
            }
            listeners.extend(self.parsed(&own, "address").map(|address| Listener {
                address,
                security,
                protocols,
                alt_svc_port,
            }));
        }
        Some(listeners)
    }

    /// Finds the protection of a listener that says whether it redirects.
    fn security_of(&mut self, own: &Table<'_, '_>, key: &str, usual: Security) -> Security {
        let Some(redirects) = self.switch(own, "redirect") else {
            return usual;
        };
        let (message, hint) = match (usual, redirects) {
            (Security::Redirect | Security::ClearText, false) => return Security::ClearText,
            (Security::Redirect, true) => return Security::Redirect,
            (Security::Tls, _) => (
                format!("`redirect` is about `http`, and this is an address of `{key}`"),
                "leave it out",
            ),
            (Security::ClearText, true) => (
                "`redirect` leads to `https`, which is not given".into(),
                "give `https`, or leave `redirect` out",
            ),
            (Security::BehindTlsProxy, _) => (
                "`redirect` is not for clients of a proxy that terminates TLS".into(),
                "leave it out, or leave `behind-tls-proxy` out",
            ),
        };
        let span = own.get("redirect").map(toml::Spanned::span);
        self.fault(span.unwrap_or_default(), message, Some(hint.into()));
        usual
    }

    /// A path, relative to the folder of the file, or an address of the loopback interface with a port.
    fn admin(&mut self, root: &Table<'_, '_>) -> Option<String> {
        let value = root.get("admin")?;
        let text = self.as_text(value, "admin")?;
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        let (message, hint) = match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => return Some(address.to_string()),
            Ok(address) => (
                format!("`{address}` can be reached from other machines"),
                "give the path of a Unix socket, or an address like `127.0.0.1:2019`",
            ),
            Err(_) if is_port(&text) => (
                format!("`{text}` is neither an address with a port nor the path of a socket"),
                "give an address like `127.0.0.1:2019`, or a path",
            ),
            Err(_) => {
                let path = self.as_file_path(value, "admin")?;
                return Some(path.to_string_lossy().into_owned());
            }
        };
        self.fault(value.span(), message, Some(hint.into()));
        None
    }

    pub(super) fn protocols(&mut self, table: &Table<'_, '_>) -> Option<Protocols> {
        let named = self.list(table, "protocols", false)?;
        let all = named.into_iter().fold(Protocols::NONE, Protocols::with);
        // A word that can't be read has its own fault: none at all would be another one.
        let is_empty_list = table.get("protocols").is_some_and(
            |value| matches!(value.get_ref(), DeValue::Array(values) if values.is_empty()),
        );
        (all != Protocols::NONE || is_empty_list).then_some(all)
    }

    fn transport(&mut self, table: &Table<'_, '_>) -> Transport {
        let mut transport = Transport {
            congestion: self.parsed(table, "congestion"),
            quic_congestion: self.parsed(table, "quic-congestion"),
            ..Transport::default()
        };
        set(
            &mut transport.initial_window,
            self.count(table, "initial-window", 2, 1_000),
        );
        set(&mut transport.early_data, self.parsed(table, "early-data"));
        set(
            &mut transport.certificate_compression,
            self.switch(table, "certificate-compression"),
        );
        set(&mut transport.server_id, self.parsed(table, "server-id"));
        transport
    }

    fn limits(&mut self, table: &Table<'_, '_>) -> Limits {
        Limits {
            max_memory: self.size(table, "max-memory"),
            client_prefix: self.parsed(table, "client-prefix").unwrap_or_default(),
            max_connections: self.many(table, "max-connections"),
            max_connections_per_client: self.many(table, "max-connections-per-client"),
            max_handshakes: self.many(table, "max-handshakes"),
            max_handshakes_per_client: self.many(table, "max-handshakes-per-client"),
            max_requests: self.many(table, "max-requests"),
            max_requests_per_client: self.many(table, "max-requests-per-client"),
            requests_per_prefix: self.parsed(table, "requests-per-prefix"),
            max_concurrent_requests: self.many(table, "max-concurrent-requests"),
            max_held: self.size(table, "max-held"),
            max_held_per_client: self.size(table, "max-held-per-client"),
            max_quic_held: self.size(table, "max-quic-held"),
            max_quic_held_per_client: self.size(table, "max-quic-held-per-client"),
            max_cached: self.size(table, "max-cached"),
            retry: self.retry(table).unwrap_or_default(),
            handshake_timeout: self.time(table, "handshake-timeout"),
            header_timeout: self.time(table, "header-timeout"),
            idle_timeout: self.time(table, "idle-timeout"),
            slowest: self.parsed(table, "slowest"),
            max_body: self.size(table, "max-body"),
        }
    }

    /// A count of 1 or more.
    fn many<T: TryFrom<NonZeroU64>>(&mut self, table: &Table<'_, '_>, key: &str) -> Option<T> {
        let is_wide = T::try_from(NonZeroU64::MAX).is_ok();
        let most = if is_wide {
            keys::MOST
        } else {
            keys::MOST_OF_32_BITS
        };
        let count: u64 = self.count(table, key, 1, most)?;
        T::try_from(NonZeroU64::new(count)?).ok()
    }

    pub(super) fn size(&mut self, table: &Table<'_, '_>, key: &str) -> Option<DataSize> {
        let value = table.get(key)?;
        let text = self.text_for(value, key, "an amount of data in quotes, like `\"64MiB\"`")?;
        let read: Result<_, ParseError> = text.parse();
        self.accept(value.span(), read)
    }

    pub(super) fn time(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Duration> {
        let value = table.get(key)?;
        let text = self.text_for(value, key, "a time in quotes, like `\"10s\"`")?;
        let read: Result<_, ParseError> = duration::parse(text);
        self.accept(value.span(), read)
    }

    fn retry(&mut self, table: &Table<'_, '_>) -> Option<Retry> {
        let value = table.get("retry")?;
        match value.get_ref() {
            DeValue::Integer(_) => self
                .count(table, "retry", 0, keys::MOST_OF_32_BITS)
                .map(Retry::Beyond),
            _ => self.parsed_value(value, "retry"),
        }
    }

    fn log(&mut self, table: &Table<'_, '_>) -> Log {
        let is_stderr = |value: &DeValue<'_>| matches!(value, DeValue::String(text) if text == "-");
        let access = match table.get("access") {
            Some(value) if is_stderr(value.get_ref()) => Some("-".into()),
            _ => self.file_path(table, "access"),
        };
        let format = self.parsed(table, "format").unwrap_or_default();
        if let Some(value) = table.get("format")
            && format != LogFormat::default()
            && !table.has("access")
        {
            let message = "`format` is about `access`, which is not given";
            let hint = "give `access`, the file of the access log";
            self.fault(value.span(), message, Some(hint.into()));
        }
        Log {
            access,
            format,
            selection: self.file_path(table, "selection"),
            qlog: self.file_path(table, "qlog"),
            keylog: self.file_path(table, "keylog"),
        }
    }
}

impl Refusal for crate::BadRetry {}

fn set<T>(value: &mut T, read: Option<T>) {
    if let Some(read) = read {
        *value = read;
    }
}

/// True for a port number, alone or behind a colon: nobody names a socket so.
fn is_port(text: &str) -> bool {
    let port = text.rsplit(':').next().unwrap_or(text);
    !text.contains('/') && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}
