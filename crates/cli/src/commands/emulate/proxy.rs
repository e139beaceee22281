//! `altway emulate proxy`: what a router that is a proxy does, on a host of one's own.

use crate::commands::positive_time;
use crate::printer::Printer;
use crate::{Answer, signals};
use altway_emulate::proxy::{Forward, Limits, Proxy, ProxyReport};
use anyhow::Result;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

/// Pass TCP connections and UDP datagrams on to another host, both ways and unchanged.
///
/// TLS and QUIC go through untouched. A TCP connection ends here and another one begins; QUIC goes through end to
/// end. Without an ADDRESS it listens on 127.0.0.1, for programs of this host; 0.0.0.0 or :: open a port to all that
/// can reach this host. It runs until Ctrl-C or SIGTERM, and then prints what it passed on.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway emulate proxy --tcp 8444:server:8443 --udp 8443:server:8443
  altway emulate proxy --tcp 0.0.0.0:8444:server:8443
  altway emulate proxy --tcp '[::1]:8443:198.18.0.2:8443'")]
pub(crate) struct Arguments {
    /// Pass the TCP connections to PORT here on to HOST:PORT; may be given several times.
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT:HOST:PORT",
        required_unless_present = "udp"
    )]
    tcp: Vec<Forward>,
    /// Pass the UDP datagrams to PORT here on to HOST:PORT; may be given several times.
    #[arg(long, value_name = "[ADDRESS:]PORT:HOST:PORT")]
    udp: Vec<Forward>,
    /// TCP connections at once for each port; more wait.
    #[arg(long, value_name = "N", default_value_t = Limits::default().tcp_connections)]
    tcp_connections: usize,
    /// Time without a byte in either direction after which a TCP connection is ended.
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = positive_time)]
    tcp_idle: Duration,
    /// UDP clients at once for each port; one more replaces the one that has been silent longest.
    #[arg(long, value_name = "N", default_value_t = Limits::default().udp_flows)]
    udp_clients: usize,
    /// Time without a datagram in either direction after which a UDP client is forgotten.
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = positive_time)]
    udp_idle: Duration,
    /// Print its addresses, and at the end what it passed on, each as one line of JSON on stdout.
    #[arg(long)]
    json: bool,
}

/// The proxy's addresses, as `--json` prints them.
#[derive(Serialize)]
struct Listening<'a> {
    event: &'static str,
    tcp: &'a [SocketAddr],
    udp: &'a [SocketAddr],
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let limits = Limits {
        tcp_connections: arguments.tcp_connections,
        tcp_idle: arguments.tcp_idle,
        udp_flows: arguments.udp_clients,
        udp_idle: arguments.udp_idle,
    };
    let (end, ended) = mpsc::channel();
    signals::on_stop(move || drop(end))?;
    let proxy = Proxy::start(&arguments.tcp, &arguments.udp, limits)?;
    announce(&proxy, arguments, printer)?;
    // Nothing is ever sent: it returns when the other half is dropped.
    let _: Result<(), _> = ended.recv();
    let report = proxy.report();
    if arguments.json {
        printer.data(&serde_json::to_string(&report)?)?;
    } else {
        printer.say(&sentence(&report));
    }
    Ok(Answer::Done)
}

/// The bytes that a proxy passed on, in words.
pub(super) fn sentence(report: &ProxyReport) -> String {
    format!(
        "proxy: {} TCP connections, {} bytes up, {} down; {} UDP clients, {} datagrams up, {} down, \
         {} dropped",
        report.tcp_connections,
        report.tcp_bytes_up,
        report.tcp_bytes_down,
        report.udp_flows,
        report.udp_datagrams_up,
        report.udp_datagrams_down,
        report.udp_dropped
    )
}

fn announce(proxy: &Proxy, arguments: &Arguments, printer: &Printer) -> Result<()> {
    let (tcp, udp) = (proxy.tcp_addresses(), proxy.udp_addresses());
    if arguments.json {
        let event = "listening";
        let listening = Listening { event, tcp, udp };
        return Ok(printer.data(&serde_json::to_string(&listening)?)?);
    }
    let tell = |transport: &str, addresses: &[SocketAddr], forwards: &[Forward]| {
        for (address, Forward { host, port, .. }) in addresses.iter().zip(forwards) {
            printer.say(&format!(
                "{transport} {address} is passed on to {host} port {port}"
            ));
        }
    };
    tell("TCP", tcp, &arguments.tcp);
    tell("UDP", udp, &arguments.udp);
    Ok(())
}
