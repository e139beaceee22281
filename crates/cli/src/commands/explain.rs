//! `altway explain`: what a server tells a client, and why.

use super::paths::{age, read};
use super::policy::{control, predictable, surface_of};
use super::status::Server;
use crate::Answer;
use crate::hint::usage_error;
use crate::printer::Printer;
use altway_admin::{Address, Explained};
use altway_select::{
    Bulk, Client, ClientClass, Config, Congestion, DecisionRequest, Explanation, Host, ModelKind,
    Observation, Secret, Selector, Surface, Transport, UnixTime, limited_rate,
};
use altway_serve::KeptPaths;
use altway_units::{Bandwidth, DataSize, Ratio, duration};
use anyhow::Result;
use http::{Method, StatusCode};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Observations after which what is supposed has taken the place of what was measured.
const SATURATING_OBSERVATIONS: usize = 64;

/// Explain which protocol a server would offer a client, with both predicted times and what they are based on.
///
/// The running server is asked, at --admin. With --state-dir the answer is from what the server has kept in its state
/// folder, up to a minute old while the server runs; then another path or another policy can be assumed. Times are predicted
/// for what visitors of --host load. With --what-if or --policy alone, nothing is known but the path that is assumed, and
/// they are those of a usual site. None of this changes anything in a server. A busy worker asks for a larger
/// gain of HTTP/3 than is said here. The prediction is for a congestion control of TCP and one of QUIC, which are named; `cubic`
/// stands for all that take loss for congestion.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway explain 192.0.2.7
  altway explain 192.0.2.7 --admin 127.0.0.1:2019
  altway explain 192.0.2.7 --what-if rate=1gbit,rtt=1ms
  altway explain 192.0.2.7 --state-dir /var/lib/altway --class firefox-linux
  altway explain 192.0.2.7 --state-dir /var/lib/altway --what-if rate=1gbit,rtt=1ms
  altway explain 192.0.2.7 --state-dir /var/lib/altway --what-if loss=2%,tcp=bbr,quic=bbr")]
pub(crate) struct Arguments {
    /// The client's address.
    #[arg(value_parser = address)]
    address: IpAddr,
    /// Admin socket of the server (`altway serve --admin`): path of a Unix socket, or IP:PORT [default: $ALTWAY_ADMIN,
    /// or /run/altway/admin.sock].
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["state_dir", "policy", "what_if"])]
    admin: Option<Address>,
    /// The server's state folder (`altway serve --state-dir`).
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Class of the client, FAMILY-PLATFORM as in the output [default: all that are known at the
    /// address].
    #[arg(long, value_name = "CLASS")]
    class: Option<ClientClass>,
    /// The host name that the client asks for [default: one that has no decisions of its own].
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Policy to explain; a state folder does not say which one its server has [default: learned].
    #[arg(long)]
    policy: Option<ModelKind>,
    /// Assume another path: rate=RATE, rtt=TIME, loss=SHARE; or other congestion control: tcp=NAME, quic=NAME, each
    /// cubic, reno or bbr. Several with commas.
    #[arg(long, value_name = "PATH")]
    what_if: Option<HypotheticalPath>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

/// An address alone, as a log has it.
fn address(text: &str) -> Result<IpAddr, String> {
    let expected =
        "expected one address, like 192.0.2.7 or 2001:db8::7, without prefix, port, zone or name";
    text.parse().map_err(|_| expected.into())
}

/// A path that is supposed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct HypotheticalPath {
    rate: Option<Bandwidth>,
    rtt: Option<Duration>,
    loss: Option<Ratio>,
    /// Congestion control of TCP and of QUIC.
    congestion: [Option<Congestion>; 2],
}

impl FromStr for HypotheticalPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut supposed = Self::default();
        let mut keys = Vec::new();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            if keys.contains(&key) {
                return Err(format!("{key} stands twice"));
            }
            keys.push(key);
            let fault = |error: &dyn std::fmt::Display| format!("{key}: {error}");
            match key {
                "rate" => supposed.rate = Some(value.parse().map_err(|error| fault(&error))?),
                "rtt" => {
                    supposed.rtt = Some(duration::parse(value).map_err(|error| fault(&error))?);
                }
                "loss" => supposed.loss = Some(value.parse().map_err(|error| fault(&error))?),
                "tcp" => {
                    supposed.congestion[0] = Some(control(value).map_err(|error| fault(&error))?);
                }
                "quic" => {
                    supposed.congestion[1] = Some(control(value).map_err(|error| fault(&error))?);
                }
                _ => return Err(format!("`{key}` is none of rate, rtt, loss, tcp, quic")),
            }
        }
        supposed.check()?;
        Ok(supposed)
    }
}

