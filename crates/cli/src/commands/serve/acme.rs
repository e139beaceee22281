//! Certificates by ACME: from a plan to what orders them, its challenges answered by the server, and what is told of it.

use super::certificate::secret_text;
use super::reload::Reloading;
use crate::hint::usage_error;
use crate::printer::{Printer, counted};
use altway_acme::{
    BoxError, Challenge, Event, ExternalAccount, Folder, Manager, NameFilter, OnDemand,
    OnDemandSettings, OpenedFolder, PreparedSettings, Responder, Settings, Validity,
};
use altway_admin::{AcmeNameStatus, AcmeReport, AcmeStatus};
use altway_config::{AcmeChallenge, Plan};
use altway_serve::Challenges;
use anyhow::Result;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A folder that is ready to be ordered into, and the answers to challenges that the server gives.
pub(super) struct Acme {
    opened: OpenedFolder,
    names: Vec<String>,
    directory: String,
    challenges: Challenges,
    demand: Demand,
}

/// Names that come at run time, as handshakes tell of them.
#[derive(Debug, Clone)]
pub(super) struct Demand(OnDemand);

impl Demand {
    /// Goes by a plan's names.
    pub(super) fn follow(&self, plan: &Plan) {
        let covers = plan.on_demand_names();
        let covers =
            covers.map(|names| Arc::new(move |name: &str| names.covers(name)) as NameFilter);
        self.0.replace(covers);
    }

    /// The same for the server's handshakes.
    pub(super) fn handshakes(&self) -> Arc<dyn altway_serve::OnDemand> {
        Arc::new(self.clone())
    }
}

impl altway_serve::OnDemand for Demand {
    fn wanted(&self, name: &str) -> bool {
        self.0.want(name)
    }

    fn used(&self, name: &str) {
        self.0.used(name);
    }
}

/// Takes the folder; `None` without `[acme]`. A process that has it is waited for where this one takes over from it.
///
/// # Errors
/// The folder, the roots or the key of the external account can't be used, or another process has the folder.
pub(super) fn open(plan: &Plan) -> Result<Option<Acme>> {
    let Some(settings) = settings(plan)? else {
        return Ok(None);
    };
    let directory = settings.directory.clone();
    let waits = plan.config().takeover.is_some();
    let opened = Manager::open(settings, waits).map_err(|error| match &error {
        altway_acme::Error::InUse { .. } => usage_error(
            error.to_string(),
            "stop that process, or name another `folder` in [acme]; with `takeover` this one waits for it to end",
        ),
        _ => error.into(),
    })?;
    let demand = Demand(opened.on_demand());
    demand.follow(plan);
    Ok(Some(Acme {
        opened,
        demand,
        names: plan.acme_names(),
        directory,
        challenges: Challenges::default(),
    }))
}

/// The settings of ACME in a plan; `None` without `[acme]`.
///
/// # Errors
/// The key of the external account can't be read.
pub(crate) fn settings(plan: &Plan) -> Result<Option<Settings>> {
    let (Some(acme), Some(folder)) = (&plan.config().acme, plan.acme_folder()) else {
        return Ok(None);
    };
    let account = |given: &altway_config::ExternalAccount| {
        let text = secret_text(&given.key, "the MAC key of the external account")?;
        ExternalAccount::new(&given.id, &text).ok_or_else(|| {
            let what = format!(
                "the MAC key of the external account `{}` is not base64url",
                given.id
            );
            usage_error(what, "give it as the authority has given it")
        })
    };
    let challenges = plan.acme_challenges().into_iter();
    let asking = acme.on_demand.as_ref();
    Ok(Some(Settings {
        directory: acme.directory.to_string(),
        email: acme.email.as_ref().map(ToString::to_string),
        profile: acme.profile.as_ref().map(ToString::to_string),
        roots: acme.roots.clone(),
        external_account: acme.external_account.as_ref().map(account).transpose()?,
        challenges: challenges.map(challenge).collect(),
        on_demand: asking.map(|it| OnDemandSettings {
            url: it.ask.to_string(),
            most: it.names as usize,
        }),
        folder,
        user_agent: concat!("altway/", env!("CARGO_PKG_VERSION")).into(),
    }))
}

fn challenge(of: AcmeChallenge) -> Challenge {
    match of {
        AcmeChallenge::Http01 => Challenge::Http01,
        AcmeChallenge::TlsAlpn01 => Challenge::TlsAlpn01,
    }
}

