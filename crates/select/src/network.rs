//! Knowledge of a network (IPv4 /24, IPv6 /48): a first guess for an address that is new, and how often
//! the network has voted today.
//!
//! Each address counts once a week, within a factor of four of what others saw, so that none decides for its
//! neighbours; fewer than three decide nothing.

use crate::UnixTime;
use crate::time::{is_ahead, week_of_day};

/// Bytes of a network's state.
pub(crate) const SIZE: usize = 24;

/// Fewer addresses than these are no network.
const ENOUGH: u8 = 3;

/// Addresses above which a mean forgets.
const MANY: u8 = 16;

/// An address counts as off by a factor of four at most.
const MOST: f64 = 1.386;

/// ln units of a rate (against 100 Mbit/s) and of a loss.
const LN_UNIT: f64 = 1024.0;
const RATE_ORIGIN: f64 = 18.420_680_743_952_367;

/// A network of which nothing has been seen for so many days is forgotten.
const FORGOTTEN_AFTER: u16 = 30;

/// State of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Network {
    day: u16,
    /// Votes of the day.
    votes: u8,
    count: u8,
    rate: i16,
    /// 0.1 ms.
    rtt: u16,
    loss: i16,
    /// Addresses, by sixteen of their hash: that counted this week, that came over QUIC, that never do.
    seen: u16,
    came: u16,
    blocked: u8,
}

/// The measurements of addresses around a new one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbours {
    /// ln of bit/s.
    pub(crate) rate: Option<f64>,
    /// Seconds.
    pub(crate) rtt: f64,
    /// Share of packets.
    pub(crate) loss: f64,
    /// Offers of HTTP/3 are never followed here.
    pub(crate) udp_blocked: bool,
}

impl Network {
    pub(crate) fn fade(&mut self, now: UnixTime) {
        let day = now.day();
        if day <= self.day && !is_ahead(self.day, day) {
            return;
        }
        if week_of_day(day.into()) != week_of_day(self.day.into()) {
            (self.seen, self.came, self.blocked) = (0, 0, 0);
        }
        (self.day, self.votes) = (day, 0);
    }

    pub(crate) fn is_forgotten(&self, now: UnixTime) -> bool {
        now.day().saturating_sub(self.day) > FORGOTTEN_AFTER
    }

    /// Counts one more vote of the day if it is below `most`.
    pub(crate) fn vote(&mut self, most: u8) -> bool {
        let free = self.votes < most;
        self.votes += u8::from(free);
        free
    }

    /// An address saw these: ln of bit/s, seconds, share of packets. Counts once a week.
    pub(crate) fn add(&mut self, address: u64, rate: f64, rtt: f64, loss: f64) {
        let bit = 1 << (address & 15);
        if self.seen & bit != 0 {
            return;
        }
        self.seen |= bit;
        let count = f64::from(self.count.min(MANY));
        let mean = |before: f64, seen: f64| {
            let off = if seen.is_nan() { 0.0 } else { seen - before };
            let off = if count > 0.0 {
                off.clamp(-MOST, MOST)
            } else {
                off
            };
            before + off / (count + 1.0)
        };
        let unit = |ln: f64| (ln * LN_UNIT).round() as i16;
        self.rate = unit(mean(f64::from(self.rate) / LN_UNIT, rate - RATE_ORIGIN));
        self.loss = unit(mean(
            f64::from(self.loss) / LN_UNIT,
            loss.clamp(1e-6, 1.0).ln(),
        ));
        let before = f64::from(self.rtt.max(1)).ln();
        self.rtt = mean(before, (rtt * 1e4).max(1.0).ln()).exp().round() as u16;
        self.count = (self.count + 1).min(MANY);
    }

    /// An address came over QUIC.
    pub(crate) fn came(&mut self, address: u64) {
        self.came |= 1 << (address & 15);
    }

    /// An address never comes over QUIC.
    pub(crate) fn blocked(&mut self, address: u64) {
        self.blocked |= 1 << (address & 7);
    }

    /// Rates were measured under another congestion control: they are learnt anew, and what was seen with them.
    pub(crate) fn forget_rates(&mut self) {
        (self.count, self.seen) = (0, 0);
    }

    pub(crate) fn neighbours(&self) -> Option<Neighbours> {
        let blocked = self.blocked.count_ones() >= u32::from(ENOUGH) && self.came == 0;
        (self.count >= ENOUGH || blocked).then(|| Neighbours {
            rate: (self.count >= ENOUGH).then(|| f64::from(self.rate) / LN_UNIT + RATE_ORIGIN),
            rtt: f64::from(self.rtt.max(1)) / 1e4,
            loss: (f64::from(self.loss) / LN_UNIT).exp().min(1.0),
            udp_blocked: blocked,
        })
    }

