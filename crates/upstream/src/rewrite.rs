//! Changes that an operator makes to messages that pass: the beginning of paths, and fields.

use http::header::{HeaderMap, HeaderName};
use http::uri::PathAndQuery;

/// Fields that no pattern takes away: framing, what belongs to a connection, what says how to read the content, and what
/// guards against loops and requests that are sent twice.
const KEPT: [&str; 17] = [
    "alt-svc",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "early-data",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "sec-websocket-accept",
    "sec-websocket-key",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Changes of the fields of a message, made in the order of the members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldChanges {
    /// Fields that are taken away. A pattern takes none of framing, of a connection, and of what loops are seen by.
    pub remove: Vec<FieldPattern>,
    /// Fields in place of those that have the same names.
    pub set: HeaderMap,
    /// Fields beside those that have the same names.
    pub append: HeaderMap,
}

/// Fields by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPattern {
    /// The field of this name.
    Name(HeaderName),
    /// Fields whose names begin so, in lower case.
    Prefix(String),
}

impl FieldChanges {
    /// Returns true if there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.append.is_empty()
    }

    /// Makes the changes.
    pub fn apply(&self, fields: &mut HeaderMap) {
        for pattern in &self.remove {
            pattern.remove(fields);
        }
        for name in self.set.keys() {
            fields.remove(name);
        }
        for (name, value) in self.set.iter().chain(&self.append) {
            fields.append(name, value.clone());
        }
    }
}

impl FieldPattern {
    fn remove(&self, fields: &mut HeaderMap) {
        match self {
            Self::Name(name) => drop(fields.remove(name)),
            Self::Prefix(prefix) => {
                let is_meant = |name: &&HeaderName| {
                    name.as_str().starts_with(prefix.as_str()) && !KEPT.contains(&name.as_str())
                };
                let gone: Vec<_> = fields.keys().filter(is_meant).cloned().collect();
                for name in gone {
                    fields.remove(name);
                }
            }
        }
    }
}

/// A change of the beginning of paths. Both begin with `/`, end without one, and have no escapes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathChange {
    /// The segments that paths lose; a path that begins otherwise stays.
    pub strip: Option<String>,
    /// The text put before paths, after they have lost their prefix.
    pub add: Option<String>,
}

/// A path that can't be given another beginning: it has a `.` or `..` between its slashes, however that is spelled, so
/// that a server that resolves it would leave the place that the path was given; or it would become too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a path with `.` or `..` between slashes can't be given another beginning")]
pub struct BadPath;

impl PathChange {
    /// The target that a server is asked for in place of `target`; `None`: the same.
    ///
    /// Segments are compared as routes compare them: percent-decoded, and without empty ones before them. What follows
    /// them is left as it is spelled, behind one slash: two would name another host in a redirect (RFC 3986 section
    /// 4.2).
    ///
    /// # Errors
    /// [`BadPath`].
    pub fn apply(&self, target: &PathAndQuery) -> Result<Option<PathAndQuery>, BadPath> {
        if self.strip.is_none() && self.add.is_none() {
            return Ok(None);
        }
        let path = target.path();
        // `*` of OPTIONS is no path.
        if !path.starts_with('/') {
            return Ok(None);
        }
        if path.split('/').any(has_dots) {
            return Err(BadPath);
        }
        let stripped = self.strip.as_deref().and_then(|it| rest(path, it));
        let mut changed = self.add.clone().unwrap_or_default();
        match stripped {
            Some(rest) => {
                // With a beginning of ours, the place itself has no slash behind it, as the client's had none.
                if !rest.is_empty() || changed.is_empty() {
                    changed.push('/');
                }
                changed.push_str(rest.trim_start_matches('/'));
            }
            None => changed.push_str(path),
        }
        if let Some(query) = target.query() {
            changed.push('?');
            changed.push_str(query);
        }
        let changed = PathAndQuery::try_from(changed);
        changed.map(Some).map_err(|_| BadPath)
    }
}

/// The rest of a path behind the segments of `prefix`, with its slash; `None`: it begins otherwise.
fn rest<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let mut rest = path;
    for segment in prefix.split('/').filter(|it| !it.is_empty()) {
        let begin = rest.trim_start_matches('/');
        if begin.len() == rest.len() {
            return None;
        }
        let end = begin.find('/').unwrap_or(begin.len());
        if decoded(&begin[..end]) != segment.as_bytes() {
            return None;
        }
        rest = &begin[end..];
    }
    Some(rest)
}

