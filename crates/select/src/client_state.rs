//! The state of one client: 48 bytes that fade.

use crate::UnixTime;
use crate::observation::{Rate, Transport};
use crate::residuals::Residuals;
use crate::surface::Congestion;
use crate::time::{is_ahead, week_of_day};
use std::time::Duration;

/// Bytes of a client's state.
pub(crate) const SIZE: usize = 48;

/// Days after which half of the packets count, and half of the residuals.
const LOSS_HALF_LIFE: f64 = 7.0;
const RESIDUAL_HALF_LIFE: f64 = 14.0;

/// A client that has not come for so many days is forgotten.
const FORGOTTEN_AFTER: u16 = 30;

/// A rate is the mean of at most this many and one more.
const MAX_RATES: u8 = 7;

/// A browser opens several connections at once: those within this time of the first are one visit.
const VISIT: Duration = Duration::from_secs(30);

/// The time from the beginning of a visit in which its rate over TCP is compared with that over QUIC: later it may be another
/// device behind the address, or another hour of the network.
const COMPARABLE: Duration = Duration::from_secs(600);

/// A path that carries so many times its rate over QUIC over TCP throttles one of them: a rate is off by a third at most in 19 of
/// 20 cases, and one that is a lower bound can only be higher.
const THROTTLED: f64 = 1.6;

/// Number of offers that a new visit followed from which on arrivals below a third say that UDP is blocked.
const ENOUGH_OFFERS: u8 = 3;

/// Offers above which offers and arrivals are halved, so that a network that begins to block is noticed.
const MANY_OFFERS: u8 = 12;

/// Packets sent and lost above which both counts are scaled down, for the share of a path that loses many as well; they have
/// 16 bits, those of the lost sixteenths.
const MANY_PACKETS: (f64, f64) = (60_000.0, 4_000.0);

/// Flags.
const PENDING: u8 = 1;
const HELD: u8 = 1 << 1;
const CHANGES: u8 = 0b11 << 2;
const LEVEL: u8 = 0b111 << 4;

/// State of a client's address and class. Small integers, for there may be a million of them; whatever bytes
/// it is read from, every number that it gives is finite and within its range.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ClientState {
    flags: u8,
    /// Day up to which everything has faded, which is that of the latest sign of the client.
    day: u16,
    /// Second at which the latest visit began.
    visit: u32,
    /// Hour of the latest change of a decision.
    changed: u16,
    /// A bit for each of eight slots of hosts: a decision was made, it was for HTTP/3, `clear` was sent since.
    decided: u8,
    offered: u8,
    cleared: u8,
    /// The path carries at least so much.
    floor: u8,
    /// TCP carried so much at least in this visit, or shortly before it.
    recent_floor: u8,
    rates: [u8; 2],
    /// The rate over TCP is such a bound, and no measured one.
    is_bound: bool,
    /// The rate, and the residuals, were measured under congestion control that goes by the rate.
    by_rate: [bool; 2],
    /// ln of bit/s.
    rate: [f32; 2],
    /// Units of 0.1 ms; 0 is unknown.
    rtt: [u16; 2],
    sent: u16,
    /// Sixteenths.
    lost: u16,
    /// Sums in units of 1/1024, weights in units of 1/8.
    residual: [i16; 2],
    pages: [u8; 2],
    offers: u8,
    arrivals: u8,
    /// Slot of the host whose offer is pending.
    pending_slot: u8,
}

const RESIDUAL_UNIT: f64 = 1024.0;
const PAGE_UNIT: f64 = 8.0;
const LOST_UNIT: f64 = 16.0;

impl ClientState {
    /// Fades every value up to `now`.
    pub(crate) fn fade(&mut self, now: UnixTime) {
        let day = now.day();
        if self.day == 0 || is_ahead(self.day, day) {
            self.day = day;
        }
        let days = day.saturating_sub(self.day);
        if days == 0 {
            return;
        }
        if week_of_day(day.into()) != week_of_day(self.day.into()) {
            self.flags &= !(HELD | CHANGES);
        }
        self.day = day;
        self.keep_packets((-f64::from(days) / LOSS_HALF_LIFE).exp2());
        for transport in [Transport::Tcp, Transport::Quic] {
            let mut residuals = self.residuals(transport);
            residuals.age((-f64::from(days) / RESIDUAL_HALF_LIFE).exp2());
            self.set_residuals(transport, residuals);
        }
    }

