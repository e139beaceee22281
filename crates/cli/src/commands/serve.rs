//! `altway serve`: the files of a folder over three protocols.

mod admin;
mod certificate;
mod files;
mod limits;

use crate::hint::mistake;
use crate::insight::{Insight, Variable};
use crate::printer::Printer;
use crate::{Answer, signals, stderr};
use altway_admin::Admin;
use altway_serve::{
    AccessLog, Bind, Congestion, CongestionInUse, DEFAULT_PORT, Files, Options, Policy,
    ReloadHandle, Security, Server, ServerId, Site, Spread, StopHandle, stop_channel,
};
use altway_units::{DataSize, duration};
use anyhow::Result;
use certificate::Source;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Serve the files of DIR over HTTP/1.1, HTTP/2 and HTTP/3, all on one port number (TCP and UDP).
///
/// Without --cert and --key it makes a certificate for localhost, 127.0.0.1 and ::1 once, signed by
/// a certificate authority of its own, and says how to trust it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway serve site
  altway serve site -p 443 -c fullchain.pem -k key.pem --policy threshold:rtt=30ms,loss=1%
  altway serve site --h2c -p 8080
  altway serve site --behind-tls-proxy --bind 127.0.0.1 -p 8080
  altway serve site --takeover /run/altway/takeover
  altway serve dist --fallback index.html --precompressed --cache '/assets/*=max-age=31536000, immutable'

Early data: a request that comes with the first packets can be sent again by whoever sees it. This
server handles no copy, as each session is good for one resumption; but it knows sessions only as
long as it runs, and shares them with no other server. What could do harm (POST, PUT, DELETE …) is
answered 425 (Too Early), and browsers ask again after the hand-shake.

Policies: who is offered HTTP/3 by the Alt-Svc field
  h2         nobody; clients that were told of HTTP/3 before are told to forget it
  h3         everybody
  threshold  clients whose path is unknown, far (min RTT) or lossy; rtt= and loss= set the bounds

A first SIGTERM or Ctrl-C lets requests end, a second ends at once. SIGHUP reads certificate, key
and OCSP response again; connections go on, and if a file is bad the former ones stay. At both times
it warns of a key that others may read, and of a certificate that is expired, not yet valid, or within
14 days of its end, and serves all the same. SIGUSR1 opens the access log anew by its name: for
logrotate, postrotate is `kill -USR1` with the process number.

Every minute a line on stderr sums up what was refused, for each client network.

