//! Lost and marked packets as BBR counts them: how many of a round trip, and the bounds that follow
//! (draft-ietf-ccwg-bbr-05 section 5.5.10).

/// Part of its rate and of its volume that a flow keeps at least, whatever a round trip shows
/// (draft-ietf-ccwg-bbr-05 section 5.5.10.2: "the BBR.Beta (0.7x) bound").
pub(super) const BETA: f64 = 0.7;

/// Losses in a round trip from which on their rate counts in Startup (draft-ietf-ccwg-bbr-05 section
/// 5.3.1.3: BBRStartupFullLossCnt).
const STARTUP_LOSSES: u32 = 6;

/// The round trip at hand, of which a loss may have been seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossRound {
    /// Ends with the acknowledgement of what was sent after so much was delivered.
    until: u64,
    /// Bytes delivered, and bytes lost, when it began.
    delivered: u64,
    lost: u64,
    /// Losses, and marks, that were seen in it.
    losses: u32,
    marked: bool,
    /// The largest rate and volume delivered in it.
    rate: f64,
    volume: u64,
}

/// Result of a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundResult {
    /// True if more was lost than is tolerated, or some of it was marked.
    pub(super) is_congested: bool,
    /// The losses were in so many places as well that it is no chance.
    pub(super) is_full: bool,
    pub(super) rate: f64,
    pub(super) volume: u64,
}

impl LossRound {
    pub(super) fn on_loss(&mut self, delivered: u64) {
        if self.losses == 0 && !self.marked {
            self.until = delivered;
        }
        self.losses = self.losses.saturating_add(1);
    }

    pub(super) fn on_mark(&mut self, delivered: u64) {
        if self.losses == 0 && !self.marked {
            self.until = delivered;
        }
        self.marked = true;
    }

    /// A packet was acknowledged that was sent when `before` were delivered. What the round trip
    /// showed, if it ends with that; `tolerated`: the part that may be lost.
    pub(super) fn on_ack(
        &mut self,
        sample: (f64, u64),
        before: u64,
        (delivered, lost): (u64, u64),
        tolerated: f64,
    ) -> Option<RoundResult> {
        self.rate = self.rate.max(sample.0);
        self.volume = self.volume.max(sample.1);
        if before < self.until {
            return None;
        }
        let (gone, came) = (lost - self.lost, delivered - self.delivered);
        let is_lossy = gone as f64 > tolerated * (gone + came) as f64;
        let ended = RoundResult {
            is_congested: is_lossy || self.marked,
            is_full: is_lossy && self.losses >= STARTUP_LOSSES || self.marked,
            rate: self.rate,
            volume: self.volume,
        };
        *self = Self {
            until: delivered,
            delivered,
            lost,
            rate: sample.0,
            volume: sample.1,
            ..Self::default()
        };
        Some(ended)
    }

    /// Forgets what was seen, as where another phase begins.
    pub(super) fn reset(&mut self) {
        (self.losses, self.marked) = (0, false);
        (self.rate, self.volume) = (0.0, 0);
    }
}

/// Bounds of what may be under way and of the rate; without any, infinite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes: where probing for more met losses.
    pub(super) long: u64,
    /// Bytes, and bytes per second: what congestion left since the last probing.
    pub(super) short: u64,
    pub(super) short_rate: f64,
}

/// Part of the long-term bound that is left to others (draft-ietf-ccwg-bbr-05 section 5.3.3.1).
const HEADROOM: f64 = 0.15;

impl Bounds {
    pub(super) const NONE: Self = Self {
        long: u64::MAX,
        short: u64::MAX,
        short_rate: f64::INFINITY,
    };

    /// Section 5.5.10.3, BBRResetShortTermModel.
    pub(super) fn reset_short(&mut self) {
        (self.short, self.short_rate) = (u64::MAX, f64::INFINITY);
    }

    /// Section 5.5.10.3: "the strategy is to gradually adapt to the current measured delivery process".
    pub(super) fn lower(&mut self, round: &RoundResult, window: u64, rate: f64) {
        let short = self.short.min(window) as f64;
        self.short = round.volume.max((short * BETA) as u64);
        self.short_rate = round.rate.max(self.short_rate.min(rate) * BETA);
    }

    /// Section 5.3.3.6, BBRInflightWithHeadroom.
    pub(super) fn with_headroom(&self, packet: u64, least: u64) -> u64 {
        if self.long == u64::MAX {
            return u64::MAX;
        }
        let headroom = packet.max((self.long as f64 * HEADROOM) as u64);
        self.long.saturating_sub(headroom).max(least)
    }
}
