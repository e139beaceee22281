//! Lines in each format, of requests that mean well and of those that don't.

use super::*;
use altway_select::{AltSvc, Client, Offer, Reason, Secret};
use http::{HeaderValue, Request, header};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::time::UNIX_EPOCH;

const DURATION: Duration = Duration::from_nanos(1_000_123_456);
const FORMATS: [LogFormat; 3] = [LogFormat::KeyValue, LogFormat::Json, LogFormat::Combined];

fn request(target: &str, fields: &[(header::HeaderName, &[u8])]) -> LoggedHead {
    let mut request = Request::get(target);
    for (name, value) in fields {
        request = request.header(name, HeaderValue::from_bytes(value).unwrap());
    }
    LoggedHead::of(&request.body(()).unwrap())
}

/// A head whose texts are whatever a client may send, field values with control characters included.
fn head_of(path: &[u8], [host, referer, agent]: [&[u8]; 3]) -> LoggedHead {
    LoggedHead {
        method: Method::GET,
        path: String::from_utf8_lossy(path).into(),
        host: Some(bounded(host)),
        referer: Some(bounded(referer)),
        agent: Some(bounded(agent)),
        certificate: None,
    }
}

fn line(head: &LoggedHead) -> Line<'_> {
    Line {
        client: Ipv4Addr::LOCALHOST.into(),
        protocol: Protocol::Http2,
        head,
        status: StatusCode::OK,
        bytes: 7,
        is_cut: false,
        logged_offer: None,
    }
}

fn text(line: &Line<'_>, format: LogFormat) -> String {
    let mut lines = Vec::new();
    let time = UNIX_EPOCH + Duration::from_millis(1_795_313_113_123);
    line.text(format)
        .push_to(&mut lines, (time, DURATION), format);
    String::from_utf8(lines).unwrap()
}

fn whole() -> LoggedHead {
    let fields: [(_, &[u8]); 2] = [
        (header::REFERER, b"https://example.org/from"),
        (header::USER_AGENT, b"curl/8"),
    ];
    request("https://localhost/a?secret=1", &fields)
}

#[test]
fn durations_have_six_decimals_however_long_they_are() {
    for (micros, text) in [
        (0, "0.000000"),
        (7, "0.000007"),
        (1_000_123, "1.000123"),
        (9_999_999, "9.999999"),
        (10_000_000, "10.000000"),
        (86_400_000_001, "86400.000001"),
    ] {
        let mut lines = Vec::new();
        push_seconds(&mut lines, Duration::from_micros(micros));
        assert_eq!(String::from_utf8(lines).unwrap(), text);
    }
}

#[test]
fn key_value_has_every_word() {
    let head = whole();
    let mut line = line(&head);
    let start = "2026-11-22T02:05:13.123Z client=127.0.0.1 protocol=h2 method=GET path=\"/a\" status=200 bytes=7";
    let end = " duration=1.000123 host=\"localhost\" referer=\"https://example.org/from\" agent=\"curl/8\"";
    assert_eq!(text(&line, LogFormat::KeyValue), format!("{start}{end}\n"));
    line.is_cut = true;
    assert_eq!(
        text(&line, LogFormat::KeyValue),
        format!("{start}{end} cut=1\n")
    );
}

#[test]
fn json_has_every_word_and_numbers_are_numbers() {
    let head = whole();
    let mut line = line(&head);
    line.is_cut = true;
    line.logged_offer = Some(logged_offer());
    let text = text(&line, LogFormat::Json);
    assert!(text.ends_with("}\n"), "{text}");
    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "time": "2026-11-22T02:05:13.123Z",
        "client": "127.0.0.1",
        "protocol": "h2",
        "method": "GET",
        "path": "/a",
        "status": 200,
        "bytes": 7,
        "offer": "h3",
        "reason": logged_offer().decision.reason.to_string(),
        "class": "firefox-linux",
        "key": logged_offer().key.to_string(),
        "propensity": 0.025,
        "held": true,
        "duration": 1.000_123,
        "host": "localhost",
        "referer": "https://example.org/from",
        "agent": "curl/8",
        "cut": true,
    });
    assert_eq!(said, expected);
}

fn logged_offer() -> LoggedOffer {
    let class = "firefox-linux".parse().unwrap();
    let client = Client::new(&Secret::new([1; 16]), Ipv4Addr::LOCALHOST.into(), class);
    let decision = Decision {
        offer: Offer::Http3,
        alt_svc: AltSvc::Omit,
        reason: Reason::Fixed,
        propensity: 0.025,
        held: true,
        prediction: None,
    };
    LoggedOffer {
        decision,
        key: client.key(),
        class,
    }
}

