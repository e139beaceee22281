//! `altway raw shares`: why each transport costs what it does.

use crate::Answer;
use crate::commands::positive;
use crate::printer::Printer;
use altway_raw::{
    Direction, Measured, Separated, Share, Shares, SharesOptions, Spread, TransportKind,
};
use altway_units::DataSize;
use anyhow::Result;
use std::num::NonZeroUsize;

/// Show where the cost of TCP, TLS and QUIC goes, by switching off one thing after the other.
///
/// Servers and clients run within this process over loopback, on ports that nobody else knows. Every round measures
/// every variant once, in turn; variants are compared within a round. Run nothing else on the machine meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway raw shares
  altway raw shares --size 500MB --direction up --rounds 11 --json > shares.json

How each share of a transport's processor time, both ends together, is found:
  encryption    what is saved when records or packets go out in the clear
  copies        what plain TCP saves when payload is neither copied into the kernel (sendfile) nor
                out of it (MSG_TRUNC); TLS and QUIC have the same bytes copied. Copies within the
                program count as protocol
  system calls  calls times the time of a call that does nothing; the kernel's work within them
                counts as copies or protocol
  protocol      what is left: TCP or UDP and IP in the kernel, TLS or QUIC in the program

A share has the 95 % interval of its median over the rounds. It is shown only where that lies between 0 and
100 %, and copies and system calls only where both fit into the time that the kernel was seen to take; else
it is not separable here, and the reason is given below the table.

Batches are shown by the variants: no GSO, no GRO, one packet a call. So is the size of packets, which
decides how often the cost of a packet is paid.")]
pub(crate) struct Arguments {
    /// Bytes of payload of each transfer.
    #[arg(short, long, default_value = "100MB", value_parser = some_payload)]
    size: DataSize,
    /// The end that sends: up (the client), down (the server) or both at the same time.
    #[arg(short, long, default_value = "down", value_name = "up|down|both")]
    direction: Direction,
    /// Transfers of each variant; with fewer than 6 no share has an interval, and none is shown.
    #[arg(short, long, value_name = "N", default_value_t = SharesOptions::default().rounds, value_parser = positive::<NonZeroUsize>)]
    rounds: NonZeroUsize,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let options = SharesOptions {
        size: arguments.size.as_bytes(),
        direction: arguments.direction,
        rounds: arguments.rounds,
    };
    let mut announced = 0;
    let shares = altway_raw::shares(&options, |round, _| {
        if round > announced {
            announced = round;
            printer.say(&format!("round {round} of {}", arguments.rounds));
        }
    })?;
    match arguments.json {
        true => printer.json(&shares)?,
        false => printer.data(&table(&shares, arguments.size))?,
    }
    Ok(Answer::Done)
}

/// Reads a size above 0: nothing has no cost to take apart.
fn some_payload(text: &str) -> Result<DataSize, String> {
    match text.parse() {
        Ok(DataSize::ZERO) => Err("expected some payload".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(format!("{error}")),
    }
}

fn table(shares: &Shares, size: DataSize) -> String {
    let mut text = format!(
        "{size} over loopback, {} rounds: medians, and in brackets the smallest and the largest\n\n\
         {:<27} {:>20} {:>20} {:>5} {:>8} {:>9} {:>8} {:>6}\n",
        shares.rounds, "", "MB/s", "CPU s/GB", "%", "kernel %", "calls/MB", "packets", "again",
    );
    for measured in &shares.variants {
        text.push_str(&line(measured));
    }
    text.push_str(&format!(
        "\n{:<5} {:>20} {:>20} {:>20} {:>20}\n",
        "%", "encryption", "copies", "system calls", "protocol"
    ));
    for over in TransportKind::ALL {
        text.push_str(&parts(shares, over));
    }
    for share in shares.shares.iter().filter(|share| share.percent.is_none()) {
        text.push_str(&format!(
            "not separable here: {} of {} ({})\n",
            share.part,
            share.over.name(),
            share.obstacle
        ));
    }
    text.push_str(&format!(
        "\nAll in processor time of both ends together. %: of the same transport as it is. kernel %: its\n\
         part in the kernel.\n\
         encryption: saved when nothing is encrypted. copies: what plain TCP saves without them, for\n\
         the same bytes. system calls: their number times {:.0} ns, what an empty one takes here.\n\
         protocol: the rest, with the kernel's work within the calls. Shares have 95 % intervals.\n\n\
         QUIC carries {} % of what TLS over TCP does; with packets as large as TCP's are on loopback,\n\
         {} %.\n",
        shares.empty_call_ns,
        spread(&shares.quic_of_tls_percent, 1),
        spread(&shares.quic_large_of_tls_percent, 1),
    ));
    text
}

fn line(measured: &Measured) -> String {
    format!(
        "{:<27} {:>20} {:>20} {:>5.0} {:>8.0} {:>9.1} {:>8.0} {:>6.0}\n",
        measured.variant.in_words(),
        spread(&measured.mb_per_s, 0),
        spread(&measured.cpu_s_per_gb, 3),
        measured.cpu_percent.median,
        measured.kernel_percent.median,
        measured.calls_per_mb.median,
        measured.packets.median,
        measured.retransmissions.median,
    )
}

fn parts(shares: &Shares, over: TransportKind) -> String {
    let of = shares.shares.iter().filter(|share| share.over == over);
    let percent = |share: &Share| match &share.percent {
        Some(Separated { median, low, high }) => format!("{median:.1} ({low:.1} to {high:.1})"),
        None => "not separable".to_owned(),
    };
    let percents = of.map(|share| format!(" {:>20}", percent(share)));
    format!("{:<5}{}\n", over.name(), percents.collect::<String>())
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { median, min, max } = spread;
    format!("{median:.digits$} ({min:.digits$} {max:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_shares() {
        assert!(some_payload("0B").is_err());
        assert!(some_payload("12").is_err());
        assert_eq!(some_payload("1KB"), Ok(DataSize::from_bytes(1_000)));
    }
}
