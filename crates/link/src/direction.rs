//! One direction: loss, queue, serialisation and delay in a row.

use crate::config::Config;
use crate::loss::Loss;
use crate::serializer::Serializer;
use altway_units::{DataSize, Timestamp};
use std::collections::VecDeque;

/// One direction of a link that carries packets of type `P`: their bytes, or an index into a pool.
///
/// Memory is bounded: the link holds at most its queue, plus what is on its way down the delay line
/// (rate × delay: 50 MB at 1 Gbit/s and 400 ms), and never more than [`MAX_PACKETS`] in all, which
/// is the only bound when there is no rate.
///
/// [`MAX_PACKETS`]: Self::MAX_PACKETS
#[derive(Debug, Clone)]
pub struct Direction<P> {
    config: Config,
    loss: Loss,
    serializer: Option<Serializer>,
    /// Everything that is in the link, in the order of its due times.
    line: VecDeque<Delivery<P>>,
    /// The latest time heard of: a clock that steps back must not make packets overtake.
    now: Timestamp,
    counters: Counters,
}

/// A packet that arrived at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The packet as it was given to [`Direction::enqueue`].
    pub packet: P,
    /// When the model wants it out; how much later it really goes out is the caller's lateness.
    pub due: Timestamp,
    /// Its size in IP bytes.
    pub size: DataSize,
}

/// A packet that the link did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet, handed back.
    pub packet: P,
    /// Why it was dropped.
    pub reason: DropReason,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The random loss of [`Config::loss`].
    Loss,
    /// It did not fit into [`Config::queue`].
    QueueFull,
    /// The link already held [`Direction::MAX_PACKETS`]. That is a bound of memory and no part of
    /// the model: a measurement in which this happens is void.
    TooManyPackets,
}

/// What happened so far. Sizes are IP bytes.
///
/// Conservation holds at every moment: `packets_in` is the sum of `packets_lost`,
/// `packets_queue_dropped`, `packets_over_limit`, `packets_out` and `packets_queued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets offered to the link.
    pub packets_in: u64,
    /// Bytes offered to the link.
    pub bytes_in: u64,
    /// Packets dropped for [`DropReason::Loss`].
    pub packets_lost: u64,
    /// Packets dropped for [`DropReason::QueueFull`].
    pub packets_queue_dropped: u64,
    /// Packets dropped for [`DropReason::TooManyPackets`].
    pub packets_over_limit: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
    /// Packets inside: waiting, in serialisation or on their way.
    pub packets_queued: u64,
    /// The most bytes that ever waited for or were in serialisation at once.
    pub bytes_backlog_max: u64,
}

impl<P> Direction<P> {
    /// The most packets that a direction holds at once: 1 Gbit/s with 400 ms of delay is 33,000
    /// full packets, so full packets fill it at 8 Gbit/s only.
    pub const MAX_PACKETS: usize = 262_144;

    /// An empty link. Use [`seed_for`](crate::seed_for) to give the two directions of one link
    /// their own seeds.
    #[must_use]
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            loss: Loss::new(config.loss, seed),
            serializer: config.rate.map(Serializer::new),
            config,
            line: VecDeque::new(),
            now: Timestamp::ZERO,
            counters: Counters::default(),
        }
    }

    /// Offers a packet of `size` IP bytes at `now`.
    ///
    /// `now` should not run backwards; a time before the latest one counts as the latest one.
    ///
    /// # Errors
    /// Hands the packet back, with the reason, when the link drops it.
    pub fn enqueue(&mut self, now: Timestamp, size: DataSize, packet: P) -> Result<(), Dropped<P>> {
        self.now = self.now.max(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += size.as_bytes();
        match self.admit(size) {
            Ok(serialized) => {
                let due = serialized + self.config.delay;
                self.line.push_back(Delivery { packet, due, size });
                Ok(())
            }
            Err(reason) => {
                self.count_drop(reason);
                Err(Dropped { packet, reason })
            }
        }
    }

    /// Takes the next packet that is due at `now`; call it until it returns `None`.
    pub fn dequeue(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        let delivery = self.line.pop_front_if(|delivery| delivery.due <= now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += delivery.size.as_bytes();
        Some(delivery)
    }

    /// When the next packet is due; `None` when the link is empty.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.line.front().map(|delivery| delivery.due)
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            packets_queued: self.line.len() as u64,
            ..self.counters
        }
    }

    /// The parameters of this direction.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Ends the link and hands back what was still inside, oldest first.
    pub fn into_packets(self) -> impl Iterator<Item = P> {
        self.line.into_iter().map(|delivery| delivery.packet)
    }

    /// Takes the packet in and says when it will be wholly on the wire, or why it is dropped.
    fn admit(&mut self, size: DataSize) -> Result<Timestamp, DropReason> {
        if self.loss.draw() {
            return Err(DropReason::Loss);
        }
        if self.line.len() >= Self::MAX_PACKETS {
            return Err(DropReason::TooManyPackets);
        }
        let Some(serializer) = &mut self.serializer else {
            return Ok(self.now);
        };
        let backlog = serializer.backlog(self.now);
        if !self.config.queue.has_room(backlog, size) {
            return Err(DropReason::QueueFull);
        }
        let backlog = (backlog + size).as_bytes();
        self.counters.bytes_backlog_max = self.counters.bytes_backlog_max.max(backlog);
        Ok(serializer.push(self.now, size))
    }

    fn count_drop(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Loss => &mut self.counters.packets_lost,
            DropReason::QueueFull => &mut self.counters.packets_queue_dropped,
            DropReason::TooManyPackets => &mut self.counters.packets_over_limit,
        } += 1;
    }
}
