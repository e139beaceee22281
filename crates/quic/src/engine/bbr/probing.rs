//! The cycle in which BBR tries for more bandwidth, and the moments in which it lets the queue run empty
//! (draft-ietf-ccwg-bbr-05 sections 5.3.3 and 5.3.4).

use std::time::{Duration, Instant};

use super::{Ack, Bbr, State};

/// Section 5.3.3.5.2: "T_bbr = uniformly randomly distributed between 2 and 3 secs".
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// Nanoseconds that may be added to it.
const MORE_WAIT: u64 = 1_000_000_000;

/// Round trips after which Reno would have lost a packet, at most (section 5.3.3.5.2).
const RENO_ROUNDS: u64 = 63;

/// Section 5.3.4.1: "at least BBR.ProbeRTTDuration (200 ms)".
const PROBE_RTT: Duration = Duration::from_millis(200);

/// Kind of the samples that the acknowledgements bring (section 5.3.3.6: BBR.ack_phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Samples {
    Ordinary,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The cycle at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    began: Instant,
    wait: Duration,
    /// Round trips since the last probing, one more or less by chance.
    pub(super) rounds: u64,
    phase: Samples,
    /// Too many losses would be those of this probing, and weren't answered yet.
    pub(super) samples: bool,
    /// Packets by which the long-term bound grows in this round trip of probing.
    growth: u32,
    /// State of the generator that spreads flows.
    random: u64,
}

impl Cycle {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            wait: LEAST_WAIT,
            rounds: 0,
            phase: Samples::Ordinary,
            samples: false,
            growth: 1,
            random: 0,
        }
    }

    /// xorshift64, started by what the path measured: flows need not know each other's, no more.
    fn random(&mut self, measured: u64) -> u64 {
        let mut x = (self.random ^ measured) | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x
    }
}

/// A moment with a small window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    /// Earliest end of ProbeRTT; `None` until the volume is down.
    until: Option<Instant>,
    /// A round trip was had since.
    round_done: bool,
}

impl Bbr {
    /// Section 5.3.3.6, BBRStartProbeBW_DOWN.
    pub(super) fn begin_down(&mut self, now: Instant) {
        let rtt = self.min_rtt.get().unwrap_or_default();
        let measured = u64::from(rtt.subsec_nanos()) ^ self.delivery.delivered().rotate_left(32);
        let random = self.cycle.random(measured);
        self.loss_round.reset();
        self.cycle.rounds = random & 1;
        self.cycle.wait = LEAST_WAIT + Duration::from_nanos((random >> 1) % MORE_WAIT);
        self.cycle.began = now;
        self.cycle.phase = Samples::Stopping;
        self.begin_round();
        self.state = State::Down;
    }

    fn begin_refill(&mut self) {
        self.bounds.reset_short();
        self.cycle.growth = 1;
        self.cycle.phase = Samples::Refilling;
        self.begin_round();
        self.state = State::Refill;
    }

    fn begin_up(&mut self, rate: f64) {
        self.cycle.samples = true;
        self.cycle.phase = Samples::Starting;
        self.begin_round();
        self.full.start(rate);
        self.state = State::Up;
    }

    /// Section 5.3.3.6, BBRUpdateProbeBWCyclePhase.
    pub(super) fn update_cycle(&mut self, ack: &Ack) {
        if !self.full.was_ever() {
            return;
        }
        self.adapt_long_term(ack);
        match self.state {
            State::Down if self.is_time_to_probe(ack.now) => self.begin_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(ack.now) => self.begin_refill(),
            State::Refill if self.rounds.begun => self.begin_up(ack.rate),
            State::Up => self.end_up(ack),
            _ => {}
        }
    }

    /// Section 5.3.3.6, BBRAdaptLongTermModel. What has come of probing counts as another cycle's once.
    fn adapt_long_term(&mut self, ack: &Ack) {
        if self.rounds.begun && self.cycle.phase == Samples::Starting {
            self.cycle.phase = Samples::Feedback;
        }
        if self.rounds.begun && self.cycle.phase == Samples::Stopping {
            self.cycle.phase = Samples::Ordinary;
            self.cycle.samples = false;
            if self.state.is_probe_bw() && !ack.app_limited {
                self.max_bandwidth.advance();
            }
        }
        if self.bounds.long == u64::MAX || self.is_too_much(ack.lost, ack.sent_in_flight) {
            return;
        }
        self.bounds.long = self.bounds.long.max(ack.sent_in_flight);
        if self.state == State::Up {
            self.raise_long_term(ack.acked);
        }
    }

    /// Section 5.3.3.6, BBRProbeInflightLongtermUpward: one packet in the first round trip, and twice as
    /// many in each that follows.
    fn raise_long_term(&mut self, acked: u64) {
        if !self.is_used_up() || self.window < self.bounds.long {
            return;
        }
        let growth = self.packet.saturating_mul(u64::from(self.cycle.growth));
        let part = acked as f64 / self.window.max(1) as f64;
        let more = (growth as f64 * part).min(acked as f64);
        self.bounds.long = self.bounds.long.saturating_add(more as u64);
        if self.rounds.begun {
            self.cycle.growth = self.cycle.growth.saturating_mul(2).min(1 << 30);
        }
    }

    /// Section 5.3.3.5.3, BBRIsTimeToProbeBW.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        let target = self.volume(1.0).min(self.window);
        let reno = (target / self.packet.max(1)).min(RENO_ROUNDS);
        now.saturating_duration_since(self.cycle.began) > self.cycle.wait
            || self.cycle.rounds >= reno
    }

    /// Section 5.3.3.6, BBRIsTimeToCruise.
    fn is_time_to_cruise(&self) -> bool {
        let bdp = self.with_quantum(self.volume(1.0));
        let headroom = self.bounds.with_headroom(self.packet, self.least());
        self.in_flight <= headroom.min(bdp)
    }

    /// Section 5.3.3.6, BBRIsTimeToGoDown.
    fn end_up(&mut self, ack: &Ack) {
        if self.is_used_up() && self.window >= self.bounds.long {
            self.full.start(ack.rate);
        } else if self.full.is_now() {
            self.begin_down(ack.now);
        }
    }

    /// Section 5.3.4.3, BBRCheckProbeRTT.
    pub(super) fn update_probe_rtt(&mut self, now: Instant, is_due: bool) {
        if self.state != State::ProbeRtt && is_due && !self.idle_restart {
            self.prior_window = self.window;
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt::default();
            self.cycle.phase = Samples::Stopping;
            self.begin_round();
        }
        if self.state != State::ProbeRtt {
            return;
        }
        // What is delivered meanwhile doesn't show what the path can do.
        self.delivery.limit(self.in_flight);
        if self.probe_rtt.until.is_some() {
            self.probe_rtt.round_done |= self.rounds.begun;
            if self.probe_rtt.round_done {
                self.end_probe_rtt_if_over(now);
            }
        } else if self.in_flight <= self.probe_rtt_window() {
            self.probe_rtt.until = Some(now + PROBE_RTT);
            self.begin_round();
        }
    }

    /// Section 5.3.4.4.
    pub(super) fn end_probe_rtt_if_over(&mut self, now: Instant) {
        if self.probe_rtt.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.on_probed(now);
        self.window = self.window.max(self.prior_window);
        self.bounds.reset_short();
        if self.full.was_ever() {
            self.begin_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Section 5.6.4.5, BBRProbeRTTCwnd.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        let gain = State::ProbeRtt.window_gain();
        self.volume(gain).max(self.least())
    }
}