impl HypotheticalPath {
    /// Refuses what a surface counts as less than it is.
    fn check(&self) -> Result<(), String> {
        let (least, most) = Surface::RATES;
        let rate = self.rate.map(|it| it.as_bps() as f64);
        if rate.is_some_and(|it| !(least..=most).contains(&it)) {
            return Err("rate: times are predicted from 10kbit to 100gbit".into());
        }
        if self
            .rtt
            .is_some_and(|it| it.as_secs_f64() > Surface::RTTS.1)
        {
            return Err("rtt: times are predicted up to 10s".into());
        }
        match self.loss.map(predictable) {
            Some(Err(fault)) => Err(format!("loss: {fault}")),
            _ => Ok(()),
        }
    }
}

/// Source of an explanation that this program makes, without asking a server.
enum Knowledge {
    /// State folder of a server.
    Kept(KeptPaths),
    /// No client at all.
    Nothing { selector: Selector, secret: Secret },
}

impl Knowledge {
    /// Reads a state folder; without one, nothing is known.
    ///
    /// # Errors
    /// The folder or the policy's surface can't be read.
    fn load(arguments: &Arguments) -> Result<Self> {
        let policy = arguments.policy.clone().unwrap_or_default();
        let congestion = arguments.what_if.unwrap_or_default().congestion;
        if let Some(folder) = &arguments.state_dir {
            return read(folder, &policy, congestion).map(Self::Kept);
        }
        // It names one client, which nobody else sees: any key does.
        let secret = Secret::new([0; 16]);
        let mut config = Config::with_surface(secret, &policy, surface_of(&policy)?);
        config.congestion = congestion.map(Option::unwrap_or_default);
        let selector = Selector::new(config);
        Ok(Self::Nothing { selector, secret })
    }

    fn selector(&self) -> &Selector {
        match self {
            Self::Kept(kept) => kept.selector(),
            Self::Nothing { selector, .. } => selector,
        }
    }

    fn client(&self, address: IpAddr, class: ClientClass) -> Client {
        match self {
            Self::Kept(kept) => kept.client(address, class),
            Self::Nothing { secret, .. } => Client::new(secret, address, class),
        }
    }

