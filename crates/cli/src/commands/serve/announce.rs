//! The lines of `altway serve` once it listens: what is served and from where, by which policy, with which certificate, where
//! to watch it, and how it is stopped.

use super::super::status::span;
use crate::config_file::extent;
use altway_admin::Address;
use altway_config::{Action, Issuer, Plan, Site};
use altway_serve::ShownCertificate;
use altway_units::duration;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The most names and files that a line has.
const MOST: usize = 3;

/// The circumstances that a plan does not tell.
pub(super) struct Circumstances<'c> {
    /// The file that the plan is from; `None`: options.
    pub(super) file: Option<&'c Path>,
    pub(super) admin: Option<&'c Address>,
    /// The certificates in use.
    pub(super) certificates: &'c [ShownCertificate],
    pub(super) now: SystemTime,
}

/// Returns the lines, each indented and without a line end at the last.
pub(super) fn details(plan: &Plan, of: &Circumstances<'_>) -> String {
    let served = match of.file {
        Some(file) => Some(sites(plan, file)),
        None => folder(plan),
    };
    let first = served.into_iter().chain([policies(plan)]);
    let mut lines = vec![first.collect::<Vec<_>>().join(", ")];
    lines.extend(certificate(plan, of));
    lines.extend(of.admin.map(watched));
    let grace = duration::format(plan.config().grace);
    lines.push(format!(
        "Ctrl-C or SIGTERM stops it: requests that are being answered have {grace} to end; a second one ends it at once"
    ));
    let lines: Vec<_> = lines.iter().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// The sites of a file, in words.
fn sites(plan: &Plan, file: &Path) -> String {
    let names = plan.sites().iter().flat_map(|site| &site.names);
    let names: Vec<_> = names.map(ToString::to_string).collect();
    let named = match names.is_empty() {
        true => String::new(),
        false => format!(" ({})", listed(&names)),
    };
    format!("{} of {}{named}", extent(plan), file.display())
}

/// The folder of options; `None`: there are origins, which are told of elsewhere.
fn folder(plan: &Plan) -> Option<String> {
    let mut routes = plan.sites().iter().flat_map(|site| &site.routes);
    routes.find_map(|route| match &route.action {
        Action::Files(files) => Some(format!("files of {}", files.root.display())),
        _ => None,
    })
}

/// The policies of the sites, each once.
fn policies(plan: &Plan) -> String {
    let listen = &plan.config().listen;
    if !listen.has_http3() {
        return "no HTTP/3 to offer".into();
    }
    let each = distinct(plan.sites().iter().map(|site| site.policy.to_string()));
    let word = if each.len() == 1 {
        "policy"
    } else {
        "policies"
    };
    format!("{word} {}", listed(&each))
}

/// The certificates' origins, and how long they are good; `None` in clear text.
fn certificate(plan: &Plan, of: &Circumstances<'_>) -> Option<String> {
    if plan.config().listen.is_clear_text() {
        return None;
    }
    let has_acme = plan.config().acme.is_some();
    let origins = distinct(plan.sites().iter().flat_map(|it| origins(it, has_acme)));
    let ends = of.certificates.iter().filter_map(|it| it.not_after);
    let left = match ends.min() {
        None => "none is there yet".to_owned(),
        Some(end) => match end.duration_since(of.now) {
            Ok(left) => format!("for {} more", span(left.as_secs())),
            Err(_) => "expired".to_owned(),
        },
    };
    let (word, first) = match of.certificates.len() {
        0 | 1 => ("certificate", ""),
        _ => ("certificates", "the first "),
    };
    Some(format!("{word} {}: {first}{left}", listed(&origins)))
}

/// The origins of a site's certificates.
fn origins(site: &Site, has_acme: bool) -> Vec<String> {
    match site.issuer(has_acme) {
        Some(Issuer::Acme) => vec!["by ACME".into()],
        Some(Issuer::Own) => vec!["of altway's own authority".into()],
        None => {
            let chains = site.certificates.iter();
            chains.map(|it| it.chain.display().to_string()).collect()
        }
    }
}

/// The ways to the admin socket.
fn watched(at: &Address) -> String {
    match at {
        Address::Unix(path) => format!("to watch it: altway status --admin {}", path.display()),
        Address::Loopback(address) => {
            format!("to watch it: http://{address}/, or altway status --admin {address}")
        }
    }
}

/// Each text once, in the order in which they come.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut each = Vec::new();
    for text in texts {
        if !each.contains(&text) {
            each.push(text);
        }
    }
    each
}

