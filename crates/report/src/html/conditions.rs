//! The circumstances of a run, the link as it really was, and the way to repeat the run.

use super::{escape, paragraph};
use crate::analysis::Analysis;
use crate::pictures::quantile_of;
use crate::summary::loss_counted_percent;
use crate::words;
use altway_record::{
    Certificate, ChainName, LinkWords, MadeCertificate, Manifest, Placement, Plan, Running, Sample,
    Scenario, transfers,
};
use std::collections::{BTreeMap, BTreeSet};

/// The most kinds of faults that are listed.
const MAX_FAULTS: usize = 10;

/// The section on conditions: the link as configured beside the link as it was.
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

/// Settings that some network of the run could not have, each sentence once.
fn limitations(manifest: &Manifest) -> BTreeSet<&str> {
    let networks = manifest.networks.iter().map(|network| &network.link);
    let links = networks.chain([&manifest.link]);
    let all = links.flat_map(|link| &link.limitations);
    all.map(String::as_str).collect()
}

/// The section on what somebody on another machine needs to make the same run.
pub(super) fn reproduction(analysis: &Analysis<'_>) -> String {
    let manifest = analysis.run.manifest;
    if manifest.from_samples {
        let told = "samples.csv does not tell by which plan and program it was measured.";
        return format!(
            "<section id=\"repeat\">\n<h2>How to repeat it</h2>\n{}</section>\n",
            paragraph("note", told)
        );
    }
    let mut text = "<section id=\"repeat\">\n<h2>How to repeat it</h2>\n<ol>\n".to_owned();
    for step in steps(manifest) {
        text.push_str(&format!("<li>{step}</li>\n"));
    }
    let command = manifest.command.iter().map(|word| quoted(word));
    let command = command.collect::<Vec<_>>().join(" ");
    text.push_str(&format!(
        "</ol>\n<details><summary>plan.toml</summary>\n<pre>{}</pre></details>\n\
         <details><summary>The command as it was given here</summary>\n<pre>{}</pre></details>\n{}</section>\n",
        escape(&manifest.plan.to_toml()),
        escape(&command),
        paragraph(
            "note",
            "The same plan, seed included, gives the same order of transfers and the same losses on the link; \
             times differ with the machine."
        ),
    ));
    text
}

/// The steps as HTML: the program, the plan, the command, the comparison.
fn steps(manifest: &Manifest) -> Vec<String> {
    let version = escape(&manifest.altway_version);
    let program = match &manifest.altway_commit {
        Some(commit) => format!(
            "Take altway {version}, built from commit <code>{}</code>{}.",
            escape(commit),
            escape(dirty(manifest))
        ),
        None => format!("Take altway {version}."),
    };
    let mut steps = vec![program];
    if !manifest.programs.is_empty() {
        let programs = manifest.programs.iter();
        let programs: Vec<String> = programs
            .map(|(name, version)| format!("{name} ({version})"))
            .collect();
        steps.push(format!(
            "Install what it was measured with: {}.",
            escape(&words::list(&programs))
        ));
    }
    let traces = manifest.plan.links.iter().flat_map(LinkWords::traces);
    let beside = match traces.filter(|(_, trace)| trace.is_some()).count() {
        0 => "",
        _ => ", with the traces that it names beside it",
    };
    steps.push(format!(
        "Take <a href=\"plan.toml\"><code>plan.toml</code></a> from this run's folder, or the text below{beside}."
    ));
    let shard = match manifest.shard {
        altway_record::Shard::WHOLE => String::new(),
        part => format!(" --shard {part}"),
    };
    let backend = escape(&manifest.link.backend);
    steps.push(format!(
        "On Linux, as root or where user namespaces are allowed (<code>altway doctor</code> says whether): \
         <pre>altway lab run plan.toml --backend {backend}{shard}</pre>"
    ));
    steps.push(
        "Hold the new run against this one: <pre>altway lab compare THIS-FOLDER NEW-FOLDER</pre>"
            .into(),
    );
    steps
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
    let planned = manifest.plan.planned(manifest.shard);
    let transfers = match planned.filter(|_| !manifest.from_samples) {
        None => analysis.valid().to_string(),
        Some(planned) => format!("{} of {planned}", analysis.valid()),
    };
    let mut facts = vec![("transfers that count", transfers)];
    facts.push(("transfers repeated", repeated(analysis.run.samples)));
    if manifest.from_samples {
        facts.push(("altway, start and seed", NOT_TOLD.into()));
        return facts;
    }
    let mut version = manifest.altway_version.clone();
    if let Some(commit) = commit {
        version.push_str(&format!(" ({commit}{})", dirty(manifest)));
    }
    facts.splice(
        0..0,
        [
            ("altway", version),
            ("started", manifest.started_at.clone()),
            ("seed", manifest.plan.seed.to_string()),
        ],
    );
    let build = &manifest.build;
    let built = [&build.compiler, &build.target, &build.profile];
    let built: Vec<String> = built.into_iter().flatten().cloned().collect();
    if !built.is_empty() {
        facts.push(("built by", built.join(", ")));
    }
    let programs = manifest.programs.iter();
    facts.extend(programs.map(|(name, version)| ("program", format!("{name}: {version}"))));
    if let Some(running) = &manifest.running {
        facts.extend(how_it_went(running));
    }
    facts
}