    pub(crate) fn write(&self, to: &mut [u8; SIZE]) {
        to[9] = self.votes;
        to[10..12].copy_from_slice(&self.day.to_le_bytes());
        to[12..14].copy_from_slice(&self.rate.to_le_bytes());
        to[14] = self.count;
        to[15] = self.blocked;
        to[16..18].copy_from_slice(&self.rtt.to_le_bytes());
        to[18..20].copy_from_slice(&self.loss.to_le_bytes());
        to[20..22].copy_from_slice(&self.seen.to_le_bytes());
        to[22..24].copy_from_slice(&self.came.to_le_bytes());
    }

    pub(crate) fn read(from: &[u8; SIZE]) -> Self {
        let two = |at: usize| [from[at], from[at + 1]];
        Self {
            votes: from[9],
            day: u16::from_le_bytes(two(10)),
            rate: i16::from_le_bytes(two(12)),
            count: from[14].min(MANY),
            blocked: from[15],
            rtt: u16::from_le_bytes(two(16)),
            loss: i16::from_le_bytes(two(18)),
            seen: u16::from_le_bytes(two(20)),
            came: u16::from_le_bytes(two(22)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(network: &Network) -> f64 {
        network.neighbours().unwrap().rate.unwrap().exp()
    }

    #[test]
    fn one_address_or_two_decide_nothing() {
        let mut network = Network::default();
        for address in 0..2 {
            network.add(address, 17.0, 0.02, 0.001);
            assert_eq!(network.neighbours(), None);
        }
        network.add(2, 17.0, 0.02, 0.001);
        let seen = network.neighbours().unwrap();
        assert!((seen.rate.unwrap() - 17.0).abs() < 0.01);
        assert!(
            (seen.rtt - 0.02).abs() < 0.001 && (seen.loss - 0.001).abs() < 1e-4,
            "{seen:?}"
        );
    }

    #[test]
    fn an_address_counts_once_however_often_it_measures() {
        let mut network = Network::default();
        for _ in 0..100 {
            network.add(7, 10.0, 1.0, 0.5);
        }
        assert_eq!((network.count, network.neighbours()), (1, None));
    }

    #[test]
    fn a_liar_moves_its_neighbours_guess_by_its_share_of_a_factor_of_four() {
        let mut network = Network::default();
        for address in 0..3 {
            network.add(address, 100e6_f64.ln(), 0.02, 0.001);
        }
        let before = rate(&network);
        network.add(3, 1e12_f64.ln(), 0.0, 0.0);
        assert!(rate(&network) / before < 1.42, "{}", rate(&network));
    }

    #[test]
    fn three_addresses_that_never_come_say_that_udp_is_blocked_until_one_comes() {
        let mut network = Network::default();
        for address in 0..3 {
            assert_eq!(network.neighbours(), None);
            network.blocked(address);
        }
        assert!(network.neighbours().unwrap().udp_blocked);
        network.came(9);
        assert_eq!(network.neighbours(), None);
    }

    #[test]
    fn a_network_has_its_votes_anew_each_day() {
        let mut network = Network::default();
        let day = |day: u64| UnixTime::from_secs(day * 86_400);
        network.fade(day(20_000));
        assert_eq!((0..10).filter(|_| network.vote(6)).count(), 6);
        network.fade(day(20_000));
        assert!(!network.vote(6));
        network.fade(day(20_001));
        assert!(network.vote(6));
        // A clock that was ahead is set right.
        network.fade(day(30_000));
        assert_eq!((0..10).filter(|_| network.vote(6)).count(), 6);
        network.fade(day(20_002));
        assert!(network.vote(6));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_network_of_finite_numbers(
            bytes: [u8; SIZE], address: u64, rate: f64, rtt: f64, loss: f64,
        ) {
            let mut network = Network::read(&bytes);
            network.add(address, rate, rtt, loss);
            if let Some(seen) = network.neighbours() {
                prop_assert!(seen.rate.is_none_or(f64::is_finite));
                prop_assert!(seen.rtt > 0.0 && seen.rtt < 10.0 && seen.loss <= 1.0);
            }
            let mut written = [0; SIZE];
            network.write(&mut written);
            prop_assert_eq!(Network::read(&written), network);
        }
    }
}
