//! `altway serve`: the files of a folder over three protocols.

pub(super) mod acme;
mod admin;
mod announce;
pub(super) mod certificate;
mod closed_files;
pub(super) mod error_pages;
mod files;
mod flags;
pub(super) mod limits;
pub(super) mod loops;
mod memory;
mod notify;
mod passed;
mod places;
pub(super) mod privileges;
mod reload;
mod sandbox;
pub(super) mod setup;
mod watch;
pub(super) mod writable;

use crate::commands::config::check;
use crate::hint::{self, usage_error};
use crate::printer::Printer;
use crate::{Answer, config_file, signals, stderr};
use altway_admin::Admin;
use altway_config::{Plan, Protocol};
use altway_proxy::Statistics;
use altway_serve::{
    Congestion, CongestionInUse, Monitor, Options, Server, StopHandle, stop_channel,
};
use altway_units::DataSize;
use announce::Circumstances;
use anyhow::Result;
pub(crate) use flags::Flags;
use limits::Spelling;
use notify::Manager;
use places::Places;
use privileges::Account;
use reload::Reloading;
use sandbox::Sandbox;
use serde::Serialize;
use std::fmt::{Debug, Display};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Serve the files of a folder over HTTP/1.1, HTTP/2 and HTTP/3.
///
/// All three are on one port number, TCP and UDP. Without --cert and --key it makes a certificate for localhost,
/// 127.0.0.1 and ::1 once, signed by a certificate authority of its own, and says how to trust it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway serve site
  altway serve site -p 443 -c fullchain.pem -k key.pem --policy threshold:rtt=30ms,loss=1%
  altway serve site --h2c -p 8080
  altway serve site --behind-tls-proxy --bind 127.0.0.1 -p 8080
  altway serve site --takeover /run/altway/takeover
  altway serve --config /etc/altway/altway.toml

Early data: a request that comes with the first packets can be replayed by anybody who sees it. This
server handles no copy, because each session can be resumed once only. It keeps its sessions in
memory, and shares them with no other server. Requests that could do harm (POST, PUT, DELETE …) are
answered 425 (Too Early), and browsers send them again after the handshake.

Policies: the clients that are offered HTTP/3 by the Alt-Svc field
  learned    those for which it is faster, by measurements of them and of others like them
  surface    the same by predicted times alone
             learned:FILE and surface:FILE predict times as `altway policy fit` found them
  study      clients on one side of a line over delay and loss; delay= and loss= set it
  threshold  clients whose path is unknown, far (min RTT) or lossy; rtt= and loss= set the bounds
  h3         everybody
  h2         nobody; clients that were told of HTTP/3 before are told to forget it

A first SIGTERM or Ctrl-C lets requests end, a second ends the process at once. SIGHUP reads
certificate, key and OCSP response again: connections go on, and if a file is bad the former ones
stay in use; a line on stderr says what came of it, as after `altway reload`. At its start and at
SIGHUP the server warns of a key that others can read, of a certificate that is expired, not yet
valid, or within 14 days of its end, and of a chain that costs QUIC clients a round trip, and of an
error page that is not there; it serves all the same. SIGUSR1 reopens the access log by its name: for
logrotate, postrotate is `kill -USR1` with the process number.

Once a minute a line on stderr sums up what was refused, for each client network.

A service manager that names a socket in $NOTIFY_SOCKET, as systemd does, is told when the server listens,
reloads and stops.

With --takeover the same command line, run again, replaces the running process by a new one (another
version, another folder, other options). No connection is refused and none breaks: new connections
go to the new server, existing ones stay with the old one, which exits within 2 s plus --grace.
--bind, --port and --h2c can't change this way; --threads, --spread, --server-id and further addresses in
a configuration file can. If the new server can't run, or ends within 2 s, the old one serves on.
At most 3 old ones may be ending at a time.")]
pub(crate) struct Arguments {
    /// Configuration file (TOML), in place of all options except --admin, --json, --quiet and --verbose: see `altway
    /// config`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Admin socket: path of a Unix socket, which only this user can use, or IP:PORT of this machine, which everybody
    /// on it can use. In a browser it shows what the server does; Prometheus reads /metrics; `altway status`, `altway
    /// explain` and `altway reload` connect to it. With --config it replaces `admin` in the file [default: none].
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<altway_admin::Address>,
    /// Print a line of JSON on stdout as soon as the server listens.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
    /// The options that were typed, for one that says in words what a file says.
    #[arg(skip)]
    typed: Vec<String>,
}

