//! The servers that are compared, and the command line that starts each.
//!
//! All serve the same folder, with the same certificate, to one address, without an access log, and
//! with settings that do not limit a workload. What stands in a file of settings is made in
//! [`config`].

use super::config;
use super::site::Site;
use super::workload::{Cell, Transport, Workload};
use crate::go;
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    Altway,
    /// Another build of altway, mostly that of the commit before.
    AltwayBefore,
    /// altway with its access log written to a file.
    AltwayLog,
    /// altway with one acceptor that hands connections to the workers in turn.
    #[value(name = "altway-rr")]
    #[serde(rename = "altway-rr")]
    AltwayRoundRobin,
    /// altway by a configuration file of one site with a name.
    #[value(name = "altway-1-site")]
    #[serde(rename = "altway-1-site")]
    AltwayOneSite,
    /// altway by a configuration file of 1,000 sites, each with a name, a certificate and a folder of its own.
    #[value(name = "altway-1000-sites")]
    #[serde(rename = "altway-1000-sites")]
    AltwayManySites,
    /// altway asked over HTTP/2 and TLS where the others are asked over HTTP/3.
    AltwayH2,
    /// The libraries hyper, h2 and rustls: the baseline.
    Hyper,
    /// nghttp2's server.
    Nghttpd,
    /// h2o.
    H2o,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// The library quic-go: HTTP/3 in Go.
    QuicGo,
    /// Caddy, which is built on quic-go.
    Caddy,
    /// The origin behind proxies, asked without one: HTTP/1.1 in clear text.
    Direct,
}

/// Settings that a server is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) site: &'a Site,
    /// An empty folder of its own, for settings and logs.
    pub(crate) folder: &'a Path,
    /// Folder in which the project's own programs were built.
    pub(crate) programs: &'a Path,
    /// Address to listen on.
    pub(crate) address: SocketAddrV4,
    pub(crate) workers: usize,
    pub(crate) transport: Transport,
    /// The server behind it that has the files; `None`: it has them itself.
    pub(crate) behind: Option<SocketAddrV4>,
    /// The workload of its cell.
    pub(crate) workload: Workload,
}