With --takeover the same command line, run again, puts a new process (another version, another
folder, other options) in the place of the running one. No connection is refused and none breaks: new
ones are the new server's, those that are there end with the old one, which exits within 2 s and
--grace.
--bind, --port, --threads, --spread, --server-id and --h2c can't change this way. If the new server
can't run, or ends within 2 s, the old one serves on. At most 3 old ones may be ending at a time.")]
pub(crate) struct Arguments {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Serve files and folders whose names begin with a dot, too [default: of these only /.well-known].
    #[arg(long)]
    hidden: bool,
    /// Port number for TCP and UDP; 0: any that is free.
    #[arg(short, long, env = "ALTWAY_PORT", hide_env_values = true, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Address to listen on [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "IP")]
    bind: Option<IpAddr>,
    #[command(flatten)]
    certificate: certificate::Files,
    /// Worker threads [default: one per core].
    #[arg(short = 'n', long, env = "ALTWAY_THREADS", hide_env_values = true)]
    threads: Option<NonZeroUsize>,
    /// Who accepts: per-worker (no hand-over) or round-robin (one thread for all; even shares).
    #[arg(long, value_name = "HOW", default_value_t = Spread::default())]
    spread: Spread,
    /// 1 or 2 bytes that every QUIC connection ID begins with, for a load balancer [default: none].
    #[arg(long, value_name = "HEX", default_value_t = ServerId::default(), hide_default_value = true)]
    server_id: ServerId,
    /// Clear text over TCP: HTTP/1.1, and HTTP/2 by prior knowledge; no HTTP/3.
    #[arg(long)]
    h2c: bool,
    /// Clear text, as --h2c, behind a proxy that terminates TLS: requests name the scheme https, not http
    /// (else 421, Misdirected Request). Nobody but the proxy may reach the port.
    #[arg(long)]
    behind_tls_proxy: bool,
    /// TLS (h2) or clear text (h2c), in a word: for the environment of a container.
    #[arg(
        long,
        value_name = "MODE",
        env = "ALTWAY_RUN_MODE",
        hide_env_values = true
    )]
    run_mode: Option<RunMode>,
    /// Who is offered HTTP/3: learned (by what each client and others like it have shown), surface or
    /// surface:FILE (by measured times), threshold or threshold:rtt=TIME,loss=SHARE, study or
    /// study:delay=TIME,loss=SHARE, h3 or h2 (all clients).
    #[arg(long, default_value_t = Policy::default())]
    policy: Policy,
    /// Folder that keeps what is learnt of clients over a restart, under hashes of their addresses; made if
    /// missing [default: nothing is kept].
    #[arg(long, value_name = "DIR", conflicts_with = "h2c")]
    state_dir: Option<PathBuf>,
    /// Congestion control of TCP and QUIC: cubic, reno or bbr [default: the system's of TCP, for QUIC
    /// too, or cubic where QUIC has no such].
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
    /// Packets of QUIC's first congestion window. TCP's is the route's (ip route ... initcwnd).
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    initial_window: u32,
    /// Answer returning clients of HTTP/3 a round trip earlier (0-RTT): GET, HEAD and OPTIONS; else 425.
    #[arg(long, conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    early_data: bool,
    #[command(flatten)]
    insight: Insight,
    /// How long a stop waits for requests that are being answered, and for the access log. The process
    /// ends 4 s after it at the latest, whatever its threads do.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
    /// Take over from the server that runs with the same PATH, and let the next one do so: where they
    /// meet (a Unix socket that only this user may use).
    #[arg(long, value_name = "PATH")]
    takeover: Option<PathBuf>,
    /// Append a line for each request to this file, or - for stderr. A new file is its owner's alone. No
    /// request waits for it: lines beyond 4 MiB that it doesn't take are dropped, and counted in it.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Admin socket: path of a Unix socket, which only this user may use, or IP:PORT of this machine, which everybody
    /// on it may. In a browser it shows what the server does; /metrics is for Prometheus; `altway status`,
    /// `altway explain` and `altway reload` ask it.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<altway_admin::Address>,
    /// Print a line of JSON on stdout as soon as the server listens.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: files::ServedFiles,
    #[command(flatten)]
    limits: limits::Limits,
}

impl Arguments {
    /// Whether there is no TLS here.
    fn is_clear(&self) -> bool {
        self.h2c || self.behind_tls_proxy || self.run_mode == Some(RunMode::ClearText)
    }
}

/// What the variable of a container can say of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RunMode {
    #[value(name = "h2")]
    Tls,
    #[value(name = "h2c")]
    ClearText,
}

/// What `--json` prints.
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
    let source = match arguments.is_clear() {
        true => None,
        false => Some(Source::new(&arguments.certificate)?),
    };
    // No certificate is made for a folder that can't be served.
    Files::open_with(&arguments.root, arguments.files.options(arguments.hidden)?)?;
    let options = options(arguments, source.as_ref(), printer)?;
    // Before the server can be told of: a signal that nobody handles would end it.
    reopen_at_signal(options.access_log.clone(), *printer)?;
    let server = Server::bind(&options)?;
    let (handle, signal) = stop_channel();
    obey_signals(
        handle,
        source.map(|source| (source, server.reload_handle())),
        *printer,
    )?;
    let policy = options.policy.to_string();
    let telling = Admin::new(server.monitor(), server.local_addr(), policy, None);
    let takes_over = options.takeover.is_some();
    let _admin = admin::start(&telling, arguments.admin.as_ref(), takes_over)?;
    let memory = limits::memory(&options.limits, options.threads) + arguments.files.memory();
    announce(&server, arguments, memory, printer)?;
    server.run(&signal)?;
    Ok(Answer::Done)
}

