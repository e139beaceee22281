//! The word of a response on alternative services (RFC 7838), and how the clients' habits shape it.
//!
//! The life of an offer is worth more than who gets it: an offer that runs out within a session makes every session
//! pay for the switch and lets none collect the saved round trips. So offers live for a month, and are taken back
//! by the next answer: over HTTP/3 by a short life, which leaves the session alone, or by `clear` where the rest of
//! the visit gains by leaving and to Firefox; over TCP, where no connection over HTTP/3 is in use, by `clear`.
//! `persist` is never said, so that an entry ends with its network.

use std::time::Duration;

/// Life of an offer, whether the client's path is known or not.
pub(crate) const LONG: Duration = Duration::from_secs(2_592_000);

/// Life of an offer, by the operator's word alone, to clients that do not fall back to TCP: as long as that they reach nothing where
/// UDP is blocked. Nothing shortens it, for curl keeps an entry for each protocol that it came over.
pub(crate) const WITHOUT_FALLBACK: Duration = Duration::from_secs(86_400);

/// Life of an offer that is taken back over HTTP/3: longer than the pauses of a session, for an entry that
/// runs out sends the very next request to a new TCP connection.
pub(crate) const WITHDRAWN_MAX_AGE: Duration = Duration::from_secs(600);

/// Life of an offer about as long as a session, as the study of 2020 has it.
pub(crate) const SESSION: Duration = Duration::from_secs(60);

/// The content of a response's `Alt-Svc` field (RFC 7838).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AltSvc {
    /// HTTP/3 is at this port number, for this long.
    Advertise {
        /// Freshness lifetime; whole seconds, parts are cut off.
        max_age: Duration,
    },
    /// Forget every alternative at once. Over HTTP/3 it costs a new connection in the middle of a page.
    Clear,
    /// No field: what the client knows stays as it is.
    Omit,
}

impl AltSvc {
    /// The field's value (RFC 7838 section 3), with HTTP/3 at `port`; `None` when the field is left out. It should be
    /// the port number of the TCP side: Chromium skips alternatives from 1024 up for origins below 1024.
    #[must_use]
    pub fn field_value(&self, port: u16) -> Option<String> {
        match self {
            Self::Advertise { max_age } => {
                Some(format!("h3=\":{port}\"; ma={}", max_age.as_secs()))
            }
            Self::Clear => Some("clear".into()),
            Self::Omit => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_names_port_and_whole_seconds() {
        let field = |max_age| AltSvc::Advertise { max_age }.field_value(443).unwrap();
        assert_eq!(field(LONG), r#"h3=":443"; ma=2592000"#);
        assert_eq!(field(Duration::from_millis(2_999)), r#"h3=":443"; ma=2"#);
        assert_eq!(AltSvc::Clear.field_value(443).unwrap(), "clear");
        assert_eq!(AltSvc::Omit.field_value(443), None);
    }
}