/// The size of the ClientHello of altway's client; browsers have their own.
const HELLO: &str = "altway's has key shares of X25519MLKEM768 and X25519: some 1,500 bytes, two datagrams over QUIC; \
                     other clients have their own";

/// The text in place of values that only a manifest has.
const NOT_TOLD: &str = "not told by samples.csv";

/// The text behind a commit: whether it was all of the source.
fn dirty(manifest: &Manifest) -> &'static str {
    match manifest.build.dirty {
        Some(true) => ", with changes that no commit has",
        Some(false) | None => "",
    }
}

/// The time that the run took, and the effect of transfers side by side.
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
            "{} time ({interval}; {})",
            words::percent(check.difference_percent),
            words::count(usize::try_from(check.pairs).unwrap_or(usize::MAX), "pair")
        );
        facts.push(("side by side against alone", longer));
    }
    facts
}

/// The number of repeated transfers, and the reasons.
fn repeated(samples: &[Sample]) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in transfers(samples).filter(|sample| !sample.valid) {
        *reasons.entry(kind_of(&sample.fault)).or_default() += 1;
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

/// A fault without the figures of its transfer behind a colon.
fn kind_of(fault: &str) -> &str {
    match fault.split_once(": ") {
        Some((kind, figures)) if figures.starts_with(|c: char| c.is_ascii_digit()) => kind,
        _ => fault,
    }
}

fn machine(analysis: &Analysis<'_>) -> Facts {
    let host = &analysis.run.manifest.host;
    if analysis.run.manifest.from_samples {
        return vec![("all of it", NOT_TOLD.into())];
    }
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
    let more = [
        ("distribution", &host.os),
        ("microcode", &host.microcode),
        ("frequency governor", &host.governor),
        ("clock source", &host.clock_source),
        ("hypervisor", &host.hypervisor),
    ];
    let told = more
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)));
    facts.extend(told);
    if !sysctls.is_empty() {
        facts.push(("kernel settings", sysctls.join(", ")));
    }
    facts
}

/// A chain of the user's by its file's name, and what it weighs where the plan tells.
fn chain(plan: &Plan, name: ChainName) -> String {
    match plan.chain(name) {
        None => name.to_string(),
        Some(chain) => format!(
            "{name}, {} in {} bytes",
            words::count(chain.certificates, "certificate"),
            chain.size.as_bytes()
        ),
    }
}

