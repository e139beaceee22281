//! Hints on what was probably meant.

use crate::keys::{self, SECTIONS, Section};
use altway_document::{Syntax, nearest};

/// Words of nginx and Caddy, and the keys that say the same.
const OF_OTHER_SERVERS: [(&str, &str); 8] = [
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
];

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

/// The table that has the key, if another one has it.
fn elsewhere(name: &str) -> Option<String> {
    let has_it = |section: &&Section| section.keys.iter().any(|key| key.name == name);
    let section = SECTIONS.into_iter().find(has_it)?;
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
