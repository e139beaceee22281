//! The bytes of a client's state. The first nine, hash and tag, belong to the table.

use super::{ClientState, MAX_RATES, SIZE};

/// ln of the slowest and the fastest rate that a state may hold: 1 kbit/s and 1 Tbit/s.
const RATES: (f32, f32) = (6.9, 27.7);

/// Places of the two halves of a rate in the bytes of the counts of rates, above the counts.
const HALF: u8 = 3;

/// Bit of the number of offers that says that the rate over TCP is a lower bound. The number itself has four bits, and between
/// them is the slot of the host whose offer is pending.
const IS_BOUND: u8 = 1 << 7;
const OFFERS: u8 = 0xf;
const PENDING_SLOT: u8 = 4;

/// Bit of a count of rates that says that they were measured under congestion control that goes by the rate. The
/// count itself has three bits.
const BY_RATE: u8 = 1 << 7;

impl ClientState {
    pub(crate) fn write(&self, to: &mut [u8; SIZE]) {
        to[9] = self.flags;
        to[10..12].copy_from_slice(&self.day.to_le_bytes());
        to[12..16].copy_from_slice(&self.visit.to_le_bytes());
        to[16..18].copy_from_slice(&self.changed.to_le_bytes());
        to[18..22].copy_from_slice(&[self.decided, self.offered, self.cleared, self.floor]);
        for place in 0..2 {
            let by_rate = if self.by_rate[place] { BY_RATE } else { 0 };
            let half = self.recent_floor >> (4 * place) & 0xf;
            to[22 + place] = self.rates[place] & MAX_RATES | half << HALF | by_rate;
        }
        to[24..28].copy_from_slice(&self.rate[0].to_le_bytes());
        to[28..32].copy_from_slice(&self.rate[1].to_le_bytes());
        to[32..34].copy_from_slice(&self.rtt[0].to_le_bytes());
        to[34..36].copy_from_slice(&self.rtt[1].to_le_bytes());
        to[36..38].copy_from_slice(&self.sent.to_le_bytes());
        to[38..40].copy_from_slice(&self.lost.to_le_bytes());
        to[40..42].copy_from_slice(&self.residual[0].to_le_bytes());
        to[42..44].copy_from_slice(&self.residual[1].to_le_bytes());
        to[44..46].copy_from_slice(&self.pages);
        let is_bound = if self.is_bound { IS_BOUND } else { 0 };
        let offers = self.offers & OFFERS | self.pending_slot << PENDING_SLOT | is_bound;
        to[46..48].copy_from_slice(&[offers, self.arrivals]);
    }

    pub(crate) fn read(from: &[u8; SIZE]) -> Self {
        let two = |at: usize| [from[at], from[at + 1]];
        let four = |at: usize| [from[at], from[at + 1], from[at + 2], from[at + 3]];
        let rate = |at: usize| {
            let rate = f32::from_le_bytes(four(at));
            if rate.is_finite() {
                rate.clamp(RATES.0, RATES.1)
            } else {
                RATES.0
            }
        };
        let offers = from[46] & OFFERS;
        let sent = u16::from_le_bytes(two(36));
        let lost = u16::from_le_bytes(two(38));
        Self {
            flags: from[9],
            day: u16::from_le_bytes(two(10)),
            visit: u32::from_le_bytes(four(12)),
            changed: u16::from_le_bytes(two(16)),
            decided: from[18],
            offered: from[19],
            cleared: from[20],
            floor: from[21],
            recent_floor: from[22] >> HALF & 0xf | (from[23] >> HALF & 0xf) << 4,
            rates: two(22).map(|it| it & MAX_RATES),
            is_bound: from[46] & IS_BOUND != 0,
            by_rate: two(22).map(|it| it & BY_RATE != 0),
            rate: [rate(24), rate(28)],
            rtt: [u16::from_le_bytes(two(32)), u16::from_le_bytes(two(34))],
            sent,
            lost: lost.min(sent.saturating_mul(16)),
            residual: [i16::from_le_bytes(two(40)), i16::from_le_bytes(two(42))],
            pages: two(44),
            offers,
            arrivals: from[47].min(offers),
            pending_slot: from[46] >> PENDING_SLOT & 7,
        }
    }
}
