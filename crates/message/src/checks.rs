//! The fields of a section together: their order, repeats, and what they say of the content.

use crate::field::is_any_token;
use crate::{FieldKind, Refusal, Version};

/// A count of a section's fields. The first reason to refuse it is kept.
#[derive(Clone, Copy, Debug)]
pub struct FieldChecks {
    version: Version,
    refusal: Option<Refusal>,
    /// A single field of requests is repeated, which responses may do.
    repeated: bool,
    /// A bit for each kind of pseudo-field and each [`FieldKind::Single`].
    seen: u32,
    has_regular: bool,
    hosts: bool,
    content_length: Option<u64>,
    transfer_encoding: bool,
}

impl FieldChecks {
    /// An empty section of a message of that version.
    #[must_use]
    pub fn new(version: Version) -> Self {
        Self {
            version,
            refusal: None,
            repeated: false,
            seen: 0,
            has_regular: false,
            hosts: false,
            content_length: None,
            transfer_encoding: false,
        }
    }

    /// Counts the next field; the value may have an influence on its kind.
    #[inline]
    pub fn field(&mut self, kind: FieldKind, value: &[u8]) {
        if let Err(refusal) = self.count(kind, value) {
            self.refusal.get_or_insert(refusal);
        }
    }

    /// The value of Content-Length.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// The reason to refuse the section, whatever message it is.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// The version that it was made for.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether there is a pseudo-field in it.
    #[must_use]
    fn has_pseudo_fields(&self) -> bool {
        self.seen & (2 * STATUS - 1) != 0
    }

    pub(crate) fn has_status(&self) -> bool {
        self.seen & STATUS != 0
    }

    pub(crate) fn is_repeated(&self) -> bool {
        self.repeated
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.transfer_encoding
    }

    fn count(&mut self, kind: FieldKind, value: &[u8]) -> Result<(), Refusal> {
        if let FieldKind::Refused(refusal) = kind {
            return Err(refusal);
        }
        if let Some(bit) = pseudo_bit(kind) {
            let result = match () {
                () if self.has_regular => Err(Refusal::PseudoLate),
                () if self.seen & bit != 0 => Err(Refusal::PseudoRepeated),
                () => Ok(()),
            };
            self.seen |= bit;
            return result;
        }
        self.has_regular = true;
        match kind {
            FieldKind::Host if std::mem::replace(&mut self.hosts, true) => {
                return Err(Refusal::HostRepeated);
            }
            FieldKind::ContentLength => return self.length(value),
            FieldKind::TransferEncoding => return self.transfer_encoding(value),
            FieldKind::Connection if self.version.is_multiplexed() => {
                return Err(Refusal::ConnectionSpecific);
            }
            FieldKind::Single(number) => {
                let bit = 1 << (8 + u32::from(number));
                self.repeated |= self.seen & bit != 0;
                self.seen |= bit;
            }
            _ => {}
        }
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.content_length.is_some() {
            return Err(Refusal::ContentLengthRepeated);
        }
        if self.transfer_encoding {
            return Err(Refusal::BothLengths);
        }
        self.content_length = Some(content_length(value)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        match self.version {
            Version::Http2 | Version::Http3 => return Err(Refusal::ConnectionSpecific),
            Version::Http10 => return Err(Refusal::TransferEncodingEarly),
            Version::Http11 => {}
        }
        if self.content_length.is_some() {
            return Err(Refusal::BothLengths);
        }
        if std::mem::replace(&mut self.transfer_encoding, true) {
            return Err(Refusal::TransferEncoding);
        }
        codings(value)
    }
}

const STATUS: u32 = 1 << 5;

/// The bit of a pseudo-field; those of requests are below that of `:status`.
fn pseudo_bit(kind: FieldKind) -> Option<u32> {
    Some(match kind {
        FieldKind::Method => 1,
        FieldKind::Scheme => 1 << 1,
        FieldKind::Authority => 1 << 2,
        FieldKind::Path => 1 << 3,
        FieldKind::Protocol => 1 << 4,
        FieldKind::Status => STATUS,
        _ => return None,
    })
}

/// The value of a Content-Length field: digits alone, no sign, no list (RFC 9110 section 8.6).
///
/// # Errors
/// It is something else, or above 2^64 − 1.
pub fn content_length(value: &[u8]) -> Result<u64, Refusal> {
    decimal(value).ok_or(Refusal::ContentLength)
}

/// The length that a response's lines of Content-Length agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedLength {
    /// Bytes of content.
    pub bytes: u64,
    /// True if there are several lines, of which one is to be passed on.
    pub is_repeated: bool,
}

/// The length that the values of a response's Content-Length agree on; `None`: there is no such field. Applications and the servers
/// before them repeat it, and RFC 9110 section 8.6 lets a recipient take one "prior to determining the message body length or
/// forwarding the message".
///
/// # Errors
/// Values differ, or are no length.
pub fn response_length<'v>(
    values: impl IntoIterator<Item = &'v [u8]>,
) -> Result<Option<AgreedLength>, Refusal> {
    let mut values = values.into_iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let bytes = content_length(first)?;
    let mut is_repeated = false;
    for other in values {
        is_repeated = true;
        if other != first {
            return Err(Refusal::ContentLengthRepeated);
        }
    }
    Ok(Some(AgreedLength { bytes, is_repeated }))
}

/// Checks the status of a response over HTTP/2 or HTTP/3: three digits, 100 to 999, but not 101
/// (RFC 9113 section 8.6, RFC 9114 section 4.5).
///
/// # Errors
/// It is something else, or the section is refused.
pub fn check_response(status: Option<&[u8]>, fields: &FieldChecks) -> Result<u16, Refusal> {
    if let Some(refusal) = fields.refusal {
        return Err(refusal);
    }
    if fields.seen & (STATUS - 1) != 0 {
        return Err(Refusal::PseudoField);
    }
    let Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) = status else {
        return Err(Refusal::Status);
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    match digit(a) * 100 + digit(b) * 10 + digit(c) {
        101 => Err(Refusal::Status),
        status => Ok(status),
    }
}

