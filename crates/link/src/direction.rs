//! The stages of one direction in a row, and the packets in them.

use crate::bottleneck::{Bottleneck, Item};
use crate::delay_line::DelayLine;
use crate::streams::{Fate, Fates, PacketTreatment};
use crate::udp::{Transport, UdpGate};
use crate::{BitFlip, Config, Counters, Shift};
use altway_units::{DataSize, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// A direction of a link that carries packets of type `P`: their bytes, or an index into a pool.
///
/// Memory is bounded: the link holds at most its queue, plus what is on its way down the delay line
/// (rate × delay: 50 MB at 1 Gbit/s and 400 ms), and never more than [`MAX_PACKETS`] in all, which
/// is the only bound when there is no rate.
///
/// [`MAX_PACKETS`]: Self::MAX_PACKETS
#[derive(Debug, Clone)]
pub struct Direction<P> {
    config: Config,
    udp: UdpGate,
    fates: Fates,
    bottleneck: Bottleneck<P>,
    delay_line: DelayLine<Item<P>>,
    /// Time at which the last packet that keeps its order is due.
    last_due: Timestamp,
    /// Value of `last_due` at the last change of parameters: nothing may overtake what was on its
    /// way.
    settled: Timestamp,
    /// Packets that were dropped inside and not yet asked for.
    dropped: VecDeque<Dropped<P>>,
    /// The latest time heard of: a clock that steps back must not make packets overtake.
    now: Timestamp,
    counters: Counters,
}

/// A packet that arrived at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The packet as it was given to [`Direction::enqueue`].
    pub packet: P,
    /// Time at which the model wants it out; how much later it really goes out is the caller's lateness.
    pub due: Timestamp,
    /// The size in IP bytes.
    pub size: DataSize,
    /// The bit of it that is to be flipped before it goes out, if it is corrupt.
    pub flip: Option<BitFlip>,
}

/// A packet that the link did not take, or dropped later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet, handed back.
    pub packet: P,
    /// Reason why it was dropped.
    pub reason: DropReason,
}

