//! `altway proxy`: three protocols in front of a server that is there already.

mod acme;
mod summary;

use super::serve::limits::{self, Spelling};
use super::serve::loops::loops;
use super::serve::{Run, run_plan, translated};
use super::{ip_address, port, positive};
use crate::hint::usage_error;
use crate::printer::Printer;
use crate::{Answer, config_file};
use altway_config::{
    Action, Balance, Certificate, CheckPath, Config, EarlyData, HealthCheck, HostValue, Listen,
    ListenAddress, Log, Network, PathPattern, Plan, Proxy, Route, Sandbox, Secret, Site, Transport,
    Upstream,
};
use altway_proxy::Statistics;
use altway_serve::{LogFormat, Policy};
use altway_units::{DataSize, duration};
use anyhow::Result;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Put HTTP/1.1, HTTP/2 and HTTP/3 in front of a server: `altway proxy http://localhost:3000`.
///
/// Each client is offered the protocol that loads fastest on its path. Without --cert, --key and --acme it makes a
/// certificate for localhost, 127.0.0.1 and ::1 once, signed by a certificate authority of its own, and says how to
/// trust it. When it ends it says how long requests and visits took over each protocol, what was offered and why,
/// what that saved, and what failed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway proxy http://localhost:3000
  altway proxy localhost:3000 --acme example.org --acme-email ops@example.org
  altway proxy localhost:3000 --listen '*:443' -c fullchain.pem -k key.pem
  altway proxy http://10.0.1.1:8080 http://10.0.1.2:8080 --balance least-requests --health /healthz
  altway proxy unix:/run/app.sock --state-dir /var/lib/altway --access-log -

Origins: http://HOST:PORT (the scheme may be left out), https://HOST, h2c://HOST:PORT (HTTP/2 in clear
text, for gRPC), h2://HOST (HTTP/2 over TLS), h3://HOST (HTTP/3), unix:/PATH, unix+h2c:/PATH (HTTP/2).

The origins are told the client in Forwarded, X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host,
whatever the client sends in these fields. Host is the client's unless --host sets it. An origin's
Alt-Svc is never passed on.

A request is sent to another origin, or again, only if the first can't have handled it, or if its method
is idempotent (GET, PUT, DELETE …) and no byte of a response has arrived. 502: the origin did not answer,
or not with HTTP; 503: no origin is healthy, or all have too many requests; 504: no response in 60 s.

Everything else is set in a configuration file: `altway serve --config FILE`, with `proxy` in its routes
(docs/configuration.md).")]
pub(crate) struct Arguments {
    /// The server, or several that answer alike.
    #[arg(value_name = "ORIGIN", required = true, value_parser = origin)]
    origins: Vec<Upstream>,
    /// Address and port to listen at, TCP and UDP; * is all addresses, port 0 any that is free
    /// [default: *:8443].
    #[arg(short, long, value_name = "ADDRESS:PORT")]
    listen: Option<ListenAddress>,
    /// Port number for TCP and UDP at all addresses, or at that of --bind; 0: any that is free.
    #[arg(short, long, conflicts_with = "listen", value_parser = port)]
    port: Option<u16>,
    /// Address to listen on [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "IP", conflicts_with = "listen", value_parser = ip_address)]
    bind: Option<IpAddr>,
    #[command(flatten)]
    acme: acme::Options,
    /// Certificate chain, PEM, the server's own first.
    #[arg(short, long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(short, long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Choice of the origin for a request: round-robin, least-requests, hash:client or hash:FIELD.
    #[arg(long, value_name = "HOW", default_value_t = Balance::default())]
    balance: Balance,
    /// Ask each origin for this path every 5 s; an origin that fails is sent no requests.
    #[arg(long, value_name = "PATH")]
    health: Option<CheckPath>,
    /// Host field of the requests to the origins [default: the host that the client asks for].
    #[arg(long, value_name = "HOST")]
    host: Option<HostValue>,
    /// Network of proxies before this one that are trusted to name the client; may be given several times.
    #[arg(long, value_name = "NETWORK")]
    trust: Vec<Network>,
    /// PEM file of the authorities that sign the origins' certificates [default: the system's].
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// The clients that are offered HTTP/3: learned, surface, threshold, study, h3 or h2 (see altway serve --help).
    #[arg(long, default_value_t = Policy::default())]
    policy: Policy,
    /// Folder that keeps what is learnt of clients over a restart, under hashes of their addresses; made if missing
    /// [default: nothing is kept].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Answer returning clients of HTTP/3 a round trip earlier (0-RTT): only GET, HEAD and OPTIONS, which the origins
    /// get with `Early-Data: 1`; others are answered 425.
    #[arg(long)]
    early_data: bool,
    /// Worker threads [default: one per core].
    #[arg(short = 'n', long, value_parser = positive::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,
    /// Time that a stop waits for requests that are being answered.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
    /// Let the process reach every file that its user can [default: only files that its options name, where the
    /// kernel supports that (Landlock, Linux 5.19 and later)].
    #[arg(long, hide_short_help = true)]
    no_sandbox: bool,
    /// Append a line for each request to this file, or - for stderr.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Form of a line of the access log: key-value, json or combined.
    #[arg(long, value_name = "FORMAT", default_value_t = LogFormat::default(), requires = "access_log")]
    access_log_format: LogFormat,
    /// Admin socket: path of a Unix socket, which only this user can use, or IP:PORT of this machine, which everybody
    /// on it can use [default: none].
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<altway_admin::Address>,
    /// Print a line of JSON on stdout as soon as the server listens, and another at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: limits::Limits,
}

