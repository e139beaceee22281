//! The configuration of a running server, read again.

mod report;

use super::acme::{self, Ordering};
use super::certificate::{Origin, Reading, certificates};
use super::closed_files::{self, is_denied};
use super::places::Places;
use super::sandbox::Sandbox;
use super::setup::{self, ticket_keys};
use super::watch::{self, Stamps};
use super::writable;
use crate::commands::config::check;
use crate::config_file;
use crate::printer::Printer;
use altway_acme::Manager;
use altway_admin::Reloaded;
use altway_config::{Config, Plan};
use altway_proxy::Statistics;
use altway_serve::ReloadHandle;
use anyhow::Result;
use report::{of_whole_process, report};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of a report that the log has at most.
const LOGGED_LINES: usize = 32;

/// The configuration that a server is run by, and the handle that changes it.
#[derive(Debug)]
pub(super) struct Reloading {
    /// `None`: options, which stay; their certificates and folders are opened anew.
    file: Option<PathBuf>,
    /// The configuration that the process began with, of its sites the default one alone: what no reload changes is still
    /// as it says.
    begun: Config,
    current: Mutex<Current>,
    server: ReloadHandle,
    /// The files that can be reached.
    sandbox: Arc<Sandbox>,
    /// Counts what routes with `proxy` do, over all plans.
    statistics: Arc<Statistics>,
    printer: Printer,
    /// Orders certificates; `None`: the process began without `[acme]`.
    acme: Option<Ordering>,
}

/// The plan in use, with the state of its files.
#[derive(Debug)]
struct Current {
    plan: Plan,
    /// The files of its certificates, as they were looked at last.
    stamps: Stamps,
}

impl Reloading {
    /// `stamps`: from before the certificates were read.
    pub(super) fn new(
        file: Option<PathBuf>,
        plan: Plan,
        stamps: Stamps,
        (server, statistics): (ReloadHandle, Arc<Statistics>),
        (sandbox, acme): (Arc<Sandbox>, Option<Ordering>),
        printer: Printer,
    ) -> Self {
        Self {
            file,
            begun: of_whole_process(plan.config()),
            current: Mutex::new(Current { plan, stamps }),
            server,
            sandbox,
            statistics,
            printer,
            acme,
        }
    }

    /// Sets the manager of certificates, which follows the names of the configuration from now on.
    pub(super) fn set_acme(&self, manager: Manager) {
        if let Some(acme) = &self.acme {
            acme.begin(manager);
        }
    }

    /// Whatever orders certificates, once it has begun.
    pub(super) fn acme(&self) -> Option<&Manager> {
        self.acme.as_ref()?.manager()
    }

    /// Reads the certificates of a plan.
    fn certificates(&self, plan: &Plan) -> Result<Reading> {
        let demand = self.acme.as_ref().map(Ordering::demand);
        let former = self.server.certificates();
        certificates(plan, Origin::Reload(&former), demand, &self.printer)
    }

    /// Reads the certificates after one was issued.
    pub(super) fn issued(&self) {
        self.look_for("");
    }

    /// The files that a plan names, with that of the configuration.
    fn places(&self, plan: &Plan) -> Places {
        Places::of(plan, self.file.as_deref(), None).with_authority(plan)
    }

    /// Reads everything again and has the server go by it. What can't be used, or read as the user that the process is by
    /// now, changes nothing, for no site. The server's own log says what came of it, whoever asked.
    pub(super) fn reload(&self) -> Reloaded {
        let reloaded = self.read_all();
        match reloaded.success {
            true => self
                .printer
                .say(&format!("reload: {}", bounded(&reloaded.report, "; "))),
            false => tracing::error!("reload: {}", bounded(&reloaded.report, "\n")),
        }
        reloaded
    }

