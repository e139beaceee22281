//! The committed schemas in docs/data/schema say what altway really reads and writes.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use altway_record::{
    Build, CSV_HEADER, ConcurrencyCheck, Host, LinkSettings, Manifest, Network, PLAN_KEYS, Plan,
    Running, SCHEMA_VERSION, Shard, read_samples,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema(name: &str) -> Value {
    let path = root().join("docs/data/schema").join(name);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The faults that a schema finds in a value, by as much of JSON Schema as the committed ones use.
/// A keyword that is none of these fails the test, so that none is passed over.
fn faults(schema: &Value, value: &Value) -> Vec<String> {
    check(schema, schema, value, "")
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut refuse = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{place}: {value} against {what}"));
        }
    };
    let mut more = Vec::new();
    for (word, wanted) in schema.as_object().unwrap() {
        match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "pattern" => {}
            "$ref" => {
                let name = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                more.extend(check(root, root.pointer(name).unwrap(), value, place));
            }
            "type" => refuse(
                has_type(value, wanted.as_str().unwrap()),
                &wanted.to_string(),
            ),
            "const" => refuse(value == wanted, &wanted.to_string()),
            "enum" => refuse(
                wanted.as_array().unwrap().contains(value),
                &wanted.to_string(),
            ),
            "minimum" => refuse(value.as_f64() >= wanted.as_f64(), "its minimum"),
            "maximum" => refuse(value.as_f64() <= wanted.as_f64(), "its maximum"),
            "minItems" => refuse(
                value.as_array().map(Vec::len) >= wanted.as_u64().map(|least| least as usize),
                "its number of items",
            ),
            "anyOf" => {
                let kinds = wanted.as_array().unwrap();
                let fits = kinds
                    .iter()
                    .any(|kind| check(root, kind, value, place).is_empty());
                refuse(fits, "any of its kinds");
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    more.extend(check(root, wanted, item, &format!("{place}/{index}")));
                }
            }
            "required" => {
                for key in wanted.as_array().unwrap() {
                    refuse(value.get(key.as_str().unwrap()).is_some(), &key.to_string());
                }
            }
            "properties" => {
                for (key, kind) in wanted.as_object().unwrap() {
                    let member = value.get(key).into_iter();
                    more.extend(
                        member.flat_map(|one| check(root, kind, one, &format!("{place}/{key}"))),
                    );
                }
            }
            "additionalProperties" => more.extend(check_unnamed(root, schema, value, place)),
            other => panic!("this test does not know `{other}`"),
        }
    }
    faults.extend(more);
    faults
}

/// The members of an object that its schema does not name.
fn check_unnamed(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let named = schema.get("properties").and_then(Value::as_object);
    let members = value.as_object().into_iter().flatten();
    let unnamed = members.filter(|(key, _)| named.is_none_or(|named| !named.contains_key(*key)));
    let faults = unnamed.map(|(key, one)| match &schema["additionalProperties"] {
        Value::Bool(false) => vec![format!("{place}: unknown member {key}")],
        Value::Bool(true) => Vec::new(),
        kind => check(root, kind, one, &format!("{place}/{key}")),
    });
    faults.flatten().collect()
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is no type of JSON"),
    }
}

/// Texts of the plans that ship.
fn shipped() -> Vec<String> {
    let files = fs::read_dir(root().join("plans")).unwrap();
    let texts: Vec<_> = files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(texts.len() >= 10);
    texts
}

const RICH: &str = r#"
    name = "rich"
    rate = ["unlimited", "5mbit"]
    queue = ["default", "64KB", "50packets", "30ms", "unlimited"]
    delay = "0ms..2ms by 250us"
    size = "1MB"
    pairs = 30
    mtu = 1400
    side_by_side = 4
    server = ["altway", {name = "x", command = "x {folder}", config = "a", protocols = ["h2", "h3"]}]
    [[link]]
    name = "plain"
    [[link]]
    name = "bad"
    set = "jitter 5ms"
    [link.at]
    3s = "loss 5%"
    [stop]
    looks = 3
    [processors]
    nice = -5
"#;

