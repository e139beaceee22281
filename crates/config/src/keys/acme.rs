//! The keys of `[acme]`.

use super::{Form, Section, key, site::SECRET};
use crate::{AcmeChallenge, AcmeOnDemand, DirectoryUrl};

/// `[acme]`.
pub const ACME: Section = Section {
    title: "[acme]",
    about: "Certificates that the server gets and renews by itself (RFC 8555), for sites with names that say nothing else in `certificate`. Whoever writes it agrees to the authority's terms of service.",
    keys: &[
        key(
            "email",
            Form::Text("ops@example.org"),
            "(none)",
            "Address to which the authority may write of what concerns the account.",
        ),
        key(
            "directory",
            Form::Text("https://acme-staging-v02.api.letsencrypt.org/directory"),
            DIRECTORY,
            "The authority: the URL of its directory. The default is Let's Encrypt; the example is the same for trying things out.",
        ),
        key(
            "profile",
            Form::Text("shortlived"),
            "(the authority's)",
            "The authority's profile of certificates; of Let's Encrypt `classic`, `tlsserver` or `shortlived`.",
        ),
        key(
            "challenges",
            Form::OneOrMore(&Form::Words(AcmeChallenge::WORDS)),
            "(`http-01` where `http` is listened at, then `tls-alpn-01`)",
            "How the authority is shown that a name is this server's, the first one first and the next one where that fails: a file at port 80 or a handshake at port 443, both at the name's public address.",
        ),
        key(
            "on-demand",
            Form::Table(&ON_DEMAND),
            "(none)",
            "Certificates also for names that no site names, once a client asks for one: those of wildcards (`*.example.org`) of sites whose certificates come by ACME, and with `certificate = \"acme\"` in the default site all others.",
        ),
        key(
            "folder",
            Form::Path,
            "(`acme` in `state`)",
            "Folder of the account and the certificates, made if missing, for this user alone and for one process at a time.",
        ),
        key(
            "roots",
            Form::Path,
            "(the system's)",
            "PEM file of the authorities that sign the certificate of the directory's server, for an authority of your own.",
        ),
        key(
            "external-account",
            Form::Table(&EXTERNAL_ACCOUNT),
            "(none)",
            "The account that an authority's operator has given out (RFC 8555 section 7.3.4).",
        ),
    ],
};

const DIRECTORY: &str = "\"https://acme-v02.api.letsencrypt.org/directory\"";

const _: () = assert!(DIRECTORY.len() == DirectoryUrl::LETS_ENCRYPT.len() + 2);

/// `on-demand`.
pub const ON_DEMAND: Section = Section {
    title: "`on-demand`",
    about: "Names whose certificates are ordered when a client asks for them. Its handshake is ended, and so are others until the certificate is there, some seconds later. Names are renewed while they are used, and forgotten once nobody has used them for a certificate's time.",
    keys: &[
        key(
            "ask",
            Form::Text("http://127.0.0.1:9123/allowed"),
            "(required)",
            "URL of a program of yours that says which names may have one, before each order: `GET URL?domain=NAME`, and the status 200 is yes, any other one no. Without an answer in 5 s nothing is ordered. A no holds for 5 minutes; ten names a second are asked for at most.",
        ),
        key(
            "names",
            Form::Count(1, AcmeOnDemand::MOST_NAMES as u64),
            NAMES,
            "Names at most that have a certificate in this way.",
        ),
    ],
};

const NAMES: &str = "1000";

const _: () = assert!(AcmeOnDemand::NAMES == 1_000);

/// `external-account`.
pub const EXTERNAL_ACCOUNT: Section = Section {
    title: "`external-account`",
    about: "An account outside of ACME, to which the one by ACME is bound.",
    keys: &[
        key(
            "id",
            Form::Text("kid-1"),
            "(required)",
            "The key identifier that the authority has given.",
        ),
        key(
            "key",
            Form::Either(&Form::Path, &Form::Table(&SECRET)),
            "(required)",
            "The MAC key that it has given, in base64url: a file, or a secret of the environment or of systemd.",
        ),
    ],
};