impl Contender {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Altway => "altway",
            Self::AltwayBefore => "altway-before",
            Self::AltwayLog => "altway-log",
            Self::AltwayRoundRobin => "altway-rr",
            Self::AltwayOneSite => "altway-1-site",
            Self::AltwayManySites => "altway-1000-sites",
            Self::AltwayH2 => "altway-h2",
            Self::Hyper => "hyper",
            Self::Nghttpd => "nghttpd",
            Self::H2o => "h2o",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::QuicGo => "quic-go",
            Self::Caddy => "caddy",
            Self::Direct => "direct",
        }
    }

    /// The Debian package that brings it, unless it is built here.
    pub(crate) const fn package(self) -> Option<&'static str> {
        match self {
            Self::Altway | Self::AltwayLog | Self::AltwayRoundRobin | Self::AltwayH2 => None,
            Self::AltwayBefore | Self::AltwayOneSite | Self::AltwayManySites => None,
            Self::Hyper | Self::QuicGo | Self::Caddy => None,
            Self::Nghttpd => Some("nghttp2-server"),
            Self::H2o => Some("h2o"),
            Self::Nginx | Self::Direct => Some("nginx"),
            Self::Haproxy => Some("haproxy"),
        }
    }

    /// Path of the program; `None` when it is not installed. Debian keeps nginx where only root
    /// looks.
    pub(crate) fn program(self, programs: &Path) -> Option<PathBuf> {
        match self {
            Self::Altway
            | Self::AltwayLog
            | Self::AltwayRoundRobin
            | Self::AltwayOneSite
            | Self::AltwayManySites
            | Self::AltwayH2 => Some(programs.join("altway")),
            Self::AltwayBefore => Some(programs.join(self.name())),
            Self::Hyper => Some(programs.join("bench-hyper")),
            Self::Nghttpd | Self::H2o | Self::Nginx | Self::Haproxy => {
                shell::find(self.name()).or_else(|| shell::find_in("/usr/sbin", self.name()))
            }
            Self::Direct => Self::Nginx.program(programs),
            Self::QuicGo => go::quic_go(),
            Self::Caddy => go::caddy(),
        }
    }

    /// Returns true if it runs where the client does and not where servers do, as origins do.
    pub(crate) fn is_origin(self) -> bool {
        self == Self::Direct
    }

    /// Returns true if it is altway with another setting: what matters is what that costs altway.
    pub(crate) fn is_variant(self) -> bool {
        matches!(self, Self::AltwayLog | Self::AltwayRoundRobin) || self.sites().is_some()
    }

    /// The number of sites of its configuration file; `None`: it has none.
    pub(crate) const fn sites(self) -> Option<usize> {
        match self {
            Self::AltwayOneSite => Some(1),
            Self::AltwayManySites => Some(1_000),
            _ => None,
        }
    }

    /// Returns true if it takes part in `cell`: what a log costs is asked of one workload alone, and HTTP/2 is
    /// set beside HTTP/3 in bulk.
    pub(crate) fn takes_part_in(self, cell: Cell) -> bool {
        match self {
            Self::AltwayLog => cell.workload == Workload::W1,
            Self::Direct => cell.workload == Workload::ProxyLatency,
            // What a site costs is asked of requests and handshakes.
            Self::AltwayOneSite | Self::AltwayManySites => cell.workload != Workload::Idle,
            // Debian's have no HTTP/3.
            Self::Nginx | Self::Haproxy if cell.transport == Transport::H3 => false,
            _ => self.transport_in(cell) == cell.transport || cell.workload == Workload::Hq2,
        }
    }

    /// Transport over which it is asked in `cell`.
    pub(crate) fn transport_in(self, cell: Cell) -> Transport {
        match (self, cell.transport) {
            (Self::AltwayH2 | Self::Nghttpd, Transport::H3) => Transport::Tls,
            (Self::Direct, _) => Transport::H2c,
            (_, transport) => transport,
        }
    }

    /// The command that starts it; writes its settings into the folder first.
    ///
    /// # Errors
    /// The program is missing, or the folder can't be written to.
    pub(crate) fn command(self, setting: &Setting) -> Result<Command> {
        let program = self
            .program(setting.programs)
            .with_context(|| format!("{self} is not installed"))?;
        let mut command = Command::new(program);
        match self {
            Self::Altway | Self::AltwayBefore | Self::AltwayH2 => altway(&mut command, setting),
            Self::AltwayLog => {
                altway(&mut command, setting);
                command
                    .arg("--access-log")
                    .arg(setting.folder.join("access.log"));
            }
            Self::AltwayRoundRobin => {
                altway(&mut command, setting);
                command.args(["--spread", "round-robin"]);
            }
            Self::AltwayOneSite | Self::AltwayManySites => {
                let text = config::sites(setting, self.sites().unwrap_or(1))?;
                let path = write(setting.folder, "altway.toml", &text)?;
                command.arg("serve").arg("--config").arg(path);
                by_default(&mut command);
            }
            Self::Hyper => hyper(&mut command, setting),
            Self::Nghttpd => nghttpd(&mut command, setting),
            Self::H2o => {
                let path = write(setting.folder, "h2o.yaml", &config::h2o(setting))?;
                command.arg("-c").arg(path);
            }
            Self::Nginx => {
                let path = write(setting.folder, "nginx.conf", &config::nginx(setting))?;
                command.arg("-p").arg(setting.folder).arg("-c").arg(path);
                command.args(["-e", "stderr"]);
            }
            Self::Haproxy => {
                let path = write(setting.folder, "haproxy.cfg", &config::haproxy(setting)?)?;
                command.args(["-db", "-f"]).arg(path);
            }
            Self::Direct => return origin(setting),
            Self::QuicGo => quic_go(&mut command, setting),
            Self::Caddy => {
                let path = write(setting.folder, "Caddyfile", &config::caddy(setting))?;
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(path);
                go_runtime(&mut command, setting);
            }
        }
        Ok(command)
    }
}