/// The first of them, and how many more there are.
fn listed(texts: &[String]) -> String {
    let text = texts[..texts.len().min(MOST)].join(", ");
    match texts.len().saturating_sub(MOST) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// The time after which requests are told of that a stop waits for. Until a worker's turn is over one counts whose client has its
/// last byte, and has perhaps ended.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

/// The requests of `active` that are there still after `wait`.
pub(super) fn lasting(active: impl Fn() -> u64, wait: impl FnOnce()) -> u64 {
    match active() {
        0 => 0,
        _ => {
            wait();
            active()
        }
    }
}

/// The line of a server that begins to stop with requests that are still being answered; none without any.
pub(super) fn stopping(active_requests: u64, grace: Duration) -> Option<String> {
    let grace = duration::format(grace);
    (active_requests > 0).then(|| {
        format!(
            "stopping; requests that are being answered: {active_requests}, with {grace} to end; a second signal ends them at once"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::{NoFiles, read};

    fn lines(text: &str, file: Option<&str>, admin: Option<&Address>) -> Vec<String> {
        let plan = read("altway.toml", text, &mut NoFiles).unwrap();
        let of = Circumstances {
            file: file.map(Path::new),
            admin,
            certificates: &[],
            now: SystemTime::UNIX_EPOCH,
        };
        let text = details(&plan, &of);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn a_request_that_ends_at_once_is_none_that_a_stop_waits_for() {
        use std::cell::Cell;
        let count = Cell::new(1);
        assert_eq!(lasting(|| count.get(), || count.set(0)), 0);
        count.set(3);
        assert_eq!(lasting(|| count.get(), || count.set(2)), 2);
        count.set(0);
        assert_eq!(lasting(|| count.get(), || panic!("nobody waits")), 0);
    }

    const STOP: &str = "Ctrl-C or SIGTERM stops it: requests that are being answered have 10s to end; a second one ends it at once";

    #[test]
    fn a_folder_by_options_is_told_with_policy_certificate_and_the_way_to_stop() {
        let one = "[[site]]\ndefault = true\nroute = [{ files = \"site\" }]\n";
        let admin = "127.0.0.1:2019".parse().unwrap();
        assert_eq!(
            lines(one, None, Some(&admin)),
            [
                "files of site, policy learned",
                "certificate of altway's own authority: none is there yet",
                "to watch it: http://127.0.0.1:2019/, or altway status --admin 127.0.0.1:2019",
                STOP
            ]
        );
    }

    #[test]
    fn many_sites_and_certificates_are_told_in_a_line_each() {
        let mut text = "[listen]\nhttps = \"*:443\"\n".to_owned();
        for number in 1..=5 {
            let policy = ["learned", "h2"][number % 2];
            text += &format!(
                "[[site]]\nnames = [\"{number}.example\"]\npolicy = \"{policy}\"\ncertificate = {{ chain = \"{number}.pem\", key = \
                 \"{number}.key\" }}\nroute = [{{ files = \"/srv/{number}\" }}]\n"
            );
        }
        assert_eq!(
            lines(&text, Some("altway.toml"), None),
            [
                "5 sites, 5 routes of altway.toml (1.example, 2.example, 3.example and 2 more), policies h2, learned",
                "certificate 1.pem, 2.pem, 3.pem and 2 more: none is there yet",
                STOP
            ]
        );
    }

    #[test]
    fn in_clear_text_there_is_no_certificate_and_nothing_to_offer() {
        let text =
            "[listen]\nhttp = \"*:80\"\n[[site]]\ndefault = true\nroute = [{ files = \"site\" }]\n";
        assert_eq!(
            lines(text, None, None),
            ["files of site, no HTTP/3 to offer", STOP]
        );
    }
}
