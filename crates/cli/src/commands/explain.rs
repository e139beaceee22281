//! `altway explain`: what a server tells a client, and why.

use super::paths::{age, read};
use crate::Answer;
use crate::hint::mistake;
use crate::printer::Printer;
use altway_select::{
    AltSvc, Bulk, Client, ClientClass, Explanation, Host, ModelKind, Moment, Observation, Selector,
    Transport, UnixTime,
};
use altway_units::{Bandwidth, DataSize, Ratio, duration};
use anyhow::Result;
use serde::Serialize;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Observations after which what is supposed has taken the place of what was measured.
const ENOUGH: usize = 64;

/// Explain what a server would tell a client, and what that rests on.
///
/// It goes by what the server has kept in its state folder (`altway serve --state-dir`), a minute old while the
/// server runs. Nothing is changed, whatever is supposed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway explain 192.0.2.7 --state-dir /var/lib/altway
  altway explain 192.0.2.7 --state-dir /var/lib/altway --class firefox-linux
  altway explain 192.0.2.7 --state-dir /var/lib/altway --what-if rate=1gbit,rtt=1ms")]
pub(crate) struct Arguments {
    /// The client's address.
    address: IpAddr,
    /// The server's state folder.
    #[arg(long, value_name = "DIR")]
    state_dir: PathBuf,
    /// One class alone, FAMILY-PLATFORM as in the output [default: all that are known at the address].
    #[arg(long, value_name = "CLASS")]
    class: Option<ClientClass>,
    /// The name of the certificate that the client asks for [default: any other].
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The server's policy.
    #[arg(long, default_value_t = ModelKind::default())]
    policy: ModelKind,
    /// Suppose that the path were so: rate=RATE, rtt=TIME, loss=SHARE, several with commas.
    #[arg(long, value_name = "PATH")]
    what_if: Option<Supposed>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

/// A path that is supposed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Supposed {
    rate: Option<Bandwidth>,
    rtt: Option<Duration>,
    loss: Option<Ratio>,
}

impl FromStr for Supposed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut supposed = Self::default();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            let fault = |error: &dyn std::fmt::Display| format!("{key}: {error}");
            match key {
                "rate" => supposed.rate = Some(value.parse().map_err(|error| fault(&error))?),
                "rtt" => {
                    supposed.rtt = Some(duration::parse(value).map_err(|error| fault(&error))?);
                }
                "loss" => supposed.loss = Some(value.parse().map_err(|error| fault(&error))?),
                _ => return Err(format!("`{key}` is none of rate, rtt, loss")),
            }
        }
        Ok(supposed)
    }
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    if arguments.policy.file().is_some() {
        return Err(mistake(
            "a surface's file can't be explained by",
            "look at it with `altway policy show FILE`; here, name surface, learned, or another policy",
        ));
    }
    let kept = read(&arguments.state_dir, &arguments.policy)?;
    let host = match &arguments.host {
        Some(name) => Host::new(name),
        None => Host::default(),
    };
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = UnixTime::from_secs(seconds.unwrap_or_default().as_secs());
    let class = arguments.class.unwrap_or(ClientClass::OTHER);
    let client = kept.client(arguments.address, class);
    let selector = kept.selector();
    let supposed = arguments.what_if.unwrap_or_default();
    let moment = Moment {
        min_rtt: supposed.rtt,
        ..Moment::new(now, Transport::Tcp)
    };
    let explain = |client: &Client| {
        suppose(selector, client, &host, supposed, now);
        selector.explain(client, &host, &moment)
    };
    let known = selector.explain_address(&client, &host, &moment);
    let explanations: Vec<_> = match arguments.class {
        None if !known.is_empty() => known
            .iter()
            .map(|it| explain(&client.with_class(it.class)))
            .collect(),
        _ => vec![explain(&client)],
    };
    if arguments.json {
        let shown: Vec<_> = explanations.iter().map(Shown::of).collect();
        printer.json(&shown)?;
    } else {
        for explanation in &explanations {
            printer.data(&explanation.to_string())?;
            printer.data(&format!("  says {}", said(explanation.decision.alt_svc)))?;
        }
        printer.say(&format!("as of {} s ago", age(&kept).as_secs()));
    }
    Ok(Answer::Done)
}

