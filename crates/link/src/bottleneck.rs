//! The queue and the rate behind it.

use crate::codel::{CoDel, Head};
use crate::serializer::Serializer;
use crate::streams::PacketTreatment;
use crate::{Config, Discipline, Queue};
use altway_units::{DataSize, Timestamp};
use std::collections::VecDeque;

/// Packets that wait for the rate, and the one that is being serialised.
///
/// Only [`serving`](Self::serving) has a time at which it ends, so that a change of the rate changes
/// nothing but that, and CoDel sees each packet when its turn comes.
#[derive(Debug, Clone)]
pub(crate) struct Bottleneck<P> {
    limit: Queue,
    codel: Option<CoDel>,
    serializer: Serializer,
    /// Bounded by `limit`, and by `Direction::MAX_PACKETS`.
    waiting: VecDeque<Item<P>>,
    serving: Option<(Timestamp, Item<P>)>,
    /// The bytes of `waiting` and `serving`.
    backlog: u64,
    /// The largest packet so far, which stands for CoDel's "maximum packet size" (RFC 8289 §5.3).
    largest: u64,
}

/// A packet inside the link.
#[derive(Debug, Clone)]
pub(crate) struct Item<P> {
    pub(crate) packet: P,
    pub(crate) size: DataSize,
    pub(crate) arrived: Timestamp,
    pub(crate) way: PacketTreatment,
}

impl<P> Bottleneck<P> {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limit: config.queue,
            codel: codel(config.discipline),
            serializer: Serializer::new(config.rate.clone()),
            waiting: VecDeque::new(),
            serving: None,
            backlog: 0,
            largest: 0,
        }
    }

    /// Returns whether a packet of this size may come in.
    pub(crate) fn has_room(&self, size: DataSize) -> bool {
        self.serializer.is_unlimited()
            || self
                .limit
                .has_room(self.serializer.rate(), self.backlog(), self.len(), size)
    }

    /// Takes a packet in. Everything that ends by then must have been polled.
    pub(crate) fn push(&mut self, now: Timestamp, item: Item<P>) {
        self.backlog += item.size.as_bytes();
        self.largest = self.largest.max(item.size.as_bytes());
        self.waiting.push_back(item);
        if self.serving.is_none() {
            // CoDel drops no packet that has not waited.
            self.serve(now, false, &mut Vec::new());
        }
    }

    /// The next packet whose last bit has passed by `now`, and when that was. What CoDel drops goes to
    /// `dropped`.
    pub(crate) fn poll(
        &mut self,
        now: Timestamp,
        dropped: &mut Vec<Item<P>>,
    ) -> Option<(Timestamp, Item<P>)> {
        let (end, item) = self.serving.take_if(|(end, _)| *end <= now)?;
        self.backlog -= item.size.as_bytes();
        self.serve(end, true, dropped);
        Some((end, item))
    }

    /// The packet that is being serialised, and when its last bit will have passed.
    pub(crate) fn serving(&self) -> Option<(Timestamp, &Item<P>)> {
        self.serving.as_ref().map(|(end, item)| (*end, item))
    }

    /// Goes on with other parameters; drops nothing.
    pub(crate) fn change(&mut self, now: Timestamp, config: &Config) {
        self.limit = config.queue;
        if self.codel.is_some() != (config.discipline == Discipline::CoDel) {
            self.codel = codel(config.discipline);
        }
        self.serializer.change(now, &config.rate);
        if let Some((end, _)) = &mut self.serving {
            *end = self.serializer.end(now);
        }
    }

    /// The bytes that wait for or are in serialisation; 0 without a rate.
    pub(crate) fn backlog(&self) -> DataSize {
        if self.serializer.is_unlimited() {
            DataSize::ZERO
        } else {
            DataSize::from_bytes(self.backlog)
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.serving.is_some())
    }

    /// All packets, oldest first.
    pub(crate) fn into_items(self) -> impl Iterator<Item = Item<P>> {
        let serving = self.serving.map(|(_, item)| item);
        serving.into_iter().chain(self.waiting)
    }

    /// Puts the next packet on the wire.
    fn serve(&mut self, now: Timestamp, after_another: bool, dropped: &mut Vec<Item<P>>) {
        let next = match &mut self.codel {
            None => self.waiting.pop_front(),
            Some(codel) => {
                let (waiting, backlog, largest) =
                    (&mut self.waiting, &mut self.backlog, self.largest);
                // `judge` looks at the bytes that are left without the packet itself.
                let mut left = *backlog;
                let pop = || {
                    let item = waiting.pop_front()?;
                    left -= item.size.as_bytes();
                    Some(Head {
                        waited: now - item.arrived,
                        is_almost_last: left <= largest,
                        item,
                    })
                };
                codel.next(now, pop, |item: Item<P>| {
                    *backlog -= item.size.as_bytes();
                    dropped.push(item);
                })
            }
        };
        self.serving = next.map(|item| {
            let end = self.serializer.begin(now, item.size, after_another);
            (end, item)
        });
    }
}

fn codel(discipline: Discipline) -> Option<CoDel> {
    (discipline == Discipline::CoDel).then(CoDel::default)
}
