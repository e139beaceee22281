//! The configuration of a running server, read again.

use super::certificate::{Origin, certificates};
use crate::config_file;
use crate::printer::Printer;
use altway_admin::Reloaded;
use altway_config::{Config, Plan, Site};
use altway_proxy::Statistics;
use altway_serve::ReloadHandle;
use anyhow::Result;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The configuration that a server is run by, and the handle that changes it.
#[derive(Debug)]
pub(super) struct Reloading {
    /// `None`: options, which stay; their certificates and folders are opened anew.
    file: Option<PathBuf>,
    /// The plan in use.
    plan: Mutex<Plan>,
    server: ReloadHandle,
    /// Counts what routes with `proxy` do, over all plans.
    statistics: Arc<Statistics>,
    printer: Printer,
}

impl Reloading {
    pub(super) fn new(
        file: Option<PathBuf>,
        plan: Plan,
        (server, statistics): (ReloadHandle, Arc<Statistics>),
        printer: Printer,
    ) -> Self {
        Self {
            file,
            plan: Mutex::new(plan),
            server,
            statistics,
            printer,
        }
    }

    /// Reads everything again and has the server go by it. What can't be used changes nothing.
    pub(super) fn reload(&self) -> Reloaded {
        let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        match self.prepared(&current) {
            Ok((plan, report)) => {
                *current = plan;
                Reloaded {
                    success: true,
                    report,
                }
            }
            Err(error) => {
                let what = match self.file {
                    Some(_) => "configuration",
                    None => "certificate",
                };
                Reloaded {
                    success: false,
                    report: format!("the former {what} stays in use: {error:#}\n"),
                }
            }
        }
    }

    /// The new plan, which is in use, and what is new in it.
    fn prepared(&self, current: &Plan) -> Result<(Plan, String)> {
        let plan = match &self.file {
            Some(file) => config_file::load(file)?.0,
            None => current.clone(),
        };
        let is_clear = current.config().listen.is_clear_text();
        let shown = match is_clear || plan.config().listen.is_clear_text() {
            true => None,
            false => Some(certificates(&plan, Origin::Reload, &self.printer)?),
        };
        let count = shown.as_ref().map(|shown| shown.iter().count());
        let site = altway_site::site_counted(&plan, &self.statistics)?;
        self.server
            .replace(&site, &altway_site::hosts(&plan), shown)?;
        let report = match self.file {
            Some(_) => report(current, &plan) + &read_again(count),
            None => read_again_by_options(count).into(),
        };
        Ok((plan, report))
    }
}

/// The certificates that were read; none in clear text.
fn read_again(count: Option<usize>) -> String {
    match count {
        Some(1) => "read 1 certificate\n".into(),
        Some(count) => format!("read {count} certificates\n"),
        None => String::new(),
    }
}

/// The report of a server without a file: its options are the same.
fn read_again_by_options(certificates: Option<usize>) -> &'static str {
    match certificates {
        Some(_) => "the certificate was read again\n",
        None => "the folder was opened again; clear text has no certificate to read\n",
    }
}

/// A line for each difference of the new plan; never empty.
fn report(former: &Plan, new: &Plan) -> String {
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
    let kept = not_replaced(former.config(), new.config());
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

/// The keys that are different and hold for the process.
fn not_replaced(former: &Config, new: &Config) -> Vec<&'static str> {
    let policy = |config: &Config| {
        let default = config.sites.iter().find(|site| site.is_default);
        default.map(|site| site.policy.clone())
    };
    let keys = [
        ("state", former.state != new.state),
        ("threads", former.threads != new.threads),
        ("grace", former.grace != new.grace),
        ("takeover", former.takeover != new.takeover),
        ("admin", former.admin != new.admin),
        ("[listen]", former.listen != new.listen),
        ("[transport]", former.transport != new.transport),
        ("[limits]", former.limits != new.limits),
        ("[log]", former.log != new.log),
        (
            "the policy of the default site",
            policy(former) != policy(new),
        ),
    ];
    let changed = keys.into_iter().filter(|(_, is_changed)| *is_changed);
    changed.map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::NoFiles;

    fn plan(text: &str) -> Plan {
        altway_config::read("a.toml", text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    const SITE: &str = "route = [{ respond = { status = 204 } }]\n";

    #[test]
    fn what_is_new_is_reported_and_what_needs_a_process_is_named() {
        let former = plan(&format!(
            "[[site]]\nnames = [\"a.example\"]\n{SITE}[[site]]\nnames = [\"b.example\"]\n{SITE}"
        ));
        let new = plan(&format!(
            "threads = 3\n[[site]]\nnames = [\"a.example\"]\npolicy = \"h2\"\n{SITE}[[site]]\ndefault = true\n{SITE}"
        ));
        assert_eq!(
            report(&former, &new),
            "changed site a.example\nadded the default site\nremoved site b.example\n\
             not changed in place: threads, the policy of the default site; start a new process for that, \
             which takes over with `takeover`\n"
        );
        assert_eq!(
            report(&new, &new),
            "nothing in the configuration has changed\n"
        );
    }
}