fn manifest(plan: Plan) -> Manifest {
    let host = Host {
        kernel: "Linux 6.1".into(),
        cpu: "a processor".into(),
        cpu_count: 2,
        memory_bytes: 1 << 30,
        sysctls: BTreeMap::from([("net.core.rmem_max".into(), "212992".into())]),
        os: Some("a distribution".into()),
        ..Host::default()
    };
    let link = LinkSettings {
        backend: "tun".into(),
        mtu_bytes: 1500,
        realtime_priority: None,
        processors_kept_awake: true,
        privilege: "root".into(),
        limitations: vec!["a sentence".into()],
    };
    let mut manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        altway_version: "0.1.0".into(),
        altway_commit: None,
        build: Build {
            dirty: Some(true),
            ..Build::default()
        },
        command: vec!["altway".into(), "lab".into(), "run".into()],
        started_at: "2026-01-01T00:00:00Z".into(),
        shard: Shard::WHOLE,
        merged: vec![],
        host,
        networks: vec![Network {
            topology: plan.topologies[0],
            congestion: plan.congestions[0],
            initial_window: plan.initial_windows[0],
            link: link.clone(),
        }],
        link,
        running: Some(Running {
            alone: Some(ConcurrencyCheck {
                pairs: 3,
                difference_percent: 0.1,
                low_percent: None,
                high_percent: Some(0.2),
            }),
            ..Running::default()
        }),
        programs: BTreeMap::from([("curl".into(), "curl 8".into())]),
        from_samples: false,
        plan,
    };
    manifest.merged = vec![manifest.to_part()];
    manifest
}

#[test]
fn a_manifest_is_what_its_schema_says() {
    let schema = schema("manifest.schema.json");
    for text in shipped().iter().map(String::as_str).chain([RICH]) {
        let manifest = manifest(text.parse().unwrap());
        let value = serde_json::from_str(&manifest.to_json()).unwrap();
        assert_eq!(faults(&schema, &value), [""; 0], "{}", manifest.plan.name);
    }
    let mut value: Value =
        serde_json::from_str(&manifest(RICH.parse().unwrap()).to_json()).unwrap();
    value["plan"]["colour"] = json!("red");
    value["host"]["cpu_count"] = json!(-1);
    assert_eq!(faults(&schema, &value).len(), 2);
}

#[test]
fn plans_are_what_their_schema_says() {
    let schema = schema("plan.schema.json");
    for text in shipped().iter().map(String::as_str).chain([RICH]) {
        let table: toml::Table = text.parse().unwrap();
        let value = serde_json::to_value(table).unwrap();
        assert_eq!(faults(&schema, &value), [""; 0], "{text}");
    }
    let wrong = json!({"name": 7, "pairs": 0, "rats": "5mbit", "mtu": 100});
    assert_eq!(faults(&schema, &wrong).len(), 4);
}

#[test]
fn a_plans_schema_has_its_keys_and_no_others() {
    let schema = schema("plan.schema.json");
    let properties = schema["properties"].as_object().unwrap();
    let known: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(known, PLAN_KEYS.into_iter().collect());
}

/// Names and types of the columns of a table schema.
fn columns(name: &str) -> Vec<(String, String)> {
    let schema = schema(name);
    let fields = schema["fields"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let column = |field: &Value| (text(&field["name"]), text(&field["type"]));
    fields.iter().map(column).collect()
}

/// Returns whether a field that is not empty has the type that its column states.
fn fits(field: &str, kind: &str) -> bool {
    match kind {
        "integer" => field.parse::<i64>().is_ok() || field.parse::<u64>().is_ok(),
        "number" => field.parse::<f64>().is_ok(),
        "boolean" => ["true", "false"].contains(&field),
        _ => kind == "string",
    }
}

#[test]
fn the_tables_have_the_columns_that_their_schemas_say_in_their_order() {
    let fits_all = |columns: &[(String, String)], text: &str| {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header: Vec<_> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        let names: Vec<_> = columns.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(header, names);
        for row in reader.records() {
            for (field, (name, kind)) in row.unwrap().iter().zip(columns) {
                assert!(field.is_empty() || fits(field, kind), "{name}: {field}");
            }
        }
    };
    let old = include_str!("../../report/tests/data/samples.csv");
    let rows = altway_record::csv_rows(&read_samples(old).unwrap());
    fits_all(
        &columns("samples.table.json"),
        &format!("{CSV_HEADER}{rows}"),
    );
    let summary = include_str!("../../report/tests/data/summary.csv");
    fits_all(&columns("summary.table.json"), summary);
}
