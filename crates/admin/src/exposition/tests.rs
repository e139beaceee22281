//! Families and their samples, and the guide's table of them.

use super::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn servers_behind_a_proxy_have_their_families() {
    let mut text = Text::default();
    upstreams(&mut text, &[]);
    assert_eq!(text.0, "");
    upstreams(&mut text, &[crate::upstream::tests::upstream()]);
    let of = "pool=\"a.example/\",server=\"http://10.0.0.1:80\"";
    for line in [
        format!("altway_upstream_healthy{{{of}}} 1"),
        format!("altway_upstream_requests_total{{{of}}} 7"),
        format!("altway_upstream_failures_total{{{of},reason=\"connect\"}} 2"),
        format!("http_client_open_connections{{{of},state=\"active\"}} 1"),
        format!("http_client_open_connections{{{of},state=\"idle\"}} 2"),
        format!("http_client_request_duration_seconds_bucket{{{of},le=\"0.01\"}} 3"),
        format!("http_client_request_duration_seconds_bucket{{{of},le=\"+Inf\"}} 4"),
        format!("http_client_request_duration_seconds_count{{{of}}} 4"),
    ] {
        assert!(text.0.lines().any(|it| it == line), "{line}:\n{}", text.0);
    }
}

#[test]
fn a_histogram_counts_what_is_within_each_bound() {
    let mut text = Text::default();
    let mut family = text.family("a_seconds", "histogram", "Some.");
    family.histogram(&[("x", "y")], &[5, 2_500], &[1, 0, 2], 9.5);
    let (_, samples) = text.0.split_once("histogram\n").unwrap();
    let expected = "a_seconds_bucket{x=\"y\",le=\"0.005\"} 1\na_seconds_bucket{x=\"y\",le=\"2.5\"} 1\n\
        a_seconds_bucket{x=\"y\",le=\"+Inf\"} 3\na_seconds_sum{x=\"y\"} 9.5\na_seconds_count{x=\"y\"} 3\n";
    assert_eq!(samples, expected);
}

#[test]
fn labels_are_escaped_and_families_have_their_help_before_them() {
    let mut text = Text::default();
    let mut family = text.counter("a_total", "Some.");
    family.sample(&[], 1);
    family.sample(&[("x", "q\"\\\n"), ("y", "")], 2.5);
    let expected = "# HELP a_total Some.\n# TYPE a_total counter\na_total 1\n\
        a_total{x=\"q\\\"\\\\\\n\",y=\"\"} 2.5\n";
    assert_eq!(text.0, expected);
}

/// A status of which every family has a sample.
fn full_status() -> Status {
    let durations = json!({"buckets": vec![1; DURATION_BUCKETS_MS.len() + 1], "sum_s": 1.5});
    let protocol = json!({
        "protocol": "h3", "connections": 1, "open_connections": 1, "responses": [0, 1, 0, 0, 0], "content_bytes": 1,
        "durations": vec![&durations; 5],
        "pages": {"times": durations, "predicted": 1, "took_s": 1.0, "elsewhere_s": 2.0},
    });
    let upstream = serde_json::to_value(crate::upstream::tests::upstream()).unwrap();
    let class = json!({"class": "curl-other", "clients": 1, "rated": [1, 1], "udp_blocked": 1, "limit_bps": 8.0});
    let mut status = json!({
        "version": "1", "address": "127.0.0.1:443", "policy": "learned", "since": 1, "now": 2, "sandbox": "on",
        "process": {"id": 1, "resident_bytes": 1, "open_files": 1, "max_open_files": 1, "cpu_ms": 1, "udp_dropped": 1},
        "protocols": [protocol], "active_requests": 1,
        "offers": [{"offer": "h3", "reason": "fixed", "count": 1}],
        "incidents": {"request rate": 1},
        "latest": [],
    });
    let mut more = json!({
        "clients": {"known": 1, "classes": [class]},
        "certificates": [{"names": ["a.example"], "not_after": 1}],
        "acme": {"issued": 1, "failed": 1, "names": [
            {"name": "a.example", "not_after": 1, "renew_at": 1, "is_ordering": false, "retry_in_s": null, "failures": 1, "error": null},
        ]},
        "log_dropped": 1, "selection_log_dropped": 1,
        "arrivals": [{"protocol": "h3", "offered": true, "count": 1}],
        "predicted": [0.1, -0.1],
        "sites": [{"name": "a.example", "responses": [0, 1, 0, 0, 0], "offers": [0, 1],
            "reasons": [{"offer": "h3", "reason": "fixed", "count": 1}],
            "arrivals": [{"protocol": "h3", "offered": true, "count": 1}]}],
        "quic_pool": {"bytes": 1, "limit_bytes": 2},
        "quic_handshakes": {"completed": 1},
        "upstreams": [upstream],
        "reload": {"at": 1, "success": true, "report": ""},
    });
    let fields = status.as_object_mut().unwrap();
    fields.append(more.as_object_mut().unwrap());
    serde_json::from_value(status).unwrap()
}

/// Families with the names of their labels.
type Families = BTreeMap<String, BTreeSet<String>>;

/// The families of a text for Prometheus; `le` is no label of its histogram's.
fn families(text: &str) -> Families {
    let mut families = Families::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            family = declared.split(' ').next().unwrap().to_owned();
            families.insert(family.clone(), BTreeSet::new());
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let names = labels.split("\",").map(|it| it.split('=').next().unwrap());
            let names = names.filter(|name| !["le", "}"].contains(name));
            let of = families.get_mut(&family).unwrap();
            of.extend(names.map(ToOwned::to_owned));
        }
    }
    families
}

fn guide() -> &'static str {
    include_str!("../../../../docs/guide/watching.md")
}

/// The families that the guide's table tells of.
fn documented() -> Families {
    let (_, table) = guide()
        .split_once("| metric | look at it when |\n")
        .unwrap();
    let mut families = Families::new();
    for row in table
        .lines()
        .take_while(|line| line.starts_with('|'))
        .skip(1)
    {
        let cell = row.split('|').nth(1).unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
            let labels = labels.trim_end_matches('}').split(',');
            let labels = labels.filter(|label| !label.is_empty());
            let labels = labels.map(ToOwned::to_owned).collect();
            let before = families.insert(name.to_owned(), labels);
            assert_eq!(before, None, "{name} stands twice in the table");
        }
    }
    families
}

#[test]
fn the_guide_tells_of_every_metric_with_its_labels_and_of_no_other() {
    let told = families(&exposition(&full_status()));
    let documented = documented();
    for (name, labels) in &told {
        assert_eq!(documented.get(name), Some(labels), "{name} in the guide");
    }
    let absent: Vec<_> = documented
        .keys()
        .filter(|it| !told.contains_key(*it))
        .collect();
    assert!(absent.is_empty(), "only in the guide: {absent:?}");
}

#[test]
fn the_guide_tells_of_every_kind_of_incident() {
    let (_, table) = guide()
        .split_once("| kind | what has happened |\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.skip(1).map(|row| row.split('|').nth(1).unwrap());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let told: BTreeSet<_> = names.collect();
    assert_eq!(told, BTreeSet::from(INCIDENT_KINDS));
}

#[test]
fn names_have_base_units_and_counters_end_with_total() {
    let text = exposition(&full_status());
    for line in text.lines().filter_map(|it| it.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
        for unit in ["_ms", "_millis", "_kib", "_mib", "_percent", "_minutes"] {
            assert!(!name.contains(unit), "{line}");
        }
    }
}
