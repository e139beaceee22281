//! Under what conditions a run was measured, what its link really did, and how to repeat it.

use super::{escape, paragraph};
use crate::analysis::Analysis;
use crate::pictures::quantile_of;
use crate::summary::loss_counted_percent;
use crate::words;
use altway_record::{Certificate, LinkWords, Manifest, Plan, Running, Sample, Scenario, transfers};
use std::collections::{BTreeMap, BTreeSet};

/// How many kinds of faults are listed.
const MAX_FAULTS: usize = 10;

/// What was configured beside what was seen.
pub(super) fn section(analysis: &Analysis<'_>) -> String {
    let mut text = "<section id=\"conditions\">\n<h2>Conditions</h2>\n".to_owned();
    text.push_str(&facts("The run", &run(analysis)));
    text.push_str(&facts("The machine", &machine(analysis)));
    text.push_str(&facts("The link, as configured", &configured(analysis)));
    if !analysis.run.samples.is_empty() {
        text.push_str(&facts("The link, as it was", &seen(analysis)));
    }
    for limitation in limitations(analysis.run.manifest) {
        text.push_str(&paragraph("warning", limitation));
    }
    text + "</section>\n"
}

/// What some network of the run could not set up as wanted, each sentence once.
fn limitations(manifest: &Manifest) -> BTreeSet<&str> {
    let networks = manifest.networks.iter().map(|network| &network.link);
    let links = networks.chain([&manifest.link]);
    let all = links.flat_map(|link| &link.limitations);
    all.map(String::as_str).collect()
}

/// The command and the plan.
pub(super) fn reproduction(analysis: &Analysis<'_>) -> String {
    let manifest = analysis.run.manifest;
    let command = manifest
        .command
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    format!(
        "<section id=\"repeat\">\n<h2>How to repeat it</h2>\n<pre>{}</pre>\n\
         <details><summary>The plan</summary>\n<pre>{}</pre></details>\n{}</section>\n",
        escape(&command),
        escape(&manifest.plan.to_toml()),
        paragraph(
            "note",
            "The same seed gives the same order of transfers and the same losses on the link; \
             times differ with the machine."
        ),
    )
}

type Facts = Vec<(&'static str, String)>;

fn facts(title: &str, facts: &Facts) -> String {
    let row = |(name, value): &(&str, String)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n",
            escape(name),
            escape(value)
        )
    };
    let rows: String = facts.iter().map(row).collect();
    format!(
        "<h3>{}</h3>\n<table class=\"facts\"><tbody>\n{rows}</tbody></table>\n",
        escape(title)
    )
}

fn run(analysis: &Analysis<'_>) -> Facts {
    let manifest = analysis.run.manifest;
    let commit = manifest
        .altway_commit
        .as_deref()
        .map(|hash| hash.get(..12).unwrap_or(hash));
    let mut version = manifest.altway_version.clone();
    if let Some(commit) = commit {
        version.push_str(&format!(" ({commit})"));
    }
    let mut facts = vec![
        ("altway", version),
        ("started", manifest.started_at.clone()),
        ("seed", manifest.plan.seed.to_string()),
        (
            "transfers that count",
            format!("{} of {}", analysis.valid(), manifest.plan.transfers()),
        ),
    ];
    facts.push(("transfers repeated", repeated(analysis.run.samples)));
    if let Some(running) = &manifest.running {
        facts.extend(how_it_went(running));
    }
    facts
}

/// What the time went into, and what making transfers side by side did.
fn how_it_went(running: &Running) -> Facts {
    let mut facts = Vec::new();
    if let Some(share) = running.transfers_percent() {
        let under_way = match running.side_by_side {
            0 | 1 => format!("{share:.0} % of the time"),
            _ => format!("{:.1} on average", share / 100.0),
        };
        facts.push(("transfers under way", under_way));
    }
    if let Some(check) = running.alone {
        let interval = check.low_percent.zip(check.high_percent);
        let interval = interval.map_or_else(
            || "too few for an interval".into(),
            |(low, high)| format!("{} to {}", words::percent(low), words::percent(high)),
        );
        let longer = format!(
            "{} time ({interval}; {} pairs)",
            words::percent(check.difference_percent),
            check.pairs
        );
        facts.push(("side by side against alone", longer));
    }
    facts
}

/// How many, and why.
fn repeated(samples: &[Sample]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in transfers(samples).filter(|sample| !sample.valid) {
        *reasons.entry(sample.fault.as_str()).or_default() += 1;
    }
    let all: usize = reasons.values().sum();
    if all == 0 {
        return "none".into();
    }
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let listed = reasons.iter().take(MAX_FAULTS);
    let listed: Vec<String> = listed
        .map(|(fault, count)| format!("{count} × {fault}"))
        .collect();
    format!("{all}: {}", listed.join("; "))
}

fn machine(analysis: &Analysis<'_>) -> Facts {
    let host = &analysis.run.manifest.host;
    let memory = host.memory_bytes as f64 / (1 << 30) as f64;
    let sysctls: Vec<String> = host
        .sysctls
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let mut facts = vec![
        ("kernel", host.kernel.clone()),
        (
            "processor",
            format!("{}, {} usable", host.cpu, host.cpu_count),
        ),
        ("memory", format!("{memory:.1} GiB")),
    ];
    if !sysctls.is_empty() {
        facts.push(("kernel settings", sysctls.join(", ")));
    }
    facts
}

