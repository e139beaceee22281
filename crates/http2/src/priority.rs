//! Extensible priorities (RFC 9218): what a client wishes, and whose turn it is to send.

use std::collections::VecDeque;

/// Urgencies go from 0, the most urgent, to 7.
const URGENCIES: usize = 8;

/// A response's priority (RFC 9218 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 (first) to 7 (background).
    pub urgency: u8,
    /// Whether the client can use parts as they come: then it shares the connection with others
    /// of its urgency, else they go one after the other.
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

/// Streams that have something to send, in the order in which they may. Holds each stream at most
/// once (the caller sees to it), so it is bounded by the number of open streams.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    queues: [VecDeque<u32>; URGENCIES],
    /// Bit n: queue n may hold something.
    waiting: u8,
    /// Whose turn it was last.
    last: Option<u32>,
}

impl Scheduler {
    /// A stream that has something to send. The one whose turn it was last goes on before its
    /// equals, unless it is incremental.
    pub(crate) fn push(&mut self, stream: u32, priority: Priority) {
        let goes_on = self.last.take() == Some(stream) && !priority.incremental;
        let urgency = usize::from(priority.urgency);
        self.waiting |= 1 << urgency;
        if goes_on {
            self.queues[urgency].push_front(stream);
        } else {
            self.queues[urgency].push_back(stream);
        }
    }

    /// The stream whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        while self.waiting != 0 {
            let urgency = self.waiting.trailing_zeros() as usize;
            self.last = self.queues[urgency].pop_front();
            if self.last.is_some() {
                return self.last;
            }
            self.waiting &= self.waiting - 1;
        }
        None
    }

    /// The stream ended, or moves to another priority.
    pub(crate) fn remove(&mut self, stream: u32, priority: Priority) {
        let queue = &mut self.queues[usize::from(priority.urgency)];
        if let Some(index) = queue.iter().position(|waiting| *waiting == stream) {
            queue.remove(index);
        }
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
    fn urgent_streams_go_first_and_equals_in_their_order() {
        let mut scheduler = Scheduler::default();
        for (stream, urgency) in [(1, 3), (3, 3), (5, 0), (7, 7)] {
            scheduler.push(stream, priority(urgency, false));
        }
        scheduler.remove(3, priority(3, false));
        assert_eq!(drain(&mut scheduler), [5, 1, 7]);
    }

    #[test]
    fn incremental_streams_take_turns_and_others_go_on() {
        let turns = |incremental| {
            let mut scheduler = Scheduler::default();
            let priority = priority(3, incremental);
            scheduler.push(1, priority);
            scheduler.push(3, priority);
            let mut order = Vec::new();
            for _ in 0..4 {
                let stream = scheduler.pop().unwrap();
                order.push(stream);
                scheduler.push(stream, priority);
            }
            order
        };
        assert_eq!(turns(false), [1, 1, 1, 1]);
        assert_eq!(turns(true), [1, 3, 1, 3]);
    }

    fn drain(scheduler: &mut Scheduler) -> Vec<u32> {
        std::iter::from_fn(|| scheduler.pop()).collect()
    }
}
