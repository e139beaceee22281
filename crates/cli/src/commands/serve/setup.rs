//! From a plan to the options of the server.

use super::certificate::{Origin, certificates};
use super::limits::{self, Spelling};
use super::translated;
use crate::hint::mistake;
use crate::insight::{key_log_to, qlog_to};
use crate::printer::Printer;
use crate::stderr;
use altway_config::{Action, Plan, Protocol, Route, Security as Listening, Site as SitePlan};
use altway_serve::{
    AccessLog, Bind, Files as Folder, FilesOptions, Options, Policy, Protocols, Security, Site,
};
use altway_site::UPLOAD_BYTES;
use altway_units::DataSize;
use anyhow::Result;
use std::path::Path;

/// What the plan serves, its folders looked at.
///
/// # Errors
/// A folder can't be served.
pub(super) fn site(plan: &Plan) -> Result<Site> {
    // No certificate is made for a folder that can't be served.
    for (site, route) in routes(plan) {
        if let Action::Files(files) = &route.action {
            Folder::open_with(&files.root, altway_site::files_options(site, route, files)?)?;
        }
    }
    Ok(altway_site::site(plan)?)
}

fn routes(plan: &Plan) -> impl Iterator<Item = (&SitePlan, &Route)> {
    let sites = plan.sites().iter();
    sites.flat_map(|site| site.routes.iter().map(move |route| (site, route)))
}

/// Memory that is taken beside the limits: compressed forms of each folder of files, and what uploads hold.
pub(super) fn memory(plan: &Plan) -> DataSize {
    let compressing = routes(plan).filter(
        |(_, route)| matches!(&route.action, Action::Files(files) if !files.compress.is_empty()),
    );
    let compressed = compressing.count() as u64 * FilesOptions::COMPRESSED_BYTES;
    let uploads = routes(plan).filter_map(|(_, route)| match &route.action {
        Action::Upload(upload) => Some(u64::from(upload.concurrent) * UPLOAD_BYTES),
        _ => None,
    });
    DataSize::from_bytes(compressed + uploads.sum::<u64>())
}

/// Everything else that the plan says, its certificates read.
pub(super) fn options(
    plan: &Plan,
    site: Site,
    spelling: Spelling,
    printer: &Printer,
) -> Result<Options> {
    let (config, listener) = (plan.config(), plan.config().listen.listeners[0]);
    let security = match listener.security {
        Listening::Tls => Security::Tls(certificates(plan, Origin::Start, printer)?),
        Listening::BehindTlsProxy => Security::BehindTlsProxy,
        Listening::ClearText => Security::ClearText,
    };
    let mut options = Options::new(site, security);
    options.port = listener.address.port;
    options.bind = listener.address.ip.map_or(Bind::All, Bind::Address);
    options.threads = config.threads.unwrap_or(options.threads);
    options.spread = translated(config.listen.spread);
    options.server_id = translated(&config.transport.server_id);
    options.limits = limits::bounds(&config.limits, options.threads, spelling, printer)?;
    options.protocols = protocols(config.listen.protocols);
    let default = plan.sites().iter().find(|site| site.is_default);
    options.policy = default.map_or_else(Policy::default, |site| site.policy.clone());
    options.hosts = Some(altway_site::hosts(plan));
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
    let log = config.log.access.as_deref().map(log_to).transpose()?;
    options.access_log = log.map(|log| log.with_format(translated(config.log.format)));
    Ok(options)
}

fn protocols(given: altway_config::Protocols) -> Protocols {
    Protocols {
        http1: given.contains(Protocol::H1),
        http2: given.contains(Protocol::H2),
        http3: given.contains(Protocol::H3),
    }
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
