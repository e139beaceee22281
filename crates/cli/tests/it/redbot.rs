//! Answers of a configured site, looked at by REDbot, which knows HTTP's rules for representations, caches, validators,
//! ranges and content negotiation.

use crate::common::{Dir, Serving, provided, text};
use serde_json::Value;
use std::process::Command;

const CONFIG: &str = "threads = 1
[listen]
http = [\"127.0.0.1:0\"]

[[site]]
default = true
headers = { X-Content-Type-Options = \"nosniff\" }

[[site.route]]
path = \"/old/*\"
redirect = { to = \"/{rest}\", status = 301 }

[[site.route]]
path = \"/health\"
respond = { body = \"well\\n\", headers = { Cache-Control = \"no-store\" } }

[[site.route]]
files = \"site\"
clean-urls = true
listing = true
precompressed = [\"br\", \"gzip\"]
compress = [\"gzip\"]
cache = { \"/assets/*\" = \"public, max-age=31536000, immutable\", \"*.html\" = \"no-cache\", \"*.txt\" = \"max-age=60\" }
error-pages = { 404 = \"/404.html\" }
";

/// The paths that are looked at, and the status that each has.
const PATHS: [(&str, u64); 9] = [
    ("/", 200),
    ("/about", 200),
    ("/assets/app.css", 200),
    ("/text.txt", 200),
    ("/data.bin", 200),
    ("/folder/", 200),
    ("/old/about", 301),
    ("/health", 200),
    ("/none", 404),
];

fn serving(dir: &Dir) -> Serving {
    let page = "<!doctype html><html lang=en><title>A page</title><link rel=stylesheet href=/assets/app.css><p>".to_owned();
    let page = page + &"some words ".repeat(500);
    for name in ["index.html", "about.html", "404.html"] {
        dir.file(&format!("site/{name}"), &page);
    }
    dir.file("site/assets/app.css", "p { color: green }\n".repeat(100));
    dir.file("site/text.txt", "a line of text\n".repeat(1_000));
    dir.file("site/data.bin", vec![7; 5_000]);
    dir.file("site/folder/a.txt", "a");
    let gzip = Command::new("gzip")
        .args(["-k", "site/assets/app.css"])
        .current_dir(dir.path())
        .status();
    assert!(gzip.unwrap().success());
    dir.file("altway.toml", CONFIG);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
    Serving::spawn(dir, command)
}

/// Every note of a list and below it: its level and its text.
fn notes(of: &Value, found: &mut Vec<(String, String)>) {
    for note in of.as_array().into_iter().flatten() {
        let text = |key: &str| note[key].as_str().unwrap_or_default().to_owned();
        found.push((text("level"), text("summary")));
        notes(&note["subnotes"], found);
    }
}

#[test]
fn redbot_finds_nothing_bad_at_a_configured_site() {
    let Some(redbot) = provided("REDbot", "ALTWAY_TEST_REDBOT") else {
        return;
    };
    let dir = Dir::new();
    let serving = serving(&dir);
    let mut good = 0;
    for (path, status) in PATHS {
        let url = format!("http://127.0.0.1:{}{path}", serving.port);
        let output = Command::new(&redbot)
            .args(["-o", "har", &url])
            .output()
            .unwrap();
        let (said, complaints) = (text(&output.stdout), text(&output.stderr));
        let har: Value = serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("{path}: {error}: {said} {complaints}"));
        let [entry] = &har["log"]["entries"].as_array().unwrap()[..] else {
            panic!("{path}: {said}");
        };
        assert_eq!(entry["response"]["status"], status, "{path}: {said}");
        let mut found = Vec::new();
        notes(&entry["_red_messages"], &mut found);
        let bad: Vec<_> = found.iter().filter(|(level, _)| level == "BAD").collect();
        assert!(bad.is_empty(), "{path}: {bad:?}");
        good += found.iter().filter(|(level, _)| level == "GOOD").count();
    }
    assert!(good >= PATHS.len(), "{good}");
    assert_eq!(serving.terminate(), Some(0));
}
