//! The client's process for one transfer, and what it measured.

mod browser;
mod curl;

use crate::Error;
use crate::browser::START_LIMIT;
use crate::process::{Outcome, outcome};
use crate::progress::request_timeout;
use crate::server::Testbed;
use altway_record::{Cell, Client, Plan, Protocol, RequestRecord, Visit};
use altway_units::duration;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time that a client may outlive its own time-out before it is ended.
const GRACE: Duration = Duration::from_secs(5);

/// The variable by which clients are told where their TLS secrets go.
const KEY_LOG: &str = "SSLKEYLOGFILE";

/// The result of one transfer.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The client measured it (requests may have failed all the same: `record.error`).
    Measured {
        /// A record of each request, by item.
        records: Vec<RequestRecord>,
        involuntary_switches: u64,
        /// Processor time of its process, from its start to its end; `None` of browsers, which are many
        /// processes that start long before the transfer.
        cpu: Option<Duration>,
    },
    /// The client did not come back with a measurement.
    Failed(String),
    /// The run was asked to stop.
    Stopped,
}

/// A fetch that a client is to make: the transfer's condition, protocol and server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FetchJob<'a> {
    pub(crate) testbed: Testbed<'a>,
    pub(crate) cell: &'a Cell,
    pub(crate) protocol: Protocol,
    pub(crate) visit: &'a Visit,
    pub(crate) port: u16,
}

impl FetchJob<'_> {
    /// `https://HOST:PORT`.
    pub(crate) fn origin(&self) -> String {
        format!("https://{}:{}", self.testbed.host(), self.port)
    }

    /// The server's address and port, for clients that can't look its name up.
    pub(crate) fn named_address(&self) -> Option<SocketAddr> {
        let address = self.testbed.network.server_address();
        self.testbed
            .is_named()
            .then(|| SocketAddr::new(address, self.port))
    }

    /// Time that a request may take, or of browsers a page.
    fn request_timeout(&self) -> Duration {
        request_timeout(self.testbed.plan, self.cell)
    }

    /// Writes the visit as a file for `altway load`.
    fn visit_file(&self) -> Result<PathBuf, Error> {
        let cell = self.cell;
        let kind = if cell.client.is_browser() {
            "pages"
        } else {
            "objects"
        };
        let size = cell.size.as_bytes();
        let name = format!("{kind}-{size}-{}-{}", cell.connection, self.protocol);
        self.testbed.workspace.visit(&name, self.visit)
    }
}

/// The programs beside altway that fetch, with their versions.
///
/// # Errors
/// One is not installed, or does not speak what the plan asks for.
pub(crate) fn check(plan: &Plan) -> Result<Vec<(Client, String)>, Error> {
    let mut versions = Vec::new();
    for client in &plan.clients {
        let version = match client {
            Client::Altway => continue,
            Client::Curl => curl::check(plan)?,
            Client::Chromium | Client::Firefox => browser::check(*client)?,
        };
        versions.push((*client, version));
    }
    Ok(versions)
}

/// Makes one transfer in the client's namespace.
pub(crate) fn fetch(job: &FetchJob<'_>, stop: &AtomicBool) -> Fetched {
    match job.cell.client {
        Client::Curl => curl::fetch(job, stop),
        Client::Chromium | Client::Firefox => browser::fetch(job, stop),
        Client::Altway => fetch_with_load(job, stop),
    }
}

fn fetch_with_load(job: &FetchJob<'_>, stop: &AtomicBool) -> Fetched {
    let testbed = job.testbed;
    let visit = match job.visit_file() {
        Ok(visit) => visit,
        Err(error) => return Fetched::Failed(error.to_string()),
    };
    let mut command = testbed.network.client_command(testbed.binary);
    command.arg("load").arg(format!("{}/", job.origin()));
    if let Some(address) = job.named_address() {
        command.args(["--connect-to", &address.to_string()]);
    }
    // One that heeds what it is offered can do both.
    let protocol = match job.visit.sessions {
        Some(_) => Protocol::H3,
        None => job.protocol,
    };
    command.args(["--protocol", &protocol.to_string(), "--json", "--visit"]);
    command.arg(visit);
    if let Some(folder) = testbed.traces.client_qlog() {
        command.arg("--qlog").arg(folder);
    }
    command
        .arg("--timeout")
        .arg(duration::format(job.request_timeout()));
    command.arg("--ca").arg(
        &testbed
            .workspace
            .certificates(testbed.certificate)
            .ca_certificate,
    );
    match run(command, job, stop) {
        Ok(ended) => parse(&ended.stdout, ended.cpu).unwrap_or_else(|| {
            let said = ended.stderr.trim();
            Fetched::Failed(format!("`altway load` gave no measurement: {said}"))
        }),
        Err(fetched) => fetched,
    }
}

/// A client that has ended by itself.
struct ClientExit {
    stdout: String,
    stderr: String,
    involuntary_switches: u64,
    cpu: Option<Duration>,
}

/// Runs a client to its end.
fn run(mut command: Command, job: &FetchJob<'_>, stop: &AtomicBool) -> Result<ClientExit, Fetched> {
    let name = match job.cell.client {
        Client::Altway => "altway load",
        other => other.name(),
    };
    if let Some(file) = job.testbed.traces.key_log() {
        command.env(KEY_LOG, file);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .map_err(|error| Fetched::Failed(format!("`{name}` can't be started: {error}")))?;
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let in_turn = match job.visit.new_connections {
        true => number(job.visit.requests.len()),
        false => number(job.visit.session_count()).saturating_mul(2),
    };
    let start = match job.cell.client.is_browser() {
        true => START_LIMIT.saturating_mul(number(job.visit.session_count())),
        false => Duration::ZERO,
    };
    let limit = job.request_timeout().saturating_mul(in_turn) + start + GRACE;
    match outcome(child, Instant::now() + limit, stop) {
        Outcome::Stopped => Err(Fetched::Stopped),
        Outcome::Overdue => Err(Fetched::Failed(format!("`{name}` did not end by itself"))),
        Outcome::Ended {
            stdout,
            stderr,
            involuntary_switches,
            cpu,
        } => Ok(ClientExit {
            stdout,
            stderr,
            involuntary_switches,
            cpu,
        }),
    }
}

/// The output of `altway load --json`, as far as the lab needs it.
#[derive(Deserialize)]
struct LoadOutput {
    requests: Vec<RequestRecord>,
    summary: LoadSummary,
}

#[derive(Deserialize)]
struct LoadSummary {
    involuntary_context_switches: Option<u64>,
}

fn parse(text: &str, cpu: Option<Duration>) -> Option<Fetched> {
    let output: LoadOutput = serde_json::from_str(text).ok()?;
    let mut records = output.requests;
    records.sort_by_key(|record| record.item);
    let involuntary_switches = output.summary.involuntary_context_switches.unwrap_or(0);
    (!records.is_empty()).then_some(Fetched::Measured {
        records,
        involuntary_switches,
        cpu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_a_request_is_no_measurement() {
        assert!(parse("", None).is_none());
        let empty = r#"{"requests":[],"summary":{"involuntary_context_switches":1}}"#;
        assert!(parse(empty, None).is_none());
    }
}
