//! The report as its readers get it: tables, page and pictures of synthetic runs.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use altway_record::{Manifest, Protocol, Sample, Traced, read_samples};
use altway_report::{Error, Rendered, Run, render, render_with_traces};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use support::{manifest, samples, spoiled};

const QUICK: &str = "name = \"quick\"\nrate = \"5mbit\"\ndelay = \"0ms..100ms by 50ms\"\n\
                     size = \"1MB\"\npairs = 5";

fn rendered(manifest: &Manifest, samples: &[Sample]) -> Rendered {
    render(&Run { manifest, samples }).unwrap()
}

fn of_plan(toml: &str) -> Rendered {
    let manifest = manifest(toml);
    rendered(&manifest, &samples(&manifest.plan))
}

fn names(rendered: &Rendered) -> Vec<&str> {
    rendered
        .pictures
        .iter()
        .map(|picture| picture.figure.name.as_str())
        .collect()
}

/// Compares with the file of that name beside the known run; writes it where ALTWAY_WRITE_EXPECTED is set.
fn assert_expected(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    if std::env::var_os("ALTWAY_WRITE_EXPECTED").is_some() {
        fs::write(&path, found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(path).unwrap(), "{name}");
}

#[test]
fn the_tables_of_a_known_run_are_as_expected() {
    let manifest = Manifest::from_json(include_str!("data/manifest.json")).unwrap();
    let samples = read_samples(include_str!("data/samples.csv")).unwrap();
    let rendered = rendered(&manifest, &samples);
    assert_expected("table.txt", &rendered.table);
    assert_expected("summary.csv", &rendered.summary_csv);
    assert_eq!(rendered.summary.len(), 6);
}

#[test]
fn each_traced_transfer_has_links_to_its_files() {
    let manifest = manifest(QUICK);
    let samples = samples(&manifest.plan);
    let run = Run {
        manifest: &manifest,
        samples: &samples,
    };
    let without = render(&run).unwrap().html;
    assert!(!without.contains("id=\"traces\"") && !without.contains("#traces"));
    let of_cell = |one: &&Sample| one.cell == 1 && one.protocol == Protocol::H3;
    let sample = samples.iter().find(of_cell).unwrap().clone();
    let mut files = vec!["traces/cell-1-h3/link.pcapng".to_owned()];
    files.extend((0..20).map(|i| format!("traces/cell-1-h3/client-qlog/a\"<{i:02}.qlog")));
    let html = render_with_traces(&run, &[Traced { sample, files }])
        .unwrap()
        .html;
    let section = html.split("<section id=\"traces\">").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    for told in [
        "cell 1 · 5 Mbit/s · 0 % loss · 1 MB · client altway · server altway · 50 ms · HTTP/3",
        "<a href=\"traces/cell-1-h3/link.pcapng\"><code>link.pcapng</code></a>: every packet",
        "client-qlog/a&quot;&lt;00.qlog</code></a>: qlog of the client&#39;s QUIC connection",
        "5 more in the same folder",
    ] {
        assert!(section.contains(told), "{told}: {section}");
    }
    assert!(html.contains("<li><a href=\"#traces\">Traces</a></li>"));
}

#[test]
fn the_same_records_give_the_same_bytes_in_any_order() {
    let manifest = manifest(QUICK);
    let forth = samples(&manifest.plan);
    let back: Vec<Sample> = forth.iter().rev().cloned().collect();
    assert_eq!(rendered(&manifest, &forth), rendered(&manifest, &back));
}

#[test]
fn every_file_of_the_run_folder_is_there() {
    let rendered = of_plan(QUICK);
    let names: Vec<String> = rendered.files().map(|(name, _)| name).collect();
    for name in [
        "summary.csv",
        "report.html",
        "response-time.svg",
        "response-time.png",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "{name} in {names:?}"
        );
    }
    let png = rendered
        .files()
        .find(|(name, _)| name == "gain.png")
        .unwrap()
        .1;
    assert!(png.starts_with(b"\x89PNG"));
    assert_eq!(
        png[16..24],
        [0, 0, 0x06, 0x40, 0, 0, 0x03, 0x84],
        "1600 × 900"
    );
}

