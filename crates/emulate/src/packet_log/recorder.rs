//! The link thread's side of the packet log: it never waits.

use super::pcapng::{self, Bound, Packet};
use super::writer::{CHUNK, Counts};
use altway_link::DropReason;
use altway_units::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

/// Age at which the first packet of a chunk has the chunk handed over, full or not.
const MAX_CHUNK_AGE: Duration = Duration::from_millis(50);

/// An end of the link; its interface in the file has this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Event of a packet at the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketEvent {
    /// The packet entered the link.
    Came,
    /// The packet entered the link, which dropped it then or later.
    Dropped(DropReason),
    /// The packet left the link.
    Left,
}

/// A line of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) side: Side,
    pub(crate) packet_event: PacketEvent,
    pub(crate) at: Timestamp,
    /// The IP packet.
    pub(crate) packet: &'a [u8],
}

/// Puts packets into chunks, and hands the chunks to the writer.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Bytes not yet handed over; without capacity when there was no empty chunk.
    filling: Vec<u8>,
    /// Time at which the first packet came into it.
    since: Option<Timestamp>,
    /// Offset at which the last packet's block begins in it, and whose packet that is.
    last: Option<(usize, Side)>,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    counts: Arc<Counts>,
    /// Nanoseconds from the link's clock to the time of day, at the start of the log.
    to_time_of_day: u64,
}

impl Side {
    /// Both ends, in the order of their numbers.
    pub(super) const ALL: [Self; 2] = [Self::Client, Self::Server];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl PacketEvent {
    fn bound(self) -> Bound {
        match self {
            Self::Came | Self::Dropped(_) => Bound::In,
            Self::Left => Bound::Out,
        }
    }

    fn comment(self) -> Option<&'static str> {
        let Self::Dropped(reason) = self else {
            return None;
        };
        Some(match reason {
            DropReason::Udp => "dropped by the emulated link: UDP blocked or beyond its rate",
            DropReason::Loss => "dropped by the emulated link: loss",
            DropReason::QueueFull => "dropped by the emulated link: queue full",
            DropReason::CoDel => "dropped by the emulated link: CoDel",
            DropReason::TooManyPackets => "dropped by the emulated link: too many packets",
            _ => "dropped by the emulated link",
        })
    }
}

impl Recorder {
    pub(super) fn new(
        full: SyncSender<Vec<u8>>,
        empty: Receiver<Vec<u8>>,
        counts: Arc<Counts>,
        to_time_of_day: u64,
    ) -> Self {
        Self {
            filling: Vec::new(),
            since: None,
            last: None,
            full,
            empty,
            counts,
            to_time_of_day,
        }
    }

    /// Logs a packet, or counts it when there is no room for it.
    pub(crate) fn record(&mut self, entry: Entry<'_>) {
        let comment = entry.packet_event.comment();
        let room = self.make_room(pcapng::packet_room(entry.packet, comment));
        let counts = &self.counts.sides[entry.side as usize];
        if !room {
            self.last = None;
            counts.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        counts.logged.fetch_add(1, Ordering::Relaxed);
        self.since.get_or_insert(entry.at);
        self.last = Some((self.filling.len(), entry.side));
        let packet = Packet {
            interface: entry.side as u32,
            at: entry.at.as_nanos() + self.to_time_of_day,
            bound: entry.packet_event.bound(),
            comment,
            bytes: entry.packet,
        };
        pcapng::packet(&mut self.filling, packet);
    }

    /// Logs a packet in the place of the one logged last: more is known of it now.
    pub(crate) fn correct(&mut self, entry: Entry<'_>) {
        if let Some((start, side)) = self.last.take() {
            self.filling.truncate(start);
            let counts = &self.counts.sides[side as usize];
            counts.logged.fetch_sub(1, Ordering::Relaxed);
            self.record(entry);
        }
    }

    /// Time at which [`flush`](Self::flush) has something to do; `None` when there is nothing to hand over.
    pub(crate) fn flush_due(&self) -> Option<Timestamp> {
        self.since.map(|since| since + MAX_CHUNK_AGE)
    }

    /// Hands over what has got old.
    pub(crate) fn flush(&mut self, now: Timestamp) {
        if self.flush_due().is_some_and(|due| due <= now) {
            self.hand_over();
        }
    }

    /// Sees to it that there are `room` bytes left in the chunk; whether there are.
    fn make_room(&mut self, room: usize) -> bool {
        if self.filling.len() + room > CHUNK {
            self.hand_over();
        }
        if self.filling.capacity() == 0 {
            match self.empty.try_recv() {
                Ok(chunk) => self.filling = chunk,
                Err(_) => return false,
            }
        }
        self.filling.len() + room <= CHUNK
    }

    fn hand_over(&mut self) {
        self.since = None;
        self.last = None;
        if !self.filling.is_empty() {
            // It has room for all chunks that there are; if the writer is gone, so is the log.
            let _ = self.full.try_send(std::mem::take(&mut self.filling));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
    }
}
