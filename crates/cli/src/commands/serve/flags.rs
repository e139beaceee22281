//! The options of `altway serve`, and the configuration that says the same.

use super::files::ServedFiles;
use super::limits::{self, Spelling};
use super::{certificate, translated};
use crate::commands::{ip_address, port, positive};
use crate::diagnostics::{Diagnostics, Variable};
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_config::{
    Action, Config, EarlyData, Listen, ListenAddress, Listener, Log, PathPattern, Protocols, Route,
    Sandbox, Security, Site, Transport,
};
use altway_serve::{Congestion, DEFAULT_PORT, LogFormat, Policy, ServerId, Spread};
use altway_units::{DataSize, Ratio, duration};
use anyhow::Result;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Every option that says what is served, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Serve files and folders whose names begin with a dot as well [default: of these only /.well-known].
    #[arg(long, help_heading = "Files")]
    hidden: bool,
    /// Port number for TCP and UDP; 0: any that is free.
    #[arg(short, long, env = "ALTWAY_PORT", hide_env_values = true, default_value_t = DEFAULT_PORT,
          value_parser = port)]
    port: u16,
    /// Address to listen on [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "IP", value_parser = ip_address)]
    bind: Option<IpAddr>,
    #[command(flatten)]
    certificate: certificate::Files,
    /// Worker threads [default: one per core].
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        env = "ALTWAY_THREADS",
        hide_env_values = true,
        value_parser = positive::<NonZeroUsize>
    )]
    threads: Option<NonZeroUsize>,
    /// Threads that accept TCP connections: per-worker (each its own, no hand-over) or round-robin (one thread for
    /// all, even shares).
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
    /// TLS (h2) or clear text (h2c), as one word: for the environment of a container.
    #[arg(
        long,
        value_name = "MODE",
        env = "ALTWAY_RUN_MODE",
        hide_env_values = true
    )]
    run_mode: Option<RunMode>,
    /// The clients that are offered HTTP/3: learned or learned:FILE (by measurements of each client and others like it),
    /// surface or surface:FILE (by predicted times), threshold or threshold:rtt=TIME,loss=SHARE, study or
    /// study:delay=TIME,loss=SHARE, h3 or h2 (all clients).
    #[arg(long, default_value_t = Policy::default())]
    policy: Policy,
    /// Share of page views, like 1%, for which browsers report how long the page took. It needs pages that name the
    /// script /.well-known/altway/beacon.js. It shows how far the server's timing is off, and decides nothing
    /// [default: off].
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["h2c", "behind_tls_proxy"], value_parser = share)]
    beacon: Option<Ratio>,
    /// Folder that keeps what is learnt of clients over a restart, under hashes of their addresses; made if
    /// missing [default: nothing is kept].
    #[arg(long, value_name = "DIR", conflicts_with = "h2c")]
    state_dir: Option<PathBuf>,
    /// Congestion control of TCP and QUIC: cubic, reno or bbr [default: that of the system's TCP, for QUIC as well;
    /// cubic for QUIC if altway does not have it].
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
    /// Congestion control of QUIC, if it should differ from TCP's [default: as --congestion].
    #[arg(long, value_name = "NAME")]
    quic_congestion: Option<Congestion>,
    /// Initial congestion window of QUIC, in packets. TCP's is set by the route (ip route ... initcwnd).
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    initial_window: u32,
    /// Answer returning clients of HTTP/3 a round trip earlier (0-RTT): off, files, or all (proxied requests too).
    /// Only GET, HEAD and OPTIONS; others are answered 425. Without a value: all.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_value_t = EarlyData::Files,
          default_missing_value = "all", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    early_data: EarlyData,
    /// Send the certificate chain uncompressed, also to clients that support its compression (RFC 8879).
    #[arg(long, conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    no_certificate_compression: bool,
    #[command(flatten)]
    diagnostics: Diagnostics,
    /// Time that a stop waits for requests that are being answered, and for the access log. The process
    /// ends 4 s after it at the latest, whatever its threads do.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
    /// Take over from the server that runs with the same PATH, if there is one, and let the next one take over from
    /// this. PATH is a Unix socket that only this user can use.
    #[arg(long, value_name = "PATH")]
    takeover: Option<PathBuf>,
    /// Go on as this user, by name or number, once the sockets are bound and keys and logs are open: for a start as
    /// root [default: the user that started it].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Go on as this group, by name or number [default: that of --user].
    #[arg(long, value_name = "NAME", requires = "user", hide_short_help = true)]
    group: Option<String>,
    /// Let the process reach every file that its user can [default: only files that its options name, where the
    /// kernel supports that (Landlock, Linux 5.19 and later)].
    #[arg(long)]
    no_sandbox: bool,
    /// Append a line for each request to this file, or - for stderr. A new file is readable by its owner only. No
    /// request waits for the log: when 4 MiB of lines wait, further ones are dropped and counted in it [default: no
    /// log].
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Form of a line of the access log: key-value, json or combined (that of Apache and nginx, which has
    /// neither offers nor durations nor counts of dropped lines).
    #[arg(long, value_name = "FORMAT", default_value_t = LogFormat::default(), requires = "access_log")]
    access_log_format: LogFormat,
    /// Append a line of JSON for each page to this file, with what was decided for its client: `altway policy
    /// evaluate` estimates from it how other policies would have done. It has no addresses; with --state-dir a
    /// client's key stays the same over a restart.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["h2c", "behind_tls_proxy"])]
    selection_log: Option<PathBuf>,
    #[command(flatten)]
    files: ServedFiles,
    #[command(flatten)]
    limits: limits::Limits,
}

