//! Script of a visit, which tells the request that is due: a pure function of what has happened.

use altway_record::{After, Visit};
use std::collections::VecDeque;
use std::time::Instant;

/// The requests of a visit on their way to being sent. Bounded by the visit.
#[derive(Debug)]
pub(crate) struct Script {
    /// Event that each item still waits for.
    waiting: Vec<Option<After>>,
    /// Items that are due; and since when, where that does not begin with their being drawn.
    due: VecDeque<(u32, Option<Instant>)>,
    drawn: usize,
    ended: usize,
}

impl Script {
    pub(crate) fn new(visit: &Visit) -> Self {
        let waiting: Vec<_> = visit.requests.iter().map(|one| one.after).collect();
        let free = |(item, after): (u32, &Option<After>)| after.is_none().then_some((item, None));
        Self {
            due: (0..).zip(&waiting).filter_map(free).collect(),
            waiting,
            drawn: 0,
            ended: 0,
        }
    }

    /// The next that is due, and since when.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let (item, since) = self.due.pop_front()?;
        self.drawn += 1;
        Some((item, since.unwrap_or(now)))
    }

    /// Returns whether each has been drawn.
    pub(crate) fn is_drawn_out(&self) -> bool {
        self.drawn == self.waiting.len()
    }

    /// Returns whether each has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended == self.waiting.len()
    }

    pub(crate) fn on_first_byte(&mut self, item: u32, now: Instant) {
        self.release(now, |after| after == After::FirstByteOf(item));
    }

    /// Takes note that a request ended, with or without an answer: nothing waits for it any more.
    pub(crate) fn on_end(&mut self, item: u32, now: Instant) {
        self.ended += 1;
        self.release(now, |after| after.item() == item);
    }

    fn release(&mut self, now: Instant, happened: impl Fn(After) -> bool) {
        for (item, waiting) in (0..).zip(&mut self.waiting) {
            if waiting.is_some_and(&happened) {
                *waiting = None;
                self.due.push_back((item, Some(now)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::VisitRequest;
    use altway_units::DataSize;
    use std::time::Duration;

    fn script(afters: &[Option<After>]) -> Script {
        let request = |after: &Option<After>| VisitRequest {
            after: *after,
            ..VisitRequest::new("/".into(), DataSize::from_bytes(1))
        };
        Script::new(&Visit {
            requests: afters.iter().map(request).collect(),
            new_connections: false,
            early_data: false,
            learn_http3: false,
            sessions: None,
        })
    }

    #[test]
    fn a_request_is_due_when_what_it_waits_for_has_happened() {
        let begun = Instant::now();
        let later = begun + Duration::from_millis(5);
        let mut script = script(&[
            None,
            Some(After::FirstByteOf(0)),
            Some(After::EndOf(0)),
            Some(After::EndOf(0)),
        ]);
        assert_eq!(script.next(begun), Some((0, begun)));
        assert_eq!(script.next(begun), None);
        script.on_first_byte(0, later);
        script.on_first_byte(0, later + later.duration_since(begun));
        assert_eq!(script.next(later), Some((1, later)));
        assert!(!script.is_drawn_out());
        script.on_end(0, later);
        assert_eq!(script.next(begun), Some((2, later)));
        assert_eq!(script.next(begun), Some((3, later)));
        assert!(script.is_drawn_out() && !script.has_ended());
        (1..4).for_each(|item| script.on_end(item, later));
        assert!(script.has_ended());
    }

    #[test]
    fn what_fails_before_its_first_byte_holds_nothing_up() {
        let now = Instant::now();
        let mut script = script(&[None, Some(After::FirstByteOf(0))]);
        assert!(script.next(now).is_some());
        script.on_end(0, now);
        assert_eq!(script.next(now), Some((1, now)));
    }
}
