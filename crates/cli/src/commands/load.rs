//! `altway load`: requests over one protocol, each timed.

mod records;
mod rounds;

use super::{positive, positive_time};
use crate::Answer;
use crate::diagnostics::{Diagnostics, Variable};
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_load::{LoadSummary, Options, Percentiles, Stop, Trust, Version};
use altway_record::{Protocol, RequestRecord, Visit};
use altway_units::{DataSize, duration};
use anyhow::{Context, Result};
use records::Records;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most rounds: what each came to is kept until the end.
const MAX_ROUNDS: i64 = 10_000;

/// Fetch a URL over one protocol, or over several to compare them, and time every request.
///
/// Requests never fall back to another protocol: a request that was answered over one that was not asked for is an error.
/// A response with any status is an answer; failed connections, time-outs and truncated bodies are errors.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway load https://localhost:8443/ --protocol h3 -n 1000 -c 10 -m 10
  altway load https://localhost:8443/big.bin --duration 10s --csv > requests.csv
  altway load https://localhost:8443/big.bin --protocol h2,h3 --rounds 10

Exit code: 0 when every request was answered, 1 when some failed, 2 when none could be.")]
pub(crate) struct Arguments {
    /// The URL to fetch: https://, or http:// for HTTP/1.1 and clear-text HTTP/2.
    url: String,
    /// The protocol: h1, h2 or h3. Several, separated by commas, take turns and are compared.
    #[arg(short, long, value_delimiter = ',', default_value = "h2")]
    protocol: Vec<Protocol>,
    /// Number of rounds, each over new connections.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=MAX_ROUNDS))]
    rounds: u32,
    /// Connections at the same time.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = positive::<NonZeroU32>)]
    connections: NonZeroU32,
    /// Requests at the same time on each connection (HTTP/1.1: 1).
    #[arg(short = 'm', long, value_name = "N", default_value = "1", value_parser = positive::<NonZeroU32>)]
    streams: NonZeroU32,
    /// Requests in all [default: 1].
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration", value_parser = positive::<NonZeroU64>)]
    requests: Option<NonZeroU64>,
    /// Time during which requests are sent, in place of -n; responses to those in flight at its end are awaited.
    #[arg(long, value_name = "TIME", value_parser = positive_time)]
    duration: Option<Duration>,
    /// Open loop: send this number of requests per second, whether earlier ones are answered or not; each is timed
    /// from when it was due [default: closed loop, a request is sent when the one before is answered].
    #[arg(long, value_name = "PER_SECOND", value_parser = positive::<NonZeroU32>)]
    rate: Option<NonZeroU32>,
    /// Open the connections evenly spaced over this time, instead of all at once: some servers refuse connections
    /// that come faster than they accept them. Each connection sends requests as soon as it is open.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ramp: Option<Duration>,
    /// HTTP/3: a new connection for each request, which is sent with the first packets (0-RTT) where an earlier
    /// connection got a session ticket that allows it.
    #[arg(long)]
    early_data: bool,
    /// HTTP/3: the version of QUIC, 1 (RFC 9000) or 2 (RFC 9369) [default: 1].
    #[arg(long, value_name = "VERSION")]
    quic_version: Option<Version>,
    /// Make the requests in this JSON file to the URL's origin, each when those that it waits for are answered: for
    /// instance a page with its objects (docs/commands.md has its form).
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["connections", "streams", "requests", "duration", "rate", "ramp", "early_data"])]
    visit: Option<PathBuf>,
    #[command(flatten)]
    diagnostics: Diagnostics,
    /// Time that one request may take.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive_time)]
    timeout: Duration,
    /// Trust only the certificate authorities in this PEM file [default: the system's].
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust every certificate.
    #[arg(long)]
    insecure: bool,
    /// Connect to this address, whatever the URL's host resolves to.
    #[arg(long, value_name = "IP:PORT")]
    connect_to: Option<SocketAddr>,
    /// Print every request and the summary as JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print every request as a row of CSV; the summary goes to stderr.
    #[arg(long)]
    csv: bool,
}

/// The JSON of `--json` for a single run.
#[derive(Serialize)]
struct Output<'a> {
    requests: &'a [RequestRecord],
    summary: &'a LoadSummary,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    name_each_once(&arguments.protocol)?;
    let each = arguments.protocol.iter();
    let each: Vec<_> = each
        .map(|protocol| options(arguments, *protocol, printer))
        .collect::<Result<_>>()?;
    allow_many_connections();
    let mut records = Records::new(arguments.json, arguments.csv);
    let turns = rounds::measure(&each, arguments.rounds, &mut records)?;
    let kept = records.finish()?;
    match turns.as_slice() {
        [only] => print_result(&kept, &only.summary, arguments, printer)?,
        turns => rounds::print_result(&kept, turns, arguments, printer)?,
    }
    let failed = turns.iter().any(|turn| turn.summary.failed > 0);
    Ok(if failed { Answer::No } else { Answer::Done })
}

