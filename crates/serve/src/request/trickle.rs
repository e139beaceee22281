//! Streams of events and tunnels: responses that are open for as long as both ends like, and of which something comes now and
//! then. As long as that is little, it is no part of what the client loads: it ends no pause, and no page waits for its end.

use crate::request::body::Body;
use crate::request::requests::Requests;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use std::time::{Duration, Instant};

/// Bytes that may come in a second: 65 kbit/s, less than a tenth of a path of 1 Mbit/s.
const MOST: usize = 8 << 10;

const SECOND: Duration = Duration::from_secs(1);

/// The media type of a stream of events (Server-Sent Events).
const EVENTS: &str = "text/event-stream";

/// The bytes that have come of such a response in the second that goes on.
#[derive(Debug, Default)]
pub(crate) struct Trickle {
    /// The second's beginning; `None`: nothing has come.
    since: Option<Instant>,
    bytes: usize,
}

impl Trickle {
    /// Notes bytes that come at `now`; returns true if they are few, with those before them.
    pub(crate) fn takes(&mut self, bytes: usize, now: Instant) -> bool {
        let is_over = |since| now.saturating_duration_since(since) >= SECOND;
        if self.since.is_none_or(is_over) {
            (self.since, self.bytes) = (Some(now), 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= MOST
    }
}

impl<I> Requests<I> {
    /// Counts bytes that were handed over and are a little of a stream of events.
    pub(crate) fn trickled(&mut self, bytes: u64, now: Instant) {
        self.responder.counters.sent(self.protocol, bytes);
        self.observer.trickles(now);
    }
}

/// Marks the content of a response that says that it is a stream of events.
pub(super) fn mark(response: Response<Body>) -> Response<Body> {
    match has_events(response.headers()) {
        true => response.map(Body::of_events),
        false => response,
    }
}

fn has_events(fields: &HeaderMap) -> bool {
    let value = fields.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let media_type = value.and_then(|it| it.split(';').next());
    media_type.is_some_and(|it| it.trim().eq_ignore_ascii_case(EVENTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_second_has_room_for_a_little_whatever_came_in_those_before() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut trickle = Trickle::default();
        assert!(trickle.takes(MOST, at(0)));
        assert!(!trickle.takes(1, at(999)));
        assert!(trickle.takes(MOST - 1, at(1_000)));
        assert!(trickle.takes(1, at(1_999)));
        assert!(!trickle.takes(MOST + 1, at(9_000)));
    }

    #[test]
    fn a_stream_of_events_is_told_by_its_media_type() {
        for (value, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("text/html", false),
        ] {
            let value = HeaderValue::from_static(value);
            let fields = HeaderMap::from_iter([(CONTENT_TYPE, value.clone())]);
            assert_eq!(has_events(&fields), expected, "{value:?}");
        }
        assert!(!has_events(&HeaderMap::new()));
    }
}
