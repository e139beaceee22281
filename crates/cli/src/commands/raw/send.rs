//! `altway raw send`: transfers over one transport after the other.

use super::{TuningArguments, table};
use crate::Answer;
use crate::commands::{positive, positive_time};
use crate::hint;
use crate::printer::Printer;
use altway_raw::{
    Cipher, DEFAULT_PORT, Direction, Options, Run, Sizes, TransportKind, Trust, Tuning, Version,
};
use altway_units::DataSize;
use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Transfer bytes to or from `altway raw serve`, and print what that cost both ends.
///
/// Each transport has one connection, its transfers one after the other. A transfer is over when the other end has
/// confirmed that it has all bytes; its time does not include the handshake.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway raw send localhost:9443 --ca ca.pem
  altway raw send 192.0.2.7:9443 --over quic --size 1GB --direction up --insecure
  altway raw send localhost:9443 --over tcp --requests 1000 --request-size 100B --size 10KB
  altway emulate --delay 50ms --loss 5% --congestion cubic --server 'altway raw serve' -- \\
      sh -c 'altway raw send $ALTWAY_SERVER --insecure --size 2MB'

The columns:
  control    congestion control of the end that sends more; compare transports only under the same one
  MB/s       10^6 bytes of payload a second, both directions together
  CPU s/GB   seconds of processor time of each end's thread for 10^9 bytes. TransportKind loopback the kernel
             handles what arrives in the sender's time, so compare the sum of both ends
  calls/MB   system calls of each end's loop for 10^6 bytes: recv, send, recvmmsg, sendmsg, ppoll
  packets    sent by both ends. TCP counts segments with payload before the device cuts them
  again      those of them that are retransmissions; over QUIC packets declared lost, whose content is sent again
  RTT        smoothed, and in brackets the smallest, of the end that sends more

Exit code: 0 when all transports were measured, 1 when some failed, 2 when none could be.")]
pub(crate) struct Arguments {
    /// The server: HOST:PORT, or HOST for port 9443.
    #[arg(value_name = "HOST:PORT")]
    server: Server,
    /// The transport.
    #[arg(long, value_enum, default_value_t = TransportArgument::All)]
    over: TransportArgument,
    /// Bytes of payload of one transfer, in each of its directions.
    #[arg(short, long, default_value = "100MB")]
    size: DataSize,
    /// The end that sends: up (this end), down (the server) or both at the same time.
    #[arg(short, long, default_value = "down", value_name = "up|down|both")]
    direction: Direction,
    /// Transfers, one after the other.
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = positive::<NonZeroU64>)]
    requests: NonZeroU64,
    /// Size of a request: send this number of bytes first; the server answers with SIZE bytes once it has them.
    #[arg(long, value_name = "SIZE", conflicts_with = "direction")]
    request_size: Option<DataSize>,
    /// Let both ends check every byte; their processor time includes that.
    #[arg(long)]
    verify: bool,
    /// Time without a byte in either direction after which a transfer is given up.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive_time)]
    timeout: Duration,
    /// Trust only the certificate authorities in this PEM file [default: the system's].
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust every certificate.
    #[arg(long)]
    insecure: bool,
    /// The cipher of TLS and QUIC.
    #[arg(long, value_enum, default_value_t = CipherArgument::Aes)]
    cipher: CipherArgument,
    /// The version of QUIC: 1 (RFC 9000) or 2 (RFC 9369).
    #[arg(long, value_name = "VERSION", default_value_t)]
    quic_version: Version,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: TuningArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TransportArgument {
    /// Plain TCP.
    Tcp,
    /// TCP with TLS 1.3.
    Tls,
    /// QUIC.
    Quic,
    /// All three, one after the other.
    All,
}

