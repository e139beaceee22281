//! Conditional requests (RFC 9110 section 13).

use super::validators::Validators;
use http::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
};
use std::time::SystemTime;

/// The result of a request's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Answer with the content.
    Proceed,
    /// 304: the client has it.
    NotModified,
    /// 412: it isn't what the client thinks.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD in the order of RFC 9110 section 13.2.2. If-Range is
/// part of the range's treatment.
pub(crate) fn evaluate(headers: &HeaderMap, validators: &Validators) -> Verdict {
    if headers.contains_key(IF_MATCH) {
        if !lists(headers, IF_MATCH, &validators.etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if date(headers, IF_UNMODIFIED_SINCE).is_some_and(|date| validators.modified > date) {
        return Verdict::Failed;
    }
    let unchanged = if headers.contains_key(IF_NONE_MATCH) {
        lists(headers, IF_NONE_MATCH, &validators.etag, Comparison::Weak)
    } else {
        date(headers, IF_MODIFIED_SINCE).is_some_and(|date| validators.modified <= date)
    };
    if unchanged {
        Verdict::NotModified
    } else {
        Verdict::Proceed
    }
}

/// Evaluates the conditions of a GET or HEAD of what has an entity tag and no date.
pub(super) fn evaluate_tag(headers: &HeaderMap, etag: &str) -> Verdict {
    if headers.contains_key(IF_MATCH) && !lists(headers, IF_MATCH, etag, Comparison::Strong) {
        return Verdict::Failed;
    }
    match lists(headers, IF_NONE_MATCH, etag, Comparison::Weak) {
        true => Verdict::NotModified,
        false => Verdict::Proceed,
    }
}

/// The date of a field; `None` when it is missing, unreadable, or there twice (the field is then
/// to be ignored).
pub(crate) fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let date = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    httpdate::parse_http_date(date).ok()
}

/// RFC 9110 section 8.8.3.2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Returns true if the lines of `name` list `etag` (which is a strong one), or are `*`.
fn lists(headers: &HeaderMap, name: HeaderName, etag: &str, comparison: Comparison) -> bool {
    let lines = headers.get_all(name).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .any(|line| line.trim() == "*" || tags(line).any(|tag| is_same(tag, etag, comparison)))
}

fn is_same(tag: &str, etag: &str, comparison: Comparison) -> bool {
    match tag.strip_prefix("W/") {
        Some(opaque) => comparison == Comparison::Weak && opaque == etag,
        None => tag == etag,
    }
}

/// The entity tags of a list; ends at the first thing that is none. Commas may stand inside of
/// tags, so the quotes count.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let open = if rest.starts_with("W/\"") { 3 } else { 1 };
        if open == 1 && !rest.starts_with('"') {
            return None;
        }
        let close = open + rest[open..].find('"')?;
        let (tag, after) = rest.split_at(close + 1);
        rest = after;
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_tags_with_commas_inside() {
        let all: Vec<_> = tags(r#" "a,b" ,W/"c",, "d" x "e""#).collect();
        assert_eq!(all, [r#""a,b""#, r#"W/"c""#, r#""d""#]);
        assert_eq!(tags("\"open").count(), 0);
        assert_eq!(tags("").count(), 0);
    }

    #[test]
    fn weak_tags_never_match_strongly() {
        assert!(!is_same("W/\"a\"", "\"a\"", Comparison::Strong));
        assert!(is_same("W/\"a\"", "\"a\"", Comparison::Weak));
        assert!(is_same("\"a\"", "\"a\"", Comparison::Strong));
    }
}
