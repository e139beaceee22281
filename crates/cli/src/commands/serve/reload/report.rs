//! The words of a reload: what has changed, and what a process keeps to that runs already.

use altway_config::{Config, Limits, Plan, Site};

/// A line for each difference of the new plan; never empty. What holds for the process is compared with what that has
/// `begun` with, whatever was read since.
pub(super) fn report(begun: &Config, former: &Plan, new: &Plan) -> String {
    let mut lines: Vec<String> = Vec::new();
    for site in new.sites() {
        let before = former.sites().iter().find(|it| is_same(it, site));
        match before {
            None => lines.push(format!("added {}", name(site))),
            Some(before) if before != site => lines.push(format!("changed {}", name(site))),
            Some(_) => {}
        }
    }
    for site in former.sites() {
        if !new.sites().iter().any(|it| is_same(it, site)) {
            lines.push(format!("removed {}", name(site)));
        }
    }
    if former.config().acme != new.config().acme {
        lines.push("changed [acme]".into());
    }
    if former.config().limits.max_body != new.config().limits.max_body {
        lines.push("changed max-body of [limits]".into());
    }
    if let Some(what) = takes_restart(begun, new.config()) {
        lines.push(format!("not changed: {what}; that takes a restart"));
    }
    let kept = not_replaced(begun, new.config());
    if !kept.is_empty() {
        let keys = kept.join(", ");
        lines.push(format!(
            "not changed in place: {keys}; start a new process for that, which takes over with `takeover`"
        ));
    }
    if lines.is_empty() {
        lines.push("nothing in the configuration has changed".into());
    }
    lines.join("\n") + "\n"
}

/// Checks whether two plans mean the same site.
fn is_same(a: &Site, b: &Site) -> bool {
    (a.is_default && b.is_default) || a.names.iter().any(|name| b.names.contains(name))
}

fn name(site: &Site) -> String {
    match site.names.first() {
        Some(name) => format!("site {name}"),
        None => "the default site".into(),
    }
}

/// A configuration with those of its sites alone that say something of the whole process.
pub(super) fn of_whole_process(config: &Config) -> Config {
    let mut config = config.clone();
    config.sites.retain(|site| site.is_default);
    config
}

/// The limits that hold for the process: `max-body` is of routes.
fn of_process(limits: &Limits) -> Limits {
    Limits {
        max_body: None,
        ..limits.clone()
    }
}

/// The setting that differs, of those that a process which takes over has as the former one.
fn takes_restart(begun: &Config, new: &Config) -> Option<String> {
    let (begun, new) = (begun.listen.main()?, new.listen.main()?);
    if begun.address != new.address {
        return Some(format!("the first address of [listen], {}", new.address));
    }
    let differs = begun.has_http3() != new.has_http3();
    differs.then(|| "HTTP/3 at the first address of [listen]".into())
}

/// The keys that are different and hold for the process.
fn not_replaced(begun: &Config, new: &Config) -> Vec<&'static str> {
    let policy = |config: &Config| {
        let default = config.sites.iter().find(|site| site.is_default);
        default.map(|site| site.policy.clone())
    };
    let keys = [
        ("threads", begun.threads != new.threads),
        ("state", begun.state != new.state),
        ("grace", begun.grace != new.grace),
        ("takeover", begun.takeover != new.takeover),
        ("admin", begun.admin != new.admin),
        ("user", begun.user != new.user),
        ("group", begun.group != new.group),
        ("sandbox", begun.sandbox != new.sandbox),
        (
            "ticket-keys",
            begun.ticket_keys.is_empty() != new.ticket_keys.is_empty(),
        ),
        ("[listen]", begun.listen != new.listen),
        ("[transport]", begun.transport != new.transport),
        (
            "[limits]",
            of_process(&begun.limits) != of_process(&new.limits),
        ),
        ("[log]", begun.log != new.log),
        (
            "the policy of the default site",
            policy(begun) != policy(new),
        ),
    ];
    let changed = keys.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::NoFiles;

    const SITE: &str = "route = [{ respond = { status = 204 } }]\n";

    fn plan(text: &str) -> Plan {
        altway_config::read("a.toml", text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    /// The report of the first reload.
    fn first_report(former: &Plan, new: &Plan) -> String {
        report(former.config(), former, new)
    }

    #[test]
    fn what_holds_for_the_process_is_told_as_long_as_that_runs_otherwise() {
        let text = |threads: u32, https: &str| {
            plan(&format!(
                "threads = {threads}\n[listen]\nhttps = [{https:?}]\n[[site]]\ndefault = true\n{SITE}"
            ))
        };
        let (begun, other) = (text(2, "*:443"), text(3, "*:444"));
        let told = |former, new| report(begun.config(), former, new);
        let first = told(&begun, &other);
        assert!(first.contains("*:444; that takes a restart\n"), "{first}");
        assert!(
            first.contains("not changed in place: threads, [listen];"),
            "{first}"
        );
        assert_eq!(told(&other, &other), first, "read again");
        assert_eq!(
            told(&other, &begun),
            "nothing in the configuration has changed\n"
        );
    }

    #[test]
    fn what_is_new_is_reported_and_what_needs_a_process_is_named() {
        let former = plan(&format!(
            "[[site]]\nnames = [\"a.example\"]\n{SITE}[[site]]\nnames = [\"b.example\"]\n{SITE}"
        ));
        let new = plan(&format!(
            "threads = 3\n[[site]]\nnames = [\"a.example\"]\npolicy = \"h2\"\n{SITE}[[site]]\ndefault = true\n{SITE}"
        ));
        assert_eq!(
            first_report(&former, &new),
            "changed site a.example\nadded the default site\nremoved site b.example\n\
             not changed in place: threads, the policy of the default site; start a new process for that, \
             which takes over with `takeover`\n"
        );
        assert_eq!(
            first_report(&new, &new),
            "nothing in the configuration has changed\n"
        );
        let limits = |limits: &str| {
            plan(&format!(
                "[limits]\n{limits}[[site]]\ndefault = true\n{SITE}"
            ))
        };
        assert_eq!(
            first_report(&limits(""), &limits("max-body = \"1MB\"\n")),
            "changed max-body of [limits]\n"
        );
        let listening = |https: &str| {
            plan(&format!(
                "[listen]\nhttps = [{https}]\n[[site]]\ndefault = true\n{SITE}"
            ))
        };
        let former = listening("\"*:443\"");
        let restarts = |https| first_report(&former, &listening(https)).contains("takes a restart");
        assert!(!restarts("\"*:443\", \"*:444\""));
        assert!(restarts("\"*:444\", \"*:443\""));
        assert!(restarts("{ address = \"*:443\", protocols = [\"h2\"] }"));
        let kept = first_report(&limits(""), &limits("max-held = \"1MB\"\n"));
        assert!(
            kept.starts_with("not changed in place: [limits];"),
            "{kept}"
        );
    }
}
