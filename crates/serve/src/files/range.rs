//! Range requests (RFC 9110 section 14): one range of bytes, or several.

use super::condition;
use super::validators::Validators;
use http::header::{HeaderMap, IF_RANGE, RANGE};
use http::{Method, Request};

/// Ranges of one request. One that asks for more is answered whole: RFC 9110 section 17.15 warns of many small
/// ones.
const MAX_RANGES: usize = 16;

/// Ranges with fewer bytes between them are sent as one: a part of its own costs about as much (RFC 9110 section
/// 15.3.7.2).
const OVERHEAD: u64 = 128;

/// The part of a representation to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Range {
    /// All of it.
    Whole,
    Part(Span),
    /// Two at least, which neither overlap nor lie close together.
    Parts(Vec<Span>),
    /// 416: all begin behind the end.
    Unsatisfiable,
}

/// Bytes `first` to `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Span {
    /// Length in bytes.
    pub(super) fn length(self) -> u64 {
        self.last - self.first + 1
    }

    /// The value of Content-Range for a file of `size` bytes.
    pub(super) fn content_range(self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.first, self.last)
    }
}

/// The part of `size` bytes that `request` asks for.
///
/// A server may ignore Range (RFC 9110 section 14.2), and this one does so for other methods than
/// GET, other units than bytes, what it can't read, more than [`MAX_RANGES`], a failed If-Range, and
/// empty files (some clients put `bytes=0-` on every request).
pub(crate) fn requested<B>(request: &Request<B>, size: u64, validators: &Validators) -> Range {
    let headers = request.headers();
    if request.method() != Method::GET || size == 0 || !if_range(headers, validators) {
        return Range::Whole;
    }
    let mut lines = headers.get_all(RANGE).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => {
            let ranges = line.to_str().ok().and_then(|text| parse(text, size));
            ranges.unwrap_or(Range::Whole)
        }
        _ => Range::Whole,
    }
}

/// RFC 9110 section 13.1.5: an exact match by a strong validator, or the whole is sent.
fn if_range(headers: &HeaderMap, validators: &Validators) -> bool {
    let Some(value) = headers.get(IF_RANGE) else {
        return true;
    };
    if value.as_bytes() == validators.etag.as_bytes() {
        return true;
    }
    validators.is_date_strong()
        && condition::date(headers, IF_RANGE).is_some_and(|date| date == validators.modified)
}

/// Reads a list of `first-last`, `first-` or `-length` for a file that is not empty; `None` where it can't be
/// read. No blank stands before the equals sign (RFC 9110 section 14.1.1). An empty member says nothing (RFC 9110 section 5.6.1.2).
fn parse(text: &str, size: u64) -> Option<Range> {
    let (unit, list) = text.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let members = list.split(',').map(str::trim);
    let (mut spans, mut asked) = (Vec::new(), 0);
    for member in members.filter(|member| !member.is_empty()) {
        asked += 1;
        spans.extend(span(member, size)?);
        if asked > MAX_RANGES {
            return None;
        }
    }
    if asked == 0 {
        return None;
    }
    let spans = coalesce(spans);
    Some(match spans[..] {
        [] => Range::Unsatisfiable,
        [span] => Range::Part(span),
        _ => Range::Parts(spans),
    })
}

/// Returns the span that one member of the list asks for: `None` where it can't be read, `Some(None)` where it begins
/// behind the end.
fn span(member: &str, size: u64) -> Option<Option<Span>> {
    let (first, last) = member.split_once('-')?;
    let (first, last) = match (number(first), number(last)) {
        (Number::Is(first), Number::Absent) => (first, size - 1),
        (Number::Is(first), Number::Is(last)) if first <= last => (first, last.min(size - 1)),
        (Number::Absent, Number::Is(length)) => (size - length.min(size), size - 1),
        _ => return None,
    };
    Some((first < size).then_some(Span { first, last }))
}

