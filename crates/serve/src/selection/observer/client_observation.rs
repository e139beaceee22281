//! The client of a connection, and what its connection has shown that is to be observed.

use super::{MIN_WATCHED, timestamp};
use crate::selection::busy::Busy;
use crate::selection::counters::Counters;
use crate::selection::{HostIndex, Selection};
use altway_select::{Bulk, Client, Observation, Page, Pages, UnixTime};
use altway_units::{DataSize, Timestamp};
use std::time::Instant;

/// A client, and what its connection has shown of its path since the latest observation.
#[derive(Debug)]
pub(super) struct ClientObservation {
    pub(super) client: Client,
    /// True if the client had been offered HTTP/3 when the connection began.
    pub(super) offered: bool,
    pub(super) host: HostIndex,
    pub(super) pages: Pages,
    pub(super) busy: Busy,
    /// Bytes that were handed over since a response was complete.
    pub(super) response: u64,
    /// The latest response is complete, and the client doesn't have all of it yet.
    pub(super) unacknowledged: Option<DataSize>,
    /// Responses so far.
    pub(super) responses: u64,
    pub(super) latest: Option<Counters>,
    /// The transport has counted the packets of no other path.
    pub(super) is_first_path: bool,
    /// Packets by the latest observation; `None` before the first.
    pub(super) observed: Option<Packets>,
    pub(super) observed_at: Instant,
    pub(super) page: Option<Page>,
    /// The latest page that was told of.
    pub(super) latest_page: Option<Page>,
    pub(super) bulk: Option<Bulk>,
}

/// Packets of a connection since its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Packets {
    sent: u64,
    lost: u64,
    spurious: u64,
}

impl ClientObservation {
    /// The client has everything: by `now`, or since the time that the counters tell.
    pub(super) fn arrived(&mut self, began: Instant, now: Instant) {
        let Some(size) = self.unacknowledged.take() else {
            return;
        };
        let arrived = self.latest.and_then(|it| it.arrived);
        let at = arrived.map_or(now, |(at, _)| at);
        self.pages.response(timestamp(began, at), size);
        let busy = std::mem::take(&mut self.busy);
        if let Some(counters) = self.latest {
            let acked = arrived.map_or(counters.bytes_acked, |(_, acked)| acked);
            let mut busy = busy;
            self.bulk = busy.end(at, acked, &counters).or(self.bulk);
        }
    }

    /// The time from which the client has what was handed over by `at`; `None`: not known.
    pub(super) fn delivered(&self, at: Timestamp) -> Option<Timestamp> {
        match self.busy.bytes() {
            0 => Some(at),
            bytes if bytes < MIN_WATCHED => Some(at + self.latest?.smoothed_rtt?),
            _ => None,
        }
    }

    /// Tells what is new; the page that was, if one is complete.
    pub(super) fn observe(
        &mut self,
        selection: &Selection,
        now: Instant,
        unix: UnixTime,
    ) -> Option<Page> {
        let counters = self.latest?;
        let packets = Packets {
            sent: counters.packets_sent,
            lost: counters.packets_lost,
            spurious: counters.packets_spurious,
        };
        let beginning = match self.is_first_path {
            true => Packets::default(),
            false => packets,
        };
        let before = self.observed.replace(packets).unwrap_or(beginning);
        self.observed_at = now;
        let observation = Observation {
            congestion: counters.congestion,
            min_rtt: counters.min_rtt,
            smoothed_rtt: counters.smoothed_rtt,
            packets_sent: packets.sent.saturating_sub(before.sent),
            packets_lost: packets.lost.saturating_sub(before.lost),
            packets_spurious: packets.spurious.saturating_sub(before.spurious),
            bulk: self.bulk.take(),
            page: self.page.take(),
            ..Observation::new(counters.transport)
        };
        self.latest_page = observation.page.or(self.latest_page);
        selection.observe(&self.client, self.host, &observation, unix);
        observation.page
    }
}
