//! The servers that are compared, and the command line that starts each.
//!
//! All serve the same folder, with the same certificate, to one address, without an access log, and
//! with settings that do not limit a workload. What stands in a file of settings is made in
//! [`config`].

use super::config;
use super::site::Site;
use super::workload::{Cell, Transport, Workload};
use crate::shell;
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    #[value(skip)]
    Altway,
    /// altway with its access log written to a file.
    #[value(skip)]
    AltwayLog,
    /// altway with one acceptor that hands connections to the workers in turn.
    #[value(skip)]
    #[serde(rename = "altway-rr")]
    AltwayRoundRobin,
    /// The libraries hyper, h2 and rustls: the baseline.
    Hyper,
    /// nghttp2's server.
    Nghttpd,
    /// h2o.
    H2o,
    /// nginx.
    Nginx,
}

/// What a server is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) site: &'a Site,
    /// An empty folder of its own, for settings and logs.
    pub(crate) folder: &'a Path,
    /// Where the project's own programs were built.
    pub(crate) programs: &'a Path,
    pub(crate) port: u16,
    pub(crate) cell: Cell,
}

impl Contender {
    /// All that altway is compared with.
    pub(crate) const PEERS: [Self; 4] = [Self::Hyper, Self::Nghttpd, Self::H2o, Self::Nginx];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Altway => "altway",
            Self::AltwayLog => "altway-log",
            Self::AltwayRoundRobin => "altway-rr",
            Self::Hyper => "hyper",
            Self::Nghttpd => "nghttpd",
            Self::H2o => "h2o",
            Self::Nginx => "nginx",
        }
    }

    /// The Debian package that brings it, unless it is built here.
    pub(crate) const fn package(self) -> Option<&'static str> {
        match self {
            Self::Altway | Self::AltwayLog | Self::AltwayRoundRobin | Self::Hyper => None,
            Self::Nghttpd => Some("nghttp2-server"),
            Self::H2o => Some("h2o"),
            Self::Nginx => Some("nginx"),
        }
    }

    /// Where the program is; `None` when it is not installed. Debian keeps nginx where only root
    /// looks.
    pub(crate) fn program(self, programs: &Path) -> Option<PathBuf> {
        match self {
            Self::Altway | Self::AltwayLog | Self::AltwayRoundRobin => {
                Some(programs.join("altway"))
            }
            Self::Hyper => Some(programs.join("bench-hyper")),
            Self::Nghttpd | Self::H2o | Self::Nginx => {
                shell::find(self.name()).or_else(|| shell::find_in("/usr/sbin", self.name()))
            }
        }
    }

    /// Whether it is altway with another setting: what matters is what that costs altway.
    pub(crate) fn is_variant(self) -> bool {
        matches!(self, Self::AltwayLog | Self::AltwayRoundRobin)
    }

    /// Whether it takes part in `workload`: what a log costs is asked of one alone.
    pub(crate) fn takes_part_in(self, workload: Workload) -> bool {
        self != Self::AltwayLog || workload == Workload::W1
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
            Self::Altway => altway(&mut command, setting),
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
        }
        Ok(command)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn altway(command: &mut Command, setting: &Setting) {
    command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
    command.arg("serve").arg(&setting.site.root);
    command.args(["--bind", "127.0.0.1", "--grace", "1s", "--port"]);
    command.arg(setting.port.to_string());
    command.args(["--threads", &setting.cell.workers.to_string()]);
    match setting.cell.transport {
        Transport::H2c => command.arg("--h2c"),
        Transport::Tls => command
            .arg("--cert")
            .arg(&setting.site.certificate)
            .arg("--key")
            .arg(&setting.site.key),
    };
}

fn hyper(command: &mut Command, setting: &Setting) {
    command.arg(&setting.site.root);
    command.args(["--port", &setting.port.to_string()]);
    command.args(["--workers", &setting.cell.workers.to_string()]);
    if setting.cell.transport == Transport::Tls {
        command.arg("--cert").arg(&setting.site.certificate);
        command.arg("--key").arg(&setting.site.key);
    }
}

fn nghttpd(command: &mut Command, setting: &Setting) {
    command.args(["-a", "127.0.0.1", "-d"]);
    command.arg(&setting.site.root);
    command.args(["-n", &setting.cell.workers.to_string()]);
    command.args(["-m", &config::MAX_CONCURRENT_STREAMS.to_string()]);
    match setting.cell.transport {
        Transport::H2c => command.arg("--no-tls").arg(setting.port.to_string()),
        Transport::Tls => command
            .arg(setting.port.to_string())
            .arg(&setting.site.key)
            .arg(&setting.site.certificate),
    };
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