impl TransportArgument {
    fn transports(self) -> &'static [TransportKind] {
        match self {
            Self::Tcp => &[TransportKind::Tcp],
            Self::Tls => &[TransportKind::Tls],
            Self::Quic => &[TransportKind::Quic],
            Self::All => &TransportKind::ALL,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CipherArgument {
    /// AES-128-GCM.
    Aes,
    /// ChaCha20-Poly1305.
    Chacha20,
}

/// The server's place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    /// The host, without brackets.
    host: String,
    port: u16,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address has colons of its own.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port
                    .parse()
                    .map_err(|_| format!("`{port}` is no port number"))?;
                (host, port)
            }
            _ => (text, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("expected HOST:PORT".into());
        }
        Ok(Self {
            host: host.into(),
            port,
        })
    }
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct Output<'a> {
    runs: &'a [Run],
    failures: &'a [Failure],
}

/// A transport that could not be measured.
#[derive(Serialize)]
struct Failure {
    over: TransportKind,
    error: String,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let (mut runs, mut failures, mut last) = (Vec::new(), Vec::new(), None);
    for over in arguments.over.transports() {
        match altway_raw::send(&options(arguments, *over)) {
            Ok(run) => runs.push(run),
            Err(error) => {
                let error = anyhow::Error::from(error);
                failures.push(Failure {
                    over: *over,
                    error: format!("{error:#}"),
                });
                last = Some(error);
            }
        }
    }
    if runs.is_empty()
        && let Some(error) = last
    {
        return Err(error);
    }
    match arguments.json {
        true => printer.json(&Output {
            runs: &runs,
            failures: &failures,
        })?,
        false => printer.data(&table::of(&runs, &what(arguments)))?,
    }
    let Some(error) = last else {
        return Ok(Answer::Done);
    };
    for failure in &failures {
        printer.say(&format!("{} failed: {}", failure.over, failure.error));
    }
    if let Some(hint) = hint::of(&error) {
        printer.say(&format!("\nhint: {hint}"));
    }
    Ok(Answer::No)
}

fn options(arguments: &Arguments, over: TransportKind) -> Options {
    let Server { host, port } = arguments.server.clone();
    let size = arguments.size.as_bytes();
    let sizes = match arguments.request_size {
        Some(request) => Sizes::exchange(request.as_bytes(), size),
        None => Sizes::bulk(arguments.direction, size),
    };
    let mut options = Options::new(host, port, over, sizes);
    options.requests = arguments.requests;
    options.verify = arguments.verify;
    options.silence_timeout = arguments.timeout;
    options.trust = match (&arguments.ca, arguments.insecure) {
        (Some(file), _) => Trust::CaFile(file.clone()),
        (None, true) => Trust::Insecure,
        (None, false) => Trust::System,
    };
    options.tuning = Tuning {
        cipher: match arguments.cipher {
            CipherArgument::Aes => Cipher::Aes,
            CipherArgument::Chacha20 => Cipher::ChaCha20,
        },
        quic_version: arguments.quic_version,
        ..arguments.tuning.tuning()
    };
    options
}

/// The transfer in words.
fn what(arguments: &Arguments) -> String {
    let size = arguments.size;
    let each = match (arguments.request_size, arguments.direction) {
        (Some(request), _) => format!("a request of {request} and a response of {size}"),
        (None, Direction::Up) => format!("{size} up"),
        (None, Direction::Down) => format!("{size} down"),
        (None, Direction::Both) => format!("{size} up and {size} down at the same time"),
    };
    let Server { host, port } = &arguments.server;
    let place = format!("{host} port {port}");
    match arguments.requests.get() {
        1 => format!("{each}, {place}"),
        n => format!("{n} times {each}, {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_with_or_without_a_port() {
        let server = |text: &str| {
            let server: Server = text.parse().unwrap();
            (server.host, server.port)
        };
        assert_eq!(server("localhost:80"), ("localhost".into(), 80));
        assert_eq!(server("localhost"), ("localhost".into(), DEFAULT_PORT));
        assert_eq!(server("[::1]:80"), ("::1".into(), 80));
        assert_eq!(server("::1"), ("::1".into(), DEFAULT_PORT));
        assert_eq!(server("[::1]"), ("::1".into(), DEFAULT_PORT));
        assert!("".parse::<Server>().is_err());
        assert!("host:http".parse::<Server>().is_err());
        assert!(":80".parse::<Server>().is_err());
    }
}
