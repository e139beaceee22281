//! Every key of a configuration: its form, its default and its meaning, in one table. Reading, printing
//! with comments, the JSON schema and the check of the documentation go by it.

mod acme;
mod proxy;
mod site;

pub use acme::{ACME, EXTERNAL_ACCOUNT, ON_DEMAND};
pub use proxy::{CLIENT_CERTIFICATE, FIELD_CHANGES, HEALTH, RETRY, TIMEOUTS};
pub use site::{CERTIFICATE, CLIENT_CERTIFICATES, REDIRECT, RESPOND, ROUTE, SECRET, SITE, UPLOAD};

use crate::{Congestion, EarlyData, LogFormat, Protocol, Spread};

/// A table of keys.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The name of the section in messages: `[limits]`.
    pub title: &'static str,
    /// The meaning, in a sentence.
    pub about: &'static str,
    /// Keys of the section, in the order in which they are printed.
    pub keys: &'static [Key],
}

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// The default where it is left out: a value of TOML, or in parentheses words.
    pub default: &'static str,
    /// Meaning of the key, with unit and range, in a sentence or two.
    pub about: &'static str,
}

/// The form of a value.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A text in a form of its own, with an example.
    Text(&'static str),
    /// A path of a file or folder; relative to the folder of the file in which it stands.
    Path,
    /// An amount of data, like `64MiB`.
    Size,
    /// A time, like `10s`.
    Time,
    /// A number with its bounds.
    Count(u64, u64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A list.
    List(&'static Form),
    /// One of them, or a list.
    OneOrMore(&'static Form),
    /// A table with these keys.
    Table(&'static Section),
    /// Several tables with these keys, each headed by the title.
    Tables(&'static Section),
    /// A table with keys of the operator's choice: what they are, an example, and the form of the values.
    Map(&'static str, &'static str, &'static Form),
    /// Either of two forms.
    Either(&'static Form, &'static Form),
}

const fn key(name: &'static str, form: Form, default: &'static str, about: &'static str) -> Key {
    Key {
        name,
        form,
        default,
        about,
    }
}

/// The largest number of TOML.
pub(crate) const MOST: u64 = i64::MAX as u64;

/// The largest number of a key that counts what one connection has.
pub(crate) const MOST_OF_32_BITS: u64 = u32::MAX as u64;

/// All tables of a file, each once.
pub const SECTIONS: [&Section; 23] = [
    &ROOT,
    &LISTEN,
    &TRANSPORT,
    &LIMITS,
    &LOG,
    &ACME,
    &ON_DEMAND,
    &EXTERNAL_ACCOUNT,
    &SITE,
    &ROUTE,
    &CERTIFICATE,
    &CLIENT_CERTIFICATES,
    &SECRET,
    &REDIRECT,
    &RESPOND,
    &HEALTH,
    &RETRY,
    &TIMEOUTS,
    &FIELD_CHANGES,
    &CLIENT_CERTIFICATE,
    &LISTENER,
    &UPLOAD,
    &SANDBOX,
];

/// The file.
pub const ROOT: Section = Section {
    title: "the file",
    about: "The configuration of a server.",
    keys: &[
        key(
            "include",
            Form::OneOrMore(&Form::Text("sites/*.toml")),
            "[]",
            "Further files, which hold nothing but [[site]]. One `*` in the last part of a path stands for any characters; the files that match are read in the order of their names.",
        ),
        key(
            "state",
            Form::Path,
            "(nothing is kept)",
            "Folder that keeps what is learnt of clients over a restart, under hashes of their addresses. Made if missing.",
        ),
        key(
            "threads",
            Form::Count(1, crate::MAX_THREADS as u64),
            "(one per core)",
            "Worker threads, each with its own sockets and event loop.",
        ),
        key(
            "grace",
            Form::Time,
            "\"10s\"",
            "How long a stop waits for requests that are being answered.",
        ),
        key(
            "takeover",
            Form::Path,
            "(no process takes over)",
            "Unix socket where a running server and the one that replaces it meet.",
        ),
        key(
            "admin",
            Form::Text("/run/altway/admin.sock"),
            "(there is none)",
            "Socket that shows what the server does, for `altway status`, `explain` and `reload`, browsers and Prometheus: path of a Unix socket, which only this user may use, or IP:PORT of this machine. `--admin` takes its place.",
        ),
        key(
            "user",
            Form::Text("altway"),
            "(the one that starts it)",
            "User, by name or number, as whom the server goes on once its sockets are bound and its keys are read: it must be started as root. Keys that this user can't read are not read again by a reload.",
        ),
        key(
            "group",
            Form::Text("ssl-cert"),
            "(that of `user`, with the further ones that it has)",
            "Group, by name or number, in place of the user's own; the user's further groups stay. With `user`.",
        ),
        key(
            "sandbox",
            Form::Either(&Form::Switch, &Form::Table(&SANDBOX)),
            "true",
            "The kernel keeps the process from files that the configuration does not name (Landlock, Linux 5.19 and later), whatever happens in it. What a reload names beyond them needs a new process, or is listed here.",
        ),
        key(
            "ticket-keys",
            Form::OneOrMore(&Form::Path),
            "(the server's own, a new one every six hours)",
            "Files of the keys of TLS session tickets, for several servers that clients resume at: 32 to 1,024 random bytes each, 16 files at most. The first encrypts, all decrypt; read again by a reload.",
        ),
        key(
            "listen",
            Form::Table(&LISTEN),
            "",
            "Where the server listens.",
        ),
        key(
            "transport",
            Form::Table(&TRANSPORT),
            "",
            "How TCP and QUIC send.",
        ),
        key("limits", Form::Table(&LIMITS), "", "What clients may cost."),
        key("log", Form::Table(&LOG), "", "What is written down."),
        key(
            "acme",
            Form::Table(&ACME),
            "",
            "Certificates that the server gets by itself.",
        ),
        key("site", Form::Tables(&SITE), "", "What is served."),
    ],
};

/// `sandbox` with more than a switch.
pub const SANDBOX: Section = Section {
    title: "`sandbox`",
    about: "What the process can reach beside what the configuration names, for reloads to come: `{ read = [\"/srv\"] }`.",
    keys: &[
        key(
            "read",
            Form::OneOrMore(&Form::Path),
            "[]",
            "Folders that it can read, with all that is in them.",
        ),
        key(
            "write",
            Form::OneOrMore(&Form::Path),
            "[]",
            "Folders that it can read and write to, with all that is in them.",
        ),
    ],
};

/// An included file.
pub const INCLUDED: Section = Section {
    title: "an included file",
    about: "Sites.",
    keys: &[key("site", Form::Tables(&SITE), "", "What is served.")],
};

/// `[listen]`.
pub const LISTEN: Section = Section {
    title: "[listen]",
    about: "Where and how the server listens.",
    keys: &[
        key(
            "https",
            Form::OneOrMore(&Form::Either(&Form::Text("*:443"), &Form::Table(&LISTENER))),
            "[\"*:8443\"], unless `http` is given",
            "Addresses and ports for TLS over TCP, and for QUIC over UDP where `protocols` has `h3`: clients are offered it at the port that they came by. `*` is all addresses, IPv6 and IPv4; port 0 is any that is free. With `http` 16 together.",
        ),
        key(
            "http",
            Form::OneOrMore(&Form::Either(&Form::Text("*:80"), &Form::Table(&LISTENER))),
            "[]",
            "Addresses and ports for clear text: HTTP/1.1, and HTTP/2 by prior knowledge; no HTTP/3. Beside `https` it leads there (301, and 308 for other methods than GET and HEAD), but for `/.well-known/acme-challenge/` where [acme] or a route of the site has an answer; alone it serves the sites.",
        ),
        key(
            "behind-tls-proxy",
            Form::Switch,
            "false",
            "The clear text of `http` comes from a proxy that terminates TLS: requests name the scheme https, not http (else 421). Nobody but the proxy may reach the port.",
        ),
        key(
            "protocols",
            Form::List(&Form::Words(Protocol::WORDS)),
            "[\"h1\", \"h2\", \"h3\"]",
            "The protocols that clients are given; others are refused by ALPN. `h1` or `h2` is among them.",
        ),
        key(
            "alt-svc-port",
            Form::Count(1, 65_535),
            "(the port that clients come by; of `http` that of the first `https`)",
            "Port number that clients see, where a NAT or a container changes it: HTTP/3 is offered there, and `http` leads there. A listener can have its own.",
        ),
        key(
            "proxy-protocol-from",
            Form::OneOrMore(&Form::Text("10.0.0.0/8")),
            "[]",
            "Networks of proxies that begin each TCP connection with a header of the PROXY protocol, version 2: the client that it names counts for limits, selection and log. From there nothing else is taken; others' connections have no header.",
        ),
        key(
            "spread",
            Form::Words(Spread::WORDS),
            "\"per-worker\"",
            "Who accepts connections over TCP: each worker by itself (no hand-over), or one thread for all in turn (even shares).",
        ),
    ],
};

/// An entry of `https` or `http` with more than its address.
pub const LISTENER: Section = Section {
    title: "a listener",
    about: "An address that has something to itself: `{ address = \"*:443\", protocols = [\"h1\"] }`.",
    keys: &[
        key(
            "address",
            Form::Text("*:443"),
            "(required)",
            "Address and port.",
        ),
        key(
            "protocols",
            Form::List(&Form::Words(Protocol::WORDS)),
            "(those of [listen])",
            "The protocols that clients are given there.",
        ),
        key(
            "alt-svc-port",
            Form::Count(1, 65_535),
            "(that of [listen])",
            "Of `https`: port number that clients see, at which they are offered HTTP/3.",
        ),
        key(
            "redirect",
            Form::Switch,
            "(true beside `https`)",
            "Of `http`: requests are led to `https`; false: the sites are served in clear text.",
        ),
    ],
};

/// `[transport]`.
pub const TRANSPORT: Section = Section {
    title: "[transport]",
    about: "How TCP and QUIC send.",
    keys: &[
        key(
            "congestion",
            Form::Words(Congestion::WORDS),
            "(the system's of TCP, for QUIC too, or cubic where QUIC has no such)",
            "Congestion control of TCP and QUIC.",
        ),
        key(
            "quic-congestion",
            Form::Words(Congestion::WORDS),
            "(as congestion)",
            "Congestion control of QUIC, where it is to be another than TCP's.",
        ),
        key(
            "initial-window",
            Form::Count(2, 1_000),
            "10",
            "Packets of QUIC's first congestion window. TCP's is the route's (`ip route … initcwnd`).",
        ),
        key(
            "early-data",
            Form::Words(EarlyData::WORDS),
            "\"files\"",
            "What returning clients of HTTP/3 are answered a round trip earlier (0-RTT), by GET, HEAD and OPTIONS: nothing, files (nothing with `ticket-keys` or `client-certificates`), or proxied requests too, which origins see with `Early-Data: 1`. What is not is answered 425, and asked for again.",
        ),
        key(
            "certificate-compression",
            Form::Switch,
            "true",
            "Clients that can read it, as browsers can, are sent the certificate chain compressed with Brotli (RFC 8879): over QUIC a long chain may save a round trip so.",
        ),
        key(
            "server-id",
            Form::Text("7f"),
            "\"\"",
            "1 or 2 bytes in hexadecimal that every QUIC connection ID begins with, for a load balancer.",
        ),
    ],
};

/// `[limits]`.
pub const LIMITS: Section = Section {
    title: "[limits]",
    about: "What clients may cost. Counts and sizes are of one worker, but for `max-memory` and `max-body`.",
    keys: &[
        key(
            "max-memory",
            Form::Size,
            "(the sum of the limits' defaults)",
            "Memory of the whole process, split evenly among its workers: sets all counts and sizes, in the proportions of their defaults, so that they add up to it. Other keys override single ones.",
        ),
        key(
            "client-prefix",
            Form::Text("32,48"),
            "\"32,48\"",
            "Addresses that count as one client: leading bits of IPv4 and of IPv6.",
        ),
        key(
            "max-connections",
            Form::Count(1, MOST),
            "10000",
            "Open connections over TCP, and as many over QUIC; each counts for 56 and 75 KiB. From 90 % on the longest idle are closed to make room.",
        ),
        key(
            "max-connections-per-client",
            Form::Count(1, MOST),
            "(an eighth)",
            "Connections of one client, over TCP and QUIC together.",
        ),
        key(
            "max-handshakes",
            Form::Count(1, MOST),
            "2500",
            "Handshakes in progress; each costs 26 KiB more than an idle connection.",
        ),
        key(
            "max-handshakes-per-client",
            Form::Count(1, MOST),
            "(as many as its connections)",
            "Handshakes of one client in progress.",
        ),
        key(
            "max-requests",
            Form::Count(1, MOST),
            "40000",
            "Requests in progress; those beyond are answered 503, except the first 4 of each client (fewer if its share is smaller). Each costs 1 KiB, and maybe a descriptor.",
        ),
        key(
            "max-requests-per-client",
            Form::Count(1, MOST),
            "(an eighth)",
            "Requests of one client in progress.",
        ),
        key(
            "requests-per-prefix",
            Form::Text("200/s, burst 1000"),
            "(10000/s, burst 50000; off for loopback addresses)",
            "How fast requests of one client may come, and how many at once after a pause; per `s`, `min` or `h`, or `off`. Those that come earlier are answered 429 with Retry-After.",
        ),
        key(
            "max-concurrent-requests",
            Form::Count(1, MOST_OF_32_BITS),
            "100",
            "Requests at the same time on one connection of HTTP/2 or HTTP/3.",
        ),
        key(
            "max-body",
            Form::Size,
            "\"100GB\"",
            "The longest content of a request that is passed on to servers behind, where site and route say nothing else; longer ones are answered 413, before the servers see them where the client says how long it is. More than a site takes in one request by default: content is streamed, and costs no memory. Uploads have a limit of their own, `body`; files, redirects and fixed answers read none.",
        ),
        key(
            "max-held",
            Form::Size,
            "\"64MiB\"",
            "Bytes of responses that clients don't take, over TCP, and of requests that nobody reads. Beyond, who holds some gets nothing more until it has taken it.",
        ),
        key(
            "max-held-per-client",
            Form::Size,
            "(an eighth)",
            "The same of one client.",
        ),
        key(
            "max-quic-held",
            Form::Size,
            "\"256MiB\"",
            "Bytes over QUIC that clients have not acknowledged, and that they may send before they are read. From half of it on a connection gets what its path carries in three round trips.",
        ),
        key(
            "max-quic-held-per-client",
            Form::Size,
            "(an eighth)",
            "The same of one client.",
        ),
        key(
            "max-cached",
            Form::Size,
            "\"48MiB\"",
            "Bytes of files that are kept in memory because they are asked for often; 0B: none.",
        ),
        key(
            "retry",
            Form::Either(&Form::Text("always"), &Form::Count(0, MOST_OF_32_BITS)),
            "1000",
            "When QUIC clients must first show their address (Retry; costs them a round trip): `always`, `never`, or beyond so many unfinished handshakes.",
        ),
        key(
            "handshake-timeout",
            Form::Time,
            "\"10s\"",
            "How long a handshake may take, 1 ms or more.",
        ),
        key(
            "header-timeout",
            Form::Time,
            "\"30s\"",
            "How long the head of a request may take, which is answered 408 then, and a connection over HTTP/1.1 idle before it; 1 ms or more.",
        ),
        key(
            "idle-timeout",
            Form::Time,
            "\"1min\"",
            "How long a connection may idle; 1 ms or more.",
        ),
        key(
            "slowest",
            Form::Text("1kB/s after 10s"),
            "(100 bytes a second over `idle-timeout`)",
            "How slowly a client may send the content of a request or take that of a response: in each span of so long that it is waited for, it must move by what the rate gives. Slower ones are ended, however far they are; a transfer that moves may take as long as it likes.",
        ),
    ],
};

/// `[log]`.
pub const LOG: Section = Section {
    title: "[log]",
    about: "What is written down.",
    keys: &[
        key(
            "access",
            Form::Path,
            "(no log)",
            "File to which a line is appended for each request, or \"-\" for stderr. A new file is its owner's alone. No request waits for it: lines beyond 4 MiB that it doesn't take are dropped, and counted in it.",
        ),
        key(
            "format",
            Form::Words(LogFormat::WORDS),
            "\"key-value\"",
            "How a line of `access` looks: `key=value`, a JSON object, or the combined format of Apache and nginx, which has neither offers nor durations nor counts of dropped lines.",
        ),
        key(
            "selection",
            Form::Path,
            "(no log)",
            "File to which a line of JSON is appended for each page, with what was decided for its client, from which `altway policy evaluate` says what other policies would have been worth. Addresses stand in it as keyed hashes, which `state` keeps the same over a restart.",
        ),
        key(
            "qlog",
            Form::Path,
            "(no log)",
            "Folder, made if missing, for a qlog of each HTTP/3 connection (1,000 files, 1 GiB at most), for qvis.",
        ),
        key(
            "keylog",
            Form::Path,
            "(no log)",
            "File to which the TLS secrets of every connection are appended, for Wireshark. Whoever has them reads all.",
        ),
    ],
};
