//! `altway serve`: the files of a folder over three protocols.

use crate::hint::mistake;
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_policy::Policy;
use altway_serve::{
    Bind, Congestion, DEFAULT_PORT, Identity, Options, Security, Server, certs, stop_channel,
};
use altway_units::duration;
use anyhow::Result;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Serve the files of DIR over HTTP/1.1, HTTP/2 and HTTP/3, all on one port number (TCP and UDP).
///
/// Without --cert and --key it makes a certificate for localhost, 127.0.0.1 and ::1 once, signed by
/// a certificate authority of its own, and says how to trust it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway serve site
  altway serve site -p 443 -c fullchain.pem -k key.pem --policy threshold:rtt=30ms,loss=1%
  altway serve site --h2c -p 8080

Policies: who is offered HTTP/3 by the Alt-Svc field
  h2         nobody; clients that were told of HTTP/3 before are told to forget it
  h3         everybody
  threshold  clients whose path is unknown, far (min RTT) or lossy; rtt= and loss= set the bounds

A first SIGTERM or Ctrl-C lets requests end, a second ends at once. -v prints the access log.")]
pub(crate) struct Arguments {
    /// The folder to serve.
    #[arg(value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Port number for TCP and UDP; 0: any that is free.
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Address to listen on [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "IP")]
    bind: Option<IpAddr>,
    /// Certificate chain, PEM, the server's own first.
    #[arg(short, long, value_name = "FILE", conflicts_with = "h2c")]
    cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(short, long, value_name = "FILE", conflicts_with = "h2c")]
    key: Option<PathBuf>,
    /// Worker threads [default: one per core].
    #[arg(short = 'n', long)]
    threads: Option<NonZeroUsize>,
    /// Clear text over TCP: HTTP/1.1, and HTTP/2 by prior knowledge; no HTTP/3.
    #[arg(long)]
    h2c: bool,
    /// Who is offered HTTP/3: h2, h3, threshold or threshold:rtt=TIME,loss=SHARE.
    #[arg(long, default_value_t = Policy::default())]
    policy: Policy,
    /// Congestion control of TCP and QUIC: cubic, reno or bbr [default: the system's, cubic].
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
    /// How long a stop waits for requests that are being answered.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    grace: Duration,
    /// Print a line of JSON on stdout as soon as the server listens.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Listening<'a> {
    event: &'static str,
    address: SocketAddr,
    protocols: &'a [&'static str],
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let options = options(arguments, printer)?;
    let is_clear_text = arguments.h2c;
    let server = Server::bind(&options)?;
    let (handle, signal) = stop_channel();
    signals::on_stop(move || handle.stop())?;
    announce(server.local_addr(), is_clear_text, arguments.json, printer)?;
    server.run(&signal)?;
    Ok(Answer::Done)
}

fn options(arguments: &Arguments, printer: &Printer) -> Result<Options> {
    let security = security(arguments, printer)?;
    let mut options = Options::new(&arguments.root, security);
    options.port = arguments.port;
    options.bind = arguments.bind.map_or(Bind::All, Bind::Address);
    options.threads = arguments.threads.unwrap_or(options.threads);
    options.policy = arguments.policy;
    options.congestion = arguments.congestion;
    options.shutdown_grace = arguments.grace;
    Ok(options)
}

fn security(arguments: &Arguments, printer: &Printer) -> Result<Security> {
    if arguments.h2c {
        return Ok(Security::ClearText);
    }
    match (&arguments.cert, &arguments.key) {
        (Some(cert), Some(key)) => Ok(Security::Tls(Identity::from_pem_files(cert, key)?)),
        (None, None) => own_certificate(printer),
        (Some(_), None) => Err(mistake(
            "--cert needs its private key",
            "give --key as well",
        )),
        (None, Some(_)) => Err(mistake(
            "--key needs its certificate",
            "give --cert as well",
        )),
    }
}

/// Says how to trust the authority when it is new, and where that is told ever after.
fn own_certificate(printer: &Printer) -> Result<Security> {
    let store = certs::Store::open_default()?;
    let leaf = store.leaf::<&str>(&[])?;
    let authority = store.authority();
    if leaf.is_new {
        printer.say("made a certificate for localhost; to trust its authority:\n");
        printer.say(&certs::trust::instructions(&authority));
    } else {
        let authority = authority.display();
        printer.say(&format!("certificate of altway's own authority, {authority} (`altway certs` tells how to trust it)"));
    }
    Ok(Security::Tls(leaf.identity()?))
}

fn announce(address: SocketAddr, clear: bool, json: bool, printer: &Printer) -> Result<()> {
    let protocols: &[_] = if clear {
        &["h1", "h2c"]
    } else {
        &["h1", "h2", "h3"]
    };
    if json {
        let listening = Listening {
            event: "listening",
            address,
            protocols,
        };
        return Ok(printer.data(&serde_json::to_string(&listening)?)?);
    }
    let scheme = if clear { "http" } else { "https" };
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    printer.say(&format!(
        "serving {scheme}://{host}:{}/ over {}",
        address.port(),
        protocols.join(", ")
    ));
    Ok(())
}
