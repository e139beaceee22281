//! The two ends of the link: the binary's own `serve` and `load`, as processes in their namespaces.

use crate::Error;
use altway_emulate::{Emulation, Scratch};
use altway_record::{Congestion, Protocol, RequestRecord};
use altway_units::{DataSize, duration};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// In a namespace of its own the port is always free.
const PORT: u16 = 8443;

/// The folder in the workspace that is served.
const OBJECTS: &str = "objects";

/// How long `serve` may take to say that it listens.
const SERVER_START_LIMIT: Duration = Duration::from_secs(10);

/// How long `load` may outlive its own time-out before it is ended.
const CLIENT_GRACE: Duration = Duration::from_secs(5);

/// How often a waiting lab looks whether it was asked to stop.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(200);

/// The most that is kept of what a process writes.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Folder of a run's objects, certificates and server log; gone with the run's end.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: Scratch,
    certificates: Certificates,
}

/// What one transfer gave.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The client measured it (it may have failed all the same: `record.error`).
    Measured {
        record: RequestRecord,
        involuntary_switches: u64,
    },
    /// The client did not come back with a measurement.
    Failed(String),
    /// The run was asked to stop.
    Stopped,
}

impl Workspace {
    /// Makes one object of each size and a certificate for `address`.
    pub(crate) fn create(
        binary: &Path,
        sizes: &[DataSize],
        address: IpAddr,
    ) -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        let failed = |source| Error::Folder {
            action: "create a folder in",
            path: parent.clone(),
            source,
        };
        let folder = Scratch::create().map_err(failed)?;
        let objects = folder.path().join(OBJECTS);
        fs::create_dir(&objects).map_err(failed)?;
        for size in sizes {
            let path = objects.join(object_name(*size));
            write_object(&path, *size).map_err(|source| Error::Folder {
                action: "write",
                path,
                source,
            })?;
        }
        let certificates = Certificates::make(binary, &folder.path().join("certs"), address)?;
        Ok(Self {
            folder,
            certificates,
        })
    }

    fn objects(&self) -> PathBuf {
        self.folder.path().join(OBJECTS)
    }

    fn server_log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

/// Where `altway certs` put what it made.
#[derive(Debug, Deserialize)]
struct Certificates {
    ca_certificate: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    fn make(binary: &Path, folder: &Path, address: IpAddr) -> Result<Self, Error> {
        let failed = |reason: &str| process_error("altway certs", reason);
        let mut command = Command::new(binary);
        command
            .args(["certs", "--json", &address.to_string()])
            .arg("--dir")
            .arg(folder);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(&error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error.to_string()))
    }
}

/// The server's process; ended when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts `altway serve` in the server's namespace and waits until it listens.
    pub(crate) fn start(
        binary: &Path,
        network: &Emulation,
        workspace: &Workspace,
        congestion: Congestion,
    ) -> Result<Self, Error> {
        let mut command = network.server_command(binary);
        command.arg("serve").arg(workspace.objects());
        command.args(["--port", &PORT.to_string(), "--threads", "1", "--json"]);
        command.args(["--congestion", congestion.name(), "--policy", "h3"]);
        command
            .arg("--cert")
            .arg(&workspace.certificates.certificate);
        command.arg("--key").arg(&workspace.certificates.key);
        let log = File::create(workspace.server_log()).map_err(|error| serve_error(&error))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let child = command.spawn().map_err(|error| serve_error(&error))?;
        let mut server = Self { child };
        server.wait_until_it_listens(workspace)?;
        Ok(server)
    }

    /// Whether the process has ended by itself, which a server never should.
    pub(crate) fn has_died(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Involuntary context switches of all its threads so far.
    pub(crate) fn involuntary_switches(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let statuses = tasks
            .into_iter()
            .flatten()
            .flatten()
            .map(|task| task.path().join("status"));
        statuses
            .filter_map(|path| fs::read_to_string(path).ok())
            .map(|s| switches_in(&s))
            .sum()
    }

    fn wait_until_it_listens(&mut self, workspace: &Workspace) -> Result<(), Error> {
        let stdout = self.child.stdout.take().expect("stdout is piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout.take(OUTPUT_LIMIT)).read_line(&mut line);
            let _ = sender.send(read.is_ok_and(|length| length > 0));
        });
        if receiver.recv_timeout(SERVER_START_LIMIT) == Ok(true) {
            return Ok(());
        }
        let said = fs::read_to_string(workspace.server_log()).unwrap_or_default();
        let reason = if said.is_empty() {
            "it did not start to listen"
        } else {
            said.trim()
        };
        Err(process_error("altway serve", reason))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fetches one object with `altway load` in the client's namespace.
pub(crate) fn fetch(
    binary: &Path,
    network: &Emulation,
    workspace: &Workspace,
    object: DataSize,
    protocol: Protocol,
    timeout: Duration,
    stop: &AtomicBool,
) -> Fetched {
    let host = match network.server_address() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let mut command = network.client_command(binary);
    command
        .arg("load")
        .arg(format!("https://{host}:{PORT}/{}", object_name(object)));
    command.args([
        "--protocol",
        &protocol.to_string(),
        "--requests",
        "1",
        "--json",
    ]);
    command.arg("--timeout").arg(duration::format(timeout));
    command
        .arg("--ca")
        .arg(&workspace.certificates.ca_certificate);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => outcome(child, Instant::now() + timeout + CLIENT_GRACE, stop),
        Err(error) => Fetched::Failed(format!("`altway load` can't be started: {error}")),
    }
}

