//! A contender that runs and listens.

use super::contender::{Contender, Setting};
use super::cores::Cores;
use super::cpu::Snapshot;
use super::process::{Running, Stop};
use super::site::Site;
use super::workload::Cell;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// How often a starting server is knocked at.
const KNOCK: Duration = Duration::from_millis(20);

/// What all servers of a bench are started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Of the bench; each server gets a folder in it.
    pub(crate) folder: &'a Path,
    pub(crate) site: &'a Site,
    /// Where the project's own programs were built.
    pub(crate) programs: &'a Path,
}

/// A running server; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) contender: Contender,
    pub(crate) port: u16,
    running: Running,
    /// What it prints: its complaints, and altway's access log.
    log: PathBuf,
}

impl Server {
    /// Starts `contender` and waits until it listens.
    ///
    /// # Errors
    /// It is missing, ends at once or doesn't listen in time: with what it printed.
    pub(crate) fn start(
        contender: Contender,
        place: Place,
        cell: Cell,
        cores: &Cores,
        stop: &Stop,
    ) -> Result<Self> {
        let folder = place.folder.join(contender.name());
        fs::create_dir_all(&folder)?;
        let port = free_port()?;
        let mut command = contender.command(&Setting {
            site: place.site,
            folder: &folder,
            programs: place.programs,
            port,
            cell,
        })?;
        let log = folder.join("log.txt");
        let file = writable(&log)?;
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let mut server = Self {
            contender,
            port,
            running: Running::start(&mut command, &cores.server)?,
            log,
        };
        server.wait_until_it_listens(stop)?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// CPU time used so far.
    ///
    /// # Errors
    /// The server has ended.
    pub(crate) fn cpu(&self) -> Result<Snapshot> {
        Snapshot::take(self.pid())
    }

    /// Empties its log, so that rounds don't fill the disk.
    ///
    /// # Errors
    /// The file is not to be had.
    pub(crate) fn empty_log(&self) -> Result<()> {
        Ok(writable(&self.log)?.set_len(0)?)
    }

    fn wait_until_it_listens(&mut self, stop: &Stop) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            stop.check()?;
            if let Some(status) = self.running.ended()? {
                bail!("{} ended ({status}): {}", self.contender, self.last_words());
            }
            ensure!(
                start.elapsed() < START,
                "{} doesn't listen: {}",
                self.contender,
                self.last_words()
            );
            sleep(KNOCK);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Appends, so that a log which was emptied begins anew and not behind a hole.
fn writable(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    options
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A port that nobody listens on; the system gives it to nobody else for a while.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