/// `certificate`: where it comes from, and where it goes to; `None` in clear text.
fn obey_signals(
    stop: StopHandle,
    certificate: Option<(Source, ReloadHandle)>,
    printer: Printer,
) -> Result<()> {
    let gone = stop.clone();
    signals::on_stop(move || stop.stop())?;
    let read_again = move || match &certificate {
        Some((source, server)) => source.read_again(server, &printer),
        None => printer.say("SIGHUP: clear text has no certificate to read again"),
    };
    signals::on_hangup(read_again, move || gone.stop())?;
    Ok(())
}

fn reopen_at_signal(log: Option<AccessLog>, printer: Printer) -> Result<()> {
    signals::on_reopen(move || {
        let Some((log, path)) = log.as_ref().and_then(|log| Some((log, log.path()?))) else {
            return printer.say("SIGUSR1: there is no access log in a file to open anew");
        };
        if let Err(error) = log.reopen() {
            let path = path.display();
            tracing::error!(
                "SIGUSR1: the former access log stays in use: cannot open `{path}`: {error}"
            );
        }
    })?;
    Ok(())
}

fn options(arguments: &Arguments, source: Option<&Source>, printer: &Printer) -> Result<Options> {
    let security = match source {
        Some(source) => Security::tls(source.read(printer)?),
        None if arguments.behind_tls_proxy => Security::BehindTlsProxy,
        None => Security::ClearText,
    };
    let files = arguments.files.options(arguments.hidden)?;
    let site = Site::files_with(&arguments.root, files);
    let mut options = Options::new(site, security);
    options.port = arguments.port;
    options.bind = arguments.bind.map_or(Bind::All, Bind::Address);
    options.threads = arguments.threads.unwrap_or(options.threads);
    options.spread = arguments.spread;
    options.server_id = arguments.server_id;
    options.limits = arguments.limits.bounds(options.threads, printer)?;
    options.policy = arguments.policy.clone();
    options.state = arguments.state_dir.clone();
    options.congestion = arguments.congestion;
    options.initial_window = arguments.initial_window;
    options.early_data = arguments.early_data;
    let secrets = arguments.insight.key_log(Variable::Ignored, printer)?;
    options.key_log = secrets.map(|file| file as _);
    options.qlog = arguments.insight.qlog()?;
    options.shutdown_grace = arguments.grace;
    options.takeover.clone_from(&arguments.takeover);
    options.access_log = arguments.access_log.as_deref().map(log_to).transpose()?;
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

/// `memory`: what its limits add up to.
fn announce(
    server: &Server,
    arguments: &Arguments,
    memory: DataSize,
    printer: &Printer,
) -> Result<()> {
    let clear = arguments.is_clear();
    let protocols: &[_] = if clear {
        &["h1", "h2c"]
    } else {
        &["h1", "h2", "h3"]
    };
    let (address, predecessor) = (server.local_addr(), server.predecessor());
    let congestion = server.congestion();
    if arguments.json {
        let listening = Listening {
            event: "listening",
            address,
            protocols,
            max_memory_bytes: memory.as_bytes(),
            tcp_congestion: &congestion.tcp,
            quic_congestion: congestion.quic.map(Congestion::kernel_name),
            predecessor,
        };
        return Ok(printer.data(&serde_json::to_string(&listening)?)?);
    }
    let sum = limits::in_mebibytes(memory);
    tracing::info!("clients can make the process hold {sum} at most: see Limits in --help");
    let scheme = if clear { "http" } else { "https" };
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let place = predecessor.map_or(String::new(), |process| {
        format!(", in place of process {process}")
    });
    printer.say(&format!(
        "serving {scheme}://{host}:{}/ over {}, {}{place}",
        address.port(),
        protocols.join(", "),
        controls(congestion)
    ));
    Ok(())
}

/// Which congestion control there is, in words.
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
