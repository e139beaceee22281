//! Patterns of reasons: a text in which `*` stands for any other.

/// Returns true if `text` is as `pattern` says.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts = rest.split('*');
    let end = parts.next_back().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_all_else_for_itself() {
        for (pattern, text) in [
            ("*", ""),
            ("a", "a"),
            ("GET *", "GET /a"),
            ("* ; range: *", "GET /a ; range: bytes=0-1"),
            ("*a*b*", "xaxbx"),
            ("a*a", "aa"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("GET *", "HEAD /"), ("a*a", "a"), ("*b", "bc")] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }
}
