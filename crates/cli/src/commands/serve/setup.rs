//! The way from a plan to the options of the server.

use super::acme::Demand;
use super::certificate::{Origin, Reading, certificates};
use super::error_pages;
use super::limits::{self, Spelling};
use super::loops;
use super::translated;
use super::watch::Stamps;
use crate::diagnostics::{key_log_to, qlog_to};
use crate::hint::usage_error;
use crate::printer::Printer;
use crate::{stderr, sys};
use altway_config::{
    Action, EarlyData, Listen, Plan, Protocol, Route, Security as Listening, Site as SitePlan,
};
use altway_proxy::Statistics;
use altway_serve::{
    AccessLog, Bind, Certificates, EarlyDataFor, Files as Folder, FilesOptions, Listener,
    ListenerKind, Options, Policy, Protocols, Security, SelectionLog, Site, TicketKeys,
};
use altway_site::UPLOAD_BYTES;
use altway_units::DataSize;
use anyhow::Result;
use std::num::{NonZeroU16, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

/// The sites of the plan, their folders looked at, with warnings of error pages that are not there and of servers behind
/// that are this one.
///
/// # Errors
/// A folder can't be served.
pub(super) fn site(plan: &Plan, statistics: &Arc<Statistics>, printer: &Printer) -> Result<Site> {
    // No certificate is made for a folder that can't be served.
    for (site, route) in routes(plan) {
        if let Action::Files(files) = &route.action {
            Folder::open_with(&files.root, altway_site::files_options(site, route, files)?)?;
        }
    }
    let warnings = error_pages::warnings(plan).into_iter();
    for warning in warnings.chain(loops::warnings(plan)) {
        printer.warn(&warning);
    }
    Ok(altway_site::site_counted(plan, statistics)?)
}

fn routes(plan: &Plan) -> impl Iterator<Item = (&SitePlan, &Route)> {
    let sites = plan.sites().iter();
    sites.flat_map(|site| site.routes.iter().map(move |route| (site, route)))
}

/// Memory that is taken beside the limits: compressed forms of each folder of files, and what uploads hold, and what
/// `workers` hold for servers behind.
pub(super) fn memory(plan: &Plan, workers: NonZeroUsize) -> DataSize {
    let compressing = routes(plan).filter(
        |(_, route)| matches!(&route.action, Action::Files(files) if !files.compress.is_empty()),
    );
    let compressed = compressing.count() as u64 * FilesOptions::COMPRESSED_BYTES;
    let uploads = routes(plan).filter_map(|(_, route)| match &route.action {
        Action::Upload(upload) => Some(u64::from(upload.concurrent) * UPLOAD_BYTES),
        _ => None,
    });
    DataSize::from_bytes(compressed + uploads.sum::<u64>()) + limits::of_upstreams(plan, workers)
}

/// The options by all else that the plan says, its certificates read, which are told of. `on_demand`: told of names
/// that have none; `stamps`: those of the certificates' files from before.
pub(super) fn options(
    plan: &Plan,
    site: Site,
    spelling: Spelling,
    (on_demand, stamps): (Option<&Demand>, &mut Stamps),
    printer: &Printer,
) -> Result<Options> {
    let config = plan.config();
    let listener = *config.listen.main().expect("a plan has one");
    let security = match listener.security {
        Listening::Tls => {
            let reading = certificates(plan, Origin::Start, on_demand, printer)?;
            Security::Tls(told(reading, stamps, printer))
        }
        Listening::BehindTlsProxy => Security::BehindTlsProxy,
        Listening::ClearText | Listening::Redirect => Security::ClearText,
    };
    let mut options = Options::new(site, security);
    options.collect_heap = Some(sys::collect_own_heap);
    options.port = listener.address.port;
    options.bind = listener.address.ip.map_or(Bind::All, Bind::Address);
    options.threads = config.threads.unwrap_or(options.threads);
    options.spread = translated(config.listen.spread);
    options.server_id = translated(&config.transport.server_id);
    options.limits = limits::bounds(
        &config.limits,
        (options.threads, limits::of_upstreams(plan, options.threads)),
        spelling,
        printer,
    )?;
    options.protocols = protocols(listener.protocols);
    options.listeners = further(&config.listen);
    let seen = listener.alt_svc_port.or(config.listen.alt_svc_port);
    options.alt_svc_port = seen.map(NonZeroU16::get);
    let default = plan.sites().iter().find(|site| site.is_default);
    options.policy = default.map_or_else(Policy::default, |site| site.policy.clone());
    options.beacon = default.and_then(|site| site.beacon);
    options.hosts = Some(altway_site::hosts(plan));
    options.state.clone_from(&config.state);
    options.congestion = config.transport.congestion.map(translated);
    options.quic_congestion = config.transport.quic_congestion.map(translated);
    options.initial_window = config.transport.initial_window;
    options.early_data = match config.transport.early_data {
        EarlyData::Off => EarlyDataFor::Nobody,
        EarlyData::Files => EarlyDataFor::Files,
        EarlyData::All => EarlyDataFor::Everything,
    };
    options.certificate_compression = config.transport.certificate_compression;
    options.ticket_keys = ticket_keys(plan)?;
    options.proxy_protocol_from = config.listen.proxy_protocol_from.clone();
    let secrets = config.log.keylog.as_deref();
    let secrets = secrets.map(|path| key_log_to(path, printer)).transpose()?;
    options.key_log = secrets.map(|file| file as _);
    options.qlog = config.log.qlog.as_deref().map(qlog_to).transpose()?;
    options.shutdown_grace = config.grace;
    options.takeover.clone_from(&config.takeover);
    let log = config.log.access.as_deref().map(log_to).transpose()?;
    options.access_log = log.map(|log| log.with_format(translated(config.log.format)));
    let selection = config.log.selection.as_deref();
    options.selection_log = selection.map(selection_log_to).transpose()?;
    Ok(options)
}

/// The certificates that were read at the start, told of.
fn told(reading: Reading, stamps: &mut Stamps, printer: &Printer) -> Certificates {
    reading.tell(printer);
    stamps.unread = reading.unread;
    reading.certificates
}

/// The keys of session tickets that the plan names, read.
///
/// # Errors
/// One can't be read, or is none.
pub(crate) fn ticket_keys(plan: &Plan) -> Result<Option<TicketKeys>> {
    let files = &plan.config().ticket_keys;
    let keys = (!files.is_empty()).then(|| TicketKeys::from_files(files));
    keys.transpose().map_err(|error| {
        let hint = "make one by `openssl rand -out FILE 48`, mode 600, and copy it to every server";
        usage_error(describe(&error), hint)
    })
}

/// An error and its cause.
fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The listeners beside the main one.
/// The addresses beside the main one, in the order of [`Options::listeners`].
pub(super) fn others(listen: &Listen) -> impl Iterator<Item = &altway_config::Listener> {
    let main = listen.main();
    let listeners = listen.listeners.iter();
    listeners.filter(move |it| !main.is_some_and(|main| std::ptr::eq(main, *it)))
}

fn further(listen: &Listen) -> Vec<Listener> {
    let listener = |it: &altway_config::Listener| {
        let kind = match it.security {
            Listening::Tls => ListenerKind::Tls,
            Listening::ClearText => ListenerKind::ClearText,
            Listening::BehindTlsProxy => ListenerKind::BehindTlsProxy,
            Listening::Redirect => ListenerKind::Redirect,
        };
        let bind = it.address.ip.map_or(Bind::All, Bind::Address);
        let mut listener = Listener::new(kind, bind, it.address.port);
        listener.protocols = protocols(it.protocols);
        listener.alt_svc_port = it.alt_svc_port.or(listen.alt_svc_port).map(NonZeroU16::get);
        listener
    };
    others(listen).map(listener).collect()
}

fn protocols(given: altway_config::Protocols) -> Protocols {
    Protocols {
        http1: given.contains(Protocol::H1),
        http2: given.contains(Protocol::H2),
        http3: given.contains(Protocol::H3),
    }
}

fn selection_log_to(path: &Path) -> Result<SelectionLog> {
    SelectionLog::append(path).map_err(|error| {
        usage_error(
            format!(
                "cannot open the selection log `{}`: {error}",
                path.display()
            ),
            "give a file in a folder that is there and that you may write to",
        )
    })
}

fn log_to(path: &Path) -> Result<AccessLog> {
    if path == Path::new("-") {
        return Ok(match stderr::queue() {
            Some(queue) => AccessLog::shared(queue),
            None => AccessLog::new(std::io::stderr())?,
        });
    }
    AccessLog::append(path).map_err(|error| {
        usage_error(
            format!("cannot open the access log `{}`: {error}", path.display()),
            "give a file in a folder that is there and that you may write to, or - for stderr",
        )
    })
}