/// The page without what stands in its scripts, and the texts of these.
fn split_scripts(html: &str) -> (String, Vec<&str>) {
    let mut parts = html.split("<script");
    let mut markup = parts.next().unwrap().to_owned();
    let mut scripts = Vec::new();
    for part in parts {
        let (script, rest) = part.split_once("</script>").unwrap();
        scripts.push(script);
        markup.push_str(rest);
    }
    (markup, scripts)
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let html = of_plan(QUICK).html;
    let (markup, scripts) = split_scripts(&html);
    assert!(!markup.contains("://"), "no address");
    for loading in ["<link", "<img", "<iframe", "@import", "src=\""] {
        assert!(!markup.contains(loading), "{loading}");
    }
    // Links lead within the page and to the files beside it, and nothing follows them by itself.
    let links = markup.split("href=\"").skip(1);
    let links: Vec<&str> = links.map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let beside = link
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        assert!(link.starts_with('#') || beside, "{link}");
    }
    let urls: Vec<&str> = markup
        .match_indices("url(")
        .map(|(at, _)| &markup[at..at + 9])
        .collect();
    assert!(urls.iter().all(|url| *url == "url(data:"), "{urls:?}");
    let policy = "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';";
    assert!(markup.find(policy).unwrap() < markup.find("<style").unwrap());
    let heads: Vec<&str> = scripts
        .iter()
        .map(|one| one.split('>').next().unwrap())
        .collect();
    assert_eq!(heads, [" type=\"application/json\" id=\"figures\"", "", ""]);
}

#[test]
fn a_protocol_whose_slowest_transfers_were_cut_off_is_named() {
    let manifest = manifest(QUICK);
    let whole = samples(&manifest.plan);
    let of = |protocol| whole.iter().find(|one| one.protocol == protocol).unwrap();
    let with = |faults: &[(Protocol, &str)]| {
        let spoiled = faults
            .iter()
            .map(|(of_whom, fault)| spoiled(of(*of_whom), fault));
        let all: Vec<Sample> = whole.iter().cloned().chain(spoiled).collect();
        rendered(&manifest, &all)
    };
    let late = (Protocol::H2, "request 0: timed out after 60s");
    let cut = with(&[late, late, (Protocol::H3, "reset")]);
    let sentence = "2 transfers of HTTP/2 ran into the time-out and were made again: its times, which \
                    are of the others, may be too short.";
    // The table is broken into lines for a terminal.
    assert!(
        cut.table.replace('\n', " ").contains(sentence),
        "{}",
        cut.table
    );
    assert!(cut.html.contains(sentence));
    let curl = (
        Protocol::H3,
        "curl: Operation timed out after 60001 milliseconds",
    );
    assert!(
        with(&[curl])
            .table
            .contains("1 transfer of HTTP/3 ran into the time-out and was")
    );
    assert!(!with(&[(Protocol::H2, "reset")]).table.contains("time-out"));
}

#[test]
fn texts_of_a_plan_and_of_faults_are_escaped() {
    let evil = "</script><script>alert(1)</script><!--";
    let mut manifest = manifest(&format!("{QUICK}\ndescription = \"{evil}\""));
    manifest.host.cpu = evil.into();
    manifest.started_at = evil.into();
    manifest.command.push(evil.into());
    manifest.link.limitations.push(evil.into());
    let mut samples = samples(&manifest.plan);
    samples.push(spoiled(&samples[0], evil));
    let html = rendered(&manifest, &samples).html;
    let (markup, scripts) = split_scripts(&html);
    assert_eq!(scripts.len(), 3, "the page's own");
    assert!(!markup.contains("<!--") && !markup.contains("</script"));
    assert!(markup.matches("&lt;script&gt;").count() >= 6);
}

#[test]
fn a_picture_stands_still_where_no_script_runs_and_has_its_numbers_behind_it() {
    let rendered = of_plan(QUICK);
    let figures: Vec<&str> = rendered
        .html
        .split("<figure data-figure=")
        .skip(1)
        .collect();
    assert_eq!(figures.len(), rendered.pictures.len());
    for figure in figures {
        let figure = figure.split("</figure>").next().unwrap();
        assert!(figure.contains("<svg role=\"img\" aria-label="));
        assert!(figure.contains("<table>"));
    }
}

