//! The parts of an answer that are compared: its status, the fields that matter, and its content, without what each
//! server words in its own way.

use super::client::Response;
use std::collections::BTreeMap;

/// Fields that are compared, in the order in which they are shown.
const FIELDS: [&str; 11] = [
    "location",
    "allow",
    "content-type",
    "content-length",
    "content-range",
    "content-encoding",
    "accept-ranges",
    "etag",
    "last-modified",
    "cache-control",
    "vary",
];

/// A text that is not a file of the folder: of an error, a redirect, a listing.
const OWN: &str = "a page of its own";

const NOTHING: &str = "nothing";

/// Several ranges, with a boundary of the server's own.
const PARTS: &str = "several parts";

/// An answer, reduced to what is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    fields: BTreeMap<&'static str, String>,
}

impl Answer {
    /// Reduces a response; `files` are those of the folder.
    pub(super) fn of(response: &Response, files: &[(&str, String)]) -> Self {
        let content = content(response, files);
        let is_own = content == OWN;
        let mut fields = BTreeMap::from([("content", content.clone())]);
        for name in FIELDS {
            // A page of its own has the length and, unless it lists a folder, the type that it has.
            let is_wording = match name {
                "content-length" => is_own || content == PARTS || response.status >= 300,
                "content-type" => (is_own || content == NOTHING) && response.status >= 300,
                _ => false,
            };
            let value = response.fields.get(name).filter(|_| !is_wording);
            if let Some(value) = value {
                fields.insert(name, reduced(name, value));
            }
        }
        Self {
            status: response.status,
            fields,
        }
    }

    /// The names of all that is compared but the status, and what this answer has there.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let names = std::iter::once("content").chain(FIELDS);
        names.map(|name| (name, self.fields.get(name).map_or("none", String::as_str)))
    }

    /// Returns true if the answer leads elsewhere.
    pub(super) fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
    }
}

fn content(response: &Response, files: &[(&str, String)]) -> String {
    let bytes = &response.content;
    let kind = response.fields.get("content-type");
    if bytes.is_empty() {
        return NOTHING.to_owned();
    }
    if kind.is_some_and(|it| it.starts_with("multipart/byteranges")) {
        return PARTS.to_owned();
    }
    let file = files.iter().find(|(_, it)| it.as_bytes() == &bytes[..]);
    match file {
        Some((name, _)) => name.to_string(),
        None if response.status == 206 => {
            let part: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
            format!("`{part}`")
        }
        None => OWN.to_owned(),
    }
}

/// Returns the comparable part of a value: of an entity tag its strength, of several parts not their boundary, of
/// methods not their order.
fn reduced(name: &str, value: &str) -> String {
    match name {
        "etag" if value.starts_with("W/") => "weak".to_owned(),
        "etag" => "strong".to_owned(),
        "content-type" => match value.split_once("boundary=") {
            Some((before, _)) => format!("{before}boundary"),
            None => value.to_ascii_lowercase(),
        },
        "allow" => {
            let mut methods: Vec<_> = value.split(',').map(str::trim).collect();
            methods.sort_unstable();
            methods.join(", ")
        }
        "vary" => value.to_ascii_lowercase(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &[(&str, &str)], content: &str) -> Answer {
        let fields = fields.iter().map(|(name, value)| {
            let (name, value) = (*name, *value);
            (name.to_owned(), value.to_owned())
        });
        let response = Response {
            status,
            fields: fields.collect(),
            content: content.into(),
        };
        Answer::of(&response, &[("a.txt", "0123".to_owned())])
    }

    #[test]
    fn servers_word_their_own_pages_as_they_like() {
        let one = answer(404, &[("content-type", "text/html")], "<p>gone");
        let other = answer(404, &[("content-type", "text/plain")], "not there");
        assert_eq!(one, other);
        assert_ne!(one, answer(404, &[], "0123"));
    }

    #[test]
    fn an_entity_tag_is_strong_or_weak_and_a_boundary_is_nobody_s_business() {
        let tag = |tag| answer(200, &[("etag", tag)], "0123");
        assert_eq!(tag("\"a\""), tag("\"b\""));
        assert_ne!(tag("\"a\""), tag("W/\"a\""));
        let parts = |boundary: &str| {
            let kind = format!("multipart/byteranges; boundary={boundary}");
            answer(206, &[("content-type", &kind)], boundary)
        };
        assert_eq!(parts("a"), parts("bb"));
    }
}
