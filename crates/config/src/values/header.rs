//! Fields that responses are given.

use std::fmt;

/// Fields that the server says itself: framing of messages, what belongs to a connection, and what
/// measuring and offering rest on.
const OF_THE_SERVER: [&str; 15] = [
    "alt-svc",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Fields of a response of an upstream that a proxy leaves as they are: framing, what belongs to a connection, and what
/// says how to read the content.
const OF_A_RESPONSE: [&str; 12] = [
    "alt-svc",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "keep-alive",
    "proxy-connection",
    "sec-websocket-accept",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields of a request that a proxy says itself: framing, what belongs to a connection, and the handshake of WebSockets.
const OF_A_REQUEST: [&str; 13] = [
    "connection",
    "content-length",
    "early-data",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "sec-websocket-key",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// A field of a response, or of a request to an upstream: a name in lower case, and a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderField {
    name: String,
    value: String,
}

impl HeaderField {
    /// A field with a name in any case.
    ///
    /// # Errors
    /// The name is none (RFC 9110 section 5.1) or one of those that the server says itself, or the value
    /// can't be sent (RFC 9110 section 5.5).
    pub fn new(name: &str, value: &str) -> Result<Self, BadField> {
        Self::beside(&OF_THE_SERVER, name, value)
    }

    /// A field that a proxy adds to the request that it sends to an upstream.
    ///
    /// # Errors
    /// As of [`HeaderField::new`], for the fields that a proxy says of requests.
    pub fn of_request(name: &str, value: &str) -> Result<Self, BadField> {
        Self::beside(&OF_A_REQUEST, name, value)
    }

    /// A field that a proxy adds to an upstream's response.
    ///
    /// # Errors
    /// As of [`HeaderField::new`], for the fields that a proxy leaves as they are.
    pub fn of_response(name: &str, value: &str) -> Result<Self, BadField> {
        Self::beside(&OF_A_RESPONSE, name, value)
    }

    /// A field that is none of those in `reserved`.
    fn beside(reserved: &[&str], name: &str, value: &str) -> Result<Self, BadField> {
        if !is_name(name) {
            return Err(BadField::Name(name.into()));
        }
        let name = name.to_ascii_lowercase();
        if reserved.contains(&name.as_str()) {
            return Err(BadField::OfTheServer(name));
        }
        if !is_value(value) {
            return Err(BadField::Value(value.into()));
        }
        let value = value.into();
        Ok(Self { name, value })
    }

    /// The name in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Fields by their names. Text form: a name in any case (`server`), or a beginning and `*` (`x-internal-*`), which is
/// none of the fields that are the proxy's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldPattern(String);

impl FieldPattern {
    /// The fields of a request that a proxy sends to an upstream.
    ///
    /// # Errors
    /// The text is neither a name nor the beginning of one, or the name of a field that is the proxy's.
    pub fn of_request(text: &str) -> Result<Self, BadField> {
        Self::beside(&OF_A_REQUEST, text)
    }

    /// The fields of an upstream's response.
    ///
    /// # Errors
    /// As of [`FieldPattern::of_request`].
    pub fn of_response(text: &str) -> Result<Self, BadField> {
        Self::beside(&OF_A_RESPONSE, text)
    }

    fn beside(reserved: &[&str], text: &str) -> Result<Self, BadField> {
        if !is_name(text.strip_suffix('*').unwrap_or(text)) {
            return Err(BadField::Pattern(text.into()));
        }
        let text = text.to_ascii_lowercase();
        match reserved.contains(&text.as_str()) {
            true => Err(BadField::OfTheServer(text)),
            false => Ok(Self(text)),
        }
    }

    /// The name in lower case, or its beginning and `*`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Returns true if a text can be the name of a field (RFC 9110 section 5.1).
fn is_name(name: &str) -> bool {
    let of_a_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(of_a_token)
}

/// Returns true if a text can be the value of a field: printable ASCII, spaces and tabs between.
pub(crate) fn is_value(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
        && value.trim() == value
}

/// `name: value`.
impl fmt::Display for HeaderField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

/// The reason why something can't be a field of a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadField {
    /// The text has no valid name.
    #[error(
        "`{}` is not the name of a header field: expected letters, digits and `-`", .0.escape_debug()
    )]
    Name(String),
    /// The text is neither a name nor the beginning of one.
    #[error(
        "`{}` names no header fields: expected a name, or its beginning and `*`", .0.escape_debug()
    )]
    Pattern(String),
    /// The server says it itself.
    #[error("the field `{0}` is set by the server itself")]
    OfTheServer(String),
    /// The value can't be sent.
    #[error(
        "`{}` is not the value of a header field: expected printable ASCII without space at the ends", .0.escape_debug()
    )]
    Value(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_name_in_lower_case_and_a_value_that_can_be_sent() {
        let field = HeaderField::new("X-Frame-Options", "DENY").unwrap();
        assert_eq!(field.to_string(), "x-frame-options: DENY");
        assert!(HeaderField::new("x", "").is_ok());
        for (name, value) in [("", "a"), ("a b", "c"), ("a:", "b"), ("ü", "b")] {
            assert!(
                matches!(HeaderField::new(name, value), Err(BadField::Name(_))),
                "{name}"
            );
        }
        for value in ["a\r\nb: c", " a", "a\t", "é", "\0"] {
            assert!(
                matches!(HeaderField::new("x", value), Err(BadField::Value(_))),
                "{value:?}"
            );
        }
        for name in ["Content-Length", "transfer-encoding", "Alt-Svc"] {
            assert!(matches!(
                HeaderField::new(name, "1"),
                Err(BadField::OfTheServer(_))
            ));
        }
    }

    #[test]
    fn fields_that_a_proxy_says_itself_are_neither_set_nor_removed() {
        assert!(HeaderField::of_request("X-Tenant", "a").is_ok());
        assert!(HeaderField::of_response("Vary", "origin").is_ok());
        for name in ["Host", "Content-Length", "TE", "Via"] {
            assert!(HeaderField::of_request(name, "1").is_err(), "{name}");
            assert!(FieldPattern::of_request(name).is_err(), "{name}");
        }
        for name in ["Alt-Svc", "transfer-encoding", "Content-Encoding"] {
            assert!(HeaderField::of_response(name, "1").is_err(), "{name}");
            assert!(FieldPattern::of_response(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_a_name_or_the_beginning_of_one() {
        for (text, printed) in [("Server", "server"), ("X-Internal-*", "x-internal-*")] {
            let pattern = FieldPattern::of_response(text).unwrap();
            assert_eq!(pattern.as_str(), printed);
        }
        for text in ["", "*", "a b", "x-a:*", "ü*"] {
            assert!(
                matches!(FieldPattern::of_response(text), Err(BadField::Pattern(_))),
                "{text}"
            );
        }
    }
}
