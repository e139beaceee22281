//! `altway dns-record`: which HTTPS record a host is to have.

use crate::common::{Dir, refusal, success, text};
use std::net::{Ipv4Addr, UdpSocket};

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
        ("*.example.org", "give one of the names that visitors use"),
        ("www.example.1", "a name that ends in a number"),
        (
            "example.org:8443",
            "give the name alone, and the port with --port",
        ),
        ("example.org..", "give one like www.example.org"),
    ] {
        let said = refusal(&mut dir.altway(["dns-record", host]));
        assert!(said.contains(&format!("`{host}` is no name")), "{said}");
        assert!(said.contains(&format!("hint: {hint}")), "{said}");
    }
}

/// A resolver that answers one question with an HTTPS record of these protocols; its address.
fn resolver(alpn: &'static [u8]) -> String {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        let (length, client) = socket.recv_from(&mut buffer).unwrap();
        // What was asked stands before the 11 bytes of EDNS.
        let mut answer = buffer[..length - 11].to_vec();
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        answer.extend_from_slice(&[0xc0, 12, 0, 65, 0, 1, 0, 0, 1, 44, 0, 7 + alpn.len() as u8]);
        answer.extend_from_slice(&[0, 1, 0, 0, 1, 0, alpn.len() as u8]);
        answer.extend_from_slice(alpn);
        socket.send_to(&answer, client).unwrap();
    });
    address
}

#[test]
fn what_is_published_is_held_against_the_policy() {
    let dir = Dir::new();
    let check = |alpn: &'static [u8], policy: &str| {
        let resolver = resolver(alpn);
        let words = [
            "dns-record",
            "example.org",
            "--check",
            "--resolver",
            &resolver,
            "--policy",
            policy,
        ];
        let output = dir.altway(words).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let (code, said) = check(b"\x02h3\x02h2", "learned");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.starts_with("example.org has an HTTPS record with alpn=h3,h2.\n"),
        "{said}"
    );
    assert!(
        said.contains("browsers begin over HTTP/3 without asking"),
        "{said}"
    );
    assert_eq!(check(b"\x02h3\x02h2", "h3").0, Some(0));
    assert_eq!(check(b"\x02h2", "h2").0, Some(0));
    // As the advice has it: it is no free choice either.
    for policy in ["learned", "h3"] {
        let (code, said) = check(b"\x02h2", policy);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("don't follow Alt-Svc to HTTP/3"), "{said}");
    }
}

#[test]
fn a_resolver_that_does_not_answer() {
    let dir = Dir::new();
    // Nobody reads what comes here.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let resolver = silent.local_addr().unwrap().to_string();
    let words = [
        "dns-record",
        "example.org",
        "--check",
        "--resolver",
        &resolver,
    ];
    let said = refusal(&mut dir.altway(words));
    assert!(
        said.contains(&format!("{resolver} does not answer")),
        "{said}"
    );
    assert!(said.contains("hint: name a resolver"), "{said}");
}
