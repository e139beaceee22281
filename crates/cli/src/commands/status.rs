//! `altway status` and `altway reload`: a running server, asked over its admin socket.

mod selection;

use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_admin::{Address, AdminResponse, CallError, ProtocolStatus, Status, call};
use anyhow::Result;
use http::{Method, StatusCode};
use std::fmt::Write as _;
use std::io;
use std::num::NonZeroUsize;

/// The path of the admin socket in the unit that ships.
const USUAL: &str = "/run/altway/admin.sock";

/// The variable of the environment that has its address.
const VARIABLE: &str = "ALTWAY_ADMIN";

/// The server that is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    /// Admin socket of the server (`altway serve --admin`): path of a Unix socket, or IP:PORT.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = VARIABLE,
        hide_env_values = true,
        default_value = USUAL
    )]
    admin: Address,
}

impl Server {
    /// The server at an address; where there is none, at that of the environment or else at the usual one.
    ///
    /// # Errors
    /// The variable of the environment holds no address.
    pub(super) fn at(address: Option<Address>) -> Result<Self> {
        let admin = match (address, std::env::var(VARIABLE)) {
            (Some(address), _) => address,
            (None, Ok(text)) => text.parse().map_err(|error| {
                usage_error(
                    format!("${VARIABLE}: {error}"),
                    "name the path of a Unix socket, or IP:PORT of a loopback address",
                )
            })?,
            (None, Err(_)) => Address::Unix(USUAL.into()),
        };
        Ok(Self { admin })
    }

    /// Asks the server over its admin socket.
    ///
    /// # Errors
    /// The server does not answer; the hint says how to have it do so.
    pub(super) fn ask(&self, method: Method, target: &str) -> Result<AdminResponse> {
        call(&self.admin, method, target).map_err(|error| match &error {
            CallError::Connect { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                usage_error(
                    format!("this user may not use the admin socket `{}`", self.admin),
                    "ask as root, or as the user that the server runs as: `sudo altway …`",
                )
            }
            CallError::Connect { source, .. } => usage_error(
                format!("{error}: {source}"),
                "start the server with `--admin ADDRESS`, and name the same address here with --admin or $ALTWAY_ADMIN",
            ),
            _ => error.into(),
        })
    }
}

/// Show what a running server does: connections, responses, offers and their reasons, limits reached, certificates.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway status
  altway status --admin 127.0.0.1:2019 --json

A server has an admin socket when it is started with --admin. In a browser its address shows the same as a page, and
Prometheus reads its /metrics.")]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    server: Server,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

/// Make a running server read its configuration file again, and print what changed.
///
/// Requests that began under the former configuration end under it. A file with faults changes nothing: they are
/// printed, and the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway config check /etc/altway/altway.toml && altway reload
  altway reload --admin /run/altway/admin.sock

SIGHUP does the same, and writes the result to the server's log.")]
pub(crate) struct ReloadArguments {
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &StatusArguments, printer: &Printer) -> Result<Answer> {
    let answered = arguments.server.ask(Method::GET, "/status")?;
    let status: Status = serde_json::from_str(&answered.text).map_err(|error| {
        let what =
            format!("what answers at the admin socket is no server of this version: {error}");
        usage_error(what, "use the `altway` that the server was started with")
    })?;
    if arguments.json {
        printer.json(&status)?;
    } else {
        printer.data(text(&status).trim_end())?;
    }
    Ok(Answer::Done)
}

pub(crate) fn reload(arguments: &ReloadArguments, printer: &Printer) -> Result<Answer> {
    let answered = arguments.server.ask(Method::POST, "/reload")?;
    let said = answered.text.trim_end();
    let answer = match answered.status {
        StatusCode::OK => Answer::Done,
        StatusCode::CONFLICT => Answer::No,
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if said.lines().count() == 1 => {
            let mend = "a server that was started with `--config FILE` reloads it at SIGHUP, and if asked over a Unix socket (--admin PATH)";
            return Err(usage_error(said, mend));
        }
        status => {
            let what = format!("what answers at the admin socket is no altway: status {status}");
            return Err(usage_error(
                what,
                "name the address that the server has by its --admin",
            ));
        }
    };
    printer.data(said)?;
    Ok(answer)
}

