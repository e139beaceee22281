//! `altway raw serve`: the other end.

use super::TuningArguments;
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_raw::{DEFAULT_PORT, Server, ServerOptions};
use altway_serve::certs;
use anyhow::Result;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Answer `altway raw send` over TCP, TLS and QUIC, all on one port number.
///
/// Without --cert and --key it uses a certificate of altway's own authority, which is made if missing. Whoever
/// reaches the port can make the server send any amount of data: open it to the measuring client only.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway raw serve
  altway raw serve --bind 127.0.0.1 --port 9000
  altway raw serve --no-gso --mtu 1200

It runs until Ctrl-C. Options hold for what this end sends and receives; give
`altway raw send` the same options to change both ends. --mtu bounds both ends, given to either.")]
pub(crate) struct Arguments {
    /// Port number for TCP and UDP; 0: any that is free.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Address to listen on [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "IP")]
    bind: Option<IpAddr>,
    /// Certificate chain, PEM, the server's own first.
    #[arg(short, long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(short, long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Print a line of JSON on stdout as soon as the server listens.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tuning: TuningArguments,
}

/// The JSON of `--json`.
#[derive(Serialize)]
struct Listening {
    event: &'static str,
    address: SocketAddr,
    over: [&'static str; 3],
}

/// The certificate that is shown, and whom clients have to trust for it.
struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    /// `None`: whoever has signed the operator's own.
    authority: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let Certificate {
        chain,
        key,
        authority,
    } = certificate(arguments)?;
    let mut options = ServerOptions::new(arguments.bind, arguments.port, chain, key);
    options.tuning = arguments.tuning.tuning();
    let server = Server::bind(&options)?;
    let stop = server.stop_handle();
    signals::on_stop(move || stop.stop())?;
    announce(arguments, server.local_addr(), authority, printer)?;
    server.run()?;
    Ok(Answer::Done)
}

fn certificate(arguments: &Arguments) -> Result<Certificate> {
    if let (Some(chain), Some(key)) = (&arguments.cert, &arguments.key) {
        return Ok(Certificate {
            chain: chain.clone(),
            key: key.clone(),
            authority: None,
        });
    }
    let store = certs::Store::open_default()?;
    let leaf = store.leaf::<&str>(&[])?;
    Ok(Certificate {
        chain: leaf.certificate,
        key: leaf.key,
        authority: Some(store.authority()),
    })
}

fn announce(
    arguments: &Arguments,
    address: SocketAddr,
    authority: Option<PathBuf>,
    printer: &Printer,
) -> Result<()> {
    if arguments.json {
        let listening = Listening {
            event: "listening",
            address,
            over: ["tcp", "tls", "quic"],
        };
        return Ok(printer.data(&serde_json::to_string(&listening)?)?);
    }
    let authority = authority.map_or_else(String::new, |file| format!(" --ca {}", file.display()));
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    printer.say(&format!(
        "listening on port {} over tcp, tls and quic; now, elsewhere:\n\n  \
         altway raw send {host}:{}{authority}\n",
        address.port(),
        address.port(),
    ));
    Ok(())
}
