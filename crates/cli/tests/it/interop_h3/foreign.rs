//! The foreign programs: how they are started, what they are told, what they report. README.md tells
//! what each is.

use super::Ground;
use crate::common::{eventually, free_port, provided, text};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// An implementation of HTTP/3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Aioquic,
    QuicGo,
    /// A server only.
    Caddy,
}

/// The report of a client on its connection, by names that all clients share.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) responses: Vec<Response>,
    /// Number of responses of earlier rounds that differed from those of the last.
    pub(super) unlike: usize,
    pub(super) version: String,
    pub(super) other_versions: u32,
    pub(super) moves: u32,
    pub(super) key_updates: u32,
    pub(super) go_away: bool,
    /// The code with which the server closed the connection.
    pub(super) closed: Option<u64>,
    pub(super) resumed: bool,
    pub(super) early: bool,
    /// True if keys for early data were there when the first request left: aioquic alone tells.
    pub(super) attempted_early: Option<bool>,
    /// aioquic alone has a dynamic table.
    pub(super) qpack: Option<Qpack>,
}

/// Bytes on the streams of QPACK.
#[derive(Debug, Deserialize)]
pub(super) struct Qpack {
    /// Bytes of the client's encoder.
    pub(super) sent: u64,
    /// Bytes of the server's decoder.
    pub(super) acknowledged: u64,
    /// Bytes of the server's encoder.
    pub(super) received: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) bytes: usize,
    pub(super) sha256: String,
    pub(super) trailers: BTreeMap<String, String>,
}

/// The clients that are there; says which are not.
pub(super) fn clients() -> Vec<Peer> {
    let all = [Peer::Aioquic, Peer::QuicGo].into_iter();
    all.filter(|peer| peer.is_there()).collect()
}

/// The servers that are there, as [`clients`] has the clients.
pub(super) fn servers() -> Vec<Peer> {
    let all = [Peer::Aioquic, Peer::QuicGo, Peer::Caddy].into_iter();
    all.filter(|peer| peer.is_there()).collect()
}

impl Peer {
    /// The number of requests that a connection of it is to carry: aioquic makes less than a thousand
    /// a second.
    pub(super) fn many(self) -> u32 {
        if self == Self::Aioquic { 2_000 } else { 10_000 }
    }

    pub(crate) fn is_there(self) -> bool {
        self.program().is_some()
    }

    /// The program that speaks for it in either role; says so when it is not there.
    fn program(self) -> Option<Command> {
        let (name, variable) = match self {
            Self::Aioquic => ("aioquic", "ALTWAY_TEST_PYTHON"),
            Self::QuicGo => ("quic-go", "ALTWAY_TEST_QUIC_GO"),
            Self::Caddy => ("Caddy", "ALTWAY_TEST_CADDY"),
        };
        provided(name, variable).map(Command::new)
    }

    fn in_role(self, role: &str) -> Command {
        let mut command = self.program().expect("asked for before");
        match self {
            Self::Aioquic => {
                // Cargo runs tests in their package's folder.
                let folder = std::path::absolute("tests/it/interop_h3").unwrap();
                command.arg(folder.join(format!("aioquic_{role}.py")))
            }
            Self::QuicGo | Self::Caddy => command.arg(role),
        };
        command
    }

    /// Makes its client do what `plan` says with the server at `port`.
    pub(super) fn client(self, ground: &Ground, port: u16, plan: &Value) -> Running {
        let mut client = self.in_role("client");
        client.arg(port.to_string()).arg(&ground.authority);
        let mut client = Running::start(client);
        client.tell(&plan.to_string());
        client
    }

    /// Runs its client to the end, and returns the report.
    pub(crate) fn report(self, ground: &Ground, port: u16, plan: &Value) -> Report {
        self.client(ground, port, plan).report()
    }

    /// Starts its server of the ground's site; `settings` are README.md's, and Caddy has none.
    pub(super) fn serve(self, ground: &Ground, settings: &Value) -> Server {
        if self == Self::Caddy {
            return serve_by_caddy(ground);
        }
        let mut server = self.in_role("server");
        let folder = ground.dir.path();
        server.args([CERTIFICATE, KEY, "site", &settings.to_string()]);
        server.current_dir(folder);
        let mut running = Running::start(server);
        let listening: Value = serde_json::from_str(&running.line()).unwrap();
        let port = listening["port"].as_u64().unwrap();
        let port = u16::try_from(port).unwrap();
        Server { running, port }
    }
}

/// The place where `altway certs` puts the certificate.
const CERTIFICATE: &str = "data/altway/certs/leaf.pem";
const KEY: &str = "data/altway/certs/leaf.key";

fn serve_by_caddy(ground: &Ground) -> Server {
    // Free for TCP; Caddy takes the same of UDP.
    let port = free_port();
    let config = format!(
        "{{\n admin off\n auto_https off\n persist_config off\n log {{\n  output stderr\n  level ERROR\n }}\n}}\n\
         https://:{port} {{\n bind 127.0.0.1\n tls {CERTIFICATE} {KEY}\n root * site\n \
         @hints path /hints\n header @hints Link \"</style.css>; rel=preload\"\n \
         route /hints {{\n  respond 103\n  respond \"after hints\"\n }}\n file_server\n}}\n"
    );
    ground.dir.file("Caddyfile", config);
    let mut caddy = Peer::Caddy.program().expect("asked for before");
    caddy.args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"]);
    caddy.current_dir(ground.dir.path());
    let home = ground.dir.path().join("caddy");
    caddy
        .env("XDG_DATA_HOME", &home)
        .env("XDG_CONFIG_HOME", &home);
    let mut running = Running::start(caddy);
    eventually("Caddy listens", || {
        running.assert_runs();
        takes_datagrams(port)
    });
    Server { running, port }
}

/// Returns whether a datagram, of which nothing is to come, finds somebody.
fn takes_datagrams(port: u16) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let patience = Duration::from_millis(20);
    socket.set_read_timeout(Some(patience)).unwrap();
    socket.send(&[0]).unwrap();
    let answer = socket.recv(&mut [0; 1]).map_err(|error| error.kind());
    answer != Err(ErrorKind::ConnectionRefused)
}

/// A foreign server on a port of the loopback; ended with this value.
pub(super) struct Server {
    running: Running,
    pub(super) port: u16,
}

impl Server {
    /// Asks it to stop, by SIGTERM.
    pub(super) fn ask_to_stop(&self) {
        let process = Pid::from_child(&self.running.child);
        kill_process(process, Signal::TERM).unwrap();
    }
}

/// A foreign program that runs; ended with this value.
pub(super) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// The next line that it prints.
    pub(super) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("it said nothing: {}", self.complaint());
        }
        line
    }

    /// Lets a client that has announced itself go on.
    pub(super) fn go_on(&mut self) {
        self.tell("");
    }

    fn tell(&mut self, line: &str) {
        // One that has ended tells why elsewhere.
        let _ = writeln!(self.child.stdin.as_mut().unwrap(), "{line}");
    }

    /// The report of a client at its end.
    pub(super) fn report(mut self) -> Report {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn assert_runs(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}", self.complaint());
    }

    fn complaint(&mut self) -> String {
        let _ = self.child.kill();
        let mut stderr = Vec::new();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_end(&mut stderr).unwrap();
        text(&stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
