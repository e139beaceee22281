//! `altway doctor`: what this machine allows and hinders.

use crate::Answer;
use crate::commands::dns_record::Published;
use crate::printer::Printer;
use altway_emulate::probe::{Finding, State, Topic, findings};
use altway_select::ModelKind;
use anyhow::Result;

/// Tell what this machine allows and hinders: each with what was seen, what it costs and how to
/// mend it. Nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway doctor
  altway doctor --host www.example.org

Exit code: 0 when the lab can run here, 1 when it can't.")]
pub(crate) struct Arguments {
    /// A name that visitors of your server use: look up whether its HTTPS record (RFC 9460) keeps the server from
    /// choosing. May be given several times.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, printer: &Printer) -> Result<Answer> {
    let mut findings = findings();
    for host in &arguments.host {
        findings.push(https_record(host)?);
    }
    if arguments.json {
        printer.json(&findings)?;
    } else {
        let text: String = findings.iter().map(paragraph).collect();
        printer.data(&format!("{text}\n{}", verdict(&findings)))?;
    }
    Ok(if can_run_the_lab(&findings) {
        Answer::Done
    } else {
        Answer::No
    })
}

/// What the DNS says of HTTP/3 at a host whose server chooses.
fn https_record(host: &str) -> Result<Finding> {
    let published = Published::look_up(host, 443, &ModelKind::Learned, None)?;
    let wrong = published.fault.is_some();
    Ok(Finding {
        topic: Topic::HttpsRecord,
        state: if wrong { State::Limited } else { State::Ok },
        seen: published.seen(),
        cost: published.fault.map(str::to_owned),
        mend: wrong.then(|| {
            format!("remove it, or leave h3 out of it: `altway dns-record {host}` says how and why")
        }),
    })
}

/// The emulated link needs namespaces; all else costs accuracy or speed only.
fn can_run_the_lab(findings: &[Finding]) -> bool {
    let hinders =
        |finding: &Finding| finding.state == State::Missing && finding.topic == Topic::Namespaces;
    !findings.iter().any(hinders)
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
    let more = [("costs", &finding.cost), ("mend", &finding.mend)];
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

    fn finding(topic: Topic, state: State) -> Finding {
        Finding {
            topic,
            state,
            seen: "seen".into(),
            cost: Some("some".into()),
            mend: None,
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
    fn a_paragraph_names_state_topic_and_cost() {
        let text = paragraph(&finding(Topic::UdpBuffers, State::Limited));
        assert_eq!(
            text,
            "limited  UDP buffers             seen\n         costs: some\n"
        );
    }
}