fn print_result(
    requests: &[RequestRecord],
    summary: &LoadSummary,
    arguments: &Arguments,
    printer: &Printer,
) -> Result<()> {
    match (arguments.json, arguments.csv) {
        (true, _) => printer.json(&Output { requests, summary })?,
        (_, true) => printer.say(&table(summary)),
        _ => printer.data(&table(summary))?,
    }
    Ok(())
}

fn name_each_once(protocols: &[Protocol]) -> Result<()> {
    let mut others = protocols.iter();
    while let Some(protocol) = others.next() {
        if others.as_slice().contains(protocol) {
            return Err(usage_error(
                format!("{protocol} is named twice"),
                "name each protocol once: it has its turn in every round",
            ));
        }
    }
    Ok(())
}

/// Every connection is a file descriptor or two, and the usual soft limit is 1,024. Where the limit
/// can't be raised, connections beyond it fail, and say so.
fn allow_many_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

fn options(arguments: &Arguments, protocol: Protocol, printer: &Printer) -> Result<Options> {
    let mut options = Options::new(&arguments.url, protocol)?;
    if let Some(file) = &arguments.visit {
        options = options.with_visit(read_visit(file)?)?;
    } else {
        options = options.with_streams(arguments.streams)?;
        if arguments.early_data {
            options = options.with_early_data()?;
        }
        options.connections = arguments.connections;
        options.stop = match (arguments.requests, arguments.duration) {
            (Some(requests), _) => Stop::Requests(requests),
            (None, Some(time)) => Stop::Time(time),
            (None, None) => Stop::Requests(NonZeroU64::MIN),
        };
    }
    if let Some(version) = arguments.quic_version {
        options = options.with_quic_version(version)?;
    }
    let secrets = arguments.diagnostics.key_log(Variable::Obeyed, printer)?;
    options.key_log = secrets.map(|file| file as _);
    options.qlog = arguments.diagnostics.qlog()?;
    options.trust = match (&arguments.ca, arguments.insecure) {
        (Some(file), _) => Trust::CaFile(file.clone()),
        (None, true) => Trust::Insecure,
        (None, false) => Trust::System,
    };
    options.connect_to = arguments.connect_to;
    options.timeout = arguments.timeout;
    options.rate = arguments.rate;
    options.ramp = arguments.ramp.unwrap_or_default();
    Ok(options)
}

/// The visit that a JSON file holds; whether it can be made is not asked.
pub(crate) fn read_visit(file: &Path) -> Result<Visit> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_slice(&text).map_err(|error| {
        usage_error(
            format!("{} is not a visit: {error}", file.display()),
            "it is JSON like {\"requests\": [{\"path\": \"/\", \"size_bytes\": 20000}]}; docs/commands.md has more",
        )
    })
}

fn table(summary: &LoadSummary) -> String {
    let seconds = Duration::from_micros(summary.wall_us).as_secs_f64();
    let noun = if summary.requests == 1 {
        "request"
    } else {
        "requests"
    };
    let mut text = format!(
        "{} {noun} over {} in {seconds:.3} s: {} failed; {:.1} requests/s, {:.1} Mbit/s, {}\n",
        summary.requests,
        summary.protocol.name(),
        summary.failed,
        summary.requests_per_s,
        summary.throughput_mbit_per_s,
        DataSize::from_bytes(summary.body_bytes),
    );
    for (status, count) in &summary.statuses {
        text.push_str(&format!("  status {status}: {count}\n"));
    }
    for kind in &summary.errors {
        text.push_str(&format!("  error: {} ({} times)\n", kind.error, kind.count));
    }
    if summary.unsent > 0 {
        text.push_str(&format!(
            "  {} requests were due but found no free stream\n",
            summary.unsent
        ));
    }
    if let Some(early) = summary.early_data {
        text.push_str(&format!(
            "  early data: {} requests accepted, {} refused and sent again\n",
            early.accepted, early.refused
        ));
        if early.too_early > 0 {
            text.push_str(&format!(
                "  {} of the accepted were answered 425 (Too Early) and sent again\n",
                early.too_early
            ));
        }
    }
    text.push_str(&format!(
        "\n{:>10} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "ms", "n", "min", "mean", "p50", "p90", "p95", "p99", "max"
    ));
    let lines = [
        ("connect", summary.connect),
        ("first byte", summary.first_byte),
        ("total", summary.total),
    ];
    for (name, percentiles) in lines {
        text.push_str(&percentiles.map_or_else(String::new, |p| line(name, &p)));
    }
    text
}

fn line(name: &str, percentiles: &Percentiles) -> String {
    let ms = |us: u64| Duration::from_micros(us).as_secs_f64() * 1e3;
    let p = percentiles;
    format!(
        "{name:>10} {:>8} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}\n",
        p.count,
        ms(p.min_us),
        p.mean_us / 1e3,
        ms(p.p50_us),
        ms(p.p90_us),
        ms(p.p95_us),
        ms(p.p99_us),
        ms(p.max_us)
    )
}