fn configured(analysis: &Analysis<'_>) -> Facts {
    let (plan, link) = (&analysis.run.manifest.plan, &analysis.run.manifest.link);
    let listed = |values: Vec<String>| words::list(&values);
    let queues = plan.queues.iter().map(ToString::to_string).collect();
    let congestions = plan.congestions.iter().map(|one| words::congestion(*one));
    let certificates = plan.certificates.iter().map(|one| match one {
        Certificate::Made(MadeCertificate::Ecdsa) => "one with an ECDSA key".to_owned(),
        Certificate::Made(MadeCertificate::RsaChain) => {
            "leaf, intermediate and root with RSA keys, 4 KB".to_owned()
        }
        Certificate::Chain(name) => chain(plan, *name),
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
        ("queue", listed(queues)),
        (
            "congestion control of the server",
            listed(congestions.collect()),
        ),
        (
            "first congestion window of the server",
            of_axis(&plan.initial_windows, |one| format!("{one} packets")),
        ),
        ("certificate of the server", listed(certificates.collect())),
        ("client's hello", HELLO.into()),
    ];
    facts.extend(compression(plan));
    if analysis.run.manifest.from_samples {
        facts.push(("what carried the link, and how", NOT_TOLD.into()));
    } else {
        facts.extend([
            ("carried by", link.backend.clone()),
            ("processors", awake.into()),
            ("privilege", link.privilege.clone()),
            ("largest packet", format!("{} bytes", link.mtu_bytes)),
            ("priority of the link's thread", priority.into()),
        ]);
    }
    facts.extend(placement(&plan.placement));
    let links = plan.links.iter().filter(|link| !link.is_plain());
    facts.extend(links.map(|link| ("link", format!("{}: {}", link.name, link_changes(link)))));
    facts
}

/// Compression of certificates; `None` where each server does what it does by default.
fn compression(plan: &Plan) -> Option<(&'static str, String)> {
    if plan.certificate_compressions == [true] {
        return None;
    }
    let values = plan.certificate_compressions.iter().map(|one| match one {
        true => "for clients that read Brotli (RFC 8879)".to_owned(),
        false => "off".to_owned(),
    });
    let values: Vec<String> = values.collect();
    Some(("compression of the certificate", words::list(&values)))
}

/// Processors that what takes part keeps to, and its priority; `None` where the plan leaves that to the kernel.
fn placement(placement: &Placement) -> Option<(&'static str, String)> {
    if placement.is_default() {
        return None;
    }
    let set = |what: &str, set: Option<String>| set.map(|set| format!("{what} on {set}"));
    let parts = [
        placement
            .isolate
            .then(|| "each on its own, as far as there are enough".to_owned()),
        set("link", placement.link.map(|link| link.to_string())),
        set("client", placement.client.clone()),
        set("server", placement.server.clone()),
        (placement.nice != 0).then(|| format!("nice value {}", placement.nice)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(("processors and priority", parts.join(", ")))
}

/// Describes the changes that a link goes through, in the plan's words.
fn link_changes(link: &LinkWords) -> String {
    let traces = link
        .traces()
        .into_iter()
        .filter(|(_, trace)| trace.is_some());
    let mut link_changes: Vec<String> = traces.map(|(key, _)| key.replace('_', " ")).collect();
    link_changes.extend((!link.set.is_empty()).then(|| link.set.clone()));
    let turns = link.at.iter();
    link_changes.extend(turns.map(|turn| format!("at {} {}", words::delay(turn.time), turn.set)));
    link_changes.join("; ")
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

/// The loss that was counted, by configured loss.
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
    fn faults_that_differ_in_figures_are_of_a_kind() {
        let late = "packets left the emulated link late: 99th percentile 10385 µs, at most 1000 µs allowed";
        assert_eq!(kind_of(late), "packets left the emulated link late");
        assert_eq!(kind_of("request 3: timed out"), "request 3: timed out");
    }

    #[test]
    fn words_with_special_characters_are_quoted_for_the_shell() {
        assert_eq!(quoted("--seed=7"), "--seed=7");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
