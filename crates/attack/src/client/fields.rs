//! Field sections made of literals, for clients that need no compression; and the status of a response,
//! which altway's two encoders put first.

use altway_fields::{huffman, integer};

/// A field section of HPACK literals without indexing (RFC 7541 section 6.2.2).
pub(super) fn hpack(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        integer::encode(name.len() as u64, 7, 0, &mut out);
        out.extend_from_slice(name.as_bytes());
        integer::encode(value.len() as u64, 7, 0, &mut out);
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// A field section of QPACK literals (RFC 9204 section 4.5.6).
pub(super) fn qpack(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in fields {
        integer::encode(name.len() as u64, 3, 0x20, &mut out);
        out.extend_from_slice(name.as_bytes());
        integer::encode(value.len() as u64, 7, 0, &mut out);
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// Status at the beginning of a field section of HPACK; table size updates may come before.
pub(super) fn hpack_status(mut section: &[u8]) -> Option<u16> {
    while section.first()? & 0xe0 == 0x20 {
        integer::decode(&mut section, 5)?;
    }
    let first = *section.first()?;
    if first & 0x80 != 0 {
        let known = [200, 204, 206, 304, 400, 404, 500];
        let index = usize::try_from(integer::decode(&mut section, 7)?).ok()?;
        return known.get(index.checked_sub(8)?).copied();
    }
    let bits = if first & 0x40 == 0 { 4 } else { 6 };
    let index = integer::decode(&mut section, bits)?;
    (8..=14).contains(&index).then(|| number(section))?
}

/// Status at the beginning of a field section of QPACK.
pub(super) fn qpack_status(section: &[u8]) -> Option<u16> {
    let mut section = section.get(2..)?;
    let first = *section.first()?;
    if first & 0xc0 == 0xc0 {
        return match integer::decode(&mut section, 6)? {
            24 => Some(103),
            25 => Some(200),
            26 => Some(304),
            27 => Some(404),
            28 => Some(503),
            63 => Some(100),
            64 => Some(204),
            65 => Some(206),
            66 => Some(302),
            67 => Some(400),
            68 => Some(403),
            69 => Some(421),
            70 => Some(425),
            71 => Some(500),
            _ => None,
        };
    }
    if first & 0xd0 != 0x50 {
        return None;
    }
    integer::decode(&mut section, 4)?;
    number(section)
}

/// A number in a string literal.
fn number(mut literal: &[u8]) -> Option<u16> {
    let huffman_coded = literal.first()? & 0x80 != 0;
    let len = usize::try_from(integer::decode(&mut literal, 7)?).ok()?;
    let text = literal.get(..len)?;
    let mut decoded = Vec::new();
    match huffman_coded {
        true => huffman::decode(text, 16, &mut decoded).ok()?,
        false => decoded.extend_from_slice(text),
    }
    std::str::from_utf8(&decoded).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_however_it_is_written() {
        assert_eq!(hpack_status(&[0x20, 0x88]), Some(200));
        assert_eq!(hpack_status(&[0x48, 3, b'4', b'2', b'1']), Some(421));
        assert_eq!(qpack_status(&[0, 0, 0xd9]), Some(200));
        assert_eq!(qpack_status(&[0, 0, 0xff, 4]), Some(400));
        assert_eq!(
            qpack_status(&[0, 0, 0x5f, 9, 3, b'4', b'3', b'1']),
            Some(431)
        );
    }
}