/// Has the selector, which is this program's own, observe a path as it is supposed.
fn suppose(selector: &Selector, client: &Client, host: &Host, supposed: Supposed, now: UnixTime) {
    let bulk = supposed.rate.map(|rate| Bulk {
        size: DataSize::from_bytes(1 << 40),
        rate,
        app_limited: false,
    });
    let packets = supposed.loss.map(|loss| {
        let sent = 100_000_u64;
        (sent, (loss.as_f64() * sent as f64) as u64)
    });
    if bulk.is_none() && packets.is_none() {
        return;
    }
    for _ in 0..ENOUGH {
        let (sent, lost) = packets.unwrap_or_default();
        let observation = Observation {
            min_rtt: supposed.rtt,
            packets_sent: sent,
            packets_lost: lost,
            bulk,
            ..Observation::new(Transport::Tcp)
        };
        let _ = selector.observe(client, host, &observation, now);
    }
}

/// What a response over TCP says, in words.
fn said(alt_svc: AltSvc) -> String {
    match alt_svc {
        AltSvc::Advertise { max_age } => {
            format!("Alt-Svc with h3 for {}", duration::format(max_age))
        }
        AltSvc::Clear => "Alt-Svc: clear".into(),
        AltSvc::Omit => "nothing of alternative services".into(),
    }
}

#[derive(Serialize)]
struct Shown {
    class: String,
    offer: String,
    reason: String,
    alt_svc: String,
    known: bool,
    propensity: f64,
    hold_out: bool,
    h2_s: Option<f64>,
    h3_s: Option<f64>,
    difference_ln: Option<f64>,
    deviation_ln: Option<f64>,
    margin_ln: Option<f64>,
    tcp_bps: Option<f64>,
    quic_bps: Option<f64>,
    class_limit_bps: f64,
    packets_sent: f64,
    packets_lost: f64,
    udp_blocked: bool,
}

impl Shown {
    fn of(it: &Explanation) -> Self {
        let prediction = it.decision.prediction;
        Self {
            class: it.class.to_string(),
            offer: it.decision.offer.to_string(),
            reason: it.decision.reason.to_string(),
            alt_svc: said(it.decision.alt_svc),
            known: it.is_known,
            propensity: it.decision.propensity,
            hold_out: it.decision.held,
            h2_s: prediction.map(|it| it.h2),
            h3_s: prediction.map(|it| it.h3),
            difference_ln: prediction.map(|it| it.difference),
            deviation_ln: prediction.map(|it| it.deviation),
            margin_ln: prediction.map(|it| it.margin),
            tcp_bps: it.measured[0],
            quic_bps: it.measured[1],
            class_limit_bps: it.limit,
            packets_sent: it.packets.0,
            packets_lost: it.packets.1,
            udp_blocked: it.udp_blocked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supposed_path_is_parsed_and_faults_are_named() {
        let supposed: Supposed = "rate=1gbit,rtt=1ms".parse().unwrap();
        assert_eq!(supposed.rate.unwrap().as_bps(), 1_000_000_000);
        assert_eq!(supposed.rtt, Some(Duration::from_millis(1)));
        for (text, fault) in [
            ("rate", "`rate` is not KEY=VALUE"),
            ("delay=1ms", "`delay` is none of rate, rtt, loss"),
        ] {
            assert_eq!(text.parse::<Supposed>().unwrap_err(), fault);
        }
        assert!(
            "rtt=fast"
                .parse::<Supposed>()
                .unwrap_err()
                .starts_with("rtt: ")
        );
    }
}
