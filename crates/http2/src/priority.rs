//! Whose turn it is to send, by the priorities that clients wish (RFC 9218).

use std::collections::VecDeque;

use altway_fields::Priority;

/// Urgencies go from 0, the most urgent, to 7.
const URGENCIES: usize = 8;

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
