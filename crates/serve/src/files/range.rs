//! Range requests (RFC 9110 section 14): one range of bytes.

use super::condition;
use super::validators::Validators;
use http::header::{HeaderMap, IF_RANGE, RANGE};
use http::{Method, Request};

/// Which part of a representation to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// All of it.
    Whole,
    /// Bytes `first` to `last`, both included.
    Part { first: u64, last: u64 },
    /// 416: it begins behind the end.
    Unsatisfiable,
}

/// The part of `size` bytes that `request` asks for.
///
/// A server may ignore Range (RFC 9110 section 14.2), and this one does so for other methods than
/// GET, other units than bytes, what it can't read, several ranges at once, a failed If-Range, and
/// empty files (some clients put `bytes=0-` on every request).
pub(crate) fn requested<B>(request: &Request<B>, size: u64, validators: &Validators) -> Range {
    let headers = request.headers();
    if request.method() != Method::GET || size == 0 || !if_range(headers, validators) {
        return Range::Whole;
    }
    let mut lines = headers.get_all(RANGE).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().map_or(Range::Whole, |text| parse(text, size)),
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

/// Reads `bytes=first-last`, `bytes=first-` or `bytes=-length` for a file that is not empty.
fn parse(text: &str, size: u64) -> Range {
    let Some((unit, set)) = text.split_once('=') else {
        return Range::Whole;
    };
    let Some((first, last)) = set.trim().split_once('-') else {
        return Range::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Range::Whole;
    }
    match (number(first), number(last)) {
        (Number::Is(first), Number::Absent) => part(first, size - 1, size),
        (Number::Is(first), Number::Is(last)) if first <= last => part(first, last, size),
        (Number::Absent, Number::Is(0)) => Range::Unsatisfiable,
        (Number::Absent, Number::Is(length)) => part(size.saturating_sub(length), size - 1, size),
        _ => Range::Whole,
    }
}

fn part(first: u64, last: u64, size: u64) -> Range {
    if first >= size {
        return Range::Unsatisfiable;
    }
    let last = last.min(size - 1);
    Range::Part { first, last }
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

    fn check(text: &str, expect: Range) {
        assert_eq!(parse(text, 10), expect, "{text}");
    }

    #[test]
    fn reads_each_form_of_a_single_range() {
        check("bytes=0-0", Range::Part { first: 0, last: 0 });
        check("bytes=2-4", Range::Part { first: 2, last: 4 });
        check("bytes=9-", Range::Part { first: 9, last: 9 });
        check("bytes=5-10", Range::Part { first: 5, last: 9 });
        check("bytes=-3", Range::Part { first: 7, last: 9 });
        check("bytes=-11", Range::Part { first: 0, last: 9 });
        check("Bytes= 1-2", Range::Part { first: 1, last: 2 });
        check(
            "bytes=0-99999999999999999999",
            Range::Part { first: 0, last: 9 },
        );
    }

    #[test]
    fn a_range_behind_the_end_is_unsatisfiable() {
        check("bytes=10-", Range::Unsatisfiable);
        check("bytes=10-11", Range::Unsatisfiable);
        check("bytes=99999999999999999999-", Range::Unsatisfiable);
        check("bytes=-0", Range::Unsatisfiable);
    }

    #[test]
    fn what_it_does_not_understand_is_ignored() {
        for text in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=4-2",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=+1-2",
            "bytes=a-b",
            "bytes=1",
            "bytes=--1",
        ] {
            check(text, Range::Whole);
        }
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_file(text in "bytes=[0-9]{0,21}-[0-9]{0,21}", size in 1_u64..) {
            if let Range::Part { first, last } = parse(&text, size) {
                prop_assert!(first <= last && last < size);
            }
        }
    }
}
