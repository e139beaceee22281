//! A contender that runs and listens.

use super::contender::{self, Contender, Setting};
use super::cpu::Snapshot;
use super::placement::{Placement, Placements};
use super::process::{Running, Stop};
use super::site::Site;
use super::sockets;
use super::workload::{Cell, Transport};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that a server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Time between two looks at a starting server.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Settings that all servers of a bench are started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerSetup<'a> {
    /// Folder of the bench; each server gets one in it.
    pub(crate) folder: &'a Path,
    pub(crate) site: &'a Site,
    /// Folder in which the project's own programs were built.
    pub(crate) programs: &'a Path,
}

/// A running server; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) contender: Contender,
    pub(crate) address: SocketAddrV4,
    /// Transport over which it is asked.
    pub(crate) transport: Transport,
    running: Running,
    /// File of what it prints: its errors, and altway's access log.
    log: PathBuf,
}

impl Server {
    /// Starts `contender`, before `origin` if there is one, and waits until it listens.
    ///
    /// # Errors
    /// It is missing, ends at once or doesn't listen in time: with what it printed.
    pub(crate) fn start(
        contender: Contender,
        origin: Option<&Self>,
        place: ServerSetup,
        cell: Cell,
        placements: &Placements,
        stop: &Stop,
    ) -> Result<Self> {
        let folder = place.folder.join(contender.name());
        fs::create_dir_all(&folder)?;
        let setting = Setting {
            site: place.site,
            folder: &folder,
            programs: place.programs,
            address: SocketAddrV4::new(placements.server_address(), free_port()?),
            workers: cell.workers,
            transport: contender.transport_in(cell),
            behind: origin.map(|it| it.address),
            workload: cell.workload,
        };
        let command = contender.command(&setting)?;
        let placement = match contender.is_origin() {
            true => placements.client(),
            false => placements.server(),
        };
        Self::launch(contender, command, &setting, placement, stop)
    }

    /// Starts the origin of a cell of proxies: nginx, over HTTP/1.1 in clear text, where the client runs. What it costs
    /// is nobody's.
    ///
    /// # Errors
    /// As those of [`Self::start`].
    pub(crate) fn start_origin(
        place: ServerSetup,
        cell: Cell,
        placements: &Placements,
        stop: &Stop,
    ) -> Result<Self> {
        let folder = place.folder.join("origin");
        fs::create_dir_all(&folder)?;
        let setting = Setting {
            site: place.site,
            folder: &folder,
            programs: place.programs,
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port()?),
            workers: 1,
            transport: Transport::H2c,
            behind: None,
            workload: cell.workload,
        };
        let command = contender::origin(&setting)?;
        Self::launch(
            Contender::Nginx,
            command,
            &setting,
            placements.client(),
            stop,
        )
    }

    fn launch(
        contender: Contender,
        mut command: Command,
        setting: &Setting,
        placement: Placement,
        stop: &Stop,
    ) -> Result<Self> {
        let log = setting.folder.join("log.txt");
        let file = writable(&log)?;
        command.current_dir(setting.folder).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        let mut server = Self {
            contender,
            address: setting.address,
            transport: setting.transport,
            running: Running::start(&mut command, placement)?,
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

    /// Datagrams that its UDP socket had no room for so far; `None` over TCP.
    ///
    /// # Errors
    /// The server has ended.
    pub(crate) fn datagrams_lost(&self) -> Result<Option<u64>> {
        let is_udp = self.transport == Transport::H3;
        let count = || sockets::datagrams_lost(self.pid(), self.address.port());
        is_udp.then(count).transpose()
    }

    /// Empties its log, so that rounds don't fill the disk.
    ///
    /// # Errors
    /// The file is not to be had.
    pub(crate) fn empty_log(&self) -> Result<()> {
        Ok(writable(&self.log)?.set_len(0)?)
    }

    fn wait_until_it_listens(&mut self, stop: &Stop) -> Result<()> {
        let start = Instant::now();
        let port = self.address.port();
        while !sockets::is_listening(self.pid(), port, self.transport).unwrap_or(false) {
            stop.check()?;
            if let Some(status) = self.running.ended()? {
                bail!("{} ended ({status}): {}", self.contender, self.last_words());
            }
            ensure!(
                start.elapsed() < START_TIMEOUT,
                "{} doesn't listen: {}",
                self.contender,
                self.last_words()
            );
            sleep(POLL_INTERVAL);
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

/// A port that nobody listens on, over TCP or UDP; the system gives it to nobody else for a while.
fn free_port() -> Result<u16> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
}