impl Flags {
    /// True if there is no TLS here.
    fn is_clear(&self) -> bool {
        self.h2c || self.behind_tls_proxy || self.run_mode == Some(RunMode::ClearText)
    }

    /// The configuration that says the same: one site with one route.
    ///
    /// # Errors
    /// The options don't go together.
    pub(crate) fn config(&self, printer: &Printer) -> Result<Config> {
        // Beside --h2c clap refuses these; beside one value of --run-mode it can't.
        if let Some(option) = self.certificate.given().filter(|_| self.is_clear()) {
            return Err(usage_error(
                format!("{option} is for TLS, and --run-mode h2c is clear text"),
                "leave one of the two out; $ALTWAY_RUN_MODE is --run-mode, too",
            ));
        }
        let (site, limits) = (self.site()?, self.limits.config()?);
        // A configuration is checked by the names of its keys, and these were typed as options.
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let workers = self.threads.unwrap_or_else(cores);
        limits::checked(&limits, (workers, DataSize::ZERO), Spelling::Options)?;
        Ok(Config {
            state: self.state_dir.clone(),
            threads: self.threads,
            grace: self.grace,
            takeover: self.takeover.clone(),
            admin: None,
            user: self.user.clone(),
            group: self.group.clone(),
            sandbox: Sandbox {
                is_on: !self.no_sandbox,
                ..Sandbox::default()
            },
            ticket_keys: Vec::new(),
            listen: self.listen(),
            transport: Transport {
                congestion: self.congestion.map(translated),
                quic_congestion: self.quic_congestion.map(translated),
                initial_window: self.initial_window,
                early_data: self.early_data,
                certificate_compression: !self.no_certificate_compression,
                server_id: translated(self.server_id),
            },
            limits,
            log: Log {
                access: self.access_log.clone(),
                format: translated(self.access_log_format),
                selection: self.selection_log.clone(),
                qlog: self.diagnostics.qlog_path().map(Into::into),
                keylog: self.diagnostics.key_log_path(Variable::Ignored, printer)?,
            },
            acme: None,
            sites: vec![site],
        })
    }

    fn listen(&self) -> Listen {
        let (ip, port) = (self.bind, self.port);
        let security = match self.is_clear() {
            true if self.behind_tls_proxy => Security::BehindTlsProxy,
            true => Security::ClearText,
            false => Security::Tls,
        };
        Listen {
            listeners: vec![Listener {
                address: ListenAddress { ip, port },
                security,
                protocols: Protocols::default(),
                alt_svc_port: None,
            }],
            spread: translated(self.spread),
            ..Listen::default()
        }
    }

    fn site(&self) -> Result<Site> {
        let certificate = self.certificate.config()?;
        let files = self.files.config(&self.root, self.hidden);
        Ok(Site {
            is_default: true,
            certificates: certificate.into_iter().collect(),
            client_certificates: self.certificate.client_certificates(),
            policy: self.policy.clone(),
            beacon: self.beacon,
            headers: self.files.headers().to_vec(),
            routes: vec![Route {
                path: PathPattern::All,
                headers: Vec::new(),
                action: Action::Files(files),
            }],
            ..Site::default()
        })
    }
}

/// A share above 0.
fn share(text: &str) -> Result<Ratio, String> {
    let parsed = text.parse::<Ratio>();
    let share = parsed.map_err(|error| error.to_string())?;
    match share == Ratio::ZERO {
        true => Err("it is a share above 0; without --beacon no browser reports".into()),
        false => Ok(share),
    }
}

/// The values of a container's variable on TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunMode {
    #[value(name = "h2")]
    Tls,
    #[value(name = "h2c")]
    ClearText,
}
