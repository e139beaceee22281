//! A single field: the meaning of its name to a message, and the bytes that its value may have.
//!
//! HPACK's dynamic table keeps a field's kind beside it, so that a field which comes back in every
//! request of a connection is looked at once.

use crate::Refusal;

/// The meaning of a field to the rules of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
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
    /// `content-length`, with which the content must agree.
    ContentLength,
    /// `transfer-encoding`, of HTTP/1.1 alone.
    TransferEncoding,
    /// `connection` and other fields of HTTP/1.1 connections (RFC 9113 section 8.2.2).
    Connection,
    /// `host`, which must agree with `:authority`.
    Host,
    /// `cookie`, which may arrive in crumbs (RFC 9113 section 8.2.3).
    Cookie,
    /// `te`, with the value "trailers" over HTTP/2 and HTTP/3.
    Te,
    /// `priority` of RFC 9218.
    Priority,
    /// `expect`, for 100-continue.
    Expect,
    /// A field that stands in a request once; the number tells one from another.
    Single(u8),
    /// Any other field that may stand in a message.
    Regular,
    /// A field that may stand in none.
    Refused(Refusal),
}

/// Fields that decide what is asked for, by whom, or what the content is, and are no lists
/// (RFC 9110 section 5.3). Others may be repeated.
const SINGLE: [&[u8]; 10] = [
    b"authorization",
    b"content-range",
    b"content-type",
    b"if-modified-since",
    b"if-range",
    b"if-unmodified-since",
    b"max-forwards",
    b"origin",
    b"proxy-authorization",
    b"range",
];

/// Longer names are none that a rule is about.
const LONGEST: usize = 24;

impl FieldKind {
    /// The kind of a field of HTTP/2 or HTTP/3 by its name alone.
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        match known(name) {
            Some(kind) => kind,
            None if is_token(name, &LOWER_CASE) => Self::Regular,
            None if name.first() == Some(&b':') => Self::Refused(Refusal::PseudoField),
            None if is_token(name, &TOKEN) => Self::Refused(Refusal::UpperCase),
            None => Self::Refused(Refusal::FieldName),
        }
    }

    /// The kind of a field of HTTP/1, whose names are lower and upper case alike. There are no
    /// pseudo-fields.
    #[must_use]
    pub fn of_http1(name: &[u8]) -> Self {
        if !is_token(name, &TOKEN) {
            return Self::Refused(Refusal::FieldName);
        }
        let mut lower = [0; LONGEST];
        let Some(lower) = lower.get_mut(..name.len()) else {
            return Self::Regular;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        known(lower).unwrap_or(Self::Regular)
    }

    /// The kind of a field with that value, over HTTP/2 and HTTP/3.
    #[must_use]
    #[inline]
    pub fn with_value(self, value: &[u8]) -> Self {
        let refusal = match self {
            Self::Refused(_) => return self,
            _ if has_control(value) => Refusal::FieldValue,
            // The rules for targets look at those.
            _ if self.is_pseudo() => return self,
            Self::Te if !value.eq_ignore_ascii_case(b"trailers") => Refusal::Te,
            _ if is_padded(value) => Refusal::Padded,
            _ => return self,
        };
        Self::Refused(refusal)
    }

    /// The kind of a field with that value, without the space around it, in HTTP/1.
    #[must_use]
    pub fn with_value_http1(self, value: &[u8]) -> Self {
        match self {
            Self::Refused(_) => self,
            _ if has_control(value) => Self::Refused(Refusal::FieldValue),
            _ => self,
        }
    }

    /// Returns whether it is a pseudo-field (RFC 9113 section 8.3).
    #[must_use]
    pub fn is_pseudo(self) -> bool {
        matches!(
            self,
            Self::Method
                | Self::Scheme
                | Self::Authority
                | Self::Path
                | Self::Protocol
                | Self::Status
        )
    }

    /// Returns whether an endpoint of HTTP/2 or HTTP/3 may send a field of the name and value: one
    /// that is specific to connections of HTTP/1.1 may not be sent (RFC 9113 section 8.2.2, RFC
    /// 9114 section 4.2).
    #[must_use]
    pub fn may_be_sent(name: &[u8], value: &[u8]) -> bool {
        match name {
            b"te" => value.eq_ignore_ascii_case(b"trailers"),
            _ => !is_of_connection(name) && name != b"transfer-encoding",
        }
    }
}

fn known(name: &[u8]) -> Option<FieldKind> {
    Some(match name {
        b":method" => FieldKind::Method,
        b":scheme" => FieldKind::Scheme,
        b":authority" => FieldKind::Authority,
        b":path" => FieldKind::Path,
        b":protocol" => FieldKind::Protocol,
        b":status" => FieldKind::Status,
        b"content-length" => FieldKind::ContentLength,
        b"transfer-encoding" => FieldKind::TransferEncoding,
        _ if is_of_connection(name) => FieldKind::Connection,
        b"host" => FieldKind::Host,
        b"cookie" => FieldKind::Cookie,
        b"te" => FieldKind::Te,
        b"priority" => FieldKind::Priority,
        b"expect" => FieldKind::Expect,
        _ => {
            let number = SINGLE.iter().position(|single| *single == name)?;
            FieldKind::Single(u8::try_from(number).ok()?)
        }
    })
}

fn is_of_connection(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"upgrade"
    )
}

/// RFC 9110 section 5.5 has visible bytes, spaces, tabs, and bytes above ASCII.
pub(crate) fn has_control(value: &[u8]) -> bool {
    // Without a way out early: so the compiler compares many bytes at once.
    value.iter().fold(false, |found, byte| {
        found | ((*byte < b' ') & (*byte != b'\t')) | (*byte == 0x7f)
    })
}

fn is_padded(value: &[u8]) -> bool {
    let space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    space(value.first()) || space(value.last())
}

/// RFC 9110 section 5.6.2: "token = 1*tchar".
pub(crate) fn is_any_token(text: &[u8]) -> bool {
    is_token(text, &TOKEN)
}

fn is_token(text: &[u8], bytes: &[bool; 256]) -> bool {
    !text.is_empty() && are_all(text, bytes)
}

pub(crate) fn are_all(text: &[u8], bytes: &[bool; 256]) -> bool {
    text.iter().all(|byte| bytes[usize::from(*byte)])
}

static LOWER_CASE: [bool; 256] = table(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz");
static TOKEN: [bool; 256] =
    table(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

pub(crate) const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests;
