//! The sizes of a page from a HAR file, as browsers save it (HTTP Archive 1.2).

use crate::Page;
use crate::scenario::MAX_OBJECTS;
use altway_units::DataSize;
use serde::Deserialize;

/// Reasons for which a HAR file gives no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HarError {
    /// A text that is not JSON, or not of HAR's form.
    #[error("it is not a HAR file: {0}")]
    Json(String),
    /// A file that records nothing that was fetched.
    #[error("it records no request that was answered with a body")]
    Empty,
    /// The page has too many objects.
    #[error("its page has more than {MAX_OBJECTS} objects")]
    TooMany,
}

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    url: String,
}

#[derive(Deserialize)]
struct Response {
    status: i64,
    #[serde(rename = "bodySize", default)]
    body_size: i64,
    content: Option<Content>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    size: i64,
}

impl Page {
    /// Reads the first page of a HAR file: its first answer with a body is the HTML; what else came
    /// from the same origin with a body are the objects. Sizes are those on the wire where the
    /// file knows them.
    ///
    /// # Errors
    /// It is no HAR file, or has nothing in it, or too much.
    pub fn from_har(text: &str) -> Result<Self, HarError> {
        let har: Har =
            serde_json::from_str(text).map_err(|error| HarError::Json(error.to_string()))?;
        let fetched = har.log.entries.iter().filter_map(Entry::fetched);
        let mut fetched = fetched.peekable();
        let origin = fetched.peek().ok_or(HarError::Empty)?.0;
        let mut sizes = fetched
            .filter(|(from, _)| *from == origin)
            .map(|(_, size)| size);
        let html = sizes.next().ok_or(HarError::Empty)?;
        let objects: Vec<DataSize> = sizes.take(MAX_OBJECTS + 1).collect();
        if objects.len() > MAX_OBJECTS {
            return Err(HarError::TooMany);
        }
        Ok(Self { html, objects })
    }
}

impl Entry {
    /// Origin and size of a body that came.
    fn fetched(&self) -> Option<(&str, DataSize)> {
        let content = self.response.content.as_ref().map_or(0, |c| c.size);
        let sizes = [self.response.body_size, content];
        let size = sizes.into_iter().find(|size| *size > 0)?;
        let size = u64::try_from(size).ok()?;
        let answered = self.response.status == 200;
        answered.then(|| (origin(&self.request.url), DataSize::from_bytes(size)))
    }
}

/// Scheme, host and port.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']);
    end.map_or(url, |end| &url[..host + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(url: &str, status: u16, body_size: i64, content: i64) -> String {
        format!(
            r#"{{"request":{{"url":"{url}"}},"response":{{"status":{status},"bodySize":{body_size},"content":{{"size":{content}}}}}}}"#
        )
    }

    fn page(entries: &[String]) -> Result<Page, HarError> {
        let text = format!(r#"{{"log":{{"entries":[{}]}}}}"#, entries.join(","));
        Page::from_har(&text)
    }

    #[test]
    fn takes_the_first_page_and_the_objects_of_its_origin() {
        let found = page(&[
            entry("https://a.test/old", 301, 0, 0),
            entry("https://a.test/", 200, 900, 3_000),
            entry("https://b.test/x.js", 200, 5, 5),
            entry("https://a.test?x", 200, -1, 700),
            entry("https://a.test/none", 404, 9, 9),
        ]);
        let page = found.unwrap();
        assert_eq!(page.html, DataSize::from_bytes(900));
        assert_eq!(page.objects, [DataSize::from_bytes(700)]);
    }

    #[test]
    fn what_holds_no_page_is_refused() {
        assert_eq!(page(&[]), Err(HarError::Empty));
        assert!(matches!(Page::from_har("{}"), Err(HarError::Json(_))));
        let many = vec![entry("https://a.test/", 200, 1, 1); MAX_OBJECTS + 2];
        assert_eq!(page(&many), Err(HarError::TooMany));
    }
}
