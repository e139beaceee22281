//! Checks of what does not go together outside of sites.

use super::Places;
use crate::fault::Fault;
use crate::{
    Config, EarlyData, Limits, Listen, ListenAddress, Listener, MAX_LISTENERS, MAX_THREADS,
    Protocol, Protocols, Transport,
};
use altway_units::DataSize;
use std::num::NonZeroUsize;
use std::time::Duration;

/// The most keys of session tickets.
const MAX_TICKET_KEYS: usize = 16;

/// The faults found, and where to say that they stand.
pub(super) struct Check<'p> {
    places: &'p Places,
    pub(super) faults: Vec<Fault>,
}

impl<'p> Check<'p> {
    pub(super) fn new(places: &'p Places) -> Self {
        let faults = Vec::new();
        Self { places, faults }
    }

    /// `path`: of the key at fault, or of a table that is missing one.
    pub(super) fn fault(
        &mut self,
        path: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.faults.push(Fault {
            place: self.places.of(path).cloned(),
            message: message.into(),
            hint: Some(hint.into()),
        });
    }

    /// Returns true if the key was typed.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.places.of(path).is_some()
    }

    /// Returns true if no client has TLS. What `https` says and could not be read has its own fault.
    pub(super) fn is_clear_text(&self, listen: &Listen) -> bool {
        listen.is_clear_text() && !self.is_set("listen.https")
    }

    /// ` (altway.toml:3:1)`, or nothing where no place is known.
    pub(super) fn at(&self, path: &str) -> String {
        let place = self.places.of(path);
        place.map_or_else(String::new, |place| format!(" ({place})"))
    }

    pub(super) fn server(&mut self, config: &Config) {
        let listen = &config.listen;
        if listen.listeners.is_empty()
            && !self.is_set("listen.https")
            && !self.is_set("listen.http")
        {
            self.fault(
                "listen",
                "[listen] names no address",
                "give `https = [\"*:443\"]`, or leave it out for its default",
            );
        }
        if listen.listeners.len() > MAX_LISTENERS {
            let found = listen.listeners.len();
            self.fault(
                "listen",
                format!("[listen] names {found} addresses: this server listens at {MAX_LISTENERS}"),
                "`*:PORT` is all addresses, IPv6 and IPv4",
            );
        }
        self.listeners(listen);
        if config
            .threads
            .is_some_and(|threads| threads.get() > MAX_THREADS)
        {
            self.fault(
                "threads",
                format!("`threads` is more than {MAX_THREADS}"),
                "leave it out to have one per core",
            );
        }
        if config.group.is_some() && config.user.is_none() {
            self.fault(
                "group",
                "`group` is about `user`, which is not given",
                "give `user`, or leave `group` out",
            );
        }
        self.protocols("listen.protocols", listen.protocols);
        let clear = self.is_clear_text(listen);
        if clear && self.is_set("listen.protocols") && listen.protocols.contains(Protocol::H3) {
            self.fault(
                "listen.protocols",
                "there is no HTTP/3 in clear text",
                "leave `h3` out, or listen with `https`",
            );
        }
        self.transport(&config.transport, listen);
        let keys = config.ticket_keys.len();
        if keys > MAX_TICKET_KEYS {
            self.fault(
                "ticket-keys",
                format!("`ticket-keys` names {keys} files: {MAX_TICKET_KEYS} are the most"),
                "leave out keys that no ticket is read by any more: clients keep them for 12 hours",
            );
        }
        if keys > 0 && clear {
            self.fault(
                "ticket-keys",
                "`ticket-keys` is about TLS, and the server listens in clear text only",
                "leave it out, or listen with `https`",
            );
        }
    }

    fn transport(&mut self, transport: &Transport, listen: &Listen) {
        // Where there is TLS that could not be read, `protocols` alone says it.
        let is_unread = listen.is_clear_text() && !self.is_clear_text(listen);
        let has_http3 =
            listen.has_http3() || (is_unread && listen.protocols.contains(Protocol::H3));
        if transport.early_data == EarlyData::All && !has_http3 {
            self.fault(
                "transport.early-data",
                "`early-data` needs HTTP/3, which this server does not give",
                "leave `early-data` out, or listen with `https` and the protocol `h3`",
            );
        }
        if !(2..=1_000).contains(&transport.initial_window) {
            self.fault(
                "transport.initial-window",
                format!(
                    "`initial-window` is {}: expected 2 to 1000",
                    transport.initial_window
                ),
                "leave it out for its default, 10",
            );
        }
    }

    /// Checks addresses one by one, and against each other.
    fn listeners(&mut self, listen: &Listen) {
        for (place, listener) in listen.listeners.iter().enumerate() {
            let earlier = &listen.listeners[..place];
            self.overlap(listener.address, earlier);
            if listener.protocols != listen.protocols {
                self.protocols("listen", listener.protocols);
            }
        }
        if listen.alt_svc_port.is_some() && self.is_clear_text(listen) {
            self.fault(
                "listen.alt-svc-port",
                "`alt-svc-port` is about `https`, which is not given",
                "leave it out, or listen with `https`",
            );
        }
    }

    /// Checks that no earlier address takes what comes to this one, and the other way round.
    fn overlap(&mut self, address: ListenAddress, earlier: &[Listener]) {
        let mut earlier = earlier.iter().map(|it| it.address);
        let Some(other) = earlier.find(|it| it.covers(&address) || address.covers(it)) else {
            return;
        };
        let (wide, narrow) = match other.covers(&address) {
            true => (other, address),
            false => (address, other),
        };
        if wide == narrow {
            self.fault(
                "listen",
                format!("[listen] names {address} twice"),
                "an address and a port are for `https` or for `http`",
            );
        } else {
            self.fault(
                "listen",
                format!("[listen] names {narrow} beside {wide}, which takes its connections"),
                "leave it out: `*` and `[::]` are all addresses, IPv6 and IPv4; or name each address by itself",
            );
        }
    }

    /// HTTP/3 is never the first protocol that a client comes by.
    pub(super) fn protocols(&mut self, path: &str, protocols: Protocols) {
        if protocols.contains(Protocol::H1) || protocols.contains(Protocol::H2) {
            return;
        }
        self.fault(
            path,
            "`protocols` has neither `h1` nor `h2`, over which clients first come",
            "add one of them: clients learn of HTTP/3 from a response over TCP",
        );
    }

    pub(super) fn limits(&mut self, limits: &Limits) {
        let count = |count: Option<NonZeroUsize>| count.map(|count| count.get() as u64);
        let size = |size: Option<DataSize>| size.map(DataSize::as_bytes);
        // Defaults count only where nothing is derived from the memory.
        let default = |all: u64| limits.max_memory.is_none().then_some(all);
        let shared = [
            (
                "max-connections",
                count(limits.max_connections),
                count(limits.max_connections_per_client),
                10_000,
            ),
            (
                "max-handshakes",
                count(limits.max_handshakes),
                count(limits.max_handshakes_per_client),
                2_500,
            ),
            (
                "max-requests",
                count(limits.max_requests),
                count(limits.max_requests_per_client),
                40_000,
            ),
            (
                "max-held",
                size(limits.max_held),
                size(limits.max_held_per_client),
                64 << 20,
            ),
            (
                "max-quic-held",
                size(limits.max_quic_held),
                size(limits.max_quic_held_per_client),
                256 << 20,
            ),
        ];
        for (name, all, share, usual) in shared {
            let all = all.or_else(|| default(usual));
            self.share(name, all, share);
        }
        let times = [
            ("handshake-timeout", limits.handshake_timeout),
            ("header-timeout", limits.header_timeout),
            ("idle-timeout", limits.idle_timeout),
        ];
        for (name, time) in times {
            if time.is_some_and(|time| time < Duration::from_millis(1)) {
                self.zero(name);
            }
        }
    }

    fn share(&mut self, name: &str, all: Option<u64>, share: Option<u64>) {
        let own = format!("{name}-per-client");
        if all == Some(0) {
            self.zero(name);
        }
        if share == Some(0) {
            self.zero(&own);
        }
        let above = all.zip(share).filter(|(all, share)| share > all);
        if let Some((all, share)) = above.filter(|(all, _)| *all > 0) {
            let sized = |bytes: u64| match name {
                "max-held" | "max-quic-held" => DataSize::from_bytes(bytes).to_string(),
                _ => bytes.to_string(),
            };
            let (share, all) = (sized(share), sized(all));
            self.fault(
                &format!("limits.{own}"),
                format!("`{own}` is {share}, and `{name}`, which it is a share of, {all}"),
                format!("raise `{name}`, or lower `{own}`"),
            );
        }
    }

    fn zero(&mut self, name: &str) {
        self.fault(
            &format!("limits.{name}"),
            format!("`{name}` must be more than 0"),
            "leave it out for its default: `altway config show --all` lists them",
        );
    }
}
