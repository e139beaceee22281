//! A server by a configuration file, and what its process holds.

use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server in a folder of its own; killed when dropped.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
    program: PathBuf,
    port: u16,
}

/// A command of altway's that keeps what it makes in `folder`.
pub(super) fn altway(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    at_home(&mut command, folder);
    command
}

fn at_home(command: &mut Command, folder: &Path) {
    command.current_dir(folder).env("HOME", folder);
    command.env("XDG_DATA_HOME", folder).stdin(Stdio::null());
}

impl Server {
    /// Starts a server by a configuration, with so many descriptors at most, and waits until it listens.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        config: &str,
        descriptors: Option<u32>,
    ) -> Result<Self> {
        fs::write(folder.join("altway.toml"), config)?;
        // `setpriv` and `prlimit` replace themselves by the server, which then ends with this program even if a signal
        // ends that.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(most) = descriptors {
            command
                .arg("prlimit")
                .arg(format!("--nofile={most}:{most}"));
        }
        command.arg(program);
        at_home(&mut command, folder);
        command.args([
            "serve",
            "--config",
            "altway.toml",
            "--admin",
            "admin",
            "--json",
        ]);
        let log = File::create(folder.join("log"))?;
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Result<serde_json::Value, _> = serde_json::from_str(&line);
        let port = said.ok().and_then(|it| {
            let address = it["address"].as_str()?.to_owned();
            address.rsplit(':').next()?.parse().ok()
        });
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        Ok(Self {
            child,
            folder: folder.to_path_buf(),
            program: program.to_path_buf(),
            port: port.with_context(|| format!("the server does not listen: {}", log()))?,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// `https://localhost:PORT` and the path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// Has it read its configuration again.
    pub(super) fn reload(&self) -> Result<()> {
        let mut reload = altway(&self.program, &self.folder);
        let output = reload.args(["reload", "--admin", "admin"]).output()?;
        ensure!(
            output.status.success(),
            "reload: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        Ok(())
    }

    /// Resident memory now, in MB.
    pub(super) fn resident(&self) -> Result<f64> {
        self.memory("VmRSS:")
    }

    /// The most resident memory so far, in MB.
    pub(super) fn peak(&self) -> Result<f64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.context("the process has gone")? * 1024.0 / 1e6)
    }

    /// Processor time of all threads so far.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let mut sum = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = fs::read_to_string(thread?.path().join("schedstat"))?;
            let first = stat
                .split_whitespace()
                .next()
                .context("an empty schedstat")?;
            sum += first.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(sum))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
