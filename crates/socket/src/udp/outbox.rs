//! Batches of datagrams on their way to the socket: small ones, of many connections, leave by one call.

use crate::sys::{MAX_MESSAGES, Message};
use altway_quic::Transmit;

/// The most that a message can carry: the largest UDP payload over IPv4.
const MAX_MESSAGE_BYTES: usize = 65_507;

/// Bytes of batches that wait for a later one, at most.
const MAX_WAITING_BYTES: usize = 64 << 10;

/// A batch that is larger waits for no other: to set it aside would cost more than a call.
const SMALL_BYTES: usize = 4 << 10;

/// Batches in the order in which they are to leave: at most [`MAX_MESSAGES`], and [`MAX_WAITING_BYTES`] beside the
/// last one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    batches: Vec<Transmit>,
    /// The contents of the first of them, one behind the other.
    waiting: Vec<u8>,
    /// Number of batches that have theirs in `waiting`: all, or all but the last.
    set_aside: usize,
    /// The contents of the last one.
    last: Vec<u8>,
    /// The end of what has left.
    left: Position,
}

/// A place between two messages.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// Batches before it.
    batches: usize,
    /// Bytes before those of its batch in `waiting`.
    waiting: usize,
    /// Bytes of its batch that are before it.
    bytes: usize,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns true if a batch may be added before what is there has left.
    pub(super) fn has_room(&self) -> bool {
        let last = self.batches.last().map_or(0, |last| last.size);
        last <= SMALL_BYTES
            && self.waiting.len() + last <= MAX_WAITING_BYTES
            && self.batches.len() < MAX_MESSAGES
    }

    /// Adds the batch that `next` puts into the buffer. False if it has none.
    pub(super) fn add(&mut self, next: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>) -> bool {
        if let Some(last) = self.batches.get(self.set_aside) {
            self.waiting.extend_from_slice(&self.last[..last.size]);
            self.set_aside += 1;
        }
        let added = next(&mut self.last);
        self.batches.extend(added);
        added.is_some()
    }

    /// Returns the datagrams that wait, as messages of one call. `splits`: the kernel splits a batch into its
    /// datagrams.
    pub(super) fn messages(&self, splits: bool) -> impl Iterator<Item = Message<'_>> {
        let mut at = self.left;
        std::iter::from_fn(move || {
            let (message, behind) = self.message(at, splits)?;
            at = behind;
            Some(message)
        })
    }

    /// Forgets so many messages.
    pub(super) fn on_left(&mut self, messages: usize, splits: bool) {
        for _ in 0..messages {
            if let Some((_, behind)) = self.message(self.left, splits) {
                self.left = behind;
            }
        }
        if self.left.batches == self.batches.len() {
            self.batches.clear();
            self.waiting.clear();
            (self.set_aside, self.left) = (0, Position::default());
        }
    }

    /// The message that begins here, and where the next one does.
    fn message(&self, at: Position, splits: bool) -> Option<(Message<'_>, Position)> {
        let batch = self.batches.get(at.batches)?;
        let (contents, waiting) = match at.batches < self.set_aside {
            true => (&self.waiting[at.waiting..], at.waiting + batch.size),
            false => (&self.last[..], at.waiting),
        };
        let rest = &contents[at.bytes..batch.size];
        let contents = &rest[..rest.len().min(message_bytes(batch, splits))];
        let segment = batch.segment_size.filter(|size| *size < contents.len());
        let message = Message {
            destination: batch.destination,
            local_ip: batch.local_ip,
            ecn: batch.ecn,
            segment_size: segment.map(|size| u16::try_from(size).expect("a datagram's size")),
            contents,
        };
        let behind = match contents.len() == rest.len() {
            true => Position {
                batches: at.batches + 1,
                waiting,
                bytes: 0,
            },
            false => Position {
                bytes: at.bytes + contents.len(),
                ..at
            },
        };
        Some((message, behind))
    }
}

