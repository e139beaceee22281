//! `altway doctor`: what this machine allows and hinders.

use crate::Answer;
use crate::commands::dns_record::Published;
use crate::printer::Printer;
use altway_emulate::probe::{Finding, State, Topic, findings};
use altway_select::ModelKind;
use altway_serve::{Identity, IdentityWarning};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Report what this machine supports, what is missing, what that costs and how to fix it.
///
/// Each finding says what was seen. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway doctor
  altway doctor --host www.example.org

Exit code: 0 when a server finds all that it needs, 1 when something is missing to it, as a certificate that is valid now.
Whether the lab can run here, the last line says.")]
pub(crate) struct Arguments {
    /// Check a chain of certificates as well (PEM, the server's own first): its dates, who can read its key, and
    /// whether it costs QUIC clients a round trip.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The chain's key, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name that visitors of your server use: check whether its HTTPS record (RFC 9460) prevents the server from
    /// choosing. May be given several times.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let mut findings = findings();
    if let Some((chain, key)) = arguments.cert.as_deref().zip(arguments.key.as_deref()) {
        findings.extend(certificate(chain, key, SystemTime::now())?);
    }
    for host in &arguments.host {
        findings.push(https_record(host)?);
    }
    if arguments.json {
        printer.json(&findings)?;
    } else {
        printer.data(&report(&findings))?;
    }
    Ok(match can_serve(&findings) {
        true => Answer::Done,
        false => Answer::No,
    })
}

/// The faults that a certificate has at `now`, or that it has none.
fn certificate(chain: &Path, key: &Path, now: SystemTime) -> Result<Vec<Finding>> {
    let identity = Identity::from_pem_files(chain, key)?;
    let warnings = identity.warnings(now);
    let of = |state, seen| Finding {
        topic: Topic::Certificate,
        state,
        seen,
        cost: None,
        fix: None,
    };
    if warnings.is_empty() {
        let seen = format!("{} fits QUIC's first flight and is valid", chain.display());
        return Ok(vec![of(State::Ok, seen)]);
    }
    // A certificate that clients refuse is none to a server.
    let state = |one: &IdentityWarning| match one.is_refusal() {
        true => State::Missing,
        false => State::Limited,
    };
    let warnings = warnings.iter();
    Ok(warnings
        .map(|one| of(state(one), one.to_string()))
        .collect())
}

/// Checks what the DNS says of HTTP/3 at a host whose server chooses.
fn https_record(host: &str) -> Result<Finding> {
    let published = Published::look_up(host, 443, &ModelKind::Learned(None), None)?;
    let wrong = published.fault.is_some();
    Ok(Finding {
        topic: Topic::HttpsRecord,
        state: if wrong { State::Limited } else { State::Ok },
        seen: published.seen(),
        cost: published.fault.map(str::to_owned),
        fix: wrong.then(|| {
            format!(
                "remove it, unless one is needed, which then has no h3: `altway dns-record {host}` says why"
            )
        }),
    })
}

/// Returns true if nothing is missing that a server needs; what is limited, and what the lab alone needs, does not count.
fn can_serve(findings: &[Finding]) -> bool {
    let hinders =
        |finding: &Finding| finding.state == State::Missing && !finding.topic.is_of_the_lab();
    !findings.iter().any(hinders)
}

/// The emulated link needs namespaces; all else costs accuracy or speed only.
fn can_run_the_lab(findings: &[Finding]) -> bool {
    let hinders =
        |finding: &Finding| finding.state == State::Missing && finding.topic == Topic::Namespaces;
    !findings.iter().any(hinders)
}

/// The findings, those that a server goes by before those that the lab alone needs.
fn report(findings: &[Finding]) -> String {
    let section = |heading: &str, is_of_the_lab: bool| {
        let its = findings
            .iter()
            .filter(|it| it.topic.is_of_the_lab() == is_of_the_lab);
        format!("{heading}\n{}\n", its.map(paragraph).collect::<String>())
    };
    let server = section("For a server, and for the lab:", false);
    let lab = section("For the lab alone:", true);
    format!("{server}{lab}{}", verdict(findings))
}