/// An origin; one without a scheme is `http`.
fn origin(text: &str) -> Result<Upstream, String> {
    let is_socket = text.starts_with("unix:") || text.starts_with("unix+");
    let has_scheme = text.contains("://") || is_socket;
    let read = match has_scheme {
        true => text.parse(),
        false => format!("http://{text}").parse(),
    };
    read.map_err(|error: altway_config::BadUpstream| error.to_string())
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let plan = Plan::check(arguments.config()?).map_err(config_file::of_options)?;
    check_origins(&plan)?;
    let statistics = Arc::<Statistics>::default();
    let origins: Vec<_> = arguments.origins.iter().map(ToString::to_string).collect();
    let how = Run {
        file: None,
        admin: arguments.admin.as_ref(),
        json: arguments.json,
        statistics: Arc::clone(&statistics),
        to: Some(format!(", in front of {}", origins.join(", "))),
    };
    let monitor = run_plan(&plan, Spelling::Options, &how, printer)?;
    let summary = statistics.summary();
    match arguments.json {
        true => printer.data(&summary::json(&summary, &monitor.metrics()))?,
        false => printer.say(&summary::text(&summary, &monitor.metrics())),
    }
    Ok(Answer::Done)
}

/// Checks that no origin is the proxy itself.
fn check_origins(plan: &Plan) -> Result<()> {
    match loops(plan).first() {
        None => Ok(()),
        Some((_, origin)) => Err(usage_error(
            format!("the proxy itself listens at `{origin}`, so it can't be an origin"),
            "name the port at which the application listens, or have the proxy listen at another one: `--listen '*:9443'`",
        )),
    }
}

impl Arguments {
    /// The configuration that says the same: one site with one route.
    fn config(&self) -> Result<Config> {
        let limits = self.limits.config()?;
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        limits::checked(
            &limits,
            (self.threads.unwrap_or_else(cores), DataSize::ZERO),
            Spelling::Options,
        )?;
        if self.roots.is_some() && !self.origins.iter().any(|origin| origin.is_tls) {
            return Err(usage_error(
                "--roots is for origins that speak TLS, and none of these does",
                "leave it out, or name origins by https://",
            ));
        }
        Ok(Config {
            state: self.state_dir.clone(),
            sandbox: Sandbox {
                is_on: !self.no_sandbox,
                ..Sandbox::default()
            },
            threads: self.threads,
            grace: self.grace,
            listen: Listen {
                listeners: self.acme.listeners(self.listen_address(), self.bind),
                ..Listen::default()
            },
            transport: Transport {
                early_data: match self.early_data {
                    true => EarlyData::All,
                    false => EarlyData::Off,
                },
                ..Transport::default()
            },
            limits,
            log: Log {
                access: self.access_log.clone(),
                format: translated(self.access_log_format),
                ..Log::default()
            },
            acme: self.acme.config(self.state_dir.as_deref())?,
            sites: vec![self.site()],
            ..Config::default()
        })
    }

    /// The one address that was asked for.
    fn listen_address(&self) -> Option<ListenAddress> {
        let ip = self.bind;
        self.listen
            .or_else(|| self.port.map(|port| ListenAddress { ip, port }))
    }

    fn site(&self) -> Site {
        let certificate = self.cert.clone().zip(self.key.clone());
        let certificate = certificate.map(|(chain, key)| Certificate {
            chain,
            key: Secret::File(key),
            ocsp: None,
        });
        let mut proxy = Proxy::to(self.origins.clone());
        proxy.balance = self.balance.clone();
        proxy.health = self.health.clone().map(|path| HealthCheck {
            path,
            every: HealthCheck::DEFAULT_EVERY,
        });
        proxy.host.clone_from(&self.host);
        proxy.trust.clone_from(&self.trust);
        proxy.roots.clone_from(&self.roots);
        Site {
            names: self.acme.names().to_vec(),
            is_default: true,
            certificates: certificate.into_iter().collect(),
            policy: self.policy.clone(),
            routes: vec![Route {
                path: PathPattern::All,
                headers: Vec::new(),
                action: Action::Proxy(Box::new(proxy)),
            }],
            ..Site::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_without_a_scheme_is_of_http() {
        for (text, expected) in [
            ("localhost:3000", "http://localhost:3000"),
            ("unix-2.example.org:3000", "http://unix-2.example.org:3000"),
            ("h2c://localhost:50051", "h2c://localhost:50051"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
            ("unix+h2c:/run/app.sock", "unix+h2c:/run/app.sock"),
        ] {
            assert_eq!(origin(text).unwrap().to_string(), expected);
        }
    }
}