/// Width of the names of servers behind, in characters: with the figures a line has 80.
const SERVER: usize = 21;

/// Lines for a terminal of 80 columns; sentences may be longer.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, line: impl std::fmt::Display) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    /// A row of a table whose first column has a name and `width`; a longer name has a line of its own.
    fn row(&mut self, name: &str, width: usize, rest: impl std::fmt::Display) {
        let fits = name.chars().count() <= width;
        if !fits {
            self.add(name);
        }
        let first = if fits { name } else { "" };
        self.add(format_args!("{first:<width$} {rest}"));
    }

    /// The heading of a part, with an empty line before it.
    fn part(&mut self, heading: &str) {
        self.add(format_args!("\n{heading}"));
    }
}

/// The status for a terminal.
fn text(status: &Status) -> String {
    let mut lines = Lines::default();
    process(&mut lines, status);
    lines.add("");
    lines.add(format_args!(
        "{:<9} {:>11} {:>6} {:>10} {:>8} {:>8} {:>8} {:>10}",
        "protocol", "connections", "open", "2xx", "3xx", "4xx", "5xx", "MB"
    ));
    for it in &status.protocols {
        lines.add(row(it));
    }
    upstreams(&mut lines, status);
    clients(&mut lines, status);
    selection::add(&mut lines, status);
    warnings(&mut lines, status);
    certificates(&mut lines, status);
    acme(&mut lines, status);
    if let Some(reload) = &status.reload {
        let ago = span(status.now.saturating_sub(reload.at));
        let word = if reload.success {
            "succeeded"
        } else {
            "failed"
        };
        lines.part(&format!(
            "last reload {ago} ago {word}: {}",
            reload.report.trim_end()
        ));
    }
    lines.0
}

fn process(lines: &mut Lines, status: &Status) {
    let Status {
        version,
        address,
        further,
        threads,
        policy,
        sandbox,
        process,
        ..
    } = status;
    let age = span(status.now.saturating_sub(status.since));
    let id = process.id;
    lines.add(format_args!(
        "altway {version} at {address}, process {id}, for {age}"
    ));
    if !further.is_empty() {
        let further: Vec<_> = further.iter().map(ToString::to_string).collect();
        lines.add(format_args!("also at {}", further.join(", ")));
    }
    let threads = match threads.map_or(0, NonZeroUsize::get) {
        0 => String::new(),
        1 => ", 1 thread".into(),
        many => format!(", {many} threads"),
    };
    lines.add(format_args!("policy {policy}, sandbox {sandbox}{threads}"));
    let told = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
    let memory = told(process.resident_bytes.map(|bytes| bytes >> 20));
    let most = process.max_open_files;
    let most = most.map_or_else(String::new, |most| format!(" of {most}"));
    let files = told(process.open_files) + &most;
    let processor = process
        .cpu_ms
        .map(|ms| format!("{:.1}", ms as f64 / 1000.0));
    let processor = processor.unwrap_or_else(|| "?".to_owned());
    lines.add(format_args!(
        "memory {memory} MiB, {files} open files, {processor} s of processor time"
    ));
    let pool = &status.quic_pool;
    let mut now = format!("requests in progress: {}", status.active_requests);
    if pool.limit_bytes > 0 {
        let [held, limit] = [pool.bytes, pool.limit_bytes].map(|bytes| bytes >> 20);
        now += &format!("; HTTP/3 holds {held} MiB of {limit}");
    }
    lines.add(now);
    let results = status.quic_handshakes.iter();
    let results = results.filter(|(_, count)| **count > 0);
    let results: Vec<_> = results
        .map(|(result, count)| format!("{count} {result}"))
        .collect();
    if !results.is_empty() {
        lines.add(format_args!("handshakes over QUIC: {}", results.join(", ")));
    }
}

