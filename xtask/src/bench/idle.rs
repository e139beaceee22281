//! Memory of connections that are open and do nothing.

use super::cpu;
use super::placement::Placement;
use super::process::{Running, Stop};
use super::record::Observation;
use super::server::{Server, ServerSetup};
use super::site::SMALL;
use super::workload::{Load, Transport};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Descriptors that a process needs beside its connections.
const SPARE: u64 = 256;

/// Wanted descriptors in a process: the idle connections, and files kept open.
const WANTED: u64 = 32_768;

/// Time that the connections may take to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(120);

/// Time from the last request until the memory is read: for buffers to be given back.
const SETTLE: Duration = Duration::from_secs(2);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Raises the limit of open files for this process and its children as far as it may go; gives it.
pub(crate) fn raise_file_limit() -> u64 {
    let now = getrlimit(Resource::Nofile);
    // `None` is no limit at all.
    let hard = now.maximum.unwrap_or(u64::MAX);
    // Only a privileged process may go beyond its hard limit; any may go up to it.
    let wishes = [hard.max(WANTED), hard].map(|hard| Rlimit {
        current: Some(hard.min(WANTED)),
        maximum: Some(hard),
    });
    let granted = wishes
        .into_iter()
        .find(|wish| setrlimit(Resource::Nofile, *wish).is_ok());
    granted.unwrap_or(now).current.unwrap_or(u64::MAX)
}

/// Returns as many of the load's connections as the limit of open files allows.
pub(crate) fn allowed(load: Load, file_limit: u64) -> Load {
    let connections = load.connections.min(file_limit.saturating_sub(SPARE));
    Load {
        connections,
        requests: connections,
        ..load
    }
}

/// Opens the connections and reads the server's memory while they idle. The CPU time is that of
/// opening them: a hand-shake and a request each.
///
/// # Errors
/// Not all can be opened, the server ends, or somebody asked to stop.
pub(crate) fn measure(
    load: Load,
    server: &Server,
    place: ServerSetup,
    placement: Placement,
    stop: &Stop,
) -> Result<Observation> {
    let memory_before_bytes = Some(cpu::resident_memory(server.pid())?);
    let before = server.cpu()?;
    let start = Instant::now();
    let mut clients = open(load, server, place, placement, stop)?;
    let duration = start.elapsed();
    let cpu = server.cpu()?.since(&before);
    std::thread::sleep(SETTLE);
    let memory_bytes = cpu::resident_memory(server.pid())?;
    // Those of HTTP/3 end when a connection does.
    ensure!(
        clients.ended()?.is_none(),
        "a connection was closed while it was idle"
    );
    Ok(Observation {
        duration_s: duration.as_secs_f64(),
        body_bytes: load.total_bytes(),
        cpu,
        memory_bytes,
        memory_before_bytes,
        tls: format!("TLSv1.3 {}", super::h2load::CIPHER),
        ..Observation::default()
    })
}

fn open(
    load: Load,
    server: &Server,
    place: ServerSetup,
    placement: Placement,
    stop: &Stop,
) -> Result<Running> {
    let program = match server.transport {
        Transport::H2c | Transport::Tls => "bench-idle",
        Transport::H3 => "bench-idle-h3",
    };
    let mut command = Command::new(place.programs.join(program));
    if load.addresses > 1 {
        command.args(["--addresses", &load.addresses.to_string()]);
    }
    command
        .arg(SMALL)
        .args(["--port", &server.address.port().to_string()])
        .args(["--connections", &load.connections.to_string()])
        .arg("--authority")
        .arg(&place.site.authority)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut clients = Running::start(&mut command, placement)?;
    let stdout = clients.child().stdout.take();
    let line = first_line(stdout.context("the pipe was asked for")?);
    let answer = wait(&line, stop)?;
    ensure!(
        answer == format!("ready {}", load.connections),
        "the idle connections did not open"
    );
    Ok(clients)
}

fn first_line(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(pipe).read_line(&mut line);
        // Nobody waits any more when the bench was stopped.
        let _ = sender.send(read.map_or_else(|_| String::new(), |_| line.trim().to_owned()));
    });
    receiver
}

fn wait(line: &Receiver<String>, stop: &Stop) -> Result<String> {
    let start = Instant::now();
    while start.elapsed() < OPEN_TIMEOUT {
        stop.check()?;
        match line.recv_timeout(POLL_INTERVAL) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the idle connections did not open"),
        }
    }
    bail!("the idle connections did not open in time")
}

#[cfg(test)]
mod tests {
    use super::super::workload::Workload;
    use super::*;

    #[test]
    fn a_low_limit_of_files_allows_fewer_connections() {
        let load = Workload::Idle.load();
        assert_eq!(allowed(load, 20_000), load);
        let few = allowed(Workload::Idle.load(), 1024);
        assert_eq!((few.connections, few.requests), (768, 768));
    }
}
