//! What a field is to HTTP/2: the rules of RFC 9113 section 8 for a single field.
//!
//! A field in the dynamic table comes back in every request of a connection, so its kind is found
//! out once, when it enters, and stands beside it. The rules for a message as a whole (which
//! pseudo-fields, how often, before what) and for what pseudo-fields say belong to the engine.

/// What a field is to RFC 9113 section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// The pseudo-field `:method`.
    Method,
    /// The pseudo-field `:scheme`.
    Scheme,
    /// The pseudo-field `:authority`.
    Authority,
    /// The pseudo-field `:path`.
    Path,
    /// The pseudo-field `:protocol` of RFC 8441.
    Protocol,
    /// The pseudo-field `:status`.
    Status,
    /// `content-length`, whose value the body must agree with.
    ContentLength,
    /// `host`, which must agree with `:authority`.
    Host,
    /// `cookie`, which may come in crumbs (section 8.2.3).
    Cookie,
    /// `te`, with the value "trailers" (section 8.2.2).
    Te,
    /// `priority` of RFC 9218.
    Priority,
    /// `expect`, for 100-continue.
    Expect,
    /// Any other field that may stand in a message.
    Regular,
    /// None that may: the message is malformed (section 8.1.1).
    Malformed,
}

#[cfg(any(test, feature = "fuzzing"))]
/// What the field is, by name and value.
pub(crate) fn classify(name: &[u8], value: &[u8]) -> FieldKind {
    classify_name(name).with_value(value)
}

/// What fields of the name are if their value is good.
pub(crate) fn classify_name(name: &[u8]) -> FieldKind {
    match name {
        b":method" => FieldKind::Method,
        b":scheme" => FieldKind::Scheme,
        b":authority" => FieldKind::Authority,
        b":path" => FieldKind::Path,
        b":protocol" => FieldKind::Protocol,
        b":status" => FieldKind::Status,
        b"content-length" => FieldKind::ContentLength,
        b"host" => FieldKind::Host,
        b"cookie" => FieldKind::Cookie,
        b"te" => FieldKind::Te,
        b"priority" => FieldKind::Priority,
        b"expect" => FieldKind::Expect,
        _ if is_connection_specific(name) || !is_lower_case_token(name) => FieldKind::Malformed,
        _ => FieldKind::Regular,
    }
}

/// Whether the name is one of section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message
/// containing connection-specific header fields. This includes the Connection header field and
/// those listed as having connection-specific semantics in Section 7.6.1 of [HTTP]".
pub(crate) fn is_connection_specific(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}

/// Section 8.2.2: the TE field "MUST NOT contain any value other than "trailers"".
pub(crate) fn is_allowed_te(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"trailers")
}

impl FieldKind {
    /// What a field is whose name is of this kind, with the value.
    #[inline]
    pub(crate) fn with_value(self, value: &[u8]) -> Self {
        let good = match self {
            FieldKind::Method
            | FieldKind::Scheme
            | FieldKind::Authority
            | FieldKind::Path
            | FieldKind::Protocol
            | FieldKind::Status => !holds_forbidden(value),
            FieldKind::Te => is_allowed_te(value),
            _ => !holds_forbidden(value) && !is_padded(value),
        };
        if good { self } else { FieldKind::Malformed }
    }
}

/// Section 8.2.1: "A field value MUST NOT contain the zero value (ASCII NUL, 0x00), line feed
/// (ASCII LF, 0x0a), or carriage return (ASCII CR, 0x0d) at any position."
fn holds_forbidden(value: &[u8]) -> bool {
    // Without a way out early: so the compiler compares many bytes at once.
    value.iter().fold(false, |found, byte| {
        found | matches!(byte, 0 | b'\n' | b'\r')
    })
}

/// Section 8.2.1: "A field value MUST NOT start or end with an ASCII whitespace character (ASCII SP
/// or HTAB, 0x20 or 0x09)."
fn is_padded(value: &[u8]) -> bool {
    let space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    space(value.first()) || space(value.last())
}

/// RFC 9110 section 5.1 has a token for a name; RFC 9113 section 8.2.1 forbids upper case, and "with
/// the exception of pseudo-header fields [...] field names MUST NOT include a colon".
fn is_lower_case_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| TOKEN[usize::from(*byte)])
}

/// The bytes of RFC 9110's token, without upper case.
static TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let bytes = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < bytes.len() {
        token[bytes[at] as usize] = true;
        at += 1;
    }
    token
};

#[cfg(test)]
mod tests {
    use super::FieldKind::*;
    use super::*;

