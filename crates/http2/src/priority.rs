//! The order in which streams send, by the priorities that clients wish (RFC 9218).

use std::collections::VecDeque;

use altway_fields::Priority;

/// Urgencies go from 0, the most urgent, to 7.
const URGENCIES: usize = 8;

/// Streams that have something to send, in the order in which they may. Holds each stream at most
/// once (the caller sees to it), so it is bounded by the number of open streams.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// `None` before a stream has waited: most responses leave at once, and most connections idle.
    queues: Option<Box<[Queue; URGENCIES]>>,
    /// Bit n: queue n may hold something.
    waiting: u8,
}

/// Streams of one urgency. Those that are not incremental come first, in the order of their requests: so
/// RFC 9218 section 10 has it, for half a response of that kind is of no use to its client.
#[derive(Debug, Default)]
struct Queue {
    /// Streams that are not incremental, by their numbers.
    in_order: VecDeque<u32>,
    in_turns: VecDeque<u32>,
}

impl Scheduler {
    /// A stream that has something to send. One that had nothing for a while takes its place again.
    pub(crate) fn push(&mut self, stream: u32, priority: Priority) {
        let urgency = usize::from(priority.urgency);
        self.waiting |= 1 << urgency;
        let queue = &mut self.queues.get_or_insert_default()[urgency];
        if priority.incremental {
            queue.in_turns.push_back(stream);
        } else {
            let place = queue.in_order.partition_point(|other| *other < stream);
            queue.in_order.insert(place, stream);
        }
    }

    /// The stream whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let queues = self.queues.as_mut()?;
        while self.waiting != 0 {
            let queue = &mut queues[self.waiting.trailing_zeros() as usize];
            let next = queue.in_order.pop_front();
            if let Some(stream) = next.or_else(|| queue.in_turns.pop_front()) {
                return Some(stream);
            }
            self.waiting &= self.waiting - 1;
        }
        None
    }

    /// The stream ended, or moves to another priority.
    pub(crate) fn remove(&mut self, stream: u32, priority: Priority) {
        let Some(queues) = &mut self.queues else {
            return;
        };
        let queue = &mut queues[usize::from(priority.urgency)];
        let queue = match priority.incremental {
            true => &mut queue.in_turns,
            false => &mut queue.in_order,
        };
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

    #[test]
    fn a_response_that_stood_still_goes_on_before_later_ones() {
        let mut scheduler = Scheduler::default();
        let (whole, shared) = (priority(3, false), priority(3, true));
        for (stream, priority) in [(1, shared), (3, whole), (5, whole), (7, shared)] {
            scheduler.push(stream, priority);
        }
        assert_eq!(scheduler.pop(), Some(3));
        // Its next bytes come while another one is on its way.
        assert_eq!(scheduler.pop(), Some(5));
        scheduler.push(3, whole);
        scheduler.push(5, whole);
        assert_eq!(drain(&mut scheduler), [3, 5, 1, 7]);
    }

    fn drain(scheduler: &mut Scheduler) -> Vec<u32> {
        std::iter::from_fn(|| scheduler.pop()).collect()
    }
}