fn configured(analysis: &Analysis<'_>) -> Facts {
    let (plan, link) = (&analysis.run.manifest.plan, &analysis.run.manifest.link);
    let listed = |values: Vec<String>| words::list(&values);
    let queues = plan.queues.iter().map(ToString::to_string).collect();
    let congestions = plan.congestions.iter().map(|one| words::congestion(*one));
    let certificates = plan.certificates.iter().map(|one| match one {
        Certificate::Ecdsa => "one with an ECDSA key".to_owned(),
        Certificate::RsaChain => "leaf, intermediate and root with RSA keys, 4 KB".to_owned(),
    });
    let priority = match link.realtime_priority {
        Some(true) => "real-time",
        Some(false) => "normal: packets may be late",
        None => "none: the kernel was the link",
    };
    let awake = if link.processors_kept_awake {
        "kept awake"
    } else {
        "may sleep: packets may be late"
    };
    let protocols = plan
        .protocols
        .iter()
        .map(|protocol| protocol.name().to_owned());
    let mut facts = vec![
        ("what was fetched", fetched(plan)),
        ("protocols", listed(protocols.collect())),
        ("rate", of_axis(&plan.rates, |rate| words::rate(*rate))),
        (
            "one-way delay",
            of_axis(&plan.delays, |delay| words::delay(*delay)),
        ),
        (
            "loss in each direction",
            of_axis(&plan.losses, |loss| words::ratio(*loss)),
        ),
        ("carried by", link.backend.clone()),
        ("processors", awake.into()),
        ("privilege", link.privilege.clone()),
        ("largest packet", format!("{} bytes", link.mtu_bytes)),
        ("queue", listed(queues)),
        (
            "congestion control of the server",
            listed(congestions.collect()),
        ),
        ("certificate of the server", listed(certificates.collect())),
        ("priority of the link's thread", priority.into()),
    ];
    let links = plan.links.iter().filter(|link| !link.is_plain());
    facts.extend(links.map(|link| ("link", format!("{}: {}", link.name, course(link)))));
    facts
}

/// What a link goes through, in the plan's words.
fn course(link: &LinkWords) -> String {
    let traces = link
        .traces()
        .into_iter()
        .filter(|(_, trace)| trace.is_some());
    let mut course: Vec<String> = traces.map(|(key, _)| key.replace('_', " ")).collect();
    course.extend((!link.set.is_empty()).then(|| link.set.clone()));
    let turns = link.at.iter();
    course.extend(turns.map(|turn| format!("at {} {}", words::delay(turn.time), turn.set)));
    course.join("; ")
}

/// The scenario, and of which size.
fn fetched(plan: &Plan) -> String {
    let sizes = of_axis(&plan.sizes, |size| words::size(*size));
    match &plan.scenario {
        Scenario::Page(page) => format!(
            "a page of {} in {}",
            words::size(page.total()),
            words::count(page.objects.len() + 1, "request")
        ),
        Scenario::Download => format!("one object of {sizes}"),
        Scenario::Mixed(_) => format!("small objects beside one of {sizes}"),
        Scenario::Repeat(repeat) => format!(
            "one object of {sizes}, {}",
            words::count(repeat.visits as usize, "visit")
        ),
    }
}

/// The values of an axis: all of a few, else how many between which.
fn of_axis<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    const FEW: usize = 6;
    match values {
        [first, .., last] if values.len() > FEW => {
            format!(
                "{} values from {} to {}",
                values.len(),
                text(first),
                text(last)
            )
        }
        few => words::list(&few.iter().map(text).collect::<Vec<_>>()),
    }
}

fn seen(analysis: &Analysis<'_>) -> Facts {
    let samples: Vec<&Sample> = transfers(analysis.run.samples).collect();
    let lateness: Vec<f64> = samples
        .iter()
        .filter_map(|sample| sample.lateness_us_p99)
        .collect();
    let late = if lateness.is_empty() {
        "not measured".to_owned()
    } else {
        format!(
            "{:.0} µs median, {:.0} µs at most",
            quantile_of(&lateness, 0.5),
            quantile_of(&lateness, 1.0)
        )
    };
    let sum = |of: fn(&Sample) -> u64| samples.iter().map(|one| of(one)).sum::<u64>();
    let queue_drops = sum(|s| s.up_queue_dropped_packets + s.down_queue_dropped_packets);
    let packets = sum(|s| s.up_packets + s.down_packets);
    vec![
        ("packets released late (P99 of each transfer)", late),
        ("loss counted", losses(analysis)),
        (
            "dropped by the full queue",
            format!("{queue_drops} of {packets} packets"),
        ),
        ("hidden drops", sum(|s| s.hidden_drops_packets).to_string()),
        (
            "involuntary context switches",
            format!(
                "{} of clients, {} of servers",
                sum(|s| s.client_involuntary_switches),
                sum(|s| s.server_involuntary_switches)
            ),
        ),
    ]
}

/// Per configured loss, what was counted.
fn losses(analysis: &Analysis<'_>) -> String {
    let of_loss = |loss: &altway_units::Ratio| {
        let cells = analysis.cells.iter().filter(|cell| cell.cell.loss == *loss);
        let arms = cells.flat_map(|cell| cell.arms.values());
        let counted: Vec<f64> = arms.filter_map(loss_counted_percent).collect();
        let mean = counted.iter().sum::<f64>() / counted.len() as f64;
        (!counted.is_empty())
            .then(|| format!("{mean:.2} % where {} was configured", words::ratio(*loss)))
    };
    let parts: Vec<String> = analysis
        .run
        .manifest
        .plan
        .losses
        .iter()
        .filter_map(of_loss)
        .collect();
    parts.join(", ")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_characters_are_quoted_for_the_shell() {
        assert_eq!(quoted("--seed=7"), "--seed=7");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
