//! The same head as each protocol has it: a table of cases, and properties of any.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use altway_message::{
    FieldChecks, FieldKind, Head, Refusal, Rules, Scanner, Scheme, Version, http1,
};
use proptest::prelude::*;
use std::fmt::Write as _;

#[path = "cases/head.rs"]
mod head;

use head::{Abstract, parse, table};

type Bytes = Vec<u8>;

const RULES: Rules = Rules {
    scheme: Some(Scheme::Https),
    extended_connect: true,
};

/// The verdict on the section of HTTP/2 or HTTP/3.
fn section(of: &Abstract, version: Version) -> Result<(), Refusal> {
    let (mut checks, mut head) = (FieldChecks::new(version), Head::default());
    for (name, value) in of.lines() {
        let kind = FieldKind::of(name).with_value(value);
        checks.field(kind, value);
        match kind {
            FieldKind::Method => head.method = Some(value),
            FieldKind::Scheme => head.scheme = Some(value),
            FieldKind::Authority => head.authority = Some(value),
            FieldKind::Path => head.path = Some(value),
            FieldKind::Protocol => head.protocol = Some(value),
            FieldKind::Host => head.host = Some(value),
            _ => {}
        }
    }
    RULES.check(&head, &checks).map(drop)
}

fn word(result: Result<(), Refusal>, version: Version) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(refusal) if refusal.is_malformed(version) => "malformed".into(),
        Err(refusal) => refusal.status().to_string(),
    }
}

/// The line's own end: what the gate makes of its head.
fn verdict(head: &str) -> String {
    let head = parse(head);
    let http1 = head.raw().map(|raw| http1::check(&raw, RULES).map(drop));
    let mut line = http1.map_or("-".into(), |result| word(result, Version::Http11));
    for version in [Version::Http2, Version::Http3] {
        write!(line, " {}", word(section(&head, version), version)).unwrap();
    }
    let reason = section(&head, Version::Http2).err();
    let reason = reason.map_or(String::new(), |refusal| format!(" {refusal}"));
    format!("{line} |{reason}")
}

#[test]
fn each_case_of_the_table_has_its_verdict() {
    let mut cases = 0;
    for (head, expected) in table() {
        assert_eq!(verdict(head), expected, "{head}");
        cases += 1;
    }
    assert!(cases >= 80, "{cases}");
}

#[test]
fn a_target_in_absolute_form_may_have_a_query_without_a_path() {
    let path = |target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = http1::check(head.as_bytes(), RULES);
        request.map(|it| String::from_utf8(it.target.path.unwrap().to_vec()).unwrap())
    };
    assert_eq!(path("https://a").unwrap(), "/");
    assert_eq!(path("https://a?b").unwrap(), "?b");
    assert_eq!(path("https://a?").unwrap(), "?");
    assert_eq!(path("https://a?b#c"), Err(Refusal::Fragment));
    assert_eq!(path("https://a?<"), Err(Refusal::PathByte));
    assert_eq!(path("?b"), Err(Refusal::TargetForm));
}

/// Some bytes that are good and some that are not.
fn text() -> impl Strategy<Value = Bytes> {
    let good = "[a-z0-9/?.:=*-]{0,8}".prop_map(String::into_bytes);
    prop_oneof![8 => good, 1 => proptest::collection::vec(any::<u8>(), 0..6)]
}

fn target() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        text(),
        text().prop_map(|text| [b"/", &text[..]].concat()),
        Just(b"*".to_vec())
    ]
}

fn authority() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        text(),
        "[a-z]{1,5}(:[0-9]{1,6})?".prop_map(String::into_bytes)
    ]
}

/// Names of rules that are the same over all protocols, and any others.
fn field() -> impl Strategy<Value = (Bytes, Bytes)> {
    let names = [
        "host",
        "content-length",
        "range",
        "authorization",
        "accept",
        "cookie",
        "x",
    ];
    let name = prop_oneof![4 => prop::sample::select(names.to_vec()).prop_map(|it| it.as_bytes().to_vec()), 1 => text()];
    let value = prop_oneof![text(), "[0-9]{1,3}".prop_map(String::into_bytes)];
    (name, value)
}

fn any_head() -> impl Strategy<Value = Abstract> {
    let methods = ["GET", "OPTIONS", "CONNECT", "G T", ""];
    let method = prop::sample::select(methods.to_vec()).prop_map(|it| it.as_bytes().to_vec());
    let fields = proptest::collection::vec(field(), 0..5);
    (method, authority(), target(), fields).prop_map(|(method, authority, path, fields)| {
        let connect = method == b"CONNECT";
        Abstract {
            scheme: (!connect).then(|| b"https".to_vec()),
            path: (!connect).then_some(path),
            authority: Some(authority),
            method,
            fields,
        }
    })
}

/// Returns whether HTTP/1.1 could write it as another one: a break within a line, or a target of
/// another form.
fn has_other_form(head: &Abstract) -> bool {
    let breaks = |bytes: &Bytes| bytes.contains(&b'\n') || bytes.contains(&b'\r');
    let padded = |bytes: &Bytes| bytes.trim_ascii().len() != bytes.len();
    let fields = head.fields.iter().any(|(name, value)| {
        breaks(value)
            || breaks(name)
            || name.contains(&b':')
            || name.iter().any(u8::is_ascii_uppercase)
            || name == b"host"
            || padded(value)
            || name == b"te"
    });
    let path = head
        .path
        .as_ref()
        .is_some_and(|path| path.windows(3).any(|it| it == b"://"));
    fields
        || path
        || head
            .authority
            .as_ref()
            .is_some_and(|it| padded(it) || breaks(it))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_same_head_has_the_same_verdict_over_all_protocols(head in any_head()) {
        let [http2, http3] = [Version::Http2, Version::Http3].map(|version| section(&head, version));
        prop_assert_eq!(http2, http3);
        if !has_other_form(&head) {
            let raw = head.raw().unwrap();
            let http1 = http1::check(&raw, RULES).map(drop);
            prop_assert_eq!(http1.is_ok(), http2.is_ok(), "{:?} {:?}", http1, http2);
            if let (Err(http1), Err(http2)) = (http1, http2) {
                prop_assert_eq!(http1.status(), http2.status());
            }
        }
    }

    #[test]
    fn any_bytes_have_a_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 1usize..50) {
        let _ = http1::check(&bytes, RULES);
        let _ = http1::check_trailers(&bytes);
        let mut scanner = Scanner::new(RULES);
        for part in bytes.chunks(cut) {
            if scanner.scan(part).is_err() {
                break;
            }
        }
    }

    #[test]
    fn a_good_head_is_read_whole_from_a_connection(head in any_head()) {
        let raw = head.raw().unwrap();
        if http1::check(&raw, RULES).is_ok() {
            let mut scanner = Scanner::new(RULES);
            scanner.scan(&raw).unwrap();
            prop_assert_eq!((scanner.heads(), scanner.refused()), (1, None));
        }
    }
}
