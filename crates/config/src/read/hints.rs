//! Hints on what was probably meant.

use crate::keys::{self, SECTIONS, Section};
use altway_document::{Syntax, nearest};

/// Words of nginx and Caddy, and the keys that say the same.
const OF_OTHER_SERVERS: [(&str, &str); 20] = [
    ("root", "`files` in a [[site.route]] names the folder"),
    (
        "location",
        "`path` in a [[site.route]] says which requests it answers",
    ),
    ("server_name", "`names` in a [[site]] names its hosts"),
    ("server", "write [[site]]"),
    (
        "proxy_pass",
        "`proxy` in a [[site.route]] names the servers behind",
    ),
    (
        "reverse_proxy",
        "`proxy` in a [[site.route]] names the servers behind",
    ),
    (
        "ssl_certificate",
        "`certificate = { chain = \"FILE\", key = \"FILE\" }` in a [[site]]",
    ),
    (
        "tls",
        "`certificate = { chain = \"FILE\", key = \"FILE\" }` in a [[site]]",
    ),
    (
        "file_server",
        "`files` in a [[site.route]] names the folder",
    ),
    (
        "try_files",
        "`fallback` beside `files` names the page of an application of one page",
    ),
    ("error_page", "`error-pages` beside `files`"),
    ("handle_errors", "`error-pages` beside `files`"),
    ("return", "`redirect` or `respond` in a [[site.route]]"),
    ("redir", "`redirect` in a [[site.route]]"),
    (
        "rewrite",
        "`redirect` in a [[site.route]] leads elsewhere; beside `proxy` there are `strip-prefix` and `add-prefix`",
    ),
    ("add_header", "`headers` in a [[site]] or a [[site.route]]"),
    ("encode", "`compress` beside `files`"),
    ("gzip", "`compress` beside `files`"),
    (
        "access_log",
        "`access` in [log] names the file of the access log",
    ),
    (
        "staging",
        "`directory` names another authority: \"https://acme-staging-v02.api.letsencrypt.org/directory\" is Let's Encrypt's for trials",
    ),
];

/// Keys whose values are written in another form than other servers have for them.
const OF_FORMS: [(&str, &str); 4] = [
    ("listen", "write [listen], and below it `https = \"*:443\"`"),
    (
        "proxy",
        "the servers behind alone, like `proxy = [\"http://10.0.1.1:8080\"]`; what else is to be said of them stands beside it",
    ),
    (
        "files",
        "the folder alone, like `files = \"/srv/www\"`; what else is to be said of it stands beside it",
    ),
    (
        "acme",
        "write [acme], and below it its keys; without any it is Let's Encrypt's",
    ),
];

/// Tables and lists of a route, as they are written. Other tables have keys of these names which are neither.
const EXAMPLES: [(&str, &str); 11] = [
    (
        "redirect",
        "{ to = \"https://www.example.org{path}{query}\" }",
    ),
    ("respond", "{ body = \"well\" }"),
    ("upload", "{ folder = \"/srv/incoming\" }"),
    ("headers", "{ X-Frame-Options = \"DENY\" }"),
    ("cache", "{ \"/assets/*\" = \"public, max-age=31536000\" }"),
    ("error-pages", "{ 404 = \"/404.html\" }"),
    ("index", "[\"index.html\"]"),
    ("precompressed", "[\"br\", \"gzip\"]"),
    ("compress", "[\"br\", \"gzip\"]"),
    ("health", "{ path = \"/healthz\" }"),
    ("timeouts", "{ head = \"1min\" }"),
];

/// The hint on a value that is not of the kind that is wanted.
pub(super) fn of_form(key: &str, wanted: &str) -> Option<String> {
    let mut forms = OF_FORMS.iter();
    if let Some((_, hint)) = forms.find(|(name, _)| *name == key) {
        return Some((*hint).into());
    }
    let is_of_several = wanted.starts_with("a table") || wanted.starts_with("a list");
    let mut examples = EXAMPLES.iter().filter(|_| is_of_several);
    let (_, example) = examples.find(|(name, _)| *name == key)?;
    Some(format!("like `{key} = {example}`"))
}

/// The hint on a key that a table of `section` does not have, and the key that is meant if there is one of a similar name.
pub(super) fn of_key<'s>(name: &str, section: &'s Section) -> (String, Option<&'s str>) {
    let of_other_server = || OF_OTHER_SERVERS.iter().find(|(word, _)| *word == name);
    if let Some((_, hint)) = of_other_server() {
        return ((*hint).into(), None);
    }
    if let Some(hint) = elsewhere(name) {
        return (hint, None);
    }
    match nearest(name, section.keys.iter().map(|key| key.name)) {
        Some(meant) => (format!("did you mean `{meant}`?"), Some(meant)),
        None => (all_keys(section), None),
    }
}

/// The hint on a text that is not TOML.
pub(super) fn of_syntax(text: &str, fault: &Syntax) -> &'static str {
    let begin = text
        .get(..fault.span.start)
        .unwrap_or_default()
        .rfind('\n')
        .map_or(0, |end| end + 1);
    let line = text[begin..].lines().next().unwrap_or_default().trim_end();
    if fault.message.contains("escaped value") {
        return "in double quotes a `\\` begins an escape: write `/`, or take single quotes";
    }
    if line.ends_with('{') && !line.contains('=') {
        return "a configuration is TOML: docs/guide/moving.md has what takes the place of a Caddyfile or an nginx.conf";
    }
    "here or just before, a quote, a bracket or a comma may be missing"
}

/// The table that has the key, if another one has it. Not a secret, whose `file` in a route is meant to be `files`.
fn elsewhere(name: &str) -> Option<String> {
    let has_it = |section: &&Section| section.keys.iter().any(|key| key.name == name);
    let mut sections = SECTIONS.into_iter();
    let section = sections.find(|it| it.title != keys::SECRET.title && has_it(it))?;
    Some(match section.title {
        title if title == keys::ROOT.title => "it stands before the first table".into(),
        title => format!("it is a key of {title}"),
    })
}

/// `its keys are …`.
fn all_keys(section: &Section) -> String {
    let names: Vec<_> = section
        .keys
        .iter()
        .map(|key| format!("`{}`", key.name))
        .collect();
    format!("its keys are {}", names.join(", "))
}
