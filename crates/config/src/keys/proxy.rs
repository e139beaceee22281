//! The keys of what a route with `proxy` has.

use super::site::{HEADERS, SECRET};
use super::{Form, Key, MOST, Section, key};

/// `proxy` of a route.
pub(super) const PROXY: Key = key(
    "proxy",
    Form::OneOrMore(&Form::Text("http://10.0.1.1:8080")),
    "",
    "Servers that the requests are carried to: `http://HOST:PORT`, `https://HOST`, `h2c://HOST:PORT` (HTTP/2 in clear text), `h2://HOST` (HTTP/2 over TLS), `h3://HOST` (HTTP/3, which nothing takes the place of where UDP does not pass), `unix:/PATH`, `unix+h2c:/PATH` (HTTP/2). They are told the client in Forwarded and X-Forwarded-For, and never read Alt-Svc to it.",
);

/// `balance` of a route.
pub(super) const BALANCE: Key = key(
    "balance",
    Form::Text("least-requests"),
    "\"round-robin\"",
    "Which server has a request: `round-robin`, `least-requests` (of two at random the less busy one), `hash:client` (by the client's address) or `hash:FIELD`. With `proxy`.",
);

/// `health` of a route.
pub(super) const HEALTH_KEY: Key = key(
    "health",
    Form::Table(&HEALTH),
    "(only what requests show)",
    "A request that each server has to answer regularly, lest it be given none of clients. With `proxy`.",
);

/// `retry` of a route.
pub(super) const RETRY_KEY: Key = key(
    "retry",
    Form::Table(&RETRY),
    "",
    "What follows when a server fails: only what no server can have handled, or what may be handled twice, is sent again. With `proxy`.",
);

/// `host` of a route.
pub(super) const HOST: Key = key(
    "host",
    Form::Text("api.internal"),
    "(what the client asks for)",
    "Host of the requests, where the servers go by it. With `proxy`.",
);

/// `strip-prefix` of a route.
pub(super) const STRIP_PREFIX: Key = key(
    "strip-prefix",
    Form::Text("/api"),
    "(paths stay)",
    "Beginning that the paths of requests lose: with `/api`, `/api/users` becomes `/users`, and `/api` becomes `/`. Paths that begin otherwise, also `/apis`, stay. Location and other fields of responses are not changed. With `proxy`.",
);

/// `add-prefix` of a route.
pub(super) const ADD_PREFIX: Key = key(
    "add-prefix",
    Form::Text("/v2"),
    "(nothing)",
    "What stands before the paths of requests: with `/v2`, `/users` becomes `/v2/users`. After `strip-prefix`. With `proxy`.",
);

/// `request-headers` of a route.
pub(super) const REQUEST_HEADERS: Key = key(
    "request-headers",
    Form::Table(&FIELD_CHANGES),
    "{}",
    "Changes of what the servers are told, Forwarded and X-Forwarded-For included. Host (see `host`), Via and what belongs to framing or to a connection can't be changed. With `proxy`.",
);

/// `response-headers` of a route.
pub(super) const RESPONSE_HEADERS: Key = key(
    "response-headers",
    Form::Table(&FIELD_CHANGES),
    "{}",
    "Changes of what the servers' responses say; `headers` comes after it, and counts for the proxy's own answers as well. Alt-Svc, Content-Encoding and what belongs to framing or to a connection can't be changed. With `proxy`.",
);

/// `trust` of a route.
pub(super) const TRUST: Key = key(
    "trust",
    Form::OneOrMore(&Form::Text("10.0.0.0/8")),
    "[]",
    "Networks of proxies before this one: what they say in Forwarded and X-Forwarded-For is continued, and replaced where anybody else says it. With `proxy`.",
);

/// `roots` of a route.
pub(super) const ROOTS: Key = key(
    "roots",
    Form::Path,
    "(the system's)",
    "PEM file of the authorities that sign the servers' certificates. With `proxy`.",
);

/// `server-name` of a route.
pub(super) const SERVER_NAME: Key = key(
    "server-name",
    Form::Text("api.internal"),
    "(the host of each server)",
    "Name that servers which speak TLS are asked for (SNI), and that their certificates have to be for. An address is not asked for, but has to be in the certificate. With `proxy`.",
);

/// `client-certificate` of a route.
pub(super) const CLIENT_CERTIFICATE_KEY: Key = key(
    "client-certificate",
    Form::Table(&CLIENT_CERTIFICATE),
    "(none)",
    "Certificate that is shown to servers which speak TLS and ask for one. Read at the start and at each reload. With `proxy`.",
);