    /// The client has not come for 30 days.
    pub(crate) fn is_forgotten(&self, now: UnixTime) -> bool {
        now.day().saturating_sub(self.day) > FORGOTTEN_AFTER
    }

    /// A connection to a host of `slot` begins; `true` if a visit begins with it.
    pub(crate) fn connected(&mut self, transport: Transport, slot: u8, now: UnixTime) -> bool {
        let since = u64::from(now.secs32().saturating_sub(self.visit));
        // One ahead of now was noted by a clock that was wrong.
        let is_ahead = self.last_visit() > now + VISIT;
        let visit = self.visit == 0 || since >= VISIT.as_secs() || is_ahead;
        if is_ahead || since > COMPARABLE.as_secs() {
            self.recent_floor = 0;
        }
        if visit {
            self.visit = now.secs32();
        }
        match transport {
            Transport::Quic => {
                self.cleared = 0;
                self.arrived();
            }
            // Other hosts' offers say nothing of this one.
            Transport::Tcp if visit && self.is_pending(slot) => self.answered(false),
            Transport::Tcp => {}
        }
        visit
    }

    fn arrived(&mut self) {
        if self.flags & PENDING != 0 {
            self.answered(true);
        } else if self.arrivals < self.offers || self.offers == 0 {
            self.arrivals += 1;
            self.offers = self.offers.max(self.arrivals);
        }
        // One that comes shows that UDP passes now, whatever did before.
        if self.is_udp_blocked() {
            (self.offers, self.arrivals) = (1, 1);
        }
    }

    /// An offer was followed by a connection.
    fn answered(&mut self, arrived: bool) {
        self.flags &= !PENDING;
        self.offers = self.offers.saturating_add(1);
        self.arrivals = self.arrivals.saturating_add(u8::from(arrived));
        if self.offers > MANY_OFFERS {
            self.offers /= 2;
            self.arrivals /= 2;
        }
    }

    /// A response of a host of `slot` over TCP offers HTTP/3.
    pub(crate) fn offer_sent(&mut self, slot: u8) {
        self.flags |= PENDING;
        self.pending_slot = slot & 7;
    }

    fn is_pending(&self, slot: u8) -> bool {
        self.flags & PENDING != 0 && self.pending_slot == slot & 7
    }

    /// HTTP/3 was offered three times at least, and came after fewer than a third.
    pub(crate) fn is_udp_blocked(&self) -> bool {
        self.offers >= ENOUGH_OFFERS && u16::from(self.arrivals) * 3 < u16::from(self.offers)
    }

    /// Offers that a visit followed, and visits that came over HTTP/3.
    pub(crate) fn offers(&self) -> (u8, u8) {
        (self.offers, self.arrivals)
    }

    /// Beginning of the latest visit.
    pub(crate) fn last_visit(&self) -> UnixTime {
        UnixTime::from_secs(self.visit.into())
    }

    /// HTTP/3 has come from here.
    pub(crate) fn has_arrived(&self) -> bool {
        self.arrivals > 0
    }

    /// The transport's sender has this congestion control from now on. What was measured under another says nothing of
    /// it: its rate stays as one that the path carries at least, and its pages don't count any more.
    pub(crate) fn set_congestion(&mut self, transport: Transport, congestion: Congestion) {
        let by_rate = congestion == Congestion::RateBased;
        if std::mem::replace(&mut self.by_rate[transport as usize], by_rate) == by_rate {
            return;
        }
        if let Some((ln, _)) = self.rate(transport) {
            self.add_rate(transport, Rate::AtLeast(ln.exp()));
        }
        self.rates[transport as usize] = 0;
        if transport == Transport::Tcp {
            self.recent_floor = 0;
            self.is_bound = false;
        }
        self.set_residuals(transport, Residuals::default());
    }

    /// The same client as it is to be judged under these, TCP's and QUIC's.
    pub(crate) fn under(mut self, [tcp, quic]: [Congestion; 2]) -> Self {
        self.set_congestion(Transport::Tcp, tcp);
        self.set_congestion(Transport::Quic, quic);
        self
    }

    pub(crate) fn add_rtt(&mut self, transport: Transport, rtt: Duration) {
        let seen = (rtt.as_secs_f64() * 1e4)
            .round()
            .clamp(1.0, f64::from(u16::MAX));
        let rtt = &mut self.rtt[transport as usize];
        let before = f64::from(*rtt);
        // A smaller one counts at once, a larger one by a quarter: routes change.
        let next = if *rtt == 0 || seen < before {
            seen
        } else {
            before + (seen - before) / 4.0
        };
        *rtt = to_u16(next);
    }