#[test]
fn key_value_says_what_was_decided_for_whom() {
    let head = whole();
    let line = Line {
        logged_offer: Some(logged_offer()),
        ..line(&head)
    };
    let expected = format!(
        " offer=h3 reason=\"fixed by the operator\" class=firefox-linux key={} propensity=0.025 held=1 duration=",
        logged_offer().key
    );
    let text = text(&line, LogFormat::KeyValue);
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn combined_is_what_other_servers_write() {
    let head = whole();
    assert_eq!(
        text(&line(&head), LogFormat::Combined),
        "127.0.0.1 - - [22/Nov/2026:02:05:13 +0000] \"GET /a HTTP/2.0\" 200 7 \
         \"https://example.org/from\" \"curl/8\"\n"
    );
    let head = request("/", &[]);
    let mut line = line(&head);
    for (protocol, version) in [
        (Protocol::Http1, "HTTP/1.1"),
        (Protocol::Http2, "HTTP/2.0"),
        (Protocol::Http3, "HTTP/3.0"),
    ] {
        line.protocol = protocol;
        let text = text(&line, LogFormat::Combined);
        let end = format!("\"GET / {version}\" 200 7 \"-\" \"-\"\n");
        assert!(text.ends_with(&end), "{text}");
    }
}

#[test]
fn connect_is_told_with_its_host_where_a_path_would_be() {
    let request = Request::connect("example.org:443").body(()).unwrap();
    let head = LoggedHead::of(&request);
    let text = text(&line(&head), LogFormat::Combined);
    assert!(
        text.contains("\"CONNECT example.org:443 HTTP/2.0\""),
        "{text}"
    );
}

#[test]
fn what_a_request_does_not_say_is_left_out() {
    let head = request("/", &[]);
    for format in [LogFormat::KeyValue, LogFormat::Json] {
        let text = text(&line(&head), format);
        for key in ["host", "referer", "agent", "offer", "reason", "cut"] {
            assert!(!text.contains(key), "{key} in {text}");
        }
    }
}

#[test]
fn long_fields_are_cut_and_no_character_is_cut_in_two() {
    let long = "a".repeat(255) + "\u{e4}b";
    assert_eq!(&*bounded(long.as_bytes()), "a".repeat(255));
    let exact = "a".repeat(254) + "\u{e4}";
    assert_eq!(&*bounded((exact.clone() + "b").as_bytes()), exact);
    assert_eq!(bounded(&[b'\xff'; 1_000]).len(), 255);
    assert_eq!(&*bounded(b"short"), "short");
}

#[test]
fn nothing_that_a_client_sends_forges_a_line() {
    let forged: &[u8] = b"x\" status=500\r\n127.0.0.1 \"}\\\x00\x1b[2J\x7f\xff\xc3";
    let head = head_of(forged, [forged; 3]);
    let line = line(&head);
    let key_value = text(&line, LogFormat::KeyValue);
    let escaped = r#""x\" status=500\r\n127.0.0.1 \"}\\\0\u{1b}[2J\u{7f}��""#;
    for key in ["path", "host", "referer", "agent"] {
        assert!(
            key_value.contains(&format!(" {key}={escaped}")),
            "{key_value}"
        );
    }
    let json: serde_json::Value = serde_json::from_str(&text(&line, LogFormat::Json)).unwrap();
    let lossy = String::from_utf8_lossy(forged);
    for key in ["path", "host", "referer", "agent"] {
        assert_eq!(json[key], *lossy, "{key}");
    }
    let combined = text(&line, LogFormat::Combined);
    let agent =
        r#""x\x22 status=500\x0D\x0A127.0.0.1 \x22}\x5C\x00\x1B[2J\x7F\xEF\xBF\xBD\xEF\xBF\xBD""#;
    assert!(
        combined.ends_with(&format!(" {agent} {agent}\n")),
        "{combined}"
    );
    let path = r#""GET x\x22\x20status=500\x0D\x0A127.0.0.1\x20\x22}"#;
    assert!(combined.contains(path), "{combined}");
}

proptest! {
    #[test]
    fn a_request_is_one_line_in_every_format(
        path in prop::collection::vec(any::<u8>(), 0..40),
        host in prop::collection::vec(any::<u8>(), 0..40),
        referer in prop::collection::vec(any::<u8>(), 0..400),
        agent: String,
    ) {
        let head = head_of(&path, [&host, &referer, agent.as_bytes()]);
        for format in FORMATS {
            let text = text(&line(&head), format);
            prop_assert!(text.ends_with('\n'));
            let controls = text.trim_end_matches('\n').chars().filter(|char| char.is_control());
            prop_assert_eq!(controls.count(), 0, "{}", text);
            match format {
                // A backslash takes the quote behind it: those that are left begin and end the values.
                LogFormat::KeyValue => {
                    let quotes = text.replace("\\\\", "").replace("\\\"", "").matches('"').count();
                    prop_assert_eq!(quotes, 8, "{}", text);
                }
                LogFormat::Json => {
                    let said: serde_json::Value = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(&said["path"], &*String::from_utf8_lossy(&path));
                    prop_assert_eq!(said.as_object().unwrap().len(), 11);
                }
                LogFormat::Combined => {
                    prop_assert!(text.is_ascii());
                    prop_assert_eq!(text.matches('"').count(), 6, "{}", text);
                    let request = text.split('"').nth(1).unwrap();
                    prop_assert_eq!(request.split(' ').count(), 3, "{}", request);
                }
            }
        }
    }
}
