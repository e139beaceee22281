//! The rules for a single field, by the sentences of the RFCs.

use super::*;

fn kind_of(name: &str, value: &str) -> FieldKind {
    FieldKind::of(name.as_bytes()).with_value(value.as_bytes())
}

fn refused(name: &[u8], value: &[u8]) -> Option<Refusal> {
    match FieldKind::of(name).with_value(value) {
        FieldKind::Refused(refusal) => Some(refusal),
        _ => None,
    }
}

#[test]
fn what_a_rule_is_about_has_a_kind_of_its_own() {
    for (name, value, kind) in [
        (":method", "GET", FieldKind::Method),
        (":scheme", "https", FieldKind::Scheme),
        (":authority", "a.example", FieldKind::Authority),
        (":path", "/", FieldKind::Path),
        (":protocol", "websocket", FieldKind::Protocol),
        (":status", "200", FieldKind::Status),
        ("content-length", "5", FieldKind::ContentLength),
        ("transfer-encoding", "chunked", FieldKind::TransferEncoding),
        ("upgrade", "h2c", FieldKind::Connection),
        ("host", "a.example", FieldKind::Host),
        ("cookie", "a=b", FieldKind::Cookie),
        ("te", "trailers", FieldKind::Te),
        ("te", "Trailers", FieldKind::Te),
        ("priority", "u=1", FieldKind::Priority),
        ("expect", "100-continue", FieldKind::Expect),
        ("authorization", "Basic x", FieldKind::Single(0)),
        ("range", "bytes=0-", FieldKind::Single(9)),
        ("accept", "*/*", FieldKind::Regular),
        ("x_0.~!#$%&'*+-^`|", "", FieldKind::Regular),
    ] {
        assert_eq!(kind_of(name, value), kind, "{name}: {value}");
    }
}

/// RFC 9113 section 8.2.1: "A field name MUST NOT contain characters in the ranges 0x00-0x20,
/// 0x41-0x5a, or 0x7f-0xff (all inclusive)."
#[test]
fn a_name_has_no_upper_case_controls_or_bytes_above_ascii() {
    for byte in (0..=0x20).chain(0x41..=0x5a).chain(0x7f..=0xff) {
        assert!(refused(&[b'a', byte], b"x").is_some(), "{byte:#x}");
        assert!(refused(&[byte, b'a'], b"x").is_some(), "{byte:#x}");
    }
    assert_eq!(refused(b"Content-length", b"5"), Some(Refusal::UpperCase));
}

/// RFC 9110 section 5.1: "field-name = token".
#[test]
fn a_name_is_a_token() {
    assert_eq!(refused(b"", b"x"), Some(Refusal::FieldName));
    for byte in b"\"(),/:;<=>?@[\\]{}" {
        assert_eq!(refused(&[b'a', *byte], b"x"), Some(Refusal::FieldName));
        let kind = FieldKind::of_http1(&[b'a', *byte]);
        assert_eq!(kind, FieldKind::Refused(Refusal::FieldName));
    }
}

/// RFC 9113 section 8.3: "Endpoints MUST treat a request or response that contains undefined or invalid
/// pseudo-header fields as malformed".
#[test]
fn a_colon_stands_before_known_pseudo_fields_alone() {
    for name in [":", ":unknown", "::path", ":Path", ":host"] {
        assert_eq!(refused(name.as_bytes(), b"x"), Some(Refusal::PseudoField));
        let kind = FieldKind::of_http1(name.as_bytes());
        assert_eq!(kind, FieldKind::Refused(Refusal::FieldName), "{name}");
    }
}

/// RFC 9110 section 5.5: "Field values containing CR, LF, or NUL characters are invalid and dangerous"
/// and those with "other CTL characters are also invalid".
#[test]
fn a_value_holds_no_control_byte_but_the_tab() {
    for name in [
        ":path",
        ":status",
        "accept",
        "cookie",
        "te",
        "content-length",
    ] {
        for byte in (0..b' ').chain([0x7f]).filter(|byte| *byte != b'\t') {
            let value = [b"a much longer value, long enough", &[byte][..], b"x"].concat();
            assert_eq!(refused(name.as_bytes(), &value), Some(Refusal::FieldValue));
            let kind = FieldKind::of_http1(b"Accept").with_value_http1(&value);
            assert_eq!(kind, FieldKind::Refused(Refusal::FieldValue));
        }
    }
    assert_eq!(refused(b"accept", b"a\tb \x80\xff"), None);
}

/// RFC 9113 section 8.2.1: "A field value MUST NOT start or end with an ASCII whitespace character".
#[test]
fn a_value_has_no_space_around_it() {
    for value in [" ", "\t", " a", "a ", "\ta", "a\t"] {
        assert_eq!(refused(b"accept", value.as_bytes()), Some(Refusal::Padded));
        assert_eq!(
            kind_of(":path", value),
            FieldKind::Path,
            "the target's rules"
        );
    }
    assert_eq!(kind_of("accept", "a \t b"), FieldKind::Regular);
}

/// RFC 9113 section 8.2.2: TE "MUST NOT contain any value other than "trailers"."
#[test]
fn te_says_trailers_or_nothing() {
    for value in ["", "gzip", "trailers, gzip", " trailers", "trailers;q=1"] {
        assert_eq!(
            refused(b"te", value.as_bytes()),
            Some(Refusal::Te),
            "{value:?}"
        );
    }
    let http1 = FieldKind::of_http1(b"TE").with_value_http1(b"gzip");
    assert_eq!(http1, FieldKind::Te);
}

#[test]
fn names_of_http1_are_upper_and_lower_case_alike() {
    for name in ["Content-Length", "CONTENT-LENGTH", "content-length"] {
        assert_eq!(
            FieldKind::of_http1(name.as_bytes()),
            FieldKind::ContentLength
        );
    }
    let long = FieldKind::of_http1(b"X-A-Name-That-Is-Longer-Than-Any-That-Counts");
    assert_eq!(long, FieldKind::Regular);
}

#[test]
fn fields_of_a_connection_may_not_be_sent() {
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ] {
        assert!(!FieldKind::may_be_sent(name.as_bytes(), b"x"), "{name}");
    }
    assert!(!FieldKind::may_be_sent(b"te", b"gzip"));
    assert!(FieldKind::may_be_sent(b"te", b"trailers"));
    assert!(FieldKind::may_be_sent(b"upgrade-insecure-requests", b"1"));
}