/// Checks a trailer section over HTTP/2 or HTTP/3, of which these are the names.
///
/// # Errors
/// The section is refused, or has a field that must not stand there.
pub fn check_trailers<'a>(
    fields: &FieldChecks,
    mut names: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Refusal> {
    if let Some(refusal) = fields.refusal {
        return Err(refusal);
    }
    if fields.has_pseudo_fields() {
        return Err(Refusal::PseudoField);
    }
    names.try_for_each(check_trailer)
}

/// Checks the name of a field in a trailer section, upper and lower case alike. What RFC 9110 section
/// 6.5.1 keeps out are the fields that frame, route, authenticate or change a request, control a
/// response, or say what the content is.
///
/// # Errors
/// It is a pseudo-field, or must not stand there.
pub(crate) fn check_trailer(name: &[u8]) -> Result<(), Refusal> {
    if name.first() == Some(&b':') {
        return Err(Refusal::PseudoField);
    }
    let is = |forbidden: &&[u8]| name.eq_ignore_ascii_case(forbidden);
    let conditional = name.len() > 3 && name[..3].eq_ignore_ascii_case(b"if-");
    match conditional || NO_TRAILERS.iter().any(is) {
        true => Err(Refusal::Trailer),
        false => Ok(()),
    }
}

const NO_TRAILERS: [&[u8]; 28] = [
    b"age",
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"expires",
    b"host",
    b"keep-alive",
    b"location",
    b"max-forwards",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"vary",
    b"www-authenticate",
];

/// Looks at the list of codings: `chunked` alone is what this server has.
fn codings(value: &[u8]) -> Result<(), Refusal> {
    let chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    if chunked(value) {
        return Ok(());
    }
    let mut codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let last = codings.next_back().unwrap_or_default();
    let name = |coding: &[u8]| -> bool {
        let end = coding.iter().position(|byte| *byte == b';');
        let name = coding[..end.unwrap_or(coding.len())].trim_ascii();
        is_any_token(name) && !chunked(name)
    };
    // Without `chunked` at its end the length of a request is not certain: RFC 9112 section 6.3.
    match chunked(last) && codings.all(name) {
        true => Err(Refusal::TransferCoding),
        false => Err(Refusal::TransferEncoding),
    }
}

pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_are_one_chunked_or_refused() {
        assert_eq!(codings(b"chunked"), Ok(()));
        assert_eq!(codings(b"CHUNKED"), Ok(()));
        for value in ["gzip, chunked", "a,b;q=1 , chunked", "identity, chunked"] {
            assert_eq!(
                codings(value.as_bytes()),
                Err(Refusal::TransferCoding),
                "{value}"
            );
        }
        for value in [
            "",
            "gzip",
            "identity",
            "chunked, gzip",
            "chunked, chunked",
            "chunked;q=1",
            ", chunked",
            "chunked,",
            "chunked;a, chunked",
            "xchunked",
            "chunked x",
            "chun\u{b}ked",
            "\"chunked\"",
        ] {
            assert_eq!(
                codings(value.as_bytes()),
                Err(Refusal::TransferEncoding),
                "{value}"
            );
        }
    }

    #[test]
    fn lengths_are_plain_numbers() {
        assert_eq!(content_length(b"0"), Ok(0));
        assert_eq!(content_length(b"18446744073709551615"), Ok(u64::MAX));
        for value in [
            "",
            "+5",
            "-5",
            "5, 5",
            "5 5",
            "0x5",
            "18446744073709551616",
            "5\0",
            "٥",
        ] {
            assert_eq!(
                content_length(value.as_bytes()),
                Err(Refusal::ContentLength),
                "{value}"
            );
        }
    }

    #[test]
    fn lengths_of_a_response_agree() {
        let length =
            |values: &[&'static str]| response_length(values.iter().map(|it| it.as_bytes()));
        let agreed = |bytes, is_repeated| Ok(Some(AgreedLength { bytes, is_repeated }));
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&["5"]), agreed(5, false));
        assert_eq!(length(&["5", "5", "5"]), agreed(5, true));
        for values in [&["5", "6"][..], &["5", "5", "05"], &["5", ""], &["5", "x"]] {
            assert_eq!(length(values), Err(Refusal::ContentLengthRepeated));
        }
        for values in [&["x"][..], &["x", "x"], &["5, 5"], &["", "5"]] {
            assert_eq!(length(values), Err(Refusal::ContentLength));
        }
    }

    #[test]
    fn trailers_hold_what_can_be_read_late() {
        for name in ["etag", "grpc-status", "server-timing", "x", "if", "if-"] {
            assert_eq!(check_trailer(name.as_bytes()), Ok(()), "{name}");
        }
        for name in ["host", "Content-Length", "if-match", "TE", "set-cookie"] {
            assert_eq!(
                check_trailer(name.as_bytes()),
                Err(Refusal::Trailer),
                "{name}"
            );
        }
        assert_eq!(check_trailer(b":path"), Err(Refusal::PseudoField));
    }

    #[test]
    fn a_status_is_three_digits_and_not_101() {
        let status = |text: &[u8]| check_response(Some(text), &FieldChecks::new(Version::Http2));
        assert_eq!(status(b"404"), Ok(404));
        assert_eq!(status(b"999"), Ok(999));
        for text in ["", "20", "099", "101", "2000", "+20", "2 0"] {
            assert_eq!(status(text.as_bytes()), Err(Refusal::Status), "{text}");
        }
    }
}