/// `send-proxy-protocol` of a route.
pub(super) const SEND_PROXY_PROTOCOL: Key = key(
    "send-proxy-protocol",
    Form::Switch,
    "false",
    "Each connection to a server begins with a header of the PROXY protocol, version 2, which names the client. As the header stands once in a connection, each request has one of its own: this costs a connection, and TLS, a request. With `proxy`.",
);

/// `upstream-requests` of a route.
pub(super) const UPSTREAM_REQUESTS: Key = key(
    "upstream-requests",
    Form::Count(1, MOST),
    "1000",
    "Requests at a time that a worker has at one server, and so its connections there. As many more wait; those beyond are answered 503. Of four or more a ninth part, two at least, is for clients (addresses by `client-prefix`) that have few of it, so that none takes all; proxies that are trusted may. With `proxy`.",
);

/// `max-body` of a route.
pub(super) const MAX_BODY: Key = key(
    "max-body",
    Form::Size,
    "(that of the site, else of [limits])",
    "The longest content of a request; longer ones are answered 413, before the servers see them where the client says how long it is. With `proxy`.",
);

/// `timeouts` of a route.
pub(super) const TIMEOUTS_KEY: Key = key(
    "timeouts",
    Form::Table(&TIMEOUTS),
    "",
    "How long servers may take. With `proxy`.",
);

/// `request-headers` and `response-headers`.
pub const FIELD_CHANGES: Section = Section {
    title: "`request-headers` and `response-headers`",
    about: "Changes of the fields of messages that pass, made in this order.",
    keys: &[
        key(
            "remove",
            Form::OneOrMore(&Form::Text("x-internal-*")),
            "[]",
            "Names of fields that are taken away, in any case; `x-internal-*` is every name that begins so.",
        ),
        key(
            "set",
            HEADERS,
            "{}",
            "Fields in place of those that have the same names. A list gives several of one name.",
        ),
        key(
            "append",
            HEADERS,
            "{}",
            "Fields beside those that have the same names.",
        ),
    ],
};

/// `client-certificate`.
pub const CLIENT_CERTIFICATE: Section = Section {
    title: "`client-certificate`",
    about: "A certificate that servers behind this one are shown, and its key.",
    keys: &[
        key(
            "chain",
            Form::Path,
            "(required)",
            "PEM file of the chain, this server's own certificate first.",
        ),
        key(
            "key",
            Form::Either(&Form::Path, &Form::Table(&SECRET)),
            "(required)",
            "Its private key, PEM: a file, or a secret of the environment or of systemd.",
        ),
    ],
};

/// `health`.
pub const HEALTH: Section = Section {
    title: "`health`",
    about: "A health check: GET, passed with a status from 200 to 399. The first decides at once, later ones two by two.",
    keys: &[
        key(
            "path",
            Form::Text("/healthz"),
            "(required)",
            "The path that is asked for.",
        ),
        key(
            "every",
            Form::Time,
            "\"5s\"",
            "Time between two checks, and for each (10 s at most); 100 ms or more.",
        ),
    ],
};

/// `retry`.
pub const RETRY: Section = Section {
    title: "`retry`",
    about: "What follows when a server fails.",
    keys: &[
        key(
            "attempts",
            Form::Count(1, 10),
            "2",
            "Servers that one request is sent to at most; 1: it fails with its first.",
        ),
        key(
            "keep-body",
            Form::Size,
            "\"64KiB\"",
            "Content of a PUT or another idempotent request, and of any other where a server speaks HTTP/2 or HTTP/3, that is kept for a second attempt; 16 MiB at most.",
        ),
    ],
};

/// `timeouts`.
pub const TIMEOUTS: Section = Section {
    title: "`timeouts`",
    about: "How long servers may take, each 1 ms or more. There is no limit of a whole request: what moves goes on.",
    keys: &[
        key(
            "connect",
            Form::Time,
            "\"5s\"",
            "For a connection, its name's resolution and TLS in it, else another server is tried.",
        ),
        key(
            "head",
            Form::Time,
            "\"1min\"",
            "From a request's last byte to the head of its response, else 504; a client that sends nothing for so long is answered 408.",
        ),
        key(
            "idle",
            Form::Time,
            "\"5min\"",
            "For a pause in a response, which is cut off then.",
        ),
        key(
            "slowest",
            Form::Text("1kB/s after 30s"),
            "(1 KiB in `idle`, where the length is known)",
            "The slowest response that is waited for: a rate, and how long a server may be behind it before its response is cut off. Only time counts in which the server is waited for, not the client. Given, it holds for responses of unknown length too, event streams among them.",
        ),
    ],
};