impl Arguments {
    /// Remembers which options were typed.
    pub(crate) fn note(&mut self, matches: &clap::ArgMatches) {
        let is_typed = |id: &&clap::Id| {
            matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine)
        };
        let own = ["config", "admin", "json", "quiet", "verbose"];
        let ids = matches.ids().filter(is_typed).map(clap::Id::as_str);
        let is_option = |id: &&str| !own.contains(id) && matches.try_get_raw(id).is_ok();
        self.typed = ids.filter(is_option).map(str::to_owned).collect();
    }
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct Listening<'a> {
    event: &'static str,
    address: SocketAddr,
    protocols: &'a [&'static str],
    /// Memory that its limits add up to, in bytes.
    max_memory_bytes: u64,
    /// The kernel's name of the congestion control of TCP.
    tcp_congestion: &'a str,
    /// The same of QUIC's.
    #[serde(skip_serializing_if = "Option::is_none")]
    quic_congestion: Option<&'static str>,
    /// The process that it took over from.
    #[serde(skip_serializing_if = "Option::is_none")]
    predecessor: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let (plan, spelling, places) = plan(arguments, printer)?;
    let how = Run {
        file: arguments.config.clone(),
        admin: arguments.admin.as_ref(),
        json: arguments.json,
        statistics: Arc::default(),
        to: None,
    };
    let served = run_plan(&plan, spelling, &how, printer);
    served.map_err(|error| match (&arguments.config, places) {
        // Of files and folders that the configuration names, all are told that can't be used.
        (Some(file), Some(places)) if hint::of_named(&error).is_some() => {
            check::with_places(error, &plan, &places, file)
        }
        _ => error,
    })?;
    Ok(Answer::Done)
}

/// The circumstances of a server, beside its plan.
pub(super) struct Run<'r> {
    /// The file that the plan is from.
    pub(super) file: Option<PathBuf>,
    pub(super) admin: Option<&'r altway_admin::Address>,
    pub(super) json: bool,
    /// Counts what routes with `proxy` do.
    pub(super) statistics: Arc<Statistics>,
    /// The origins that the server stands in front of, in words.
    pub(super) to: Option<String>,
}

/// Serves until it is told to stop. Gives a look at what was done.
pub(super) fn run_plan(
    plan: &Plan,
    spelling: Spelling,
    how: &Run<'_>,
    printer: &Printer,
) -> Result<Monitor> {
    let admin_at = admin_address(how.admin, plan)?;
    let places = Places::of(plan, how.file.as_deref(), admin_at.as_ref());
    let account = Account::of(plan.config())?;
    // Before any other thread begins.
    let sandbox = Arc::new(Sandbox::enter(plan, &places, admin_at.as_ref())?);
    queue_stderr(printer);
    let site = setup::site(plan, &how.statistics, printer)?;
    let mut stamps = watch::Stamps::of(plan);
    let acme = acme::open(plan)?;
    let demand = acme.as_ref().map(acme::Acme::demand);
    let mut options = setup::options(plan, site, spelling, (demand, &mut stamps), printer)?;
    options.user = account.as_ref().map(Account::uid);
    options.passed = passed::sockets(&plan.config().listen)?;
    let watchdog = notify::watchdog();
    options.heartbeat = watchdog.map(notify::heartbeat);
    options.challenges = acme.as_ref().map(acme::Acme::challenges);
    // Before the server can be told of: a signal that nobody handles would end it.
    reopen_at_signal(&options, Arc::clone(&sandbox), *printer)?;
    let server = Server::bind(&options)?;
    let (handle, signal) = stop_channel();
    let memory =
        limits::memory(&options.limits, options.threads) + setup::memory(plan, options.threads);
    let state = sandbox.state();
    let replaced = (server.reload_handle(), Arc::clone(&how.statistics));
    let ordering = acme.as_ref().map(|acme| acme::Ordering::new(acme, plan));
    let reloading = Arc::new(Reloading::new(
        how.file.clone(),
        plan.clone(),
        stamps,
        replaced,
        (sandbox, ordering),
        *printer,
    ));
    if !plan.config().listen.is_clear_text() {
        reloading.watch()?;
    }
    let ordered = Arc::clone(&reloading);
    let serving = serving(&server, plan) + how.to.as_deref().unwrap_or_default();
    let monitor = server.monitor();
    let manager = Manager::new(&serving);
    let (told, stopped) = (manager.clone(), manager.clone());
    let admin = Admin::new(
        server.monitor(),
        server.local_addr(),
        options.policy.to_string(),
        Some(Arc::new(move || told.during(|| reloading.reload()))),
    )
    .with_further(server.further_addrs())
    .with_threads(options.threads)
    .with_upstreams(admin::upstreams(&how.statistics))
    .with_sandbox(state.word());
    let admin = with_acme(admin, acme.as_ref(), &ordered);
    let at_stop = (stopped, server.monitor(), plan.config().grace);
    handle_signals(handle, admin.clone(), at_stop, *printer)?;
    let _listening = admin::start(&admin, admin_at.as_ref(), options.takeover.is_some())?;
    if let Some(account) = account {
        account.adopt(&places);
        account.switch_user(&places.with_authority(plan), printer)?;
    }
    if let Some(acme) = acme {
        acme.start(&ordered, printer)?;
    }
    if let Some(watchdog) = watchdog {
        notify::watch(watchdog, server.monitor())?;
    }
    memory::watch()?;
    let circumstances = (how, admin_at.as_ref());
    announce(&server, plan, memory, &serving, circumstances, printer)?;
    manager.ready();
    server.run(&signal)?;
    Ok(monitor)
}