/// Waits for the client without disturbing it: a thread reads its output, this one only looks now
/// and then whether it should go on waiting.
fn outcome(mut child: Child, deadline: Instant, stop: &AtomicBool) -> Fetched {
    let said = read_in_background(child.stderr.take().expect("stderr is piped"));
    let output = read_in_background(child.stdout.take().expect("stdout is piped"));
    let text = loop {
        if stop.load(Ordering::Relaxed) {
            end(&mut child);
            return Fetched::Stopped;
        }
        match output.recv_timeout(STOP_CHECK_PERIOD) {
            Ok(text) => break text,
            Err(RecvTimeoutError::Disconnected) => break String::new(),
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                return Fetched::Failed("`altway load` did not end by itself".into());
            }
        }
    };
    let _ = child.wait();
    parse(&text).unwrap_or_else(|| {
        let said = said.recv_timeout(STOP_CHECK_PERIOD).unwrap_or_default();
        Fetched::Failed(format!(
            "`altway load` gave no measurement: {}",
            said.trim()
        ))
    })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn read_in_background(source: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = source.take(OUTPUT_LIMIT).read_to_string(&mut text);
        let _ = sender.send(text);
    });
    receiver
}

/// What `altway load --json` prints, as far as the lab needs it.
#[derive(Deserialize)]
struct LoadOutput {
    requests: Vec<RequestRecord>,
    summary: LoadSummary,
}

#[derive(Deserialize)]
struct LoadSummary {
    involuntary_context_switches: Option<u64>,
}

fn parse(text: &str) -> Option<Fetched> {
    let output: LoadOutput = serde_json::from_str(text).ok()?;
    let record = output.requests.into_iter().next()?;
    let involuntary_switches = output.summary.involuntary_context_switches.unwrap_or(0);
    Some(Fetched::Measured {
        record,
        involuntary_switches,
    })
}

fn switches_in(status: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

fn object_name(size: DataSize) -> String {
    format!("{}.bin", size.as_bytes())
}

/// Bytes that no one can compress, so that nothing on the way makes the object smaller.
fn write_object(path: &Path, size: DataSize) -> io::Result<()> {
    let mut file = io::BufWriter::new(File::create(path)?);
    let mut random = fastrand::Rng::with_seed(size.as_bytes());
    let mut left = size.as_bytes();
    while left > 0 {
        let word = random.u64(..).to_le_bytes();
        let length = left.min(word.len() as u64);
        file.write_all(&word[..usize::try_from(length).expect("at most 8")])?;
        left -= length;
    }
    file.flush()
}

fn serve_error(error: &io::Error) -> Error {
    process_error("altway serve", &error.to_string())
}

fn process_error(command: &str, reason: &str) -> Error {
    Error::Process {
        command: command.into(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_its_size_and_does_not_compress_to_a_pattern() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("object");
        write_object(&path, DataSize::from_bytes(1_003)).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 1_003);
        assert!((0..=255_u8).filter(|value| bytes.contains(value)).count() > 200);
    }

    #[test]
    fn reads_the_switches_of_a_process_status() {
        let status = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(switches_in(status), 12);
        assert_eq!(switches_in(""), 0);
    }

    #[test]
    fn output_without_a_request_is_no_measurement() {
        assert!(parse("").is_none());
        assert!(parse(r#"{"requests":[],"summary":{"involuntary_context_switches":1}}"#).is_none());
    }
}