    pub(crate) fn add_packets(&mut self, sent: u64, lost: u64) {
        let sent = f64::from(self.sent) + sent as f64;
        let lost = f64::from(self.lost) / LOST_UNIT + lost as f64;
        let (many_sent, many_lost) = MANY_PACKETS;
        let share = (many_sent / sent.max(1.0)).min(many_lost / lost.max(1.0));
        let share = share.min(1.0);
        self.sent = to_u16(sent * share);
        self.lost = to_u16(lost * share * LOST_UNIT);
    }

    /// Adds a rate over `transport`. One over QUIC that TCP has exceeded by far in the same visit makes that known as the rate
    /// over TCP: pages are mostly too short to show more than a lower bound of it, and where UDP is throttled the rate over
    /// QUIC would be taken for the path's.
    ///
    /// A path whose rate has fallen meanwhile looks the same. The visits over TCP that follow tell the two apart: the first rate
    /// that is measured there replaces the bound.
    pub(crate) fn add_rate(&mut self, transport: Transport, rate: Rate) {
        match (transport, rate) {
            (_, Rate::AtLeast(rate)) => {
                let floor = to_floor(rate);
                self.floor = self.floor.max(floor);
                if transport == Transport::Tcp {
                    self.recent_floor = self.recent_floor.max(floor);
                }
            }
            (_, Rate::Known(rate)) if rate < 1.0 => {}
            (Transport::Tcp, Rate::Known(rate)) => {
                if std::mem::take(&mut self.is_bound) {
                    self.rates[transport as usize] = 0;
                }
                self.recent_floor = self.recent_floor.min(to_floor(rate));
                self.add_known_rate(transport, rate);
            }
            (Transport::Quic, Rate::Known(rate)) => {
                self.add_known_rate(transport, rate);
                let over_tcp = from_floor(self.recent_floor);
                if over_tcp > THROTTLED * rate {
                    self.is_bound |= self.rates[Transport::Tcp as usize] == 0;
                    self.add_known_rate(Transport::Tcp, over_tcp);
                }
            }
        }
    }

    fn add_known_rate(&mut self, transport: Transport, rate: f64) {
        let mean = &mut self.rate[transport as usize];
        let count = &mut self.rates[transport as usize];
        let before = f64::from((*count).min(MAX_RATES));
        let ln = (f64::from(*mean) * before + rate.ln()) / (before + 1.0);
        *mean = ln as f32;
        *count = (*count).min(MAX_RATES - 1) + 1;
    }

    pub(crate) fn add_residual(&mut self, transport: Transport, residual: f64) {
        let mut residuals = self.residuals(transport);
        residuals.add(residual);
        self.set_residuals(transport, residuals);
    }

    pub(crate) fn residuals(&self, transport: Transport) -> Residuals {
        Residuals {
            pages: f64::from(self.pages[transport as usize]) / PAGE_UNIT,
            sum: f64::from(self.residual[transport as usize]) / RESIDUAL_UNIT,
        }
    }

    pub(crate) fn set_residuals(&mut self, transport: Transport, residuals: Residuals) {
        let pages = (residuals.pages * PAGE_UNIT).round();
        let exact = if residuals.pages > 0.0 {
            pages / PAGE_UNIT / residuals.pages
        } else {
            0.0
        };
        self.pages[transport as usize] = to_u16(pages).min(255) as u8;
        self.residual[transport as usize] = (residuals.sum * exact * RESIDUAL_UNIT).round() as i16;
    }

    /// ln of the rate in bit/s over `transport`, and of how many it is the mean; `None` without one.
    pub(crate) fn rate(&self, transport: Transport) -> Option<(f64, f64)> {
        let count = self.rates[transport as usize];
        (count > 0).then(|| (f64::from(self.rate[transport as usize]), f64::from(count)))
    }

    /// A rate over either transport, TCP's before QUIC's, as [`rate`](Self::rate) has it.
    pub(crate) fn any_rate(&self) -> Option<(f64, f64)> {
        self.rate(Transport::Tcp).or(self.rate(Transport::Quic))
    }

    /// The rates over both transports have been measured.
    pub(crate) fn has_both_rates(&self) -> bool {
        self.rates.iter().all(|count| *count > 0)
    }

    /// Bit/s that the path carries at least.
    pub(crate) fn floor(&self) -> f64 {
        from_floor(self.floor)
    }