    #[test]
    fn what_the_engine_acts_on_has_a_kind_of_its_own() {
        for (name, value, kind) in [
            (":method", "GET", Method),
            (":scheme", "https", Scheme),
            (":authority", "a.example", Authority),
            (":path", "/", Path),
            (":protocol", "websocket", Protocol),
            (":status", "200", Status),
            ("content-length", "5", ContentLength),
            ("host", "a.example", Host),
            ("cookie", "a=b", Cookie),
            ("te", "trailers", Te),
            ("te", "Trailers", Te),
            ("priority", "u=1", Priority),
            ("expect", "100-continue", Expect),
            ("accept", "*/*", Regular),
            ("x_0.~!#$%&'*+-^`|", "", Regular),
        ] {
            assert_eq!(kind_of(name, value), kind, "{name}: {value}");
        }
    }

    /// Section 8.2.1: "A field name MUST NOT contain characters in the ranges 0x00-0x20, 0x41-0x5a,
    /// or 0x7f-0xff (all inclusive)."
    #[test]
    fn a_name_has_no_upper_case_controls_or_bytes_above_ascii() {
        for byte in (0..=0x20).chain(0x41..=0x5a).chain(0x7f..=0xff) {
            assert_eq!(classify(&[b'a', byte], b"x"), Malformed, "{byte:#x}");
            assert_eq!(classify(&[byte, b'a'], b"x"), Malformed, "{byte:#x}");
        }
        assert_eq!(kind_of("Content-length", "5"), Malformed);
    }

    /// RFC 9110 section 5.1: "field-name = token".
    #[test]
    fn a_name_is_a_token() {
        assert_eq!(kind_of("", "x"), Malformed);
        for byte in b"\"(),/:;<=>?@[\\]{}" {
            assert_eq!(classify(&[b'a', *byte], b"x"), Malformed, "{byte:#x}");
        }
    }

    /// Section 8.2.1: "With the exception of pseudo-header fields (Section 8.3), which have a name
    /// that starts with a single colon, field names MUST NOT include a colon". Section 8.3:
    /// "Endpoints MUST treat a request or response that contains undefined or invalid pseudo-header
    /// fields as malformed".
    #[test]
    fn a_colon_stands_before_known_pseudo_fields_alone() {
        for name in [":", ":unknown", "::path", ":Path", "a:b", "a:", ":host"] {
            assert_eq!(kind_of(name, "x"), Malformed, "{name}");
        }
    }

    /// Section 8.2.1: "A field value MUST NOT contain the zero value (ASCII NUL, 0x00), line feed
    /// (ASCII LF, 0x0a), or carriage return (ASCII CR, 0x0d) at any position."
    #[test]
    fn a_value_holds_no_nul_line_feed_or_carriage_return() {
        for name in [":path", ":status", "accept", "cookie", "content-length"] {
            for value in [
                "\0",
                "a\nb",
                "a\r",
                "\0a",
                "a much longer value, long enough\r x",
            ] {
                assert_eq!(kind_of(name, value), Malformed, "{name}: {value:?}");
            }
            assert_ne!(classify(name.as_bytes(), b"\x01\x7f\xff"), Malformed);
        }
    }

    /// Section 8.2.1: "A field value MUST NOT start or end with an ASCII whitespace character (ASCII
    /// SP or HTAB, 0x20 or 0x09)."
    #[test]
    fn a_value_has_no_space_around_it() {
        for value in [" ", "\t", " a", "a ", "\ta", "a\t"] {
            assert_eq!(kind_of("accept", value), Malformed, "{value:?}");
            assert_eq!(kind_of(":path", value), Path, "the engine's to judge");
        }
        assert_eq!(kind_of("accept", "a \t b"), Regular);
    }

    /// Section 8.2.2: "Any message containing connection-specific header fields MUST be treated as
    /// malformed".
    #[test]
    fn fields_of_a_connection_are_malformed() {
        for name in [
            "connection",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
        ] {
            assert_eq!(kind_of(name, "x"), Malformed, "{name}");
        }
        assert_eq!(kind_of("upgrade-insecure-requests", "1"), Regular);
    }

    /// Section 8.2.2: "The only exception to this is the TE header field, which MAY be present in an
    /// HTTP/2 request; when it is, it MUST NOT contain any value other than "trailers"."
    #[test]
    fn te_says_trailers_or_nothing() {
        for value in ["", "gzip", "trailers, gzip", " trailers", "trailers;q=1"] {
            assert_eq!(kind_of("te", value), Malformed, "{value:?}");
        }
    }

    fn kind_of(name: &str, value: &str) -> FieldKind {
        classify(name.as_bytes(), value.as_bytes())
    }
}
