//! The server's process: altway's own, a preset, or any command that serves a folder.

use crate::Error;
use crate::presets::{find, preset};
use crate::process::{Outcome, involuntary_switches, outcome, process_error, start_error};
use crate::processor_time::{ProcessTreeTime, family};
use crate::traces::TraceFiles;
use crate::workspace::Workspace;
use altway_emulate::{Emulation, containment};
use altway_record::{
    Certificate, Congestion, InitialWindow, Plan, Policy, Protocol, Scenario, ServerCommand,
    ServerName,
};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The first port that a server may have: in a namespace of its own, ports from here on are always
/// free.
const FIRST_PORT: u16 = 8443;

/// Time that a server may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Time between two questions to a foreign server whether it answers yet.
const ASK_PERIOD: Duration = Duration::from_millis(50);

/// The most that is read of the line by which `altway serve` says that it listens.
const LINE_LIMIT: u64 = 1 << 20;

/// The supervisor of a server's processes; ended when dropped, and they with it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    port: u16,
}

/// The network, files and plan with which every server of a run is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Testbed<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) network: &'a Emulation,
    pub(crate) workspace: &'a Workspace,
    pub(crate) plan: &'a Plan,
    pub(crate) congestion: Congestion,
    pub(crate) initial_window: InitialWindow,
    pub(crate) certificate: Certificate,
    /// True if altway compresses it for clients that read it.
    pub(crate) certificate_compression: bool,
    /// Files that are kept of transfers.
    pub(crate) traces: &'a TraceFiles,
}

/// The commands by which the plan's servers are started that are not altway: its own commands and
/// the presets. They are checked before anything is set up.
///
/// # Errors
/// One is not installed, or does not speak what the plan asks for.
pub(crate) fn commands(plan: &Plan) -> Result<Vec<(ServerCommand, Option<String>)>, Error> {
    let foreign = plan
        .servers
        .iter()
        .filter(|name| **name != ServerName::ALTWAY);
    foreign.map(|name| command_of(plan, *name)).collect()
}

fn command_of(plan: &Plan, name: ServerName) -> Result<(ServerCommand, Option<String>), Error> {
    let missing = || Error::NoServer {
        name: name.to_string(),
    };
    if let Some(own) = plan.commands.iter().find(|command| command.name == name) {
        let program = words(&own.command).into_iter().next().unwrap_or_default();
        find(&program).ok_or_else(missing)?;
        return Ok((own.clone(), None));
    }
    let preset = preset(name).ok_or_else(missing)?;
    let unspoken = |protocol: &&Protocol| !preset.command.protocols.contains(protocol);
    if let Some(protocol) = plan.protocols.iter().find(unspoken) {
        return Err(Error::UnsupportedProtocol {
            program: preset.version,
            protocol: *protocol,
        });
    }
    Ok((preset.command, Some(preset.version)))
}

/// The first line that the program of a plan's own command prints when asked for its version, as most
/// programs can be: `None` when it prints none soon. It is asked in a server's place, so that one that serves
/// instead is seen by nobody and ends.
pub(crate) fn version_of(
    binary: &Path,
    network: &Emulation,
    server: &ServerCommand,
) -> Option<String> {
    let program = words(&server.command).into_iter().next()?;
    let mut command = network.contained_command(binary);
    command.arg(program).arg("--version").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().ok()?;
    let never = AtomicBool::new(false);
    match outcome(child, Instant::now() + VERSION_LIMIT, &never) {
        Outcome::Ended { stdout, .. } => {
            let line: String = stdout
                .lines()
                .next()?
                .trim()
                .chars()
                .take(MAX_VERSION)
                .collect();
            (!line.is_empty()).then_some(line)
        }
        Outcome::Overdue | Outcome::Stopped => None,
    }
}

/// Time that a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(2);

/// Characters of a version that are kept.
const MAX_VERSION: usize = 200;

/// Returns the certificates that servers show, one process for each, and the choice to compress them.
pub(crate) fn shown(plan: &Plan) -> impl Iterator<Item = (Certificate, bool)> {
    let compressions = &plan.certificate_compressions;
    let certificates = plan.certificates.iter();
    certificates.flat_map(|one| compressions.iter().map(|compression| (*one, *compression)))
}

/// The ports of the plan's servers, in their order, each with one for each that it shows.
pub(crate) fn server_ports(plan: &Plan) -> Vec<u16> {
    let count = plan.servers.len() * shown(plan).count();
    (FIRST_PORT..=u16::MAX).take(count).collect()
}

