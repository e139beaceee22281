//! HPACK's static table (RFC 7541 appendix A) and the search in it.

use altway_message::FieldKind;

/// An entry of the static table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static [u8],
    pub(crate) value: &'static [u8],
    pub(crate) kind: FieldKind,
}

const fn entry(name: &'static str, value: &'static str, kind: FieldKind) -> Entry {
    Entry {
        name: name.as_bytes(),
        value: value.as_bytes(),
        kind,
    }
}

/// The entries; the first one has the index 1.
pub(crate) static ENTRIES: [Entry; 61] = [
    entry(":authority", "", FieldKind::Authority),
    entry(":method", "GET", FieldKind::Method),
    entry(":method", "POST", FieldKind::Method),
    entry(":path", "/", FieldKind::Path),
    entry(":path", "/index.html", FieldKind::Path),
    entry(":scheme", "http", FieldKind::Scheme),
    entry(":scheme", "https", FieldKind::Scheme),
    entry(":status", "200", FieldKind::Status),
    entry(":status", "204", FieldKind::Status),
    entry(":status", "206", FieldKind::Status),
    entry(":status", "304", FieldKind::Status),
    entry(":status", "400", FieldKind::Status),
    entry(":status", "404", FieldKind::Status),
    entry(":status", "500", FieldKind::Status),
    entry("accept-charset", "", FieldKind::Regular),
    entry("accept-encoding", "gzip, deflate", FieldKind::Regular),
    entry("accept-language", "", FieldKind::Regular),
    entry("accept-ranges", "", FieldKind::Regular),
    entry("accept", "", FieldKind::Regular),
    entry("access-control-allow-origin", "", FieldKind::Regular),
    entry("age", "", FieldKind::Regular),
    entry("allow", "", FieldKind::Regular),
    entry("authorization", "", FieldKind::Single(0)),
    entry("cache-control", "", FieldKind::Regular),
    entry("content-disposition", "", FieldKind::Regular),
    entry("content-encoding", "", FieldKind::Regular),
    entry("content-language", "", FieldKind::Regular),
    entry("content-length", "", FieldKind::ContentLength),
    entry("content-location", "", FieldKind::Regular),
    entry("content-range", "", FieldKind::Single(1)),
    entry("content-type", "", FieldKind::Single(2)),
    entry("cookie", "", FieldKind::Cookie),
    entry("date", "", FieldKind::Regular),
    entry("etag", "", FieldKind::Regular),
    entry("expect", "", FieldKind::Expect),
    entry("expires", "", FieldKind::Regular),
    entry("from", "", FieldKind::Regular),
    entry("host", "", FieldKind::Host),
    entry("if-match", "", FieldKind::Regular),
    entry("if-modified-since", "", FieldKind::Single(3)),
    entry("if-none-match", "", FieldKind::Regular),
    entry("if-range", "", FieldKind::Single(4)),
    entry("if-unmodified-since", "", FieldKind::Single(5)),
    entry("last-modified", "", FieldKind::Regular),
    entry("link", "", FieldKind::Regular),
    entry("location", "", FieldKind::Regular),
    entry("max-forwards", "", FieldKind::Single(6)),
    entry("proxy-authenticate", "", FieldKind::Regular),
    entry("proxy-authorization", "", FieldKind::Single(8)),
    entry("range", "", FieldKind::Single(9)),
    entry("referer", "", FieldKind::Regular),
    entry("refresh", "", FieldKind::Regular),
    entry("retry-after", "", FieldKind::Regular),
    entry("server", "", FieldKind::Regular),
    entry("set-cookie", "", FieldKind::Regular),
    entry("strict-transport-security", "", FieldKind::Regular),
    entry("transfer-encoding", "", FieldKind::TransferEncoding),
    entry("user-agent", "", FieldKind::Regular),
    entry("vary", "", FieldKind::Regular),
    entry("via", "", FieldKind::Regular),
    entry("www-authenticate", "", FieldKind::Regular),
];

/// Part of a field that the table holds, with the entry's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Name and value.
    Field(u8),
    /// The name.
    Name(u8),
}

/// The entry that spares most of a field.
pub(crate) fn find(name: &[u8], value: &[u8]) -> Option<Match> {
    let first = FIRST[slot(name)];
    let entry = ENTRIES.get(usize::from(first.checked_sub(1)?))?;
    if entry.name != name {
        return None;
    }
    let last = match first {
        METHOD | PATH | SCHEME => first + 1,
        STATUS => first + 6,
        _ => first,
    };
    let mut indices = first..=last;
    let whole = indices.find(|index| ENTRIES[usize::from(index - 1)].value == value);
    Some(whole.map_or(Match::Name(first), Match::Field))
}

/// The first of the entries that share a name.
const METHOD: u8 = 2;
const PATH: u8 = 4;
const SCHEME: u8 = 6;
const STATUS: u8 = 8;

/// The first index of each name, by its slot; 0 where there is none.
static FIRST: [u8; 256] = {
    let mut first = [0; 256];
    let mut place = ENTRIES.len();
    while place > 0 {
        let slot = slot(ENTRIES[place - 1].name);
        assert!(
            first[slot] == 0 || slot == self::slot(ENTRIES[place].name),
            "two names share a slot"
        );
        first[slot] = place as u8;
        place -= 1;
    }
    first
};

/// A hash without collisions among the table's names; the factors were found by trial.
const fn slot(name: &[u8]) -> usize {
    match name {
        [first, .., last] => (2 * name.len() + 95 * *last as usize + *first as usize) % 256,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_the_rfc_has_them() {
        for (index, name, value) in [
            (1, ":authority", ""),
            (2, ":method", "GET"),
            (7, ":scheme", "https"),
            (8, ":status", "200"),
            (14, ":status", "500"),
            (15, "accept-charset", ""),
            (16, "accept-encoding", "gzip, deflate"),
            (28, "content-length", ""),
            (32, "cookie", ""),
            (38, "host", ""),
            (57, "transfer-encoding", ""),
            (61, "www-authenticate", ""),
        ] {
            let entry = ENTRIES[index - 1];
            assert_eq!(entry.name, name.as_bytes());
            assert_eq!(entry.value, value.as_bytes());
        }
    }

    #[test]
    fn every_entry_has_the_kind_that_its_name_has() {
        for entry in ENTRIES {
            assert_eq!(entry.kind, FieldKind::of(entry.name), "{entry:?}");
            assert_eq!(entry.kind, entry.kind.with_value(entry.value), "{entry:?}");
        }
    }

    #[test]
    fn every_entry_is_found_and_its_name_with_another_value() {
        for (index, entry) in (1..).zip(ENTRIES) {
            assert_eq!(find(entry.name, entry.value), Some(Match::Field(index)));
            let Some(Match::Name(first)) = find(entry.name, b"another") else {
                panic!("{entry:?}");
            };
            assert!(first <= index);
            assert_eq!(ENTRIES[usize::from(first - 1)].name, entry.name);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for name in [
            "",
            "a",
            "x-own",
            ":protocol",
            "zz",
            "accept-",
            "dat",
            "dates",
        ] {
            assert_eq!(find(name.as_bytes(), b""), None, "{name}");
        }
    }
}
