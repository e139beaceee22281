//! `altway dns-record`: which HTTPS record a host is to have.

use crate::common::{Dir, refusal, success};

#[test]
fn where_the_server_chooses_no_record_is_published() {
    let dir = Dir::new();
    let zone = success(&mut dir.altway(["dns-record", "example.org"]));
    assert!(
        zone.starts_with("; Publish no HTTPS record for example.org.\n"),
        "{zone}"
    );
    assert!(zone.lines().all(|line| line.starts_with(';')), "{zone}");
    assert!(
        zone.ends_with("\n; example.org. 300 IN HTTPS 1 . alpn=\"h2\"\n"),
        "{zone}"
    );
}

#[test]
fn a_fixed_protocol_is_in_the_record() {
    let dir = Dir::new();
    let record = |policy: &str| {
        let zone = success(&mut dir.altway([
            "dns-record",
            "example.org",
            "--policy",
            policy,
            "--port=8443",
        ]));
        zone.lines()
            .filter(|line| !line.starts_with(';'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        record("h3"),
        ["_8443._https.example.org. 300 IN HTTPS 1 example.org. alpn=\"h3,h2\""]
    );
    assert_eq!(
        record("h2"),
        ["_8443._https.example.org. 300 IN HTTPS 1 example.org. alpn=\"h2\""]
    );
    assert!(record("threshold:rtt=20ms").is_empty());
    let json = success(&mut dir.altway(["dns-record", "example.org", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(
        json["publish"].is_null() && json["reasons"].as_array().unwrap().len() > 2,
        "{json}"
    );
}

#[test]
fn a_host_that_has_no_record() {
    let dir = Dir::new();
    for (host, hint) in [
        ("192.0.2.7", "records are of names"),
        ("https://example.org/", "give the name alone"),
        ("bücher.example", "give its ASCII form"),
        ("a_b.example", "give one like www.example.org"),
    ] {
        let said = refusal(&mut dir.altway(["dns-record", host]));
        assert!(said.contains(&format!("`{host}` is no name")), "{said}");
        assert!(said.contains(&format!("hint: {hint}")), "{said}");
    }
}
