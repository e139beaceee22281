//! QPACK's static table (RFC 9204 appendix A) and the search in it.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// Name and value by index.
pub(super) const ENTRIES: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    (
        "strict-transport-security",
        "max-age=31536000; includesubdomains",
    ),
    (
        "strict-transport-security",
        "max-age=31536000; includesubdomains; preload",
    ),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    (
        "content-security-policy",
        "script-src 'none'; object-src 'none'; base-uri 'none'",
    ),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// Part of a field that the table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// Name and value, at this index.
    Field(u64),
    /// The name, at this index.
    Name(u64),
}

/// The entry that spares most of a field.
pub(super) fn find(name: &[u8], value: &[u8]) -> Option<Match> {
    let indices = BY_NAME.get(name)?;
    let whole = indices
        .iter()
        .find(|index| ENTRIES[usize::from(**index)].1.as_bytes() == value);
    Some(match whole {
        Some(index) => Match::Field(u64::from(*index)),
        None => Match::Name(u64::from(indices[0])),
    })
}

static BY_NAME: LazyLock<FxHashMap<&[u8], Vec<u8>>> = LazyLock::new(|| {
    let mut map = FxHashMap::<_, Vec<u8>>::default();
    for (index, (name, _)) in (0..).zip(ENTRIES) {
        map.entry(name.as_bytes()).or_default().push(index);
    }
    map
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_the_rfc_has_them() {
        for (index, entry) in [
            (0, (":authority", "")),
            (1, (":path", "/")),
            (17, (":method", "GET")),
            (25, (":status", "200")),
            (52, ("content-type", "text/html; charset=utf-8")),
            (71, (":status", "500")),
            (83, ("alt-svc", "clear")),
            (98, ("x-frame-options", "sameorigin")),
        ] {
            assert_eq!(ENTRIES[index], entry);
        }
    }

    #[test]
    fn finds_the_whole_field_or_else_the_first_of_its_name() {
        assert_eq!(find(b":status", b"404"), Some(Match::Field(27)));
        assert_eq!(find(b":status", b"418"), Some(Match::Name(24)));
        assert_eq!(find(b"etag", b"x"), Some(Match::Name(7)));
        assert_eq!(find(b"x-own", b""), None);
    }
}
