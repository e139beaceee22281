//! Raw heads of HTTP/1 requests: lines, words and fields as RFC 9112 has them, and no other way.

use crate::{FieldChecks, FieldKind, Head, MAX_FIELDS, Refusal, Request, Rules, Version};

/// Checks a whole head, from its request line to the empty line behind its fields. Empty lines before it
/// don't count (RFC 9112 section 2.2).
///
/// # Errors
/// The first rule that it breaks.
pub fn check(mut bytes: &[u8], rules: Rules) -> Result<Request<'_>, Refusal> {
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    let (line, mut rest) = line(bytes)?;
    let (method, target, version) = request_line(line)?;
    let mut fields = FieldChecks::new(version);
    let (mut host, mut count) = (None, 0);
    loop {
        let (line, behind) = self::line(rest)?;
        rest = behind;
        if line.is_empty() {
            break;
        }
        count += 1;
        if count > MAX_FIELDS {
            return Err(Refusal::TooLarge);
        }
        let (name, value) = field_line(line)?;
        let kind = FieldKind::of_http1(name).with_value_http1(value);
        fields.field(kind, value);
        if kind == FieldKind::Host {
            host = Some(value);
        }
    }
    let request = rules.check(&Head::http1(method, target, host)?, &fields)?;
    match host.is_none() && version == Version::Http11 {
        // RFC 9112 section 3.2: 400 to "any HTTP/1.1 request message that lacks a Host header field", also where the
        // target names one.
        true => Err(Refusal::AuthorityMissing),
        false => Ok(request),
    }
}

/// Checks a trailer section, from its first line to the empty one behind it.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_trailers(mut bytes: &[u8]) -> Result<(), Refusal> {
    loop {
        let (line, rest) = line(bytes)?;
        if line.is_empty() {
            return Ok(());
        }
        let (name, value) = field_line(line)?;
        let kind = FieldKind::of_http1(name).with_value_http1(value);
        if let FieldKind::Refused(refusal) = kind {
            return Err(refusal);
        }
        crate::checks::check_trailer(name)?;
        bytes = rest;
    }
}

/// The next line without its end, and what is behind it.
fn line(bytes: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (line, rest) = bytes.split_at(end.ok_or(Refusal::LineEnd)?);
    let line = line.strip_suffix(b"\r").ok_or(Refusal::LineEnd)?;
    Ok((line, &rest[1..]))
}

fn request_line(line: &[u8]) -> Result<(&[u8], &[u8], Version), Refusal> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut next = || words.next().filter(|word| !word.is_empty());
    let (Some(method), Some(target), Some(version), None) = (next(), next(), next(), words.next())
    else {
        return Err(Refusal::RequestLine);
    };
    match version {
        b"HTTP/1.1" => Ok((method, target, Version::Http11)),
        b"HTTP/1.0" => Ok((method, target, Version::Http10)),
        _ => Err(Refusal::HttpVersion),
    }
}

/// RFC 9112 section 5.1: "No whitespace is allowed between the field name and colon."
fn field_line(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Refusal::Fold);
    }
    let colon = line.iter().position(|byte| *byte == b':');
    let (name, value) = line.split_at(colon.ok_or(Refusal::FieldLine)?);
    Ok((name, trim(&value[1..])))
}

/// The value without spaces and tabs around it, and no other bytes (RFC 9110 section 5.6.3).
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
