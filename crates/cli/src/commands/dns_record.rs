//! `altway dns-record`: the HTTPS record (RFC 9460) that suits a host whose protocol is chosen.

use crate::Answer;
use crate::hint::usage_error;
use crate::https_record::{HttpsRecord, look_up};
use crate::printer::Printer;
use altway_select::ModelKind;
use anyhow::Result;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

/// The longest name in the DNS, and the longest of its labels (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The port of https:// (RFC 9110 section 4.2.2).
const HTTPS_PORT: u16 = 443;

/// Print which HTTPS record (RFC 9460) to publish for a host, as lines of a zone file.
///
/// A record with `alpn=h3` lets clients begin over HTTP/3 without asking the server. The server then can't choose,
/// and no Alt-Svc field takes that back. Where the server chooses for each client, it is best to publish no record.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway dns-record example.org
  altway dns-record example.org --port 8443 --policy h3
  altway dns-record example.org --check

Exit code: 1 when --check finds a record that does not suit the policy.")]
pub(crate) struct Arguments {
    /// The name that visitors use.
    host: String,
    /// The policy of `altway serve`.
    #[arg(long, value_name = "POLICY", default_value = "learned")]
    policy: ModelKind,
    /// The port at which it listens.
    #[arg(long, value_name = "PORT", default_value = "443")]
    port: NonZeroU16,
    /// Seconds that resolvers may keep the record.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    ttl: u32,
    /// Look up what is published, and say whether it suits the policy.
    #[arg(long)]
    check: bool,
    /// The resolver to ask, in place of the system's.
    #[arg(long, value_name = "IP:PORT", requires = "check")]
    resolver: Option<SocketAddr>,
    /// Print the record and the reasons as JSON.
    #[arg(long)]
    json: bool,
}

/// The advice and its reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Advice {
    /// The record to publish; `None`: none.
    publish: Option<String>,
    /// The record for who needs one all the same.
    if_needed: Option<String>,
    reasons: &'static [&'static str],
}

/// Reasons why no record is best where the server chooses for each client.
const CHOOSING: [&str; 5] = [
    "An HTTPS record is the same for all clients (RFC 9460 section 9.2.4); the server chooses for each of them.",
    "With alpn=h3 in it, browsers begin over HTTP/3 at the first visit, before the server has seen the path, and \
     neither a short Alt-Svc nor `clear` takes them back. Remove such a record: resolvers keep it for its TTL.",
    "Without a record, a first visit is over HTTP/2 and Alt-Svc leads on: that costs one visit.",
    "A record without h3 (alpn=h2, or no alpn at all) is no free choice either: clients that heed RFC 9460 section \
     9.3 follow Alt-Svc to HTTP/3 only where the record has h3, too.",
    "If one is needed, for Encrypted Client Hello (ECH) or to lead http:// to https:// at once, leave h3 out of it:",
];

const ALWAYS_H3: [&str; 2] = [
    "Everybody is to get HTTP/3: with h3 in the record, browsers that look it up begin with that at the first \
     visit. Those that don't get through over UDP take h2.",
    "Change it before you change the policy: as long as the record has h3, the server can't choose.",
];

const ALWAYS_H2: [&str; 1] =
    ["Nobody is to get HTTP/3: a record without h3 says so before the first connection."];

/// The published records, and what is wrong with them.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Published {
    /// Name in the DNS that was asked for.
    name: String,
    /// Protocols of each record; empty where there is none.
    records: Vec<Vec<String>>,
    /// The way in which it keeps the server from what its policy says; `None`: it does not.
    pub(crate) fault: Option<&'static str>,
}

/// Effect of a record on a policy that chooses, or gives HTTP/2 to all.
const BYPASSES: &str =
    "browsers begin over HTTP/3 without asking the server, and no Alt-Svc field takes that back";

/// Effect of a record on a policy that leads clients to HTTP/3 by Alt-Svc.
const HINDERS: &str = "clients that heed RFC 9460 section 9.3 don't follow Alt-Svc to HTTP/3, which the record does \
                       not have";

impl Published {
    /// The answers of resolvers on `host`, for a server at `port` with that policy.
    ///
    /// # Errors
    /// The host has no name that could have a record, or no resolver tells.
    pub(crate) fn look_up(
        host: &str,
        port: u16,
        policy: &ModelKind,
        resolver: Option<SocketAddr>,
    ) -> Result<Self> {
        let host = name(host, port)?;
        let name = owner(&host, port);
        let records = look_up(&name, resolver)?;
        let fault = fault(&records, policy);
        let records = records.into_iter().map(|record| record.alpn).collect();
        Ok(Self {
            name,
            records,
            fault,
        })
    }

