//! `altway raw`: the transports without HTTP.

mod send;
mod serve;
mod shares;
mod table;

use crate::Answer;
use crate::printer::Printer;
use altway_raw::{Congestion, Tuning};
use anyhow::Result;
use clap::Subcommand;

/// Measure TCP, TLS and QUIC without HTTP: what each carries, and what it costs.
///
/// Start a server with `altway raw serve`, send to it with `altway raw send`; `altway raw shares` needs neither, and
/// shows where the cost goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: RawCommand,
}

#[derive(Debug, Subcommand)]
enum RawCommand {
    Serve(serve::Arguments),
    Send(send::Arguments),
    Shares(shares::Arguments),
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    match &arguments.command {
        RawCommand::Serve(arguments) => serve::run(arguments, printer),
        RawCommand::Send(arguments) => send::run(arguments, printer),
        RawCommand::Shares(arguments) => shares::run(arguments, printer),
    }
}

/// Transport of this end, and what makes its QUIC fast, to be switched off.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings of this end")]
struct TuningArguments {
    /// Congestion control of what this end sends: cubic, reno or bbr [default: the system's for TCP, cubic for QUIC].
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
    /// QUIC: hand the kernel each datagram by itself, instead of one buffer that it splits (GSO).
    #[arg(long)]
    no_gso: bool,
    /// QUIC: have the kernel hand over each datagram by itself, instead of joining those that arrive
    /// together (GRO).
    #[arg(long)]
    no_gro: bool,
    /// QUIC: one datagram for each system call, in both directions; implies --no-gso and --no-gro.
    #[arg(long)]
    one_packet: bool,
    /// QUIC: the largest UDP payload that either end probes for, in bytes; 1200 probes for none, 1472 fills Ethernet
    /// over IPv4 [default: what the client's interface carries; 65507 over loopback].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1_200..=65_527))]
    mtu: Option<u16>,
}

impl TuningArguments {
    fn tuning(&self) -> Tuning {
        Tuning {
            congestion: self.congestion,
            gso: !self.no_gso,
            gro: !self.no_gro,
            batches: !self.one_packet,
            mtu: self.mtu,
            ..Tuning::default()
        }
    }
}
