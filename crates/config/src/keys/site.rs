//! The keys of sites and of what stands in them.

use super::proxy;
use super::{Form, Section, key};
use crate::{Coding, OnTheFly};

/// `[[site]]`.
pub const SITE: Section = Section {
    title: "[[site]]",
    about: "A site: its names, its certificates, and what it answers.",
    keys: &[
        key(
            "names",
            Form::OneOrMore(&Form::Text("example.org")),
            "[]",
            "Names of its hosts, each of one site alone. `*.example.org` is every name one level below; an exact name goes before it.",
        ),
        key(
            "default",
            Form::Switch,
            "false",
            "The site has the requests for hosts that no site names, and connections that name none. At most one site is.",
        ),
        key(
            "certificate",
            Form::OneOrMore(&Form::Table(&CERTIFICATE)),
            "(one of altway's own authority, which browsers do not trust by themselves)",
            "Its certificate and key, or several; of those that suit a client the first is used.",
        ),
        key(
            "policy",
            Form::Text("learned"),
            "\"learned\"",
            "Who is offered HTTP/3: `learned` (by what each client and others like it have shown), `surface` or `surface:FILE` (by measured times), `threshold` or `threshold:rtt=TIME,loss=SHARE`, `study` or `study:delay=TIME,loss=SHARE`, `h3` or `h2` (all clients).",
        ),
        key(
            "headers",
            HEADERS,
            "{}",
            "Fields of all its responses. A list gives several of one name. The server's own, like Content-Length and Alt-Svc, can't be given.",
        ),
        key(
            "hidden",
            Form::Switch,
            "false",
            "The default of `hidden` for the site's routes.",
        ),
        key(
            "route",
            Form::Tables(&ROUTE),
            "",
            "What is answered to which paths: the first route that matches counts.",
        ),
    ],
};

const HEADERS: Form = Form::Map(
    "a header field's name",
    "X-Frame-Options",
    &Form::OneOrMore(&Form::Text("DENY")),
);

/// `certificate`.
pub const CERTIFICATE: Section = Section {
    title: "`certificate`",
    about: "A certificate and its key.",
    keys: &[
        key(
            "chain",
            Form::Path,
            "(required)",
            "PEM file of the chain, the server's own certificate first.",
        ),
        key(
            "key",
            Form::Either(&Form::Path, &Form::Table(&SECRET)),
            "(required)",
            "Its private key, PEM: a file, or a secret of the environment or of systemd.",
        ),
        key(
            "ocsp",
            Form::Path,
            "(nothing is stapled)",
            "File of an OCSP response for it, DER, to be stapled while it is valid.",
        ),
    ],
};

/// A secret: one of its keys.
pub const SECRET: Section = Section {
    title: "a secret",
    about: "Where a secret is found: one of the three.",
    keys: &[
        key("file", Form::Path, "", "The content of this file."),
        key(
            "env",
            Form::Text("ALTWAY_KEY"),
            "",
            "The value of this variable of the environment.",
        ),
        key(
            "credential",
            Form::Text("key"),
            "",
            "The content of the file of this name in systemd's $CREDENTIALS_DIRECTORY.",
        ),
    ],
};

/// `[[site.route]]`.
pub const ROUTE: Section = Section {
    title: "[[site.route]]",
    about: "What is done with some requests: `files`, `proxy`, `redirect` or `respond`, one of them.",
    keys: &[
        key(
            "path",
            Form::Text("/assets/*"),
            "\"/*\"",
            "The paths that it is for, after percent-decoding: `/about` (this one), `/api/*` (what begins with `/api/`), `*.png` (what ends so), `/*` (all).",
        ),
        key(
            "headers",
            HEADERS,
            "{}",
            "Fields of its responses; one that the site has as well replaces it.",
        ),
        key(
            "files",
            Form::Path,
            "",
            "Folder whose files are served. A request's whole path is looked up below it.",
        ),
        key(
            "index",
            Form::List(&Form::Text("index.html")),
            "[\"index.html\"]",
            "Names of files that stand for their folder, best first. With `files`.",
        ),
        key(
            "fallback",
            Form::Text("/index.html"),
            "(404)",
            "Page for paths of which there is no file, with status 200, for applications of one page. With `files`.",
        ),
        key(
            "clean-urls",
            Form::Switch,
            "false",
            "`/about` is answered with `about.html` where there is no `about`. With `files`.",
        ),
        key(
            "listing",
            Form::Switch,
            "false",
            "A folder without index is answered with a list of its files. With `files`.",
        ),
        key(
            "precompressed",
            Form::List(&Form::Words(Coding::WORDS)),
            "[]",
            "Encodings, best first, for which a file's neighbour (`app.js.zst`, `app.js.br`, `app.js.gz`) is sent to clients that take them. With `files`.",
        ),
        key(
            "compress",
            Form::List(&Form::Words(OnTheFly::WORDS)),
            "[]",
            "Encodings, best first, that are made on the fly of types that are text. With `files`.",
        ),
        key(
            "cache",
            Form::Map(
                "a pattern of paths",
                "/assets/*",
                &Form::Text("public, max-age=31536000, immutable"),
            ),
            "{}",
            "Values of Cache-Control by patterns of paths; the first that matches counts. With `files`.",
        ),
        key(
            "error-pages",
            Form::Map("a status from 400 to 599", "404", &Form::Text("/404.html")),
            "{}",
            "Pages of the folder for statuses of errors. With `files`.",
        ),
        key(
            "hidden",
            Form::Switch,
            "(that of the site)",
            "Files and folders whose names begin with a dot are served, too; `/.well-known` always is. With `files`.",
        ),
        proxy::PROXY,
        proxy::BALANCE,
        proxy::HEALTH_KEY,
        proxy::RETRY_KEY,
        proxy::HOST,
        proxy::TRUST,
        proxy::ROOTS,
        proxy::UPSTREAM_REQUESTS,
        proxy::TIMEOUTS_KEY,
        key(
            "redirect",
            Form::Table(&REDIRECT),
            "",
            "Clients are sent elsewhere.",
        ),
        key(
            "respond",
            Form::Table(&RESPOND),
            "",
            "The answer stands here.",
        ),
    ],
};

/// `redirect`.
pub const REDIRECT: Section = Section {
    title: "`redirect`",
    about: "A redirect.",
    keys: &[
        key(
            "to",
            Form::Text("https://www.example.org{path}{query}"),
            "(required)",
            "A path of the same site or an absolute URL. `{host}`, `{path}`, `{query}` (with its `?`) and `{rest}` (what `*` of the route stands for) are the request's.",
        ),
        key(
            "status",
            Form::Count(301, 308),
            "308",
            "301, 302, 303, 307 or 308.",
        ),
    ],
};

/// `respond`.
pub const RESPOND: Section = Section {
    title: "`respond`",
    about: "An answer.",
    keys: &[
        key(
            "status",
            Form::Count(200, 599),
            "200",
            "Its status, 200 to 599.",
        ),
        key(
            "body",
            Form::Text("gone fishing"),
            "\"\"",
            "Its content, 64 KiB at most; text/plain unless `headers` say another Content-Type.",
        ),
        key(
            "headers",
            HEADERS,
            "{}",
            "Its fields; one that the route or the site has as well replaces it.",
        ),
    ],
};