    /// The records in a few words.
    pub(crate) fn seen(&self) -> String {
        let name = self.name.trim_end_matches('.');
        if self.records.is_empty() {
            return format!("{name} has no HTTPS record");
        }
        let records = self.records.iter().map(|alpn| match alpn.is_empty() {
            true => "no alpn".to_owned(),
            false => format!("alpn={}", alpn.join(",")),
        });
        let records: Vec<_> = records.collect();
        format!("{name} has an HTTPS record with {}", records.join(", "))
    }
}

fn fault(records: &[HttpsRecord], policy: &ModelKind) -> Option<&'static str> {
    // An alias says nothing of protocols.
    let mut services = records.iter().filter(|record| record.priority > 0);
    let has_http3 = |record: &HttpsRecord| record.alpn.iter().any(|alpn| alpn == "h3");
    let is_anywhere = services.clone().any(has_http3);
    let is_everywhere = services.all(has_http3);
    match policy {
        ModelKind::FixedH3 => (!is_everywhere).then_some(HINDERS),
        _ if is_anywhere => Some(BYPASSES),
        ModelKind::FixedH2 => None,
        _ => (!is_everywhere).then_some(HINDERS),
    }
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    if arguments.check {
        return check(arguments, printer);
    }
    let host = name(&arguments.host, arguments.port.get())?;
    let record = |alpn: &str| record(&host, arguments.port.get(), arguments.ttl, alpn);
    let advice = match arguments.policy {
        ModelKind::FixedH2 => Advice {
            publish: Some(record("h2")),
            if_needed: None,
            reasons: &ALWAYS_H2,
        },
        ModelKind::FixedH3 => Advice {
            publish: Some(record("h3,h2")),
            if_needed: None,
            reasons: &ALWAYS_H3,
        },
        _ => Advice {
            publish: None,
            if_needed: Some(record("h2")),
            reasons: &CHOOSING,
        },
    };
    if arguments.json {
        printer.json(&advice)?;
    } else {
        printer.data(&advice.zone(&host))?;
    }
    Ok(Answer::Done)
}

fn check(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let Arguments { host, policy, .. } = arguments;
    let port = arguments.port.get();
    let published = Published::look_up(host, port, policy, arguments.resolver)?;
    if arguments.json {
        printer.json(&published)?;
    } else {
        let verdict = match published.fault {
            Some(fault) => format!("Under the policy {policy} that is wrong: {fault}."),
            None => format!("That suits the policy {policy}."),
        };
        printer.data(&format!("{}.\n{verdict}\n", published.seen()))?;
    }
    Ok(match published.fault {
        Some(_) => Answer::No,
        None => Answer::Done,
    })
}

impl Advice {
    /// Lines of a zone file (RFC 1035 section 5.1): what is not to be published is a comment.
    fn zone(&self, host: &str) -> String {
        let mut text = match self.publish {
            Some(_) => String::new(),
            None => format!("; Publish no HTTPS record for {host}\n"),
        };
        for reason in self.reasons {
            text.push_str(&commented(reason));
        }
        if let Some(record) = &self.if_needed {
            text.push_str(&format!("; {record}\n"));
        }
        if let Some(record) = &self.publish {
            text.push_str(&format!("{record}\n"));
        }
        text
    }
}

/// A paragraph as comments of at most 100 columns.
fn commented(paragraph: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines = vec![String::from(";")];
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("; {word}")),
        }
    }
    lines.join("\n") + "\n"
}

/// A record in ServiceMode. One of another port stands at a name of its own (RFC 9460 section 9.1) and names its
/// target; the port need not be repeated in it (section 7.2).
fn record(host: &str, port: u16, ttl: u32, alpn: &str) -> String {
    let owner = owner(host, port);
    let target = if port == HTTPS_PORT { "." } else { host };
    format!("{owner} {ttl} IN HTTPS 1 {target} alpn=\"{alpn}\"")
}

/// The name at which the record of a host and port stands.
fn owner(host: &str, port: u16) -> String {
    match port {
        HTTPS_PORT => host.to_owned(),
        _ => format!("_{port}._https.{host}"),
    }
}

