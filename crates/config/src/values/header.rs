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

/// A field of a response: a name in lower case, and a value.
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
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(BadField::Name(name.into()));
        }
        let name = name.to_ascii_lowercase();
        if OF_THE_SERVER.contains(&name.as_str()) {
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

/// Whether a text can be the value of a field: printable ASCII, spaces and tabs between.
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
    /// It has no valid name.
    #[error(
        "`{}` is not the name of a header field: expected letters, digits and `-`", .0.escape_debug()
    )]
    Name(String),
    /// The server says it itself.
    #[error("the field `{0}` is said by the server itself")]
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
}
