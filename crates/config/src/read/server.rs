//! The keys of a file outside of its sites.

use super::walk::{Refusal, Table, Walk};
use crate::keys;
use crate::{
    Config, Limits, Listen, Listener, Log, LogFormat, Protocols, Retry, Security, Transport,
};
use altway_units::{DataSize, ParseError, duration};
use std::num::NonZeroU64;
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
        self.sites(root, &mut config.sites);
        self.includes(root)
    }

    fn listen(&mut self, table: &Table<'_, '_>) -> Listen {
        let mut listen = Listen::default();
        let https = self.list(table, "https", true);
        let http = self.list(table, "http", true);
        let behind = self.switch(table, "behind-tls-proxy") == Some(true);
        if https.is_some() || http.is_some() {
            let clear = if behind {
                Security::BehindTlsProxy
            } else {
                Security::ClearText
            };
            let listener = |security| move |address| Listener { address, security };
            let https = https
                .unwrap_or_default()
                .into_iter()
                .map(listener(Security::Tls));
            let http = http.unwrap_or_default().into_iter().map(listener(clear));
            listen.listeners = https.chain(http).collect();
        }
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
        set(&mut listen.protocols, self.protocols(table));
        set(&mut listen.spread, self.parsed(table, "spread"));
        listen
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
            ..Transport::default()
        };
        set(
            &mut transport.initial_window,
            self.count(table, "initial-window", 2, 1_000),
        );
        set(&mut transport.early_data, self.switch(table, "early-data"));
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

    fn time(&mut self, table: &Table<'_, '_>, key: &str) -> Option<Duration> {
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
