//! The keys of sites and of what stands in them.

use super::proxy;
use super::{Form, Section, key};
use crate::{Coding, Issuer, MAX_CONCURRENT_UPLOADS, MAX_UPLOAD_PARTS, OnTheFly, UploadMethod};

/// `[[site]]`.
pub const SITE: Section = Section {
    title: "[[site]]",
    about: "A site: its names, its certificates, and what it answers.",
    keys: &[
        key(
            "names",
            Form::OneOrMore(&Form::Text("example.org")),
            "[]",
            "Names of its hosts, each of one site alone. `*.example.org` is every name one level below; an exact name goes before it. A name in another script, as `bücher.example`, means its ASCII form. An address (`192.0.2.1`, `[2001:db8::1]`) is a name, too: clients that connect to one ask for a certificate by no name, and are shown that of the first site that has an address.",
        ),
        key(
            "default",
            Form::Switch,
            "false",
            "The site has the requests for hosts that no site names, and connections that name none, unless a site is named by an address. At most one site is.",
        ),
        key(
            "certificate",
            Form::Either(
                &Form::OneOrMore(&Form::Table(&CERTIFICATE)),
                &Form::Words(Issuer::WORDS),
            ),
            "(`acme` where there is [acme] and the site has names, else `own`)",
            "Its certificate and key, or several; of those that suit a client one with an ECDSA key is used, else the first. `acme`: the server gets one for each name from the authority of [acme]. `own`: one of altway's own authority, which browsers do not trust by themselves.",
        ),
        key(
            "client-certificates",
            Form::Table(&CLIENT_CERTIFICATES),
            "(clients are asked for none)",
            "Clients show a certificate of theirs. Requests that came to another site's name, or in clear text, are answered 421.",
        ),
        key(
            "policy",
            Form::Text("learned"),
            "\"learned\"",
            "Who is offered HTTP/3: `learned` or `learned:FILE` (by what each client and others like it have shown, and by predicted times until then), `surface` or `surface:FILE` (by predicted times alone), `threshold` or `threshold:rtt=TIME,loss=SHARE`, `study` or `study:delay=TIME,loss=SHARE`, `h3` or `h2` (all clients).",
        ),
        key(
            "beacon",
            Form::Text("1%"),
            "(none)",
            "Share of page views whose browsers report how long the page took, above 0. Then `/.well-known/altway/beacon.js` is a script that pages may name, `/.well-known/altway/beacon` takes what it sends, and the numbers go to `selection` of [log] and show how far the server's timing is off. Nothing is decided by them.",
        ),
        key(
            "headers",
            HEADERS,
            "{}",
            "Fields of all its responses. A list gives several of one name. The server's own, like Content-Length and Alt-Svc, can't be given.",
        ),
        key(
            "max-body",
            Form::Size,
            "(that of [limits])",
            "The longest content of a request that its routes with `proxy` pass on, where they say nothing else; longer ones are answered 413.",
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

pub(super) const HEADERS: Form = Form::Map(
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

/// `client-certificates`.
pub const CLIENT_CERTIFICATES: Section = Section {
    title: "`client-certificates`",
    about: "The certificates of a site's clients.",
    keys: &[
        key(
            "roots",
            Form::Path,
            "(required)",
            "PEM file of the authorities whose certificates are good, directly or through others that the client sends along. Read again by a reload, and within 30 s of a change.",
        ),
        key(
            "revocation",
            Form::OneOrMore(&Form::Path),
            "none",
            "Files of certificate revocation lists (CRL), PEM or DER: what they name is not good, nor is a certificate of an authority without a list here that is in its time. Read again as `roots`.",
        ),
        key(
            "required",
            Form::Switch,
            "true",
            "Requests of clients without one are answered 403; false: they are answered as others, and log and services are told of those that have one.",
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
    about: "What is done with some requests: `files`, `proxy`, `redirect`, `respond` or `upload`, one of them.",
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
            "Encodings, best first, that are made on the fly of types that are text; `zstd` in builds with the feature of that name. With `files`.",
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
        proxy::STRIP_PREFIX,
        proxy::ADD_PREFIX,
        proxy::REQUEST_HEADERS,
        proxy::RESPONSE_HEADERS,
        proxy::TRUST,
        proxy::ROOTS,
        proxy::SERVER_NAME,
        proxy::CLIENT_CERTIFICATE_KEY,
        proxy::SEND_PROXY_PROTOCOL,
        proxy::UPSTREAM_REQUESTS,
        proxy::MAX_BODY,
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
        key(
            "upload",
            Form::Table(&UPLOAD),
            "",
            "Files that clients send are stored. With a `path` like `/incoming/*`, or of one path for forms.",
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

/// `upload`.
pub const UPLOAD: Section = Section {
    title: "`upload`",
    about: "Files that clients send. Nothing of one is seen before it is whole.",
    keys: &[
        key(
            "folder",
            Form::Path,
            "(required)",
            "The folder in which they are stored. What `*` of the route stands for is the path below it; folders in that path must be there already.",
        ),
        key(
            "methods",
            Form::OneOrMore(&Form::Words(UploadMethod::WORDS)),
            "[\"PUT\", \"POST\"]",
            "`PUT` stores its content under the name that the path ends with, `POST` the files of a form (multipart/form-data) under their own.",
        ),
        key(
            "body",
            Form::Size,
            "\"100MB\"",
            "The longest content of a request; longer ones are answered 413.",
        ),
        key(
            "parts",
            Form::Count(1, MAX_UPLOAD_PARTS),
            "32",
            "The most parts of a form, files and other fields together. Each file costs a descriptor until the form is complete.",
        ),
        key(
            "replace",
            Form::Switch,
            "false",
            "A file that is there already is replaced; otherwise the answer is 409.",
        ),
        key(
            "min-free",
            Form::Size,
            "\"100MB\"",
            "Space of the file system that is left free; uploads that would take of it are answered 507.",
        ),
        key(
            "slowest",
            Form::Text("1KB/s after 30s"),
            "\"1KB/s after 30s\"",
            "The slowest client that is waited for: a rate, and how long a client may be behind it before it is answered 408. There is no limit to the time of an upload as a whole.",
        ),
        key(
            "concurrent",
            Form::Count(1, MAX_CONCURRENT_UPLOADS),
            "64",
            "The most uploads at the same time; further ones are answered 503. Each holds up to 128 KiB of memory.",
        ),
        key(
            "resumable",
            Form::Switch,
            "false",
            "An upload by PUT that was interrupted can be resumed, by clients that know draft-ietf-httpbis-resumable-upload.",
        ),
    ],
};
