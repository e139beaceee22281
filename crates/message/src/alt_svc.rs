//! `Alt-Svc` (RFC 7838) as a client takes it: what the field of a response says of HTTP/3, and the entry
//! that the client keeps for the origin.
//!
//! The entry is the rule by which Chromium was seen to go: it is asked at every request, so that one
//! that has run out, or was cleared, sends the very next request over TCP although a QUIC connection
//! is open. Times are since an origin of the caller's choice, which may run faster than any clock.

use std::time::Duration;

/// Freshness of an alternative that has no `ma` (RFC 7838 section 3.1: "24 hours").
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest that an entry lives, whatever `ma` says: the largest number that caches must know
/// (RFC 9111 section 1.2.2).
const LONGEST_MAX_AGE: u64 = 1 << 31;

/// A response's word on HTTP/3 at its own host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AltSvc {
    /// The absence of a field that can be read: what the client knows stays as it is.
    Absent,
    /// HTTP/3 is there.
    Offer {
        /// Freshness lifetime from now on (`ma`).
        max_age: Duration,
        /// True if the alternative holds when the client's network changes (`persist=1`).
        persist: bool,
    },
    /// `clear`, or alternatives without HTTP/3: what was known is forgotten, for a field replaces all
    /// that came before it (RFC 7838 section 3).
    Clear,
}

impl AltSvc {
    /// Reads the value of a field that came from the origin's `port`. The first alternative that is HTTP/3
    /// at the same host and port counts; those elsewhere are passed over.
    ///
    /// ```
    /// use altway_message::AltSvc;
    /// use std::time::Duration;
    ///
    /// let max_age = Duration::from_secs(60);
    /// let offer = AltSvc::Offer { max_age, persist: false };
    /// assert_eq!(AltSvc::parse(br#"h2="b.example:443", h3=":443"; ma=60"#, 443), offer);
    /// assert_eq!(AltSvc::parse(b"clear", 443), AltSvc::Clear);
    /// assert_eq!(AltSvc::parse(br#"h3=":443; ma=60"#, 443), AltSvc::Absent);
    /// ```
    #[must_use]
    pub fn parse(value: &[u8], port: u16) -> Self {
        let mut rest = trimmed(value);
        if rest == b"clear" {
            return Self::Clear;
        }
        let mut found = Self::Clear;
        loop {
            let Some((alternative, after)) = alternative(rest, port) else {
                return Self::Absent;
            };
            if found == Self::Clear {
                found = alternative;
            }
            match after.split_first() {
                None => return found,
                Some((b',', next)) => rest = trimmed(next),
                Some(_) => return Self::Absent,
            }
        }
    }
}

/// A client's knowledge of HTTP/3 at one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AltSvcEntry {
    /// The time at which the entry runs out; `None`: there is none.
    until: Option<Duration>,
    persist: bool,
}

impl AltSvcEntry {
    /// No entry.
    pub const NONE: Self = Self {
        until: None,
        persist: false,
    };

    /// Returns whether requests go over HTTP/3 at `now`.
    #[must_use]
    pub fn is_fresh(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Takes in what a response said that came at `now`. A later offer replaces an earlier one, a longer
    /// life by a shorter one too.
    pub fn on_field(&mut self, field: AltSvc, now: Duration) {
        match field {
            AltSvc::Absent => {}
            AltSvc::Offer { max_age, persist } => {
                self.until = Some(now.saturating_add(max_age));
                self.persist = persist;
            }
            AltSvc::Clear => *self = Self::NONE,
        }
    }

    /// Forgets it after QUIC failed, as browsers do.
    pub fn on_failure(&mut self) {
        *self = Self::NONE;
    }

    /// Forgets it when the client's network changes, unless it persists (RFC 7838 section 2.2).
    pub fn on_network_change(&mut self) {
        if !self.persist {
            *self = Self::NONE;
        }
    }
}

/// Reads an alternative with its parameters, and returns the text after it; `None` when it can't be
/// read.
fn alternative(text: &[u8], port: u16) -> Option<(AltSvc, &[u8])> {
    let (protocol, rest) = token(text)?;
    let (authority, mut rest) = quoted(rest.strip_prefix(b"=")?)?;
    let (mut max_age, mut persist) = (DEFAULT_MAX_AGE, false);
    loop {
        rest = trimmed(rest);
        let Some(parameter) = rest.strip_prefix(b";") else {
            break;
        };
        let (name, after) = token(trimmed(parameter))?;
        let after = after.strip_prefix(b"=")?;
        let (value, after) = quoted(after).or_else(|| token(after))?;
        match name {
            b"ma" => max_age = seconds(value)?,
            b"persist" => persist = value == b"1",
            // RFC 7838 section 3: unknown parameters MUST be ignored.
            _ => {}
        }
        rest = after;
    }
    let here =
        protocol == b"h3" && authority.strip_prefix(b":").and_then(decimal) == Some(port.into());
    let offer = AltSvc::Offer { max_age, persist };
    Some((if here { offer } else { AltSvc::Clear }, rest))
}

fn seconds(digits: &[u8]) -> Option<Duration> {
    decimal(digits).map(|seconds| Duration::from_secs(seconds.min(LONGEST_MAX_AGE)))
}

/// A number in digits alone; what does not fit is the largest that does.
fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, digit))?
}