/// Joins what overlaps or lies close together; then all are in ascending order. Else they stay as they are, for
/// the client may want some first.
fn coalesce(spans: Vec<Span>) -> Vec<Span> {
    let mut ascending = spans.clone();
    ascending.sort_unstable_by_key(|span| span.first);
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in ascending {
        match joined.last_mut() {
            Some(before) if span.first <= before.last.saturating_add(OVERHEAD) => {
                before.last = before.last.max(span.last);
            }
            _ => joined.push(span),
        }
    }
    match joined.len() == spans.len() {
        true => spans,
        false => joined,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Number {
    Absent,
    Is(u64),
    Malformed,
}

/// Digits only (`u64::from_str` would take a `+`); more than fit are as good as endless.
fn number(text: &str) -> Number {
    if text.is_empty() {
        return Number::Absent;
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::Malformed;
    }
    Number::Is(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expect: impl Into<Option<Range>>) {
        assert_eq!(parse(text, 10), expect.into(), "{text}");
    }

    fn one(first: u64, last: u64) -> Range {
        Range::Part(Span { first, last })
    }

    fn many(spans: &[(u64, u64)]) -> Range {
        let span = |(first, last): &(u64, u64)| Span {
            first: *first,
            last: *last,
        };
        Range::Parts(spans.iter().map(span).collect())
    }

    #[test]
    fn reads_each_form_of_a_single_range() {
        check("bytes=0-0", one(0, 0));
        check("bytes=2-4", one(2, 4));
        check("bytes=9-", one(9, 9));
        check("bytes=5-10", one(5, 9));
        check("bytes=-3", one(7, 9));
        check("bytes=-11", one(0, 9));
        check("Bytes= 1-2", one(1, 2));
        check("bytes=0-99999999999999999999", one(0, 9));
        check("bytes=,1-2,,", one(1, 2));
    }

    #[test]
    fn a_range_behind_the_end_is_unsatisfiable() {
        check("bytes=10-", Range::Unsatisfiable);
        check("bytes=10-11", Range::Unsatisfiable);
        check("bytes=99999999999999999999-", Range::Unsatisfiable);
        check("bytes=-0", Range::Unsatisfiable);
        check("bytes=10-,-0, 11-12", Range::Unsatisfiable);
        check("bytes=10-,1-2", one(1, 2));
    }

    #[test]
    fn what_it_does_not_understand_is_ignored() {
        for text in [
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes =1-2",
            " bytes=1-2",
            "bytes=4-2",
            "bytes=0-1,4-2",
            "bytes=0-1,x",
            "lines=0-1",
            "bytes=+1-2",
            "bytes=a-b",
            "bytes=1",
            "bytes=--1",
            "bytes=0-1;2-3",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn several_ranges_keep_their_order_unless_they_are_joined() {
        let check = |text, expect| assert_eq!(parse(text, 10_000), Some(expect), "{text}");
        check("bytes=5000-5001,0-1", many(&[(5000, 5001), (0, 1)]));
        check("bytes=0-1,-1", many(&[(0, 1), (9999, 9999)]));
        check("bytes=0-1,3-4", one(0, 4));
        check("bytes=0-1,129-130", one(0, 130));
        check("bytes=0-1,130-131", many(&[(0, 1), (130, 131)]));
        check("bytes=0-,0-,5-", one(0, 9999));
        check("bytes=9000-9001,0-5,5-9", many(&[(0, 9), (9000, 9001)]));
        check("bytes=0-1,20000-", one(0, 1));
    }

    #[test]
    fn more_ranges_than_are_sent_are_answered_whole() {
        let list = |count: u64| {
            let members: Vec<_> = (0..count).map(|at| format!("{}-{0}", at * 500)).collect();
            format!("bytes={}", members.join(","))
        };
        let most = parse(&list(MAX_RANGES as u64), 10_000);
        assert!(matches!(most, Some(Range::Parts(spans)) if spans.len() == MAX_RANGES));
        assert_eq!(parse(&list(MAX_RANGES as u64 + 1), 10_000), None);
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_file_and_apart_from_each_other(
            text in "bytes=([0-9]{0,4}-[0-9]{0,4},?){1,8}|bytes=[0-9]{0,21}-[0-9]{0,21}",
            size in 1_u64..20_000,
        ) {
            let mut spans = match parse(&text, size) {
                Some(Range::Part(span)) => vec![span],
                Some(Range::Parts(spans)) => spans,
                _ => Vec::new(),
            };
            prop_assert!(spans.iter().all(|span| span.first <= span.last && span.last < size));
            spans.sort_unstable_by_key(|span| span.first);
            let apart = |pair: &[Span]| pair[1].first > pair[0].last + OVERHEAD;
            prop_assert!(spans.windows(2).all(apart));
        }
    }
}