/// The folder of the plan's certificates; `None` without `[acme]`.
pub(super) fn folder(plan: &Plan) -> Option<Folder> {
    let acme = plan.config().acme.as_ref()?;
    Some(Folder::new(plan.acme_folder()?, acme.directory.as_str()))
}

/// The names on demand that have a certificate, of those that a plan has on demand.
///
/// # Errors
/// The folder can't be listed.
pub(super) fn names_on_demand(plan: &Plan) -> Result<Vec<String>, altway_acme::Error> {
    let (Some(covered), Some(folder)) = (plan.on_demand_names(), folder(plan)) else {
        return Ok(Vec::new());
    };
    let mut names = folder.names_on_demand()?;
    names.retain(|name| covered.covers(name));
    Ok(names)
}

/// The names that a plan has on demand, of the certificates in these files.
pub(super) fn names_on_demand_of<'f>(
    plan: &Plan,
    files: impl Iterator<Item = &'f Path>,
) -> Vec<String> {
    let (Some(covered), Some(folder)) = (plan.on_demand_names(), folder(plan)) else {
        return Vec::new();
    };
    let names = files.filter_map(|file| {
        let name = file.parent()?.file_name()?.to_str()?;
        (folder.certificate(name) == file && covered.covers(name)).then(|| name.to_owned())
    });
    names.collect()
}

/// The files of the plan's certificates by ACME, those of names on demand among them as far as they can be listed.
pub(super) fn files(plan: &Plan) -> Vec<PathBuf> {
    let folder = folder(plan);
    let on_demand = names_on_demand(plan).unwrap_or_default();
    let names = plan.acme_names().into_iter().chain(on_demand);
    let file = |name: String| folder.as_ref().map(|folder| folder.certificate(&name));
    names.filter_map(file).collect()
}

/// A change of `[acme]` that was looked at, and can be made.
#[derive(Debug)]
pub(super) struct Change {
    /// `None`: the settings stay, and no name needs them any more.
    prepared: Option<PreparedSettings>,
}

/// Whatever orders certificates while the server runs.
#[derive(Debug)]
pub(super) struct Ordering {
    /// Empty until it has begun.
    manager: OnceLock<Manager>,
    demand: Demand,
    /// True if the process listens in clear text, where alone the challenge `http-01` can be answered.
    has_plain_http: bool,
}

impl Ordering {
    /// Makes the orders of a process that goes by that plan from the start.
    pub(super) fn new(acme: &Acme, plan: &Plan) -> Self {
        Self {
            manager: OnceLock::new(),
            demand: acme.demand.clone(),
            has_plain_http: plan.config().listen.has_plain_http(),
        }
    }

    pub(super) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Makes `manager` follow the names of the configuration from now on.
    pub(super) fn begin(&self, manager: Manager) {
        // It is set once.
        let _ = self.manager.set(manager);
    }

    pub(super) fn manager(&self) -> Option<&Manager> {
        self.manager.get()
    }

    /// Looks at the settings of a new plan. Changes nothing yet.
    ///
    /// # Errors
    /// The settings can't be used, or not by this process.
    pub(super) fn prepare(&self, plan: &Plan) -> Result<Change> {
        let (Some(mut settings), Some(manager)) = (settings(plan)?, self.manager.get()) else {
            return Ok(Change { prepared: None });
        };
        let can_answer = |it: &Challenge| *it != Challenge::Http01 || self.has_plain_http;
        settings.challenges.retain(can_answer);
        if settings.challenges.is_empty() {
            anyhow::bail!(
                "`http-01` is answered over `http`, at which this process does not listen: {NEW_PROCESS}"
            );
        }
        let prepared = manager.prepare(settings).map_err(|error| match &error {
            altway_acme::Error::OtherFolder { .. } => anyhow::anyhow!("{error}: {NEW_PROCESS}"),
            _ => error.into(),
        })?;
        Ok(Change {
            prepared: Some(prepared),
        })
    }

    /// Goes by a plan whose settings were looked at.
    pub(super) fn follow(&self, plan: &Plan, change: Change) {
        self.demand.follow(plan);
        match (self.manager.get(), change.prepared) {
            (Some(manager), Some(prepared)) => manager.replace(prepared, &plan.acme_names()),
            (Some(manager), None) => manager.replace_names(&plan.acme_names()),
            (None, _) => {}
        }
    }
}

/// The way to what can't be changed in place.
const NEW_PROCESS: &str = "another one needs a new process, as by `takeover`";

