//! The requests that a client makes in one go: the file that `altway load --visit` reads.

use altway_units::DataSize;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most requests of a visit.
pub const MAX_VISIT_REQUESTS: usize = 2_000;

/// Requests that belong together, each sent when what it waits for has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// The requests; the place of one in this list is its item.
    pub requests: Vec<VisitRequest>,
    /// True if each request has a connection of its own, after the one before has ended, and
    /// resumes its TLS session; else all share one (HTTP/1.1: up to six).
    #[serde(default)]
    pub new_connections: bool,
    /// True if requests over HTTP/3 leave with the first packets where a session allows it; only
    /// with new connections.
    #[serde(default)]
    pub early_data: bool,
    /// True if the first request goes over HTTP/2, must be answered with an `Alt-Svc` that names
    /// HTTP/3, and only those after it go over HTTP/3; only with new connections.
    #[serde(default)]
    pub learn_http3: bool,
    /// Sessions in which a client comes back and does all of it again; not with new connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
}

/// Sessions of a client that keeps what `Alt-Svc` said (RFC 7838): the first begins over HTTP/2, and each
/// request goes over HTTP/3 while the client's entry is fresh. A session has at most one connection of each
/// protocol, and ends by closing them; TLS sessions are resumed. A browser goes by its own rules instead, and is
/// started anew with the same profile for each session.
///
/// A request of the session `s`, from 0, has the item `s` × the number of requests + its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Milliseconds that pass on the client's clock before each session but the first, beside what really
    /// passes: there is one session more than values. They age the client's entry, and nothing else.
    pub apart_ms: Vec<u64>,
}

/// A request of a visit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VisitRequest {
    /// Path and query.
    pub path: String,
    /// Bytes that the answer's body must have.
    pub size_bytes: u64,
    /// The event that the request waits for; without it, none.
    #[serde(default)]
    pub after: Option<After>,
    /// Value of its `priority` field (RFC 9218); without it there is none.
    #[serde(default)]
    pub priority: Option<String>,
}

/// The event that a request waits for, by the item of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// The first byte of its answer.
    FirstByteOf(u32),
    /// The end of its answer.
    EndOf(u32),
}

/// Reasons for which a visit can't be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VisitError {
    /// A visit without requests, or with too many.
    #[error("a visit has {0} requests: expected 1 to {MAX_VISIT_REQUESTS}")]
    Count(usize),
    /// A request waits for itself or a later one, and so for ever.
    #[error("request {0} of the visit waits for one that does not come before it")]
    Order(usize),
    /// A setting that only visits with new connections have.
    #[error("early data and learning HTTP/3 need new connections")]
    OneConnection,
    /// Sessions say themselves which connections there are.
    #[error("sessions have their own connections, not a new one for each request")]
    NewConnections,
}

impl VisitRequest {
    /// A request that waits for nothing.
    #[must_use]
    pub fn new(path: String, size: DataSize) -> Self {
        Self {
            path,
            size_bytes: size.as_bytes(),
            after: None,
            priority: None,
        }
    }
}

impl After {
    /// The item that is waited for.
    #[must_use]
    pub fn item(self) -> u32 {
        match self {
            Self::FirstByteOf(item) | Self::EndOf(item) => item,
        }
    }

    fn shifted(self) -> Self {
        match self {
            Self::FirstByteOf(item) => Self::FirstByteOf(item + 1),
            Self::EndOf(item) => Self::EndOf(item + 1),
        }
    }
}

impl Visit {
    /// Requests that share connections.
    pub(crate) fn of(requests: Vec<VisitRequest>) -> Self {
        Self {
            requests,
            new_connections: false,
            early_data: false,
            learn_http3: false,
            sessions: None,
        }
    }

    /// The number of times that its requests are made.
    #[must_use]
    pub fn session_count(&self) -> usize {
        let further = self.sessions.as_ref();
        1 + further.map_or(0, |sessions| sessions.apart_ms.len())
    }