/// Has the admin socket tell of certificates by ACME, where there are any.
fn with_acme(admin: Admin, acme: Option<&acme::Acme>, reloading: &Arc<Reloading>) -> Admin {
    match acme {
        Some(_) => admin.with_acme(acme::report(Arc::clone(reloading))),
        None => admin,
    }
}

/// Has a full pipe at stderr hold up nobody.
fn queue_stderr(printer: &Printer) {
    if let Err(error) = stderr::start_queue() {
        printer.warn(&format!(
            "a full pipe at stderr will hold the server up: {error}"
        ));
    }
}

/// The configuration of the file, with the places of its keys, or that of the options.
fn plan(
    arguments: &Arguments,
    printer: &Printer,
) -> Result<(Plan, Spelling, Option<altway_config::Places>)> {
    let Some(file) = &arguments.config else {
        let config = arguments.flags.config(printer)?;
        let plan = Plan::check(config).map_err(config_file::of_options)?;
        return Ok((plan, Spelling::Options, None));
    };
    if let Some(other) = arguments.typed.first() {
        let name = match other.as_str() {
            "root" => "DIR".into(),
            option => format!("--{}", option.replace('_', "-")),
        };
        return Err(usage_error(
            format!(
                "{name} can't be given beside --config: `{}` takes its place",
                file.display()
            ),
            "write it in the file: `altway config show -- OPTIONS` prints what options stand for",
        ));
    }
    let (plan, places) = config_file::load(file)?;
    Ok((plan, Spelling::Keys, Some(places)))
}

/// The option's address, or the configuration's.
fn admin_address(
    own: Option<&altway_admin::Address>,
    plan: &Plan,
) -> Result<Option<altway_admin::Address>> {
    let said = plan.config().admin.as_deref().map(str::parse).transpose()?;
    Ok(own.cloned().or(said))
}

fn handle_signals(
    stop: StopHandle,
    admin: Admin,
    (manager, monitor, grace): (Manager, Monitor, Duration),
    printer: Printer,
) -> Result<()> {
    let gone = stop.clone();
    signals::on_stop(move || {
        // First, lest a process with nothing left to do be gone before.
        manager.stopping();
        stop.stop();
        let active = || monitor.metrics().active_requests;
        let lasting = announce::lasting(active, || std::thread::sleep(announce::SETTLE));
        let text = announce::stopping(lasting, grace);
        text.iter().for_each(|it| printer.say(it));
    })?;
    let read_again = move || drop(admin.reload());
    signals::on_hangup(read_again, move || gone.stop())?;
    Ok(())
}