/// A token (RFC 9110 section 5.6.2) and what follows it.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = text.iter().take_while(|byte| is_part(byte)).count();
    (length > 0).then(|| text.split_at(length))
}

/// The inside of a quoted string (RFC 9110 section 5.6.4) and what follows it. One with a quoted pair
/// names neither a port nor a number and is refused.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"\"")?;
    let end = inside.iter().position(|byte| *byte == b'"')?;
    let (value, rest) = inside.split_at(end);
    (!value.contains(&b'\\')).then_some((value, &rest[1..]))
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().take_while(|byte| is_blank(byte)).count();
    let text = &text[start..];
    let end = text.iter().rev().take_while(|byte| is_blank(byte)).count();
    &text[..text.len() - end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer(seconds: u64) -> AltSvc {
        let max_age = Duration::from_secs(seconds);
        let persist = false;
        AltSvc::Offer { max_age, persist }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn http3_at_the_same_host_and_port_counts_and_nothing_else() {
        let parse = |text: &str| AltSvc::parse(text.as_bytes(), 443);
        assert_eq!(parse(r#"h3=":443"; ma=2592000"#), offer(2_592_000));
        assert_eq!(parse(r#"h3=":443""#), offer(86_400));
        assert_eq!(
            parse(r#" h3-29=":443" ;ma=9,	h3=":443";v="1";ma="7" "#),
            offer(7)
        );
        assert_eq!(parse(r#"h3=":443"; ma=1, h3=":443"; ma=9"#), offer(1));
        assert_eq!(
            parse(r#"h3=":443"; ma=99999999999999999999"#),
            offer(1 << 31)
        );
        for elsewhere in [
            r#"h3=":8443""#,
            r#"h3="b.example:443""#,
            r#"h2=":443""#,
            "clear",
        ] {
            assert_eq!(parse(elsewhere), AltSvc::Clear, "{elsewhere}");
        }
        let persist = AltSvc::Offer {
            max_age: at(5),
            persist: true,
        };
        assert_eq!(parse(r#"h3=":443"; ma=5; persist=1"#), persist);
    }

    #[test]
    fn what_can_not_be_read_changes_nothing() {
        for broken in [
            "",
            "h3",
            "h3=443",
            r#"h3=":443"#,
            r#"h3=":443"; ma=x"#,
            r#"h3=":443"; ma="#,
            r#"h3=":443" ma=5"#,
            r#"h3=":443","#,
            "Clear",
        ] {
            assert_eq!(
                AltSvc::parse(broken.as_bytes(), 443),
                AltSvc::Absent,
                "{broken}"
            );
        }
    }

    #[test]
    fn a_shorter_offer_replaces_a_longer_one_and_no_field_changes_nothing() {
        let mut entry = AltSvcEntry::NONE;
        assert!(!entry.is_fresh(at(0)));
        entry.on_field(offer(1000), at(0));
        entry.on_field(AltSvc::Absent, at(1));
        assert!(entry.is_fresh(at(999)));
        entry.on_field(offer(3), at(10));
        assert!(entry.is_fresh(Duration::from_millis(12_999)) && !entry.is_fresh(at(13)));
        entry.on_field(offer(0), at(20));
        assert!(!entry.is_fresh(at(20)));
    }

    #[test]
    fn clear_failure_and_another_network_erase_it() {
        let known = |persist| AltSvcEntry {
            until: Some(at(9)),
            persist,
        };
        let mut entry = known(true);
        entry.on_network_change();
        assert!(entry.is_fresh(at(8)));
        entry.on_field(AltSvc::Clear, at(1));
        assert_eq!(entry, AltSvcEntry::NONE);
        for erase in [AltSvcEntry::on_failure, AltSvcEntry::on_network_change] {
            let mut entry = known(false);
            erase(&mut entry);
            assert_eq!(entry, AltSvcEntry::NONE);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let field = AltSvc::parse(&bytes, 443);
            if let AltSvc::Offer { max_age, .. } = field {
                prop_assert!(max_age <= Duration::from_secs(LONGEST_MAX_AGE));
            }
        }

        #[test]
        fn our_own_words_are_read_as_they_were_meant(port: u16, seconds in 0..LONGEST_MAX_AGE) {
            let value = format!("h3=\":{port}\"; ma={seconds}");
            prop_assert_eq!(AltSvc::parse(value.as_bytes(), port), offer(seconds));
        }
    }
}