    /// The time that passes on a client's clock before session `session`, from 0; `None` before the first, and of
    /// one that there is not.
    #[must_use]
    pub fn apart(&self, session: usize) -> Option<Duration> {
        let apart = &self.sessions.as_ref()?.apart_ms;
        apart
            .get(session.checked_sub(1)?)
            .map(|millis| Duration::from_millis(*millis))
    }

    /// Counts the requests that are made in all.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.requests.len().saturating_mul(self.session_count())
    }

    /// Puts a request before all others.
    pub(crate) fn open_with(&mut self, opener: VisitRequest) {
        for request in &mut self.requests {
            let after = request.after.map(After::shifted);
            request.after = after.or(Some(After::EndOf(0)));
        }
        self.requests.insert(0, opener);
    }

    /// Returns whether it can come to an end.
    ///
    /// # Errors
    /// It has no requests or too many, or one waits for ever, or it asks for what it can't have.
    pub fn check(&self) -> Result<(), VisitError> {
        let count = self.request_count();
        if !(1..=MAX_VISIT_REQUESTS).contains(&count) {
            return Err(VisitError::Count(count));
        }
        if !self.new_connections && (self.early_data || self.learn_http3) {
            return Err(VisitError::OneConnection);
        }
        if self.new_connections && self.sessions.is_some() {
            return Err(VisitError::NewConnections);
        }
        let waits_for_ever = |(item, request): (usize, &VisitRequest)| {
            request
                .after
                .is_some_and(|after| after.item() as usize >= item)
        };
        match self.requests.iter().enumerate().position(waits_for_ever) {
            Some(item) => Err(VisitError::Order(item)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(after: Option<After>) -> VisitRequest {
        VisitRequest {
            after,
            ..VisitRequest::new("/".into(), DataSize::from_bytes(1))
        }
    }

    #[test]
    fn a_visit_that_would_wait_for_ever_is_refused() {
        let good = Visit::of(vec![request(None), request(Some(After::EndOf(0)))]);
        assert_eq!(good.check(), Ok(()));
        let itself = Visit::of(vec![request(Some(After::FirstByteOf(0)))]);
        assert_eq!(itself.check(), Err(VisitError::Order(0)));
        assert_eq!(Visit::of(vec![]).check(), Err(VisitError::Count(0)));
        let early = Visit {
            early_data: true,
            ..good
        };
        assert_eq!(early.check(), Err(VisitError::OneConnection));
        let back = Visit {
            early_data: false,
            sessions: Some(Sessions {
                apart_ms: vec![0; 999],
            }),
            ..early
        };
        assert_eq!((back.check(), back.request_count()), (Ok(()), 2_000));
        let anew = Visit {
            new_connections: true,
            ..back.clone()
        };
        assert_eq!(anew.check(), Err(VisitError::NewConnections));
        let endless = Visit {
            sessions: Some(Sessions {
                apart_ms: vec![0; 1_000],
            }),
            ..back
        };
        assert_eq!(endless.check(), Err(VisitError::Count(2_002)));
    }

    #[test]
    fn an_opener_comes_before_all_others() {
        let mut visit = Visit::of(vec![request(None), request(Some(After::FirstByteOf(0)))]);
        visit.open_with(request(None));
        let afters: Vec<_> = visit.requests.iter().map(|one| one.after).collect();
        let expected = [None, Some(After::EndOf(0)), Some(After::FirstByteOf(1))];
        assert_eq!(afters, expected);
        assert_eq!(visit.check(), Ok(()));
    }

    #[test]
    fn survives_json_and_refuses_unknown_keys() {
        let visit = Visit::of(vec![request(None), request(Some(After::EndOf(0)))]);
        let json = serde_json::to_string(&visit).unwrap();
        assert_eq!(serde_json::from_str::<Visit>(&json).unwrap(), visit);
        assert!(serde_json::from_str::<Visit>(r#"{"requests":[],"colour":1}"#).is_err());
    }
}