    /// Age of what is known, for a terminal.
    fn age(&self) -> String {
        match self {
            Self::Kept(kept) => format!("as of {} s ago", age(kept).as_secs()),
            Self::Nothing { .. } => {
                "nothing is known of the client but the path that is assumed".into()
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let here =
        arguments.state_dir.is_some() || arguments.what_if.is_some() || arguments.policy.is_some();
    if !here {
        return ask(arguments, printer);
    }
    let knowledge = Knowledge::load(arguments)?;
    let explanations = explain(arguments, &knowledge);
    if arguments.json {
        let shown: Vec<_> = explanations.iter().map(Explained::of).collect();
        printer.json(&shown)?;
    } else {
        for explanation in &explanations {
            show(&Explained::of(explanation), printer)?;
        }
        printer.say(&knowledge.age());
    }
    Ok(Answer::Done)
}

/// Explanations for the class that is asked for, or for all that are known at the address.
fn explain(arguments: &Arguments, knowledge: &Knowledge) -> Vec<Explanation> {
    let supposed = arguments.what_if.unwrap_or_default();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = UnixTime::from_secs(seconds.unwrap_or_default().as_secs());
    let class = arguments.class.unwrap_or(ClientClass::OTHER);
    let client = knowledge.client(arguments.address, class);
    let selector = knowledge.selector();
    let name = arguments.host.as_deref().unwrap_or_default();
    let host = selector.host_of_snapshot(name);
    let moment = DecisionRequest {
        min_rtt: supposed.rtt,
        ..DecisionRequest::new(now, Transport::Tcp)
    };
    let explain = |client: &Client| {
        suppose(selector, client, &host, supposed, now);
        selector.explain(client, &host, &moment)
    };
    let known = selector.explain_address(&client, &host, &moment);
    match arguments.class {
        None if !known.is_empty() => known
            .iter()
            .map(|it| explain(&client.with_class(it.class)))
            .collect(),
        _ => vec![explain(&client)],
    }
}

fn show(explained: &Explained, printer: &Printer) -> Result<()> {
    printer.data(&explained.text)?;
    printer.data(&format!("  says {}", explained.alt_svc))?;
    Ok(())
}

/// Asks the running server to explain.
fn ask(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let mut query = url::form_urlencoded::Serializer::new(String::from("/explain?"));
    query.append_pair("address", &arguments.address.to_string());
    if let Some(class) = arguments.class {
        query.append_pair("class", &class.to_string());
    }
    if let Some(host) = &arguments.host {
        query.append_pair("host", host);
    }
    let server = Server::at(arguments.admin.clone())?;
    let answered = server.ask(Method::GET, &query.finish())?;
    if answered.status != StatusCode::OK {
        return Err(usage_error(
            answered.text.trim_end(),
            "see `altway explain --help`",
        ));
    }
    let explained: Vec<Explained> = serde_json::from_str(&answered.text)?;
    if arguments.json {
        printer.json(&explained)?;
    } else if explained.is_empty() {
        printer.data(&format!(
            "nothing is known of {}; name a class with --class to see what it would be told",
            arguments.address
        ))?;
    }
    for it in explained.iter().filter(|_| !arguments.json) {
        show(it, printer)?;
    }
    Ok(Answer::Done)
}

/// Lets the selector, which is this program's own, observe a path as it is supposed. Over QUIC the client receives what its
/// class takes of it, whatever it received over the path that it really has.
fn suppose(
    selector: &Selector,
    client: &Client,
    host: &Host,
    supposed: HypotheticalPath,
    now: UnixTime,
) {
    let bulk = |rate| Bulk {
        size: DataSize::from_bytes(1 << 40),
        rate,
        app_limited: false,
    };
    let moment = DecisionRequest::new(now, Transport::Tcp);
    let has_quic = selector.explain(client, host, &moment).measured[1].is_some();
    let over_quic = supposed.rate.filter(|_| has_quic);
    let over_quic = over_quic.and_then(|rate| {
        let limited = limited_rate(rate.as_bps() as f64, selector.limit(client.class()));
        Bandwidth::from_bps(limited as u64)
    });
    let packets = supposed.loss.map(|loss| {
        let sent = 100_000_u64;
        (sent, (loss.as_f64() * sent as f64) as u64)
    });
    if supposed.rate.is_none() && packets.is_none() {
        return;
    }
    for _ in 0..SATURATING_OBSERVATIONS {
        let (sent, lost) = packets.unwrap_or_default();
        let observation = Observation {
            min_rtt: supposed.rtt,
            packets_sent: sent,
            packets_lost: lost,
            bulk: supposed.rate.map(bulk),
            ..Observation::new(Transport::Tcp)
        };
        let _ = selector.observe(client, host, &observation, now);
        if let Some(rate) = over_quic {
            let observation = Observation {
                min_rtt: supposed.rtt,
                bulk: Some(bulk(rate)),
                ..Observation::new(Transport::Quic)
            };
            let _ = selector.observe(client, host, &observation, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supposed_path_takes_the_place_of_the_one_that_was_measured_over_both_transports() {
        let secret = Secret::new([1; 16]);
        let selector = Selector::new(Config::new(secret, &ModelKind::Learned(None)));
        let class = "chromium-linux".parse().unwrap();
        let client = Client::new(&secret, "192.0.2.7".parse().unwrap(), class);
        let (host, now) = (Host::default(), UnixTime::from_secs(1_795_392_000));
        for transport in [Transport::Tcp, Transport::Quic] {
            let seen = Observation {
                min_rtt: Some(Duration::from_millis(20)),
                bulk: Some(Bulk {
                    size: DataSize::from_bytes(50_000_000),
                    rate: "20mbit".parse().unwrap(),
                    app_limited: false,
                }),
                ..Observation::new(transport)
            };
            selector.observe(&client, &host, &seen, now);
        }
        let supposed = "rate=1gbit,rtt=1ms".parse().unwrap();
        suppose(&selector, &client, &host, supposed, now);
        let moment = DecisionRequest::new(now, Transport::Tcp);
        let explained = selector.explain(&client, &host, &moment);
        let [tcp, quic] = explained.decision.prediction.unwrap().rates;
        assert!((tcp / 1e9 - 1.0).abs() < 0.05, "{tcp}");
        assert!((4e8..4.7e8).contains(&quic), "{quic}");
    }

    #[test]
    fn a_supposed_path_is_parsed_and_faults_are_named() {
        let supposed: HypotheticalPath = "rate=1gbit,rtt=1ms".parse().unwrap();
        assert_eq!(supposed.rate.unwrap().as_bps(), 1_000_000_000);
        assert_eq!(supposed.rtt, Some(Duration::from_millis(1)));
        let supposed: HypotheticalPath = "quic=bbr,loss=2%".parse().unwrap();
        assert_eq!(supposed.congestion, [None, Some(Congestion::RateBased)]);
        for (text, fault) in [
            ("rate", "`rate` is not KEY=VALUE"),
            ("delay=1ms", "`delay` is none of rate, rtt, loss, tcp, quic"),
            ("quic=vegas", "quic: `vegas` is none of cubic, reno and bbr"),
            ("rate=1gbit,rate=2gbit", "rate stands twice"),
            (
                "rate=1kbit",
                "rate: times are predicted from 10kbit to 100gbit",
            ),
            ("rtt=11s", "rtt: times are predicted up to 10s"),
            ("loss=41%", "loss: times are predicted up to 40%"),
        ] {
            assert_eq!(text.parse::<HypotheticalPath>().unwrap_err(), fault);
        }
        assert!(
            "rtt=fast"
                .parse::<HypotheticalPath>()
                .unwrap_err()
                .starts_with("rtt: ")
        );
    }
}