/// The port at which a server listens that shows this.
fn port_of(plan: &Plan, name: ServerName, shows: (Certificate, bool)) -> u16 {
    let server = plan.servers.iter().position(|one| *one == name);
    let of_server = shown(plan).position(|one| one == shows);
    let place = server.unwrap_or(0) * shown(plan).count() + of_server.unwrap_or(0);
    server_ports(plan)[place]
}

impl Testbed<'_> {
    /// The host of the server in URLs: its address, or a name that a chain of the user's is for.
    pub(crate) fn host(&self) -> String {
        let named = &self.workspace.certificates(self.certificate).host;
        let address = || in_url(self.network.server_address());
        named.clone().unwrap_or_else(address)
    }

    /// Returns true if the host is a name, which clients have to be told the address of.
    pub(crate) fn is_named(&self) -> bool {
        self.workspace.certificates(self.certificate).host.is_some()
    }
}

impl Server {
    /// Starts the server of that name in the server's namespace and waits until it answers. Only altway has
    /// a policy.
    pub(crate) fn start(
        testbed: Testbed<'_>,
        name: ServerName,
        command: Option<&ServerCommand>,
        policy: Policy,
    ) -> Result<Self, Error> {
        let shows = (testbed.certificate, testbed.certificate_compression);
        let port = port_of(testbed.plan, name, shows);
        match command {
            None => Self::start_altway(testbed, port, policy),
            Some(command) => Self::start_command(testbed, command, port),
        }
    }

    /// Returns whether the process has ended by itself, which a server never should.
    pub(crate) fn has_died(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The port at which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Involuntary context switches of all its processes so far.
    pub(crate) fn involuntary_switches(&self) -> u64 {
        let processes = family(self.child.id()).unwrap_or_default();
        processes.into_iter().map(involuntary_switches).sum()
    }

    /// Processor time of all its processes so far, where it can be told.
    pub(crate) fn cpu(&self) -> Option<ProcessTreeTime> {
        ProcessTreeTime::of(self.child.id())
    }

    fn start_altway(testbed: Testbed<'_>, port: u16, policy: Policy) -> Result<Self, Error> {
        let certificates = testbed.workspace.certificates(testbed.certificate);
        let mut command = testbed.network.contained_command(testbed.binary);
        command.arg(testbed.binary);
        command.arg("serve").arg(testbed.workspace.objects());
        command.args(["--port", &port.to_string(), "--threads", "1", "--json"]);
        let congestion = testbed.congestion;
        command.args(["--congestion", congestion.tcp()]);
        command.args(["--quic-congestion", congestion.quic()]);
        // The routes of its namespace have the same for TCP.
        let window = testbed.initial_window.to_string();
        command.args(["--initial-window", &window]);
        // Without a folder for what it learns, it begins with nothing and leaves nothing behind.
        command.args(["--policy", policy.name()]);
        match &testbed.plan.scenario {
            Scenario::Repeat(repeat) if repeat.early_data => {
                command.arg("--early-data");
            }
            // A policy is judged as the server has it for everybody.
            _ if !testbed.plan.policies.is_empty() => {}
            _ => {
                command.arg("--early-data=off");
            }
        }
        if let Some(folder) = testbed.traces.server_qlog() {
            command.arg("--qlog").arg(folder);
        }
        command.arg("--cert").arg(&certificates.certificate);
        command.arg("--key").arg(&certificates.key);
        if !testbed.certificate_compression {
            command.arg("--no-certificate-compression");
        }
        let log = testbed
            .workspace
            .state(&format!("altway-{port}"))?
            .join("log");
        let mut server = Self::spawn(command, "altway serve", &log, Stdio::piped(), port)?;
        let stdout = server.child.stdout.take().expect("stdout is piped");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout.take(LINE_LIMIT)).read_line(&mut line);
            let _ = sender.send(read.is_ok_and(|length| length > 0));
        });
        match receiver.recv_timeout(START_LIMIT) {
            Ok(true) => Ok(server),
            _ => Err(silent("altway serve", &log)),
        }
    }

    fn start_command(
        testbed: Testbed<'_>,
        server: &ServerCommand,
        port: u16,
    ) -> Result<Self, Error> {
        let name = server.name.to_string();
        let state = testbed
            .workspace
            .state(&format!("{name}-{}", testbed.certificate))?;
        let fill = Placeholders::new(testbed, &state, port);
        if let Some(config) = &server.config {
            crate::write_whole(&fill.config, fill.fill(config).as_bytes())?;
        }
        let words = words(&server.command);
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| Error::NoServer { name: name.clone() })?;
        let mut command = testbed.network.contained_command(testbed.binary);
        command.arg(fill.fill(program));
        command.args(arguments.iter().map(|word| fill.fill(word)));
        command.current_dir(&state).env("HOME", &state);
        command
            .env("XDG_DATA_HOME", &state)
            .env("XDG_CONFIG_HOME", &state);
        let log = state.join("log");
        let mut started = Self::spawn(command, &name, &log, Stdio::null(), port)?;
        for protocol in &testbed.plan.protocols {
            started.await_answer(testbed, &name, &log, *protocol)?;
        }
        Ok(started)
    }

    fn spawn(
        mut command: Command,
        name: &str,
        log: &Path,
        stdout: Stdio,
        port: u16,
    ) -> Result<Self, Error> {
        let log = File::create(log).map_err(|error| start_error(name, &error))?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(log);
        let child = command.spawn().map_err(|error| start_error(name, &error))?;
        Ok(Self { child, port })
    }

    /// Asks for the smallest object until it comes. The link must let everything through.
    fn await_answer(
        &mut self,
        testbed: Testbed<'_>,
        name: &str,
        log: &Path,
        protocol: Protocol,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if self.has_died() {
                return Err(silent(name, log));
            }
            if answers(testbed, self.port, protocol).is_ok_and(|answers| answers) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::Silent {
                    server: name.into(),
                    protocol,
                });
            }
            std::thread::sleep(ASK_PERIOD);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        containment::end(&mut self.child);
    }
}