/// Checks that a plan needs no ACME where the process began without.
///
/// # Errors
/// The plan asks for certificates by ACME.
pub(super) fn check_change(former: Option<&Ordering>, new: &Plan) -> Result<()> {
    if former.is_some() || new.config().acme.is_none() {
        return Ok(());
    }
    anyhow::bail!("this process began without [acme]: that needs a new process, as by `takeover`")
}

impl Acme {
    /// The answers to challenges, for the server.
    pub(super) fn challenges(&self) -> Challenges {
        self.challenges.clone()
    }

    /// Begins to order. The server listens by now, and the process is whom it is to be.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(self, reloading: &Arc<Reloading>, printer: &Printer) -> Result<()> {
        let names = counted(self.names.len(), "name");
        let directory = &self.directory;
        printer.say(&format!(
            "certificates by ACME for {names}, from {directory}"
        ));
        let (shown, printer) = (Arc::clone(reloading), *printer);
        let observer = Box::new(move |event: &Event| {
            print_event(event, &printer);
            if matches!(event, Event::Issued { .. } | Event::OnDemand { .. }) {
                shown.issued();
            }
        });
        let responder = Arc::new(Answers(self.challenges));
        let manager = self.opened.start(&self.names, responder, observer)?;
        reloading.set_acme(manager);
        Ok(())
    }

    /// Names that come at run time.
    pub(super) fn demand(&self) -> &Demand {
        &self.demand
    }
}

/// Writes an event down for the operator.
fn print_event(event: &Event, printer: &Printer) {
    match event {
        Event::Issued { name, validity } => {
            let left = left(*validity).map_or_else(|| "no time".into(), in_words);
            printer.say(&format!("got a certificate for {name}, valid for {left}"));
        }
        Event::Failed {
            name,
            message,
            retry_in,
            validity,
        } => {
            let again = retry_in.map_or_else(String::new, |wait| {
                format!("; it is tried again in {}", in_words(wait))
            });
            match validity.map(left) {
                None => tracing::error!("no certificate for {name} yet: {message}{again}"),
                Some(None) => {
                    tracing::error!("the certificate for {name} has expired: {message}{again}");
                }
                Some(Some(left)) => tracing::warn!(
                    "the certificate for {name}, valid for {}, is not renewed yet: {message}{again}",
                    in_words(left)
                ),
            }
        }
        Event::OnDemand { forgotten } => {
            for name in forgotten {
                printer.say(&format!(
                    "forgot the certificate for {name}, which nobody uses"
                ));
            }
        }
        Event::Waiting { holder } => {
            let holder =
                holder.map_or("another one".into(), |process| format!("process {process}"));
            printer.say(&format!("certificates are ordered once {holder} has ended"));
        }
        _ => {}
    }
}

/// The time for which a certificate is still valid; `None`: it is not.
fn left(validity: Validity) -> Option<Duration> {
    validity.not_after.duration_since(SystemTime::now()).ok()
}

/// A time in the unit that suits it.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    for (size, unit) in [(86_400, "days"), (3_600, "h"), (60, "min")] {
        if seconds >= 2 * size {
            return format!("{} {unit}", seconds / size);
        }
    }
    format!("{seconds} s")
}

/// The state of the certificates, for the admin socket.
pub(super) fn report(reloading: Arc<Reloading>) -> AcmeReport {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    Arc::new(move || {
        let status = reloading.acme().map(Manager::status).unwrap_or_default();
        let names = status.names.into_iter().map(|it| AcmeNameStatus {
            name: it.name,
            not_after: it.validity.map(|validity| seconds(validity.not_after)),
            renew_at: it.renew_at.map(seconds),
            is_ordering: it.is_ordering,
            retry_in_s: it.retry_in.map(|wait| wait.as_secs()),
            failures: it.failures,
            error: it.error,
        });
        AcmeStatus {
            issued: status.issued,
            failed: status.failed,
            names: names.collect(),
        }
    })
}

/// The server's answers to challenges, as whoever orders certificates hands them over.
struct Answers(Challenges);

impl Responder for Answers {
    fn answer_http(&self, token: &str, authorization: &str) -> Result<(), BoxError> {
        Ok(self.0.answer_http(token, authorization)?)
    }

    fn answer_tls(
        &self,
        name: &str,
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<(), BoxError> {
        Ok(self.0.answer_tls(name, certificate, key)?)
    }

    fn remove_http(&self, token: &str) {
        self.0.remove_http(token);
    }

    fn remove_tls(&self, name: &str) {
        self.0.remove_tls(name);
    }
}