    fn read_all(&self) -> Reloaded {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match self.prepared(&current.plan) {
            Ok((plan, stamps, report)) => {
                *current = Current { plan, stamps };
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

    /// Reads the certificates again if one of their files was replaced or could not be read. What can't be used is
    /// reported once, and the former certificates stay.
    pub(super) fn look(&self) {
        self.look_for("the files have changed: ");
    }

    /// `why`: what is said of it, if anything.
    fn look_for(&self, why: &str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stamps = Stamps::of(&current.plan);
        if !current.stamps.are_outdated(&stamps) {
            return;
        }
        let explained = |error| closed_files::explained(error, &self.places(&current.plan));
        let read = self.certificates(&current.plan).map_err(explained);
        stamps.unread = match &read {
            Ok(reading) => reading.unread.clone(),
            Err(error) => Some(format!("{error:#}")),
        };
        let is_news = stamps != current.stamps;
        match read {
            Ok(reading) => {
                let count = reading.certificates.iter().count();
                if is_news {
                    reading.tell(&self.printer);
                }
                self.server.replace_certificates(reading.certificates);
                let read = read_again(Some(count));
                if is_news && !why.is_empty() {
                    self.printer.say(&format!("{why}{}", read.trim_end()));
                }
            }
            Err(error) if is_news => tracing::error!(
                "the files of certificates have changed, and the former ones stay in use: {error:#}"
            ),
            Err(_) => {}
        }
        current.stamps = stamps;
    }

    /// Looks every [`INTERVAL`](watch::INTERVAL), on a thread of its own, until the process ends.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let reloading = Arc::clone(self);
        let look = move || {
            loop {
                std::thread::sleep(watch::INTERVAL);
                reloading.look();
            }
        };
        let thread = std::thread::Builder::new().name("certificates".into());
        thread.spawn(look).map(drop)
    }

    /// The new plan, which is in use, the files of its certificates, and what is new in it.
    fn prepared(&self, current: &Plan) -> Result<(Plan, Stamps, String)> {
        let explained = |plan: &Plan, error| closed_files::explained(error, &self.places(plan));
        let Some(file) = &self.file else {
            self.check_possible(current)?;
            let replaced = self.replaced(current, current);
            let (stamps, report) = replaced.map_err(|error| explained(current, error))?;
            return Ok((current.clone(), stamps, report));
        };
        let loaded = config_file::load(file);
        let (plan, places) = loaded.map_err(|error| explained(current, error))?;
        writable::check_new((current.config(), plan.config()), file, &places)?;
        self.check_possible(&plan)?;
        let replaced = self.replaced(current, &plan);
        let (stamps, report) = replaced.map_err(|error| match is_denied(&error) {
            true => explained(&plan, error),
            false => check::with_places(error, &plan, &places, file),
        })?;
        Ok((plan, stamps, report))
    }

    /// Checks whether the process can go by a plan without a new one.
    fn check_possible(&self, plan: &Plan) -> Result<()> {
        acme::check_change(self.acme.as_ref(), plan)?;
        let hindrance = self.sandbox.outside(&Places::of(plan, None, None));
        hindrance.map_or(Ok(()), |it| Err(anyhow::anyhow!(it)))
    }

    /// Has the server go by a plan; the files of its certificates, and what is new in it.
    fn replaced(&self, current: &Plan, plan: &Plan) -> Result<(Stamps, String)> {
        let acme = self.acme.as_ref();
        let acme = acme.map(|acme| Ok::<_, anyhow::Error>((acme, acme.prepare(plan)?)));
        let acme = acme.transpose()?;
        let mut stamps = Stamps::of(plan);
        let ticket_keys = ticket_keys(plan)?;
        let is_clear = self.begun.listen.is_clear_text();
        let shown = match is_clear || plan.config().listen.is_clear_text() {
            true => None,
            false => Some(self.certificates(plan)?),
        };
        let shown = shown.map(|reading| {
            reading.tell(&self.printer);
            stamps.unread = reading.unread;
            reading.certificates
        });
        let count = shown.as_ref().map(|shown| shown.iter().count());
        let site = setup::site(plan, &self.statistics, &self.printer)?;
        self.server
            .replace(&site, &altway_site::hosts(plan), shown)?;
        if let Some((acme, change)) = acme {
            acme.follow(plan, change);
        }
        if let Some(keys) = ticket_keys {
            self.server.replace_ticket_keys(keys);
        }
        let report = match self.file {
            Some(_) => {
                let report = report(&self.begun, current, plan);
                report + &read_again(count) + &keys_read_again(&self.begun, plan)
            }
            None => read_again_by_options(count).into(),
        };
        Ok((stamps, report))
    }
}

/// The first lines of a report for the log, joined by `between`.
fn bounded(report: &str, between: &str) -> String {
    let lines: Vec<&str> = report.trim_end().lines().collect();
    let first = &lines[..lines.len().min(LOGGED_LINES)];
    let text = first.join(between);
    match lines.len() - first.len() {
        0 => text,
        more => format!("{text}{between}and {more} more"),
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

/// The keys of session tickets that were read; none where the server began with its own, and keeps to them.
fn keys_read_again(begun: &Config, new: &Plan) -> String {
    let keys = &new.config().ticket_keys;
    if keys.is_empty() || begun.ticket_keys.is_empty() {
        return String::new();
    }
    match keys.len() {
        1 => "read 1 key of session tickets\n".into(),
        count => format!("read {count} keys of session tickets\n"),
    }
}

/// The report of a server without a file: its options are the same.
fn read_again_by_options(certificates: Option<usize>) -> &'static str {
    match certificates {
        Some(_) => "the certificate was read again\n",
        None => "the folder was opened again; clear text has no certificate to read\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_config::NoFiles;
    use altway_serve::certs::Store;
    use std::path::Path;

    fn plan(text: &str) -> Plan {
        altway_config::read("a.toml", text, &mut NoFiles).unwrap_or_else(|it| panic!("{it}"))
    }

    const SITE: &str = "route = [{ respond = { status = 204 } }]\n";

    #[test]
    fn the_log_has_the_first_lines_of_a_report() {
        assert_eq!(bounded("a\nb\n", "; "), "a; b");
        let added = |count: usize| "added\n".repeat(count);
        let most = bounded(&added(LOGGED_LINES), "; ");
        assert_eq!(most.matches("added").count(), LOGGED_LINES);
        assert!(!most.contains("more"));
        let long = bounded(&added(1000), "; ");
        assert!(long.ends_with("; added; and 968 more"), "{long}");
    }

    /// A certificate with its key, in a folder to which a link leads: `NAME/..data/tls.crt`.
    fn swap(folder: &Path, version: &str, names: &[&str]) {
        let made = Store::open(folder.join(format!("store-{version}"))).unwrap();
        let leaf = made.leaf(names).unwrap();
        let target = folder.join(version);
        std::fs::create_dir(&target).unwrap();
        std::fs::copy(&leaf.certificate, target.join("tls.crt")).unwrap();
        std::fs::copy(&leaf.key, target.join("tls.key")).unwrap();
        let link = folder.join("new-link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        std::fs::rename(&link, folder.join("data")).unwrap();
    }

    /// A server that goes by a plan, and what reads its files again.
    fn bound(plan: Plan) -> (altway_serve::Server, Reloading) {
        use super::super::{limits::Spelling, sandbox::State};
        let printer = Printer::new(true);
        let mut stamps = Stamps::of(&plan);
        let site = setup::site(&plan, &Arc::default(), &printer).unwrap();
        let (told, spelling) = ((None, &mut stamps), Spelling::Keys);
        let options = setup::options(&plan, site, spelling, told, &printer).unwrap();
        let server = altway_serve::Server::bind(&options).unwrap();
        let acme = acme::open(&plan).unwrap();
        let ordering = acme.map(|acme| Ordering::new(&acme, &plan));
        let reloading = Reloading::new(
            None,
            plan,
            stamps,
            (server.reload_handle(), Arc::default()),
            (Arc::new(Sandbox::none(State::Off)), ordering),
            printer,
        );
        (server, reloading)
    }

    #[test]
    fn a_certificate_by_acme_that_cannot_be_read_stays_in_use_and_is_read_again_until_it_can() {
        use std::fs::{self, File};
        let dir = tempfile::tempdir().unwrap();
        let names = ["a.test", "b.test"];
        let plan = plan(&format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\n[acme]\nfolder = \"{}\"\n[[site]]\nnames = {names:?}\n{SITE}",
            dir.path().join("acme").display()
        ));
        let made = |version: &str, name: &str| {
            let leaf = Store::open(dir.path().join(format!("{version}-{name}"))).unwrap();
            let leaf = leaf.leaf(&[name]).unwrap();
            fs::read_to_string(&leaf.certificate).unwrap() + &fs::read_to_string(&leaf.key).unwrap()
        };
        let file = |name: &str| acme::folder(&plan).unwrap().certificate(name);
        for name in names {
            fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            fs::write(file(name), made("one", name)).unwrap();
        }
        let (a, b) = (file("a.test"), file("b.test"));
        let (server, reloading) = bound(plan);
        let shown = || {
            let shown = server.monitor().certificates();
            let names = shown.iter().map(|it| it.names.join(" "));
            names.collect::<Vec<_>>().join(" ")
        };
        let are_shown = |names: &[&str]| names.iter().all(|name| shown().contains(name));
        assert!(are_shown(&names), "{}", shown());
        // A folder can't be read as a file, whoever reads it.
        fs::remove_file(&a).unwrap();
        fs::create_dir(&a).unwrap();
        reloading.look();
        assert!(are_shown(&names), "{}", shown());
        let reloaded = reloading.reload();
        assert!(reloaded.success, "{}", reloaded.report);
        assert!(are_shown(&names), "{}", shown());
        fs::remove_dir(&a).unwrap();
        reloading.look();
        assert!(!shown().contains("a.test"), "it is gone: {}", shown());
        fs::write(&a, "no certificate").unwrap();
        reloading.look();
        assert!(!shown().contains("a.test"), "{}", shown());
        // As after a lack of descriptors, nothing shows that it can be read now.
        let time = fs::metadata(&a).unwrap().modified().unwrap();
        fs::write(&a, made("two", "a.test")).unwrap();
        File::options()
            .write(true)
            .open(&a)
            .unwrap()
            .set_modified(time)
            .unwrap();
        reloading.look();
        assert!(are_shown(&names), "{}", shown());
        fs::remove_file(&b).unwrap();
        reloading.look();
        assert!(!shown().contains("b.test"), "{}", shown());
    }

    #[test]
    fn certificates_whose_files_were_swapped_are_read_and_bad_ones_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        swap(folder, "one", &["one.test"]);
        let data = folder.join("data").display().to_string();
        let plan = plan(&format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\n[[site]]\ndefault = true\n\
             certificate = {{ chain = \"{data}/tls.crt\", key = \"{data}/tls.key\" }}\n{SITE}"
        ));
        let (server, reloading) = bound(plan);
        let monitor = server.monitor();
        let shown = || monitor.certificates()[0].names.join(" ");
        reloading.look();
        assert!(shown().contains("one.test"), "{}", shown());
        swap(folder, "two", &["two.test"]);
        reloading.look();
        assert!(shown().contains("two.test"), "{}", shown());
        std::fs::write(folder.join("two/tls.crt"), "no certificate").unwrap();
        reloading.look();
        assert!(shown().contains("two.test"), "the former serves on");
        // Nothing of the file shows that it can be read now, as where it could not be read for a lack of descriptors.
        let chain = folder.join("two/tls.crt");
        let time = std::fs::metadata(&chain).unwrap().modified().unwrap();
        let mended = Store::open(folder.join("store-two")).unwrap();
        let mended = mended.leaf(&["mended.test"]).unwrap();
        std::fs::copy(&mended.key, folder.join("two/tls.key")).unwrap();
        reloading.look();
        assert!(shown().contains("two.test"), "{}", shown());
        std::fs::copy(&mended.certificate, &chain).unwrap();
        let written = std::fs::File::options().write(true).open(&chain).unwrap();
        written.set_modified(time).unwrap();
        reloading.look();
        assert!(shown().contains("mended.test"), "{}", shown());
        std::fs::remove_file(folder.join("two/tls.key")).unwrap();
        reloading.look();
        assert!(shown().contains("mended.test"), "{}", shown());
        swap(folder, "three", &["three.test"]);
        reloading.look();
        assert!(shown().contains("three.test"), "{}", shown());
    }
}