/// Reason why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// The packet was of UDP, which [`Config::udp`] blocks, or beyond the rate to which it is policed.
    Udp,
    /// The packet was lost by [`Config::loss`].
    Loss,
    /// The packet did not fit into [`Config::queue`].
    QueueFull,
    /// The packet stood at the front of a queue in which packets waited too long
    /// ([`Discipline::CoDel`](crate::Discipline::CoDel)).
    CoDel,
    /// The link already held [`Direction::MAX_PACKETS`]. That is a bound of memory and no part of
    /// the model: a measurement in which this happens is void.
    TooManyPackets,
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
            udp: UdpGate::new(Timestamp::ZERO, config.udp),
            fates: Fates::new(seed),
            bottleneck: Bottleneck::new(&config),
            config,
            delay_line: DelayLine::new(),
            last_due: Timestamp::ZERO,
            settled: Timestamp::ZERO,
            dropped: VecDeque::new(),
            now: Timestamp::ZERO,
            counters: Counters::default(),
        }
    }

    /// Offers a packet of `size` IP bytes at `now`, of any transport protocol but UDP, which
    /// [`enqueue_with`](Self::enqueue_with) is told.
    ///
    /// `now` should not run backwards; a time before the latest one counts as the latest one.
    ///
    /// # Errors
    /// Hands the packet back, with the reason, when the link drops it.
    pub fn enqueue(&mut self, now: Timestamp, size: DataSize, packet: P) -> Result<(), Dropped<P>>
    where
        P: Clone,
    {
        self.enqueue_with(now, size, Transport::Other, packet, |packet| {
            Some(packet.clone())
        })
    }

    /// [`enqueue`](Self::enqueue) for packets of either transport, and for those that can't be cloned:
    /// `copy` is called for those that come twice. When it has no room for a copy, there is none.
    ///
    /// # Errors
    /// Hands the packet back, with the reason, when the link drops it.
    pub fn enqueue_with(
        &mut self,
        now: Timestamp,
        size: DataSize,
        transport: Transport,
        packet: P,
        copy: impl FnOnce(&P) -> Option<P>,
    ) -> Result<(), Dropped<P>> {
        self.advance(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += size.as_bytes();
        let fate = self.fates.next(&self.config);
        if let Err(reason) = self.admit(transport, fate, size) {
            self.count_drop(reason);
            return Err(Dropped { packet, reason });
        }
        let copy = if fate.is_doubled { copy(&packet) } else { None };
        self.take_in(packet, size, fate.way);
        if let Some(copy) = copy {
            self.take_in_copy(copy, size);
        }
        Ok(())
    }

    /// Takes the next packet that is due at `now`; call it until it returns `None`.
    pub fn dequeue(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        self.advance(now);
        let (due, item) = self.delay_line.pop(now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += item.size.as_bytes();
        self.counters.packets_corrupted += u64::from(item.way.flip.is_some());
        Some(Delivery {
            packet: item.packet,
            due,
            size: item.size,
            flip: item.way.flip,
        })
    }

    /// Takes a packet that was dropped after it had been taken in: by CoDel, or a copy for which
    /// there was no room.
    ///
    /// Ask after each [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue) when `P` stands for
    /// memory that must be given back. Who does not ask loses nothing but memory: the last
    /// [`MAX_PACKETS`](Self::MAX_PACKETS) of them are kept.
    pub fn poll_dropped(&mut self) -> Option<Dropped<P>> {
        self.dropped.pop_front()
    }

    /// Goes on with other parameters from `now` on.
    ///
    /// Nothing is lost and nothing overtakes what is inside: what is on its way keeps the time at
    /// which it is due, and nothing that keeps its order comes out before it, even if the delay is
    /// shorter now. What waits is serialised at the new rate, the packet in the middle of it with the
    /// bits that are left. A smaller queue drops nothing that is in it, only what comes. The random
    /// numbers go on where they were: the same packets are lost as if the parameters had always been
    /// these. A policer keeps its tokens and CoDel its state unless it is switched off, and a trace begins
    /// anew only if it is another one.
    pub fn reconfigure(&mut self, now: Timestamp, config: Config) {
        self.advance(now);
        self.udp.change(self.now, config.udp);
        self.bottleneck.change(self.now, &config);
        self.config = config;
        self.settled = self.last_due;
        self.advance(now);
    }

    /// Time at which to call [`dequeue`](Self::dequeue) next: when a packet is due, or, where packets may
    /// overtake each other, when one begins its way and might. `None` when the link is empty.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let due = self.delay_line.next_due();
        // What keeps its order can't come out before what is on its way already.
        if self.delay_line.has_row() && !self.reorders() {
            return due;
        }
        let Some((end, item)) = self.bottleneck.serving() else {
            return due;
        };
        let next = if self.reorders() && self.bottleneck.len() > 1 {
            end
        } else {
            self.due(end, item.way)
        };
        Some(due.map_or(next, |due| due.min(next)))
    }

    /// Returns what happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            packets_queued: (self.bottleneck.len() + self.delay_line.len()) as u64,
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
        let dropped = self.dropped.into_iter().map(|dropped| dropped.packet);
        let items = self
            .delay_line
            .into_items()
            .chain(self.bottleneck.into_items());
        dropped.chain(items.map(|item| item.packet))
    }

    /// Lets happen what has happened by `now`: packets end their serialisation and go on their way.
    fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let mut dropped = Vec::new();
        while let Some((end, item)) = self.bottleneck.poll(self.now, &mut dropped) {
            self.send(end, item);
        }
        for item in dropped {
            self.drop_inside(item.packet, DropReason::CoDel);
        }
    }

    /// Returns whether the packet may come in.
    fn admit(
        &mut self,
        transport: Transport,
        fate: Fate,
        size: DataSize,
    ) -> Result<(), DropReason> {
        if transport == Transport::Udp && !self.udp.admits(self.now, size) {
            return Err(DropReason::Udp);
        }
        if fate.is_lost {
            return Err(DropReason::Loss);
        }
        self.find_room(size)
    }

    fn find_room(&self, size: DataSize) -> Result<(), DropReason> {
        if self.bottleneck.len() + self.delay_line.len() >= Self::MAX_PACKETS {
            return Err(DropReason::TooManyPackets);
        }
        if !self.bottleneck.has_room(size) {
            return Err(DropReason::QueueFull);
        }
        Ok(())
    }

    fn take_in(&mut self, packet: P, size: DataSize, way: PacketTreatment) {
        let arrived = self.now;
        let item = Item {
            packet,
            size,
            arrived,
            way,
        };
        self.bottleneck.push(self.now, item);
        let backlog = self.bottleneck.backlog().as_bytes();
        self.counters.bytes_backlog_max = self.counters.bytes_backlog_max.max(backlog);
        self.advance(self.now);
    }

    fn take_in_copy(&mut self, packet: P, size: DataSize) {
        self.counters.packets_duplicated += 1;
        let way = self.fates.next_copy(&self.config);
        match self.find_room(size) {
            Ok(()) => self.take_in(packet, size, way),
            Err(reason) => self.drop_inside(packet, reason),
        }
    }

    /// Puts a packet on its way that left the bottleneck at `end`.
    fn send(&mut self, end: Timestamp, item: Item<P>) {
        let due = self.due(end, item.way);
        if item.way.is_shifted {
            self.counters.packets_reordered += 1;
        } else if !self.config.jitter.may_reorder {
            self.last_due = due;
        }
        self.delay_line.push(due, item);
    }

    fn drop_inside(&mut self, packet: P, reason: DropReason) {
        self.count_drop(reason);
        if self.dropped.len() >= Self::MAX_PACKETS {
            self.dropped.pop_front();
        }
        self.dropped.push_back(Dropped { packet, reason });
    }

    fn count_drop(&mut self, reason: DropReason) {
        *match reason {
            DropReason::Udp => &mut self.counters.packets_udp_dropped,
            DropReason::Loss => &mut self.counters.packets_lost,
            DropReason::QueueFull => &mut self.counters.packets_queue_dropped,
            DropReason::CoDel => &mut self.counters.packets_codel_dropped,
            DropReason::TooManyPackets => &mut self.counters.packets_over_limit,
        } += 1;
    }

    /// Time at which a packet is due that leaves the bottleneck at `end`.
    fn due(&self, end: Timestamp, way: PacketTreatment) -> Timestamp {
        let Config { delay, jitter, .. } = &self.config;
        let delay = jitter.apply(*delay, way.jitter);
        if way.is_shifted {
            let delay = shifted(delay, self.config.reordering.shift);
            return self.settled.max(end + delay);
        }
        let earliest = if jitter.may_reorder {
            self.settled
        } else {
            self.last_due
        };
        earliest.max(end + delay)
    }

    /// Returns whether some packets come out before others that entered earlier.
    fn reorders(&self) -> bool {
        self.config.jitter.may_reorder || self.config.reordering.share != altway_units::Ratio::ZERO
    }
}

fn shifted(delay: Duration, shift: Shift) -> Duration {
    match shift {
        Shift::AtOnce => Duration::ZERO,
        Shift::Early(by) => delay.saturating_sub(by),
        Shift::Late(by) => delay.saturating_add(by),
    }
}