/// The name in lower case with a dot at its end. That at which the record of `port` stands must not be too long either.
fn name(host: &str, port: u16) -> Result<String> {
    let wrong = |mend: &str| {
        let what = format!("`{host}` is no name that can have an HTTPS record");
        Err(usage_error(what, mend))
    };
    let bare = host.strip_suffix('.').unwrap_or(host);
    if bare.parse::<IpAddr>().is_ok() {
        return wrong("records are of names: give the one that visitors use");
    }
    if bare.contains([':', '/']) {
        return wrong("give the name alone, and the port with --port");
    }
    if !bare.is_ascii() {
        return wrong("give its ASCII form, which begins with xn-- (RFC 5891)");
    }
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let good = |label: &str| {
        let edges = label.starts_with('-') || label.ends_with('-');
        (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(letter) && !edges
    };
    if bare.contains('*') {
        return wrong("give one of the names that visitors use: each may have a record of its own");
    }
    let is_number = |label: &str| !label.is_empty() && label.bytes().all(|it| it.is_ascii_digit());
    if bare.rsplit('.').next().is_some_and(is_number) {
        return wrong("a name that ends in a number is taken for an address");
    }
    if owner(bare, port).len() > MAX_NAME || !bare.split('.').all(good) {
        return wrong("give one like www.example.org");
    }
    Ok(format!("{}.", bare.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_port_stands_at_a_name_of_its_own() {
        assert_eq!(
            record("example.org.", 443, 300, "h3,h2"),
            "example.org. 300 IN HTTPS 1 . alpn=\"h3,h2\""
        );
        assert_eq!(
            record("example.org.", 8443, 60, "h2"),
            "_8443._https.example.org. 60 IN HTTPS 1 example.org. alpn=\"h2\""
        );
    }

    #[test]
    fn names_are_those_of_hosts() {
        let at_443 = |host| name(host, HTTPS_PORT);
        assert_eq!(at_443("WWW.Example.org").unwrap(), "www.example.org.");
        assert_eq!(
            at_443("xn--bcher-kva.example.").unwrap(),
            "xn--bcher-kva.example."
        );
        let long = "a".repeat(MAX_LABEL + 1);
        for bad in [
            "",
            ".",
            "a..b",
            "-a.b",
            "a b",
            "a_b.c",
            "*.a",
            "1.2.3",
            "a\n.b",
            &long,
            "2001:db8::1",
        ] {
            assert!(at_443(bad).is_err(), "{bad:?}");
        }
        let longest = ["a"; 127].join(".");
        assert!(at_443(&longest).is_ok() && name(&longest, 8443).is_err());
    }

    #[test]
    fn a_record_is_wrong_by_the_policy() {
        let records = |alpn: &[&str]| {
            let alpn = alpn.iter().map(|one| (*one).to_owned()).collect();
            [HttpsRecord { priority: 1, alpn }]
        };
        let of = |alpn: &[&str], policy: &str| fault(&records(alpn), &policy.parse().unwrap());
        assert_eq!(of(&["h3", "h2"], "learned"), Some(BYPASSES));
        assert_eq!(of(&["h3", "h2"], "h2"), Some(BYPASSES));
        assert_eq!(of(&["h3", "h2"], "h3"), None);
        assert_eq!(of(&["h2"], "h3"), Some(HINDERS));
        assert_eq!(of(&["h2"], "h2"), None);
        // What is advised of it is what is said of it.
        for policy in ["learned", "threshold", "study"] {
            assert_eq!(of(&["h2"], policy), Some(HINDERS));
            assert_eq!(of(&[], policy), Some(HINDERS));
            assert_eq!(fault(&[], &policy.parse().unwrap()), None);
        }
        assert_eq!(fault(&[], &ModelKind::FixedH3), None);
        let alias = [HttpsRecord {
            priority: 0,
            alpn: vec![],
        }];
        assert_eq!(fault(&alias, &ModelKind::FixedH3), None);
    }

    #[test]
    fn what_is_not_to_be_published_is_a_comment() {
        let advice = Advice {
            publish: None,
            if_needed: Some(record("a.test.", 443, 300, "h2")),
            reasons: &CHOOSING,
        };
        let zone = advice.zone("a.test.");
        assert!(
            zone.lines()
                .all(|line| line.starts_with(';') && line.len() <= 100),
            "{zone}"
        );
        assert!(!zone.contains("HTTPS 1 . alpn=\"h3"), "{zone}");
    }
}