/// Log rotation renames files, and says so by SIGUSR1.
fn reopen_at_signal(options: &Options, sandbox: Arc<Sandbox>, printer: Printer) -> Result<()> {
    let access = options.access_log.clone();
    let selection = options.selection_log.clone();
    signals::on_reopen(move || {
        let access = access.as_ref().and_then(|log| Some((log, log.path()?)));
        if access.is_none() && selection.is_none() {
            return printer
                .say("SIGUSR1: there is no access log or selection log in a file to open anew");
        }
        let failed = |what: &str, path: &Path, error: io::Error| {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let hindrance = is_denied.then(|| sandbox.hinders_log(path)).flatten();
            let why = hindrance.map_or_else(String::new, |why| format!(": {why}"));
            let path = path.display();
            tracing::error!(
                "SIGUSR1: the former {what} stays in use: cannot open `{path}`: {error}{why}"
            );
        };
        if let Some((log, path)) = access
            && let Err(error) = log.reopen()
        {
            failed("access log", path, error);
        }
        if let Some(log) = &selection
            && let Err(error) = log.reopen()
        {
            failed("selection log", log.path(), error);
        }
    })?;
    Ok(())
}

/// `memory`: what its limits add up to; `serving`: what is served, in words.
fn announce(
    server: &Server,
    plan: &Plan,
    memory: DataSize,
    serving: &str,
    (how, admin): (&Run<'_>, Option<&altway_admin::Address>),
    printer: &Printer,
) -> Result<()> {
    if how.json {
        let congestion = server.congestion();
        let listening = Listening {
            event: "listening",
            address: server.local_addr(),
            protocols: &protocols(plan),
            max_memory_bytes: memory.as_bytes(),
            tcp_congestion: &congestion.tcp,
            quic_congestion: congestion.quic.map(Congestion::kernel_name),
            predecessor: server.predecessor(),
        };
        return Ok(printer.data(&serde_json::to_string(&listening)?)?);
    }
    let sum = limits::in_mebibytes(memory);
    tracing::info!("clients can make the process hold {sum} at most: see Limits in --help");
    let of = Circumstances {
        file: how.file.as_deref(),
        admin,
        certificates: &server.monitor().certificates(),
        now: SystemTime::now(),
    };
    printer.say(&format!("{serving}\n{}", announce::details(plan, &of)));
    Ok(())
}

/// The protocols that clients are given, by their names.
fn protocols(plan: &Plan) -> Vec<&'static str> {
    let listen = &plan.config().listen;
    let clear = listen.is_clear_text();
    let given = listen.main().map_or(listen.protocols, |it| it.protocols);
    let protocols = given.iter().filter_map(|it| match it {
        Protocol::H2 if clear => Some("h2c"),
        Protocol::H3 if clear => None,
        it => Some(it.name()),
    });
    protocols.collect()
}

/// The words on an address beside the first, if it is for something else.
fn purpose(security: altway_config::Security) -> &'static str {
    match security {
        altway_config::Security::Redirect => " (leads to https)",
        altway_config::Security::BehindTlsProxy => " (behind a TLS proxy)",
        _ => "",
    }
}

/// A server's addresses and transport, in a line.
fn serving(server: &Server, plan: &Plan) -> String {
    let scheme = match plan.config().listen.is_clear_text() {
        true => "http",
        false => "https",
    };
    let address = server.local_addr();
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let others = setup::others(&plan.config().listen);
    let further: String = server
        .further_addrs()
        .iter()
        .zip(others)
        .map(|(at, it)| format!(", also at {at}{}", purpose(it.security)))
        .collect();
    let place = server.predecessor().map_or(String::new(), |process| {
        format!(", in place of process {process}")
    });
    format!(
        "serving {scheme}://{host}:{}/ over {}, {}{further}{place}",
        address.port(),
        protocols(plan).join(", "),
        controls(server.congestion())
    )
}

/// Names the congestion control of both transports, in words.
fn controls(of: &CongestionInUse) -> String {
    match of.quic {
        Some(quic) if quic.kernel_name() != of.tcp => {
            format!(
                "congestion control {} over TCP and {quic} over QUIC",
                of.tcp
            )
        }
        _ => format!("congestion control {}", of.tcp),
    }
}

/// A word of one crate as that of another, which reads what this one prints.
pub(crate) fn translated<T: Display, U: FromStr<Err: Debug>>(word: T) -> U {
    let text = word.to_string();
    text.parse().expect("the crates agree on their words")
}