/// The words that replace the names in braces.
struct Placeholders {
    words: [(&'static str, String); 7],
    config: PathBuf,
}

impl Placeholders {
    fn new(testbed: Testbed<'_>, state: &Path, port: u16) -> Self {
        let text = |path: &Path| path.display().to_string();
        let certificates = testbed.workspace.certificates(testbed.certificate);
        let config = state.join("config");
        Self {
            words: [
                ("{folder}", text(&testbed.workspace.objects())),
                // In a namespace of its own; what clients are told may be a proxy's address.
                ("{address}", Ipv4Addr::UNSPECIFIED.to_string()),
                ("{port}", port.to_string()),
                ("{certificate}", text(&certificates.certificate)),
                ("{key}", text(&certificates.key)),
                ("{state}", text(state)),
                ("{config}", text(&config)),
            ],
            config,
        }
    }

    fn fill(&self, text: &str) -> String {
        let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
        self.words.iter().fold(text.to_owned(), fill)
    }
}

/// An address as URLs have it.
pub(crate) fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn answers(testbed: Testbed<'_>, port: u16, protocol: Protocol) -> io::Result<bool> {
    let address = testbed.network.server_address();
    let path = altway_record::object_path(altway_record::OPENER_SIZE);
    let mut command = testbed.network.client_command(testbed.binary);
    command
        .arg("load")
        .arg(format!("https://{}:{port}{path}", testbed.host()));
    command.args(["--connect-to", &SocketAddr::new(address, port).to_string()]);
    command.args([
        "--protocol",
        &protocol.to_string(),
        "--timeout",
        "1s",
        "--ca",
    ]);
    command.arg(
        &testbed
            .workspace
            .certificates(testbed.certificate)
            .ca_certificate,
    );
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command.status()?.success())
}

fn silent(name: &str, log: &Path) -> Error {
    let said = fs::read_to_string(log).unwrap_or_default();
    let said = said.trim();
    let reason = if said.is_empty() {
        "it did not start to listen"
    } else {
        said
    };
    process_error(name, reason)
}

/// The words of a command line; quotes of both kinds hold blanks together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(words("a  b 'c d' \"e'f\" ''"), ["a", "b", "c d", "e'f", ""]);
        assert!(words("  ").is_empty());
    }

    fn error(more: &str) -> String {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1\n{more}"
        );
        commands(&text.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_server_that_is_not_installed_is_said_before_anything_is_set_up() {
        let none = "[server]\ncommand = \"no-such-server {folder}\"";
        assert_eq!(error(none), "the server `no-such-server` is not installed");
    }

    #[test]
    fn altway_needs_no_command() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 1";
        assert!(commands(&text.parse().unwrap()).unwrap().is_empty());
    }
}
