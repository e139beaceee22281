//! Certificates by ACME: from a plan to what orders them, its challenges answered by the server, and what is told of it.

use super::certificate::secret_text;
use super::reload::Reloading;
use crate::hint::mistake;
use crate::printer::Printer;
use altway_acme::{
    BoxError, Challenge, Event, ExternalAccount, Folder, Manager, Opened, Responder, Settings,
    Validity,
};
use altway_admin::{AcmeNameStatus, AcmeReport, AcmeStatus};
use altway_config::{AcmeChallenge, Plan};
use altway_serve::Challenges;
use anyhow::Result;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A folder that is ready to be ordered into, and the answers to challenges that the server gives.
pub(super) struct Acme {
    opened: Opened,
    names: Vec<String>,
    directory: String,
    challenges: Challenges,
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
        altway_acme::Error::InUse { .. } => mistake(
            error.to_string(),
            "stop that process, or name another `folder` in [acme]; with `takeover` this one waits for it to end",
        ),
        _ => error.into(),
    })?;
    Ok(Some(Acme {
        opened,
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
            mistake(what, "give it as the authority has given it")
        })
    };
    let challenges = plan.acme_challenges().into_iter();
    Ok(Some(Settings {
        directory: acme.directory.to_string(),
        email: acme.email.as_ref().map(ToString::to_string),
        profile: acme.profile.as_ref().map(ToString::to_string),
        roots: acme.roots.clone(),
        external_account: acme.external_account.as_ref().map(account).transpose()?,
        challenges: challenges.map(challenge).collect(),
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

/// The files of the plan's certificates by ACME.
pub(super) fn files(plan: &Plan) -> Vec<PathBuf> {
    let folder = folder(plan);
    let names = plan.acme_names().into_iter();
    let file = |name: String| folder.as_ref().map(|folder| folder.certificate(&name));
    names.filter_map(file).collect()
}

/// Checks that a new plan leaves the way to certificates as it is.
///
/// # Errors
/// Another authority, account or folder is named.
pub(super) fn check_change(former: &Plan, new: &Plan) -> Result<()> {
    let of = |plan: &Plan| (plan.config().acme.clone(), plan.acme_folder());
    if of(former) == of(new) {
        return Ok(());
    }
    anyhow::bail!("[acme] can't be changed in place: that needs a new process, as by `takeover`")
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
        let count = self.names.len();
        let plural = if count == 1 { "" } else { "s" };
        let directory = &self.directory;
        printer.say(&format!(
            "certificates by ACME for {count} name{plural}, from {directory}"
        ));
        let (shown, printer) = (Arc::clone(reloading), *printer);
        let observer = Box::new(move |event: &Event| {
            tell(event, &printer);
            if matches!(event, Event::Issued { .. }) {
                shown.issued();
            }
        });
        let responder = Arc::new(Answers(self.challenges));
        let manager = self.opened.start(&self.names, responder, observer)?;
        reloading.set_acme(manager);
        Ok(())
    }
}

/// Writes an event down for the operator.
fn tell(event: &Event, printer: &Printer) {
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