/// The command that starts the origin behind proxies; writes its settings into the folder first.
///
/// # Errors
/// nginx is not installed, or the folder can't be written to.
pub(super) fn origin(setting: &Setting) -> Result<Command> {
    let program = Contender::Nginx.program(setting.programs);
    let mut command =
        Command::new(program.context("nginx, which is the origin, is not installed")?);
    let path = write(setting.folder, "nginx.conf", &config::origin(setting))?;
    command.arg("-p").arg(setting.folder).arg("-c").arg(path);
    command.args(["-e", "stderr"]);
    Ok(command)
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Settings that altway takes from the environment are left out.
fn by_default(command: &mut Command) {
    command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
}

fn altway(command: &mut Command, setting: &Setting) {
    by_default(command);
    match setting.behind {
        None => {
            command.arg("serve").arg(&setting.site.root);
            command.args(["--bind", &setting.address.ip().to_string()]);
            command.args(["--port", &setting.address.port().to_string()]);
        }
        Some(origin) => {
            command.args(["proxy", &format!("http://{origin}")]);
            command.args(["--listen", &setting.address.to_string()]);
        }
    }
    command.args(["--threads", &setting.workers.to_string()]);
    command.args(["--grace", "1s"]);
    let limits: &[&str] = match setting.workload {
        // By default a worker has 10,000 connections, and from 9,000 on closes those that have idled for longest.
        Workload::ProxyIdle => &["--max-connections"],
        // All come from one address, which by default has an eighth of each.
        Workload::Ramp | Workload::Idle | Workload::Storm | Workload::Trickle => &[
            "--max-connections",
            "--max-connections-per-client",
            "--max-handshakes",
        ],
        _ => &[],
    };
    for limit in limits {
        command.arg(limit).arg(config::MAX_CONNECTIONS.to_string());
    }
    match setting.transport {
        Transport::H2c => command.arg("--h2c"),
        Transport::Tls | Transport::H3 => command
            .arg("--cert")
            .arg(&setting.site.certificate)
            .arg("--key")
            .arg(&setting.site.key),
    };
}

fn hyper(command: &mut Command, setting: &Setting) {
    command.arg(&setting.site.root);
    command.args(["--port", &setting.address.port().to_string()]);
    command.args(["--workers", &setting.workers.to_string()]);
    if setting.transport == Transport::Tls {
        command.arg("--cert").arg(&setting.site.certificate);
        command.arg("--key").arg(&setting.site.key);
    }
}

fn nghttpd(command: &mut Command, setting: &Setting) {
    let port = setting.address.port().to_string();
    command.args(["-a", &setting.address.ip().to_string(), "-d"]);
    command.arg(&setting.site.root);
    command.args(["-n", &setting.workers.to_string()]);
    command.args(["-m", &config::MAX_CONCURRENT_STREAMS.to_string()]);
    match setting.transport {
        Transport::H2c => command.arg("--no-tls").arg(port),
        Transport::Tls | Transport::H3 => command
            .arg(port)
            .arg(&setting.site.key)
            .arg(&setting.site.certificate),
    };
}

fn quic_go(command: &mut Command, setting: &Setting) {
    command.args(["-address", &setting.address.to_string()]);
    command.arg("-certificate").arg(&setting.site.certificate);
    command.arg("-key").arg(&setting.site.key);
    command.arg("-root").arg(&setting.site.root);
    go_runtime(command, setting);
}

/// Environment with as many threads at work as the others have workers, and nothing from or into somebody's home.
fn go_runtime(command: &mut Command, setting: &Setting) {
    command.env("GOMAXPROCS", setting.workers.to_string());
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(name, setting.folder);
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