/// Bytes of as many whole datagrams as one message can carry: of one where the kernel doesn't split.
fn message_bytes(batch: &Transmit, splits: bool) -> usize {
    match batch.segment_size {
        Some(size) if !splits => size.max(1),
        Some(size) if batch.size > MAX_MESSAGE_BYTES => MAX_MESSAGE_BYTES / size.max(1) * size,
        _ => batch.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_quic::Ecn;

    fn add(outbox: &mut Outbox, port: u16, size: usize, segment_size: Option<usize>) {
        let batch = Transmit {
            destination: ([127, 0, 0, 1], port).into(),
            local_ip: None,
            ecn: port.is_multiple_of(2).then_some(Ecn::Ect0),
            segment_size,
            size,
        };
        assert!(outbox.has_room());
        let next = |buffer: &mut Vec<u8>| {
            buffer.clear();
            buffer.resize(size, port.to_le_bytes()[0]);
            Some(batch)
        };
        assert!(outbox.add(next));
    }

    /// The port of each message, its size and that of its segments.
    fn messages(outbox: &Outbox, splits: bool) -> Vec<(u16, usize, Option<u16>)> {
        let messages = outbox.messages(splits).map(|message| {
            let port = message.destination.port();
            assert!(message.contents.iter().all(|byte| u16::from(*byte) == port));
            assert_eq!(message.ecn.is_some(), port.is_multiple_of(2));
            (port, message.contents.len(), message.segment_size)
        });
        messages.collect()
    }

    #[test]
    fn batches_leave_in_their_order_each_as_a_message() {
        let mut outbox = Outbox::default();
        add(&mut outbox, 1, 50, None);
        add(&mut outbox, 2, 250, Some(100));
        add(&mut outbox, 3, 100, Some(100));
        let all = [(1, 50, None), (2, 250, Some(100)), (3, 100, None)];
        assert_eq!(messages(&outbox, true), all);
        outbox.on_left(1, true);
        assert_eq!(messages(&outbox, true), all[1..]);
        assert!(!outbox.add(|_| None));
        assert_eq!(messages(&outbox, true), all[1..]);
        outbox.on_left(2, true);
        assert!(outbox.is_empty() && outbox.waiting.is_empty());
        add(&mut outbox, 4, 10, None);
        assert_eq!(messages(&outbox, true), [(4, 10, None)]);
    }

    #[test]
    fn a_batch_that_the_kernel_does_not_split_is_as_many_messages_as_datagrams() {
        let mut outbox = Outbox::default();
        add(&mut outbox, 1, 250, Some(100));
        add(&mut outbox, 2, 30, None);
        let all = [(1, 100, None), (1, 100, None), (1, 50, None), (2, 30, None)];
        assert_eq!(messages(&outbox, false), all);
        outbox.on_left(2, false);
        assert_eq!(messages(&outbox, false), all[2..]);
        assert_eq!(messages(&outbox, true), all[2..]);
    }

    #[test]
    fn a_batch_larger_than_a_message_is_several_of_whole_datagrams() {
        let mut outbox = Outbox::default();
        add(&mut outbox, 1, 100_000, Some(9_000));
        let all = [(1, 63_000, Some(9_000)), (1, 37_000, Some(9_000))];
        assert_eq!(messages(&outbox, true), all);
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let mut outbox = Outbox::default();
        for _ in 0..MAX_MESSAGES {
            add(&mut outbox, 1, 10, None);
        }
        assert!(!outbox.has_room());
        outbox.on_left(MAX_MESSAGES, true);
        let mut added = 0;
        while outbox.has_room() {
            add(&mut outbox, 2, SMALL_BYTES, None);
            added += 1;
        }
        assert_eq!(added, MAX_WAITING_BYTES / SMALL_BYTES + 1);
        assert!(outbox.waiting.len() <= MAX_WAITING_BYTES);
        outbox.on_left(added, true);
        add(&mut outbox, 3, SMALL_BYTES + 1, None);
        assert!(!outbox.has_room(), "it leaves at once");
    }
}