fn upstreams(lines: &mut Lines, status: &Status) {
    if status.upstreams.is_empty() {
        return;
    }
    lines.part(&format!(
        "{:<SERVER$} {:<5} {:>8} {:>4} {:>6} {:>5} {:>7} {:>7} {:>4} {:>4}",
        "upstream",
        "state",
        "requests",
        "now",
        "failed",
        "again",
        "ejected",
        "half in",
        "open",
        "idle"
    ));
    for it in &status.upstreams {
        let state = if it.healthy { "up" } else { "DOWN" };
        let failed: u64 = it.failures.values().sum();
        let half = it.median_bound_ms();
        let half = half.map_or("-".to_owned(), |ms| format!("{ms} ms"));
        let figures = format_args!(
            "{state:<5} {:>8} {:>4} {failed:>6} {:>5} {:>7} {half:>7} {:>4} {:>4}",
            it.requests,
            it.in_progress,
            it.retries,
            it.ejections,
            it.open_connections,
            it.idle_connections
        );
        lines.row(&it.server, SERVER, figures);
        for (reason, count) in it.failures.iter().filter(|(_, count)| **count > 0) {
            lines.add(format_args!("  {reason:<26} {count:>16} failed"));
        }
    }
}

fn clients(lines: &mut Lines, status: &Status) {
    if !status.offers.is_empty() {
        lines.part("offers");
    }
    for it in &status.offers {
        lines.add(format_args!(
            "  {} {:<16} {:>10}",
            it.offer, it.reason, it.count
        ));
    }
    lines.part(&format!("clients known: {}", status.clients.known));
    for it in &status.clients.classes {
        lines.add(format_args!(
            "  {:<18} {:>8}, UDP blocked {:>6}, takes {:.0} Mbit/s over QUIC",
            it.class,
            it.clients,
            it.udp_blocked,
            it.limit_bps / 1e6
        ));
    }
}

fn warnings(lines: &mut Lines, status: &Status) {
    if !status.incidents.is_empty() {
        lines.part("refusals and limits struck");
    }
    for (kind, count) in &status.incidents {
        lines.add(format_args!("  {kind:<36} {count:>8}"));
    }
    for (what, count) in [
        (
            "datagrams that the kernel dropped",
            status.process.udp_dropped,
        ),
        ("lines that the access log lost", status.log_dropped),
        (
            "lines that the selection log lost",
            status.selection_log_dropped,
        ),
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            lines.part(&format!("{count} {what}"));
        }
    }
}

fn certificates(lines: &mut Lines, status: &Status) {
    if !status.certificates.is_empty() {
        lines.part("certificates");
    }
    for it in &status.certificates {
        let names = it.names.join(", ");
        match it.not_after {
            Some(end) if end < status.now => lines.add(format_args!("  {names}: expired")),
            Some(end) => {
                let left = span(end - status.now);
                lines.add(format_args!("  {names}: for {left} more"));
            }
            None => lines.add(format_args!("  {names}")),
        }
    }
}

fn acme(lines: &mut Lines, status: &Status) {
    let Some(acme) = &status.acme else {
        return;
    };
    lines.part(&format!(
        "certificates by ACME: {} issued, {} failures",
        acme.issued, acme.failed
    ));
    for it in &acme.names {
        let mut state = match it.not_after {
            None => "none yet".to_owned(),
            Some(end) if end < status.now => "expired".to_owned(),
            Some(end) => format!("for {} more", span(end - status.now)),
        };
        if let (Some(at), false) = (it.renew_at, it.is_ordering) {
            let left = span(at.saturating_sub(status.now));
            state += &format!(", renewed in {left}");
        }
        if it.is_ordering {
            state += ", ordering";
        }
        if let Some(error) = &it.error {
            state += &format!("; last failure: {error}");
        }
        if let Some(wait) = it.retry_in_s {
            state += &format!("; again in {}", span(wait));
        }
        lines.add(format_args!("  {}: {state}", it.name));
    }
}

fn row(it: &ProtocolStatus) -> String {
    let [_, r2, r3, r4, r5] = it.responses;
    let content = it.content_bytes as f64 / 1e6;
    format!(
        "{:<9} {:>11} {:>6} {r2:>10} {r3:>8} {r4:>8} {r5:>8} {content:>10.1}",
        it.protocol, it.connections, it.open_connections
    )
}

/// A time in the unit that suits it.
pub(super) fn span(seconds: u64) -> String {
    for (size, name) in [(86_400, "days"), (3_600, "h"), (60, "min")] {
        if seconds >= 2 * size {
            return format!("{} {name}", seconds / size);
        }
    }
    format!("{seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_suits_them() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_200, "2 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
