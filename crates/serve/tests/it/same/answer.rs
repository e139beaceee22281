//! Answers, and whether two are the same.

use std::collections::BTreeMap;
use std::fmt;

/// Fields that may differ, and why.
const NOT_COMPARED: [(&str, &str); 5] = [
    ("date", "it is another second"),
    ("server", "hyper says none"),
    ("alt-svc", "axum::serve has no HTTP/3 to offer"),
    (
        "connection",
        "after a request whose body nobody has read to its end altway says close",
    ),
    ("x-request-id", "it is another request"),
];

/// The parts of an answer that are compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: u16,
    fields: BTreeMap<String, Vec<Vec<u8>>>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn new<'a>(
        status: u16,
        all: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        body: Vec<u8>,
    ) -> Self {
        let mut fields = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in all {
            let name = name.to_ascii_lowercase();
            if NOT_COMPARED.iter().all(|(not, _)| *not != name) {
                fields.entry(name).or_default().push(value.to_vec());
            }
        }
        Self {
            status,
            fields,
            body,
        }
    }

    pub(super) fn without(mut self, field: &str) -> Self {
        self.fields.remove(field);
        self
    }

    pub(super) fn of<B>(response: &http::Response<B>, body: Vec<u8>) -> Self {
        let fields = response.headers().iter();
        let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
        Self::new(response.status().as_u16(), fields, body)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}", self.status)?;
        for (name, values) in &self.fields {
            let values: Vec<_> = values
                .iter()
                .map(|it| it.escape_ascii().to_string())
                .collect();
            write!(f, "\n  {name}: {}", values.join(" | "))?;
        }
        let beginning = &self.body[..self.body.len().min(100)];
        write!(
            f,
            "\n  {} bytes: {}",
            self.body.len(),
            beginning.escape_ascii()
        )
    }
}

/// The answers that were not the same.
#[derive(Default)]
pub(super) struct Differences(Vec<String>);

impl Differences {
    pub(super) fn check(&mut self, what: impl fmt::Display, answer: &Answer, expected: &Answer) {
        if answer != expected {
            self.0.push(format!("{what}:\n{answer}\nnot\n{expected}"));
        }
    }

    pub(super) fn are_none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}