    /// Seconds of a round trip over `transport`.
    pub(crate) fn rtt(&self, transport: Transport) -> Option<f64> {
        let rtt = self.rtt[transport as usize];
        (rtt > 0).then(|| f64::from(rtt) / 1e4)
    }

    /// Packets sent and lost, faded.
    pub(crate) fn packets(&self) -> (f64, f64) {
        (f64::from(self.sent), f64::from(self.lost) / LOST_UNIT)
    }

    pub(crate) fn set_packets(&mut self, sent: f64, lost: f64) {
        self.sent = to_u16(sent);
        self.lost = to_u16(lost * LOST_UNIT);
    }

    fn keep_packets(&mut self, share: f64) {
        self.sent = to_u16(f64::from(self.sent) * share);
        self.lost = to_u16(f64::from(self.lost) * share);
    }

    /// The decision for the hosts of `slot`: `Some(true)` is HTTP/3.
    pub(crate) fn decision(&self, slot: u8) -> Option<bool> {
        let bit = 1 << (slot & 7);
        (self.decided & bit != 0).then_some(self.offered & bit != 0)
    }

    /// The latest decision for some host was for HTTP/3.
    pub(crate) fn is_offered(&self) -> bool {
        self.decided & self.offered != 0
    }

    /// Keeps a decision. A change is dated and counted; what goes back to HTTP/2 raises the level by which
    /// the next offer has to wait.
    pub(crate) fn decide(&mut self, slot: u8, http3: bool, now: UnixTime) {
        let bit = 1 << (slot & 7);
        let before = self.decision(slot);
        self.decided |= bit;
        self.offered = if http3 {
            self.offered | bit
        } else {
            self.offered & !bit
        };
        if http3 {
            self.cleared &= !bit;
        }
        if before.is_none_or(|before| before == http3) {
            return;
        }
        let hours = now.hour().wrapping_sub(self.changed);
        self.changed = now.hour();
        let changes = (self.changes() + 1).min(3);
        let calm = hours > STABLE_HOURS;
        let level = match (http3, self.level()) {
            (true, level) => level,
            (false, _) if calm => 1,
            (false, level) => (level + 1).min(7),
        };
        self.flags = self.flags & !(CHANGES | LEVEL) | changes << 2 | level << 4;
    }

    /// HTTP/3 may be offered after HTTP/2 was decided on: in a week without a change, after a day that doubles with each
    /// time that it was taken back. Where its lead `is_sure` it is worth a second move at once, but only once a week.
    pub(crate) fn may_offer_again(&self, now: UnixTime, is_sure: bool) -> bool {
        if is_sure && self.changes() < 2 {
            return true;
        }
        if self.level() == 0 {
            return self.changes() == 0;
        }
        let hours = now.hour().wrapping_sub(self.changed);
        self.changes() == 0 && hours >= 24 << (self.level() - 1)
    }

    fn changes(&self) -> u8 {
        (self.flags & CHANGES) >> 2
    }

    fn level(&self) -> u8 {
        (self.flags & LEVEL) >> 4
    }

    /// The client is in the hold-out until the end of the week.
    pub(crate) fn is_held(&self) -> bool {
        self.flags & HELD != 0
    }

    pub(crate) fn hold(&mut self, held: bool) {
        self.flags = if held {
            self.flags | HELD
        } else {
            self.flags & !HELD
        };
    }

    /// `clear` was sent over TCP, and nothing came over QUIC since.
    pub(crate) fn is_cleared(&self, slot: u8) -> bool {
        self.cleared & 1 << (slot & 7) != 0
    }

    pub(crate) fn clear_sent(&mut self, slot: u8) {
        self.cleared |= 1 << (slot & 7);
        self.flags &= !PENDING;
    }
}

/// A decision that has stood for two weeks was no flapping.
const STABLE_HOURS: u16 = 14 * 24;

fn to_u16(value: f64) -> u16 {
    value.round() as u16
}

/// Bit/s of [`to_floor`]; 0 of 0.
fn from_floor(floor: u8) -> f64 {
    if floor == 0 {
        0.0
    } else {
        1e6 * (f64::from(floor) / 16.0).exp2()
    }
}

/// Sixteenths of a power of two of Mbit/s, rounded down, at least 1.
fn to_floor(rate: f64) -> u8 {
    ((rate.max(1.0) / 1e6).log2() * 16.0)
        .floor()
        .clamp(1.0, 255.0) as u8
}

mod packed;

#[cfg(test)]
mod tests;
