//! Extensible priorities (RFC 9218): what a client wishes of the order of responses.
//!
//! The order of sending is the engines' business, as their streams differ.

use std::fmt;

/// A response's priority (RFC 9218 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 (first) to 7 (background).
    pub urgency: u8,
    /// True if the client can use parts as they come: then the response shares the connection with
    /// others of its urgency, else they go one after the other.
    pub incremental: bool,
}

impl Default for Priority {
    /// "The default is 3"; "the default value of the incremental parameter is false".
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Reads a Priority field or the value of a PRIORITY_UPDATE frame: a dictionary of RFC 8941.
    /// "Receivers MUST ignore" parameters that are unknown, out of range or of another type
    /// (section 4): what can't be understood leaves the default.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in text.split(|byte| *byte == b',') {
            // Parameters of a member, after a semicolon, mean nothing here.
            let member = member.split(|byte| *byte == b';').next().unwrap_or(member);
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => priority.urgency = digit - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

impl fmt::Display for Priority {
    /// Writes the value of a Priority field or of a PRIORITY_UPDATE frame.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let incremental = if self.incremental { ", i" } else { "" };
        write!(f, "u={}{incremental}", self.urgency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(urgency: u8, incremental: bool) -> Priority {
        Priority {
            urgency,
            incremental,
        }
    }

    #[test]
    fn reads_what_it_knows_and_ignores_the_rest() {
        for (text, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i=?1,u=1", 1, true),
            ("i, i=?0", 3, false),
            ("u=8", 3, false),
            ("u=1;x=2", 1, false),
            ("u=\"1\", z=3, i=1", 3, false),
            ("u=5,u=2", 2, false),
        ] {
            let parsed = Priority::parse(text.as_bytes());
            assert_eq!(parsed, priority(urgency, incremental), "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_the_same() {
        for urgency in 0..8 {
            for incremental in [false, true] {
                let printed = priority(urgency, incremental).to_string();
                let parsed = Priority::parse(printed.as_bytes());
                assert_eq!(parsed, priority(urgency, incremental));
            }
        }
    }
}