#[test]
fn many_links_are_told_by_a_count_and_each_by_its_table() {
    let html = of_plan(
        "name = \"many\"\nrate = [\"1mbit\", \"5mbit\", \"50mbit\"]\nloss = [\"0%\", \"1%\"]\n\
         delay = [\"0ms\", \"100ms\"]\nsize = \"1MB\"\npairs = 5",
    )
    .html;
    assert!(html.contains("<h1>HTTP/3 is faster than HTTP/2 by more than 3&nbsp;% in "));
    assert!(html.contains("<details class=\"result\"><summary>50 Mbit/s · 1 % loss · 1 MB · client altway · server altway: "));
}

#[test]
fn readers_can_choose_every_panel_by_the_axes_of_the_plan() {
    const AXES: [&str; 3] = ["rate", "topology", "delay"];
    let html = of_plan(
        "name = \"many\"\nrate = [\"1mbit\", \"5mbit\"]\ntopology = [\"direct\", \"router\"]\n\
         delay = [\"0ms\", \"100ms\"]\nsize = \"1MB\"\npairs = 2",
    )
    .html;
    let (_, scripts) = split_scripts(&html);
    let json = scripts[0].split_once('>').unwrap().1;
    let data: Value = serde_json::from_str(json).unwrap();
    let axes = data["axes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|axis| &axis["name"]);
    assert_eq!(axes.collect::<Vec<_>>(), AXES);
    let figures = data["figures"].as_array().unwrap();
    let places = |name: &str| {
        let figure = figures
            .iter()
            .find(|figure| figure["name"] == name)
            .unwrap();
        let panels = figure["panels"].as_array().unwrap().iter();
        panels
            .map(|panel| AXES.map(|axis| panel["at"][axis].as_str().map(str::to_owned)))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(places("response-time").len(), 4);
    assert_eq!(places("distribution").len(), 8);
    let expected = ["5 Mbit/s", "router", "100 ms delay"].map(|value| Some(value.to_owned()));
    assert!(places("distribution").contains(&expected));
}

#[test]
fn the_verdict_comes_first_and_the_same_everywhere() {
    let rendered = of_plan(QUICK);
    let sentence = rendered
        .table
        .lines()
        .find(|line| line.contains("becomes faster"))
        .unwrap();
    let place = sentence
        .split("faster somewhere ")
        .nth(1)
        .unwrap()
        .split(" one-way")
        .next()
        .unwrap();
    assert_eq!(place, "between 0 and 100 ms");
    assert!(rendered.pictures[0].figure.title.contains(place));
    let heading = rendered.html.find("<h1>").unwrap();
    let sentence = "<h1>HTTP/3 becomes faster somewhere between 0 and 100&nbsp;ms ";
    assert!(rendered.html[heading..].starts_with(sentence));
    assert!(rendered.html.contains(
        "<p class=\"about\">5 Mbit/s · 0 % loss · 1 MB · client altway · server altway</p>"
    ));
    assert!(heading < rendered.html.find("<table").unwrap());
}

#[test]
fn an_empty_run_says_that_nothing_was_measured() {
    let rendered = rendered(&manifest(QUICK), &[]);
    assert_eq!(rendered.table, "No transfer has been measured yet.\n");
    assert!(rendered.html.contains("Nothing has been measured yet"));
    assert!(rendered.pictures.is_empty());
    assert_eq!(rendered.summary.len(), 6);
    assert!(
        rendered
            .summary
            .iter()
            .all(|row| row.n == 0 && row.verdict.is_none())
    );
}

#[test]
fn a_run_of_invalid_transfers_counts_them() {
    let manifest = manifest(QUICK);
    let late = |sample: &Sample| spoiled(sample, "the link was late");
    let samples: Vec<Sample> = samples(&manifest.plan).iter().map(late).collect();
    let rendered = rendered(&manifest, &samples);
    assert!(rendered.table.contains("30 of 30 transfers were invalid"));
    assert!(rendered.html.contains("30: 30 × the link was late"));
}

#[test]
fn one_protocol_is_described_and_not_compared() {
    let rendered = of_plan(&format!("{QUICK}\nprotocols = \"h3\""));
    assert!(rendered.table.contains("Only HTTP/3 was measured"));
    assert!(rendered.table.contains("median"));
    assert_eq!(
        names(&rendered),
        ["response-time", "stability", "distribution", "timeline"]
    );
}

#[test]
fn one_cell_has_a_verdict_and_no_crossover() {
    let rendered = of_plan(&QUICK.replace("0ms..100ms by 50ms", "100ms"));
    assert!(
        rendered
            .table
            .contains("With one measured delay there is no crossover to find")
    );
    assert!(rendered.table.contains("HTTP/3 was faster at 100 ms"));
    assert_eq!(rendered.pictures.len(), 6);
}

#[test]
fn protocols_that_take_turns_have_no_crossover() {
    let manifest = manifest(QUICK);
    let mut samples = samples(&manifest.plan);
    // HTTP/3 wins in the middle only.
    for sample in samples
        .iter_mut()
        .filter(|sample| sample.protocol == Protocol::H3)
    {
        let change = if sample.cell == 1 { 8 } else { 12 };
        sample.compared_us = sample.compared_us.map(|time| time * change / 10);
    }
    let rendered = rendered(&manifest, &samples);
    assert!(
        rendered
            .table
            .contains("but not once from HTTP/2 to HTTP/3"),
        "{}",
        rendered.table
    );
    assert!(!rendered.table.contains("becomes faster"));
    assert_eq!(
        rendered.pictures[0].figure.title,
        "HTTP/2 and HTTP/3 take turns at being faster"
    );
}

#[test]
fn a_single_pair_is_shown_without_interval_and_without_verdict() {
    let rendered = of_plan(&QUICK.replace("pairs = 5", "pairs = 1"));
    assert!(rendered.table.contains("*1"));
    assert!(rendered.table.contains("too few pairs"));
    assert!(!rendered.table.contains("unclear") && !rendered.table.contains("stays open"));
    assert!(
        rendered
            .table
            .contains("No measured delay has a clear winner;")
    );
    let row = &rendered.summary[1];
    assert_eq!((row.pairs, row.difference_low_percent), (Some(1), None));
    assert_eq!(row.std_dev_us, None);
}

#[test]
fn a_run_stopped_half_way_says_how_far_it_came() {
    let manifest = manifest(QUICK);
    let samples = samples(&manifest.plan);
    let rendered = rendered(&manifest, &samples[..9]);
    assert!(
        rendered
            .table
            .contains("9 of 30 planned transfers are measured.")
    );
}

#[test]
fn a_cell_measured_with_one_protocol_only_is_marked_as_not_measured() {
    let manifest = manifest(QUICK);
    let samples = samples(&manifest.plan);
    let rendered = rendered(&manifest, &samples[..5]);
    let line = rendered
        .table
        .lines()
        .find(|line| line.trim().starts_with("100 ms"))
        .unwrap();
    assert!(line.ends_with("not measured"), "{line}");
}

#[test]
fn a_transfer_measured_twice_counts_once() {
    let manifest = manifest(QUICK);
    let once = samples(&manifest.plan);
    let mut twice = once.clone();
    twice.push(Sample {
        ordinal: 99,
        attempt: 2,
        total_us: Some(1),
        compared_us: Some(1),
        ..once[0].clone()
    });
    assert_eq!(
        rendered(&manifest, &once).summary_csv,
        rendered(&manifest, &twice).summary_csv
    );
}

#[test]
fn many_links_and_protocols_fit_one_picture_and_100_columns() {
    let rendered = of_plan(
        "name = \"many\"\nrate = [\"1mbit\", \"5mbit\", \"50mbit\", \"unlimited\"]\n\
         loss = [\"0%\", \"0.5%\", \"1%\", \"2%\"]\ndelay = [\"0ms\", \"20ms\"]\nsize = \"1MB\"\n\
         pairs = 2\nprotocols = [\"h1\", \"h2\", \"h3\"]",
    );
    let widest = rendered
        .table
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap();
    assert!(widest <= 100, "{widest}");
    assert_eq!(rendered.pictures[0].figure.panels.len(), 16);
    assert!(rendered.pictures[0].svg.contains("12 of 16 panels"));
    assert!(rendered.table.contains("no rate limit · 2 % loss · 1 MB"));
}

#[test]
fn samples_of_another_run_are_refused() {
    let manifest = manifest(QUICK);
    let mut samples = samples(&manifest.plan);
    samples[3].cell = 7;
    let error = render(&Run {
        manifest: &manifest,
        samples: &samples,
    })
    .unwrap_err();
    assert!(
        matches!(
            error,
            Error::UnknownCell {
                ordinal: 3,
                cell: 7,
                cells: 3
            }
        ),
        "{error}"
    );
    samples[3].cell = 0;
    samples[3].protocol = Protocol::H1;
    let error = render(&Run {
        manifest: &manifest,
        samples: &samples,
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "sample 3 is of h1, which the plan does not measure"
    );
}

#[test]
fn the_null_arm_is_held_against_its_own_protocol_and_reported_apart() {
    let toml = "name = \"null\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 14\nnull_arm = true";
    let manifest = manifest(toml);
    let mut samples = samples(&manifest.plan);
    let sound = rendered(&manifest, &samples);
    let null_row = |rendered: &Rendered| rendered.summary.iter().find(|row| row.null_arm).cloned();
    let row = null_row(&sound).unwrap();
    assert_eq!((row.protocol, row.pairs), (Protocol::H2, Some(14)));
    assert_eq!(row.verdict.as_deref(), Some("sound"));
    assert!(sound.table.contains("0 of 1 intervals exclude 0"));
    assert!(!sound.table.contains("planned transfers are measured"));
    for sample in samples.iter_mut().filter(|sample| sample.null_arm) {
        sample.compared_us = sample.compared_us.map(|time| time * 2);
    }
    let suspect = rendered(&manifest, &samples);
    assert_eq!(
        null_row(&suspect).unwrap().verdict.as_deref(),
        Some("suspect")
    );
    let said = suspect.table.replace('\n', " ");
    assert!(
        said.contains("HTTP/2 against itself (null arm): 1 of 1 intervals exclude 0"),
        "{said}"
    );
}

#[test]
fn what_is_compared_is_the_transfer_and_not_each_of_its_requests() {
    let manifest = manifest(QUICK);
    let whole = samples(&manifest.plan);
    let of_two = |sample: &Sample| {
        [0, 1].map(|request| Sample {
            request,
            requests: 2,
            total_us: Some(1),
            ..sample.clone()
        })
    };
    let split: Vec<Sample> = whole.iter().flat_map(of_two).collect();
    assert_eq!(
        rendered(&manifest, &split).summary,
        rendered(&manifest, &whole).summary
    );
}

#[test]
fn topologies_are_series_of_their_own() {
    let toml = "name = \"t\"\nrate = \"5mbit\"\ndelay = [\"0ms\", \"50ms\"]\nsize = \"1MB\"\npairs = 3\ntopology = [\"direct\", \"proxied\"]";
    let table = of_plan(toml).table;
    assert!(
        table.contains("5 Mbit/s · 0 % loss · 1 MB · proxied"),
        "{table}"
    );
    assert_eq!(table.matches("HTTP/3 against HTTP/2").count(), 2);
}

#[test]
fn rows_alone_make_a_report_that_says_what_it_cannot_tell() {
    let mut samples = read_samples(include_str!("data/samples.csv")).unwrap();
    let manifest = Manifest::reconstruct(&mut samples).unwrap();
    let found = rendered(&manifest, &samples);
    let known = Manifest::from_json(include_str!("data/manifest.json")).unwrap();
    let whole = rendered(
        &known,
        &read_samples(include_str!("data/samples.csv")).unwrap(),
    );
    let figures = |of: &Rendered| -> Vec<_> {
        let rows = of.summary.iter();
        rows.map(|row| {
            (
                row.delay_us,
                row.protocol,
                row.n,
                row.mean_us,
                row.difference_percent,
            )
        })
        .collect()
    };
    assert_eq!(figures(&found), figures(&whole));
    assert!(
        found.table.contains("Made from samples.csv alone"),
        "{}",
        found.table
    );
    assert!(found.html.contains("not told by samples.csv"));
    assert!(!found.html.contains("planned transfers are measured"));
}