fn verdict(findings: &[Finding]) -> &'static str {
    if can_run_the_lab(findings) {
        "The lab runs on this machine.\n"
    } else {
        "The lab can't run on this machine as it is; `altway serve` and `altway load` can.\n"
    }
}

fn paragraph(finding: &Finding) -> String {
    let state = match finding.state {
        State::Ok => "ok",
        State::Limited => "limited",
        State::Missing => "missing",
    };
    let mut text = format!(
        "{state:<8} {:<23} {}\n",
        finding.topic.title(),
        finding.seen
    );
    let more = [("costs", &finding.cost), ("fix", &finding.fix)];
    for (name, what) in more {
        if let Some(what) = what {
            text.push_str(&format!("{:<8} {name}: {what}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn finding(topic: Topic, state: State) -> Finding {
        Finding {
            topic,
            state,
            seen: "seen".into(),
            cost: Some("some".into()),
            fix: None,
        }
    }

    #[test]
    fn the_lab_needs_namespaces_and_nothing_else() {
        assert!(can_run_the_lab(&[finding(
            Topic::TunDevice,
            State::Limited
        )]));
        assert!(!can_run_the_lab(&[finding(
            Topic::Namespaces,
            State::Missing
        )]));
        assert!(can_run_the_lab(&[finding(Topic::Netem, State::Missing)]));
        assert!(can_run_the_lab(&[finding(
            Topic::Namespaces,
            State::Limited
        )]));
    }

    #[test]
    fn what_the_lab_lacks_and_what_is_limited_are_no_faults_of_a_server() {
        let missing = |topic| can_serve(&[finding(topic, State::Missing)]);
        assert!(missing(Topic::Namespaces) && missing(Topic::Kernel));
        assert!(!missing(Topic::UdpOffload));
        assert!(can_serve(&[finding(Topic::UdpOffload, State::Limited)]));
    }

    #[test]
    fn what_a_server_goes_by_comes_before_what_the_lab_needs() {
        let found = [
            finding(Topic::Namespaces, State::Missing),
            finding(Topic::OpenFiles, State::Limited),
        ];
        let text = report(&found);
        let at = |what: &str| text.find(what).unwrap();
        let order = [
            "For a server",
            "open files",
            "For the lab alone",
            "network namespaces",
            "The lab can't run",
        ];
        assert!(order.is_sorted_by_key(|it| at(it)), "{text}");
    }

    #[test]
    fn a_chain_that_costs_quic_clients_a_round_trip_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let store = altway_serve::certs::Store::open(folder.path()).unwrap();
        let names = ["localhost".to_owned()];
        let found = |chain: &Path, key: &Path| {
            let found = certificate(chain, key, SystemTime::now());
            let [finding] = found.unwrap().try_into().unwrap();
            (finding.state, finding.seen)
        };
        let leaf = store.leaf(&names).unwrap();
        assert_eq!(found(&leaf.certificate, &leaf.key).0, State::Ok);
        let chain = store.rsa_chain(&names).unwrap();
        let (state, seen) = found(&chain.certificate, &chain.key);
        assert_eq!(state, State::Limited);
        assert!(
            seen.contains("3 certificates") && seen.contains("a round trip"),
            "{seen}"
        );
    }

    #[test]
    fn a_certificate_that_clients_refuse_is_missing_to_a_server_and_one_near_its_end_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = altway_serve::certs::Store::open(folder.path()).unwrap();
        let leaf = store.leaf(&["localhost"]).unwrap();
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        // It is made for 396 days.
        for (when, expected) in [
            (now - 30 * day, false),
            (now, true),
            (now + 390 * day, true),
            (now + 400 * day, false),
        ] {
            let found = certificate(&leaf.certificate, &leaf.key, when).unwrap();
            assert_eq!(can_serve(&found), expected, "{found:?}");
        }
    }

    #[test]
    fn a_paragraph_names_state_topic_and_cost() {
        let text = paragraph(&finding(Topic::UdpBuffers, State::Limited));
        assert_eq!(
            text,
            "limited  UDP buffers             seen\n         costs: some\n"
        );
    }
}
