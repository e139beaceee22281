//! Heads of responses with fields that break the grammar of HTTP where nobody can take them for anything else.
//!
//! Applications send such fields, and the proxies that they stand behind elsewhere bear with them. What decides where a
//! message ends, or where another one begins, is never touched: it is refused.

use super::BadHead;

/// Bytes of a name that a log shows at most.
const SHOWN: usize = 100;

/// Makes the head at the beginning of `input`, whose status line is valid, one that keeps to the grammar of fields; with the
/// length that it had. `None`: it is not there whole.
///
/// - A value that goes on in the next line is joined by a space (RFC 9112 section 5.2).
/// - A control character in a value becomes a space (RFC 9110 section 5.5).
/// - A field whose name has a delimiter, or bytes beyond ASCII, is left out: it can't pass over HTTP/2 or HTTP/3.
///
/// # Errors
/// [`BadHead`]: a line is no field, or has a NUL or a lone CR, or a name with whitespace or a control character, which may be
/// another server's reading of a field that frames the message.
pub(super) fn sanitize(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, BadHead> {
    let mut head = Vec::with_capacity(input.len());
    let mut len = 0;
    let mut line_before = None;
    for whole in input.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = whole.strip_suffix(b"\n") else {
            return Ok(None);
        };
        len += whole.len();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().any(|byte| matches!(byte, 0 | b'\r')) {
            return Err(BadHead);
        }
        if line.is_empty() && line_before.is_some() {
            head.extend_from_slice(b"\r\n\r\n");
            return Ok(Some((head, len)));
        }
        line_before = match (line_before, line.first()) {
            // Before the status line (RFC 9112 section 2.2).
            (None, None) => None,
            (None, Some(_)) => {
                head.extend_from_slice(line);
                Some(Line::Status)
            }
            (Some(Line::Status), Some(b' ' | b'\t')) => return Err(BadHead),
            (Some(before), Some(b' ' | b'\t')) => {
                if before == Line::Field {
                    head.push(b' ');
                    push_value(&mut head, line);
                }
                Some(before)
            }
            (Some(_), _) => Some(push_field(&mut head, line)?),
        };
    }
    Ok(None)
}

/// The line that another one may go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Status,
    Field,
    /// A field that is left out.
    LeftOut,
}

/// Adds a field, unless it is one to be left out.
fn push_field(head: &mut Vec<u8>, line: &[u8]) -> Result<Line, BadHead> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(BadHead)?;
    let (name, value) = line.split_at(colon);
    let name = name.trim_ascii_end();
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    if name.is_empty() || name.iter().any(is_blank) {
        return Err(BadHead);
    }
    if http::HeaderName::from_bytes(name).is_err() {
        let shown = name[..name.len().min(SHOWN)].escape_ascii();
        tracing::debug!("a field of an upstream's response is left out: `{shown}` is no name");
        return Ok(Line::LeftOut);
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(name);
    push_value(head, value);
    Ok(Line::Field)
}

/// Adds a value, or a part of one, with its control characters as spaces.
fn push_value(head: &mut Vec<u8>, value: &[u8]) {
    let spaced = |byte: &u8| match byte.is_ascii_control() {
        true => b' ',
        false => *byte,
    };
    head.extend(value.iter().map(spaced));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(input: &str) -> Option<String> {
        let (head, len) = sanitize(input.as_bytes()).ok()??;
        assert_eq!(len, input.len());
        Some(String::from_utf8(head).unwrap())
    }

    #[test]
    fn what_can_be_put_right_is() {
        for (given, made) in [
            ("A: b\r\n", "\r\nA: b"),
            ("A: b\n", "\r\nA: b"),
            ("A \t: b\r\n", "\r\nA: b"),
            ("A: b\r\n c\r\n\td\r\n", "\r\nA: b  c  d"),
            ("A:\r\n b\r\nC: d\r\n", "\r\nA:  b\r\nC: d"),
            ("A(B): c\r\n d\r\nE: f\r\n", "\r\nE: f"),
            ("Ä: b\r\n\"C\": d\r\n", ""),
            ("A: b\u{1}c\u{7f}\td\r\n", "\r\nA: b c  d"),
        ] {
            let made = format!("HTTP/1.1 200 OK{made}\r\n\r\n");
            assert_eq!(
                text(&format!("HTTP/1.1 200 OK\r\n{given}\r\n")),
                Some(made),
                "{given:?}"
            );
        }
        let late = "\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n";
        assert_eq!(text(late).as_deref(), Some(&late[4..]));
    }

    #[test]
    fn what_may_be_read_in_two_ways_is_refused() {
        for line in [
            " A: b",
            ": b",
            "A B: c",
            "A\tB: c",
            "Content Length: 5",
            "Transfer-Encoding\u{b}: chunked",
            "A",
            "A: b\0",
            "A: b\rContent-Length: 5",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{line}\r\n");
            assert!(sanitize(head.as_bytes()).is_err(), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn a_head_that_was_put_right_is_valid_and_has_one_end(
            lines in prop::collection::vec("[A:( \t\u{1}\u{80}\r\n-]{0,8}", 0..6)
        ) {
            let input = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\nrest", lines.join("\r\n"));
            if let Ok(Some((head, len))) = sanitize(input.as_bytes()) {
                let end = head.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
                prop_assert_eq!(end + 4, head.len());
                prop_assert!(input[..len].ends_with("\n"));
                let mut fields = [httparse::EMPTY_HEADER; 20];
                let mut response = httparse::Response::new(&mut fields);
                let read = response.parse(&head);
                prop_assert_eq!(read, Ok(httparse::Status::Complete(head.len())));
            }
        }
    }
}
