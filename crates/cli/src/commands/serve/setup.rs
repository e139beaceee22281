//! From a plan to the options of the server.

use super::certificate::Source;
use super::limits::{self, Spelling};
use super::translated;
use crate::hint::mistake;
use crate::insight::{key_log_to, qlog_to};
use crate::printer::Printer;
use crate::stderr;
use altway_config::{Action, Files, Plan, Protocols, Security as Listening};
use altway_serve::{AccessLog, Bind, Files as Folder, Options, Security, Site};
use anyhow::Result;
use std::path::Path;

/// What the plan serves, its folder looked at.
///
/// # Errors
/// The folder can't be served.
pub(super) fn site(plan: &Plan) -> Result<Site> {
    let [site] = plan.sites() else {
        return Err(beyond("more than one site"));
    };
    let [route] = site.routes.as_slice() else {
        return Err(beyond("more than one route"));
    };
    let Action::Files(files) = &route.action else {
        return Err(beyond("a route without `files`"));
    };
    let plain = Files {
        hidden: files.hidden,
        ..Files::of(&files.root)
    };
    let is_plain = *files == plain && site.headers.is_empty() && route.headers.is_empty();
    let is_for_all = site.is_default && route.path.to_string() == "/*";
    if !is_plain || !is_for_all || site.protocols != Protocols::default() {
        return Err(beyond(
            "more than a default site with the files of a folder",
        ));
    }
    if site.certificates.len() > 1 {
        return Err(beyond("more than one certificate"));
    }
    // No certificate is made for a folder that can't be served.
    Folder::open(&files.root)?;
    let site = Site::files(&files.root);
    Ok(if files.hidden {
        site.with_hidden()
    } else {
        site
    })
}

fn beyond(what: &str) -> anyhow::Error {
    mistake(
        format!("this version serves no configuration with {what}"),
        "`altway config check` tells whether it is right; serve one folder until then",
    )
}

/// `source`: where the certificate comes from; `None` in clear text.
pub(super) fn options(
    plan: &Plan,
    site: Site,
    source: Option<&Source>,
    spelling: Spelling,
    printer: &Printer,
) -> Result<Options> {
    let (config, listener) = (plan.config(), plan.config().listen.listeners[0]);
    let security = match source {
        Some(source) => Security::Tls(source.read(printer)?),
        None if listener.security == Listening::BehindTlsProxy => Security::BehindTlsProxy,
        None => Security::ClearText,
    };
    let mut options = Options::new(site, security);
    options.port = listener.address.port;
    options.bind = listener.address.ip.map_or(Bind::All, Bind::Address);
    options.threads = config.threads.unwrap_or(options.threads);
    options.spread = translated(config.listen.spread);
    options.server_id = translated(&config.transport.server_id);
    options.limits = limits::bounds(&config.limits, options.threads, spelling, printer)?;
    options.policy = plan.sites()[0].policy.clone();
    options.state.clone_from(&config.state);
    options.congestion = config.transport.congestion.map(translated);
    options.initial_window = config.transport.initial_window;
    options.early_data = config.transport.early_data;
    let secrets = config.log.keylog.as_deref();
    let secrets = secrets.map(|path| key_log_to(path, printer)).transpose()?;
    options.key_log = secrets.map(|file| file as _);
    options.qlog = config.log.qlog.as_deref().map(qlog_to).transpose()?;
    options.shutdown_grace = config.grace;
    options.takeover.clone_from(&config.takeover);
    options.access_log = config.log.access.as_deref().map(log_to).transpose()?;
    Ok(options)
}

fn log_to(path: &Path) -> Result<AccessLog> {
    if path == Path::new("-") {
        return Ok(match stderr::queue() {
            Some(queue) => AccessLog::shared(queue),
            None => AccessLog::new(std::io::stderr())?,
        });
    }
    AccessLog::append(path).map_err(|error| {
        mistake(
            format!("cannot open the access log `{}`: {error}", path.display()),
            "give a file in a folder that is there and that you may write to, or - for stderr",
        )
    })
}