/// Returns whether a segment, decoded, is `.` or `..`, or hides one behind a slash of its own. Parameters (RFC 3986 section
/// 3.3) don't count: servers of Java take `..;a=b` for `..`.
fn has_dots(segment: &str) -> bool {
    segment.contains(['.', '%']) && {
        let decoded = decoded(segment);
        let mut parts = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
        parts.any(|part| {
            let parameters = part.iter().position(|byte| *byte == b';');
            matches!(&part[..parameters.unwrap_or(part.len())], b"." | b"..")
        })
    }
}

/// A segment with its escapes undone, once; those that are none stay.
fn decoded(segment: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = match (first, behind) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|it| u8::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn check(strip: &str, add: &str, target: &str, expected: &str) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let change = PathChange {
            strip: given(strip),
            add: given(add),
        };
        let before: PathAndQuery = target.parse().unwrap();
        let after = change.apply(&before).unwrap().unwrap_or(before);
        assert_eq!(after.as_str(), expected, "-{strip} +{add} {target}");
    }

    #[test]
    fn paths_lose_whole_segments_and_keep_how_the_rest_is_spelled() {
        for (target, expected) in [
            ("/api/users", "/users"),
            ("/api/users?q=/api", "/users?q=/api"),
            ("/api", "/"),
            ("/api?q", "/?q"),
            ("/api/", "/"),
            ("/apis", "/apis"),
            ("/", "/"),
            ("/a", "/a"),
            ("/users/api", "/users/api"),
            ("/api/a%20b/%61", "/a%20b/%61"),
            ("/API/users", "/API/users"),
            // As routes see it, it is the same path.
            ("/%61pi/users", "/users"),
            ("//api//users", "/users"),
            ("/api//a.example/", "/a.example/"),
            ("/api/a//b", "/a//b"),
        ] {
            check("/api", "", target, expected);
        }
        check("/api/v1", "", "/api/v1/users", "/users");
        check("/api/v1", "", "/api/users", "/api/users");
        check("/api/v1", "", "/api/%761", "/");
    }

    #[test]
    fn paths_are_given_a_beginning_behind_what_they_lose() {
        check("", "/v2", "/users?a=b", "/v2/users?a=b");
        check("", "/v2", "/", "/v2/");
        check("", "/v2", "//users", "/v2//users");
        check("/api", "/v2", "/api/users", "/v2/users");
        check("/api", "/v2", "/api", "/v2");
        check("/api", "/v2", "/api/", "/v2/");
        check("/api", "/v2", "/api?a=b", "/v2?a=b");
        check("/api", "/v2", "/other", "/v2/other");
        check("", "", "/a/../b", "/a/../b");
    }

    #[test]
    fn nothing_leaves_its_place() {
        let change = PathChange {
            strip: Some("/api".into()),
            add: Some("/v2".into()),
        };
        for target in [
            "/api/../admin",
            "/..",
            "/.",
            "/api/%2e%2E/admin",
            "/api/.%2e",
            "/api/x%2f..%2fadmin",
            "/api/..%5cadmin",
            "/api/..;/admin",
            "/api/.%2e;a=b/admin",
            "/api/x%2f..;%2fadmin",
        ] {
            assert_eq!(change.apply(&target.parse().unwrap()), Err(BadPath));
        }
        for target in [
            "/api/a..b",
            "/api/...",
            "/api/.well-known",
            "/api/%zz.%2",
            "/api/a;b=..",
        ] {
            assert!(change.apply(&target.parse().unwrap()).is_ok(), "{target}");
        }
        let any: PathAndQuery = "*".parse().unwrap();
        assert_eq!(change.apply(&any), Ok(None));
    }

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = fields.iter();
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        fields.map(pair).collect()
    }

    #[test]
    fn fields_are_removed_then_set_then_appended() {
        let mut set = map(&[("x-set", "new")]);
        set.append("x-set", HeaderValue::from_static("newer"));
        let changes = FieldChanges {
            remove: vec![
                FieldPattern::Name(HeaderName::from_static("server")),
                FieldPattern::Prefix("x-internal-".into()),
                FieldPattern::Prefix("c".into()),
            ],
            set,
            append: map(&[("vary", "origin"), ("x-internal-b", "stays")]),
        };
        let mut fields = map(&[
            ("server", "a"),
            ("x-internal-a", "1"),
            ("x-internal", "2"),
            ("cookie", "3"),
            ("content-length", "4"),
            ("connection", "te"),
            ("x-set", "old"),
            ("vary", "accept"),
        ]);
        changes.apply(&mut fields);
        let mut lines: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "connection: te",
                "content-length: 4",
                "vary: accept",
                "vary: origin",
                "x-internal-b: stays",
                "x-internal: 2",
                "x-set: new",
                "x-set: newer"
            ]
        );
    }
}
