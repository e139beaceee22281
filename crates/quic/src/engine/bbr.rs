//! BBR: congestion control by a model of the path, its rate and its smallest round trip
//! (draft-ietf-ccwg-bbr-05, which section numbers in this folder are of).
//!
//! A path without a queue delivers at its rate whatever is lost by chance. So the sender measures how fast
//! acknowledgements come, sends at that rate, tries now and then whether more goes through, and lets the
//! queue run empty now and then to see the path's own delay. Decision 0058 says what differs from the
//! draft, and why. Left to others: detecting losses (quinn-proto), delivery rates
//! ([`delivery`](crate::delivery)), holding packets back ([`pacer`](crate::pacer)).

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::delivery::Delivery;
use crate::initial_window::InitialWindow;
use filters::{ExtraAcked, MaxBandwidth, MinRtt};
use full_pipe::FullPipe;
use losses::{BETA, Bounds, LossRound};
use probing::{Cycle, ProbeRtt};

mod filters;
mod full_pipe;
mod losses;
mod probing;
#[cfg(test)]
mod tests;

/// Part of what is under way that may be lost in a round trip.
const TOLERATED_LOSS: f64 = 0.1;

/// Packets of the smallest window (section 5.6.4.3: BBR.MinPipeCwnd).
const MIN_PACKETS: u64 = 4;

/// Section 5.6.2: "to pace at 1% below the bw, on average".
const MARGIN: f64 = 0.99;

/// Bytes per second that no path is believed to exceed: 100 Gbit/s. What a peer acknowledges in an
/// instant makes no rate beyond.
const MAX_RATE: f64 = 12.5e9;

/// Bytes that no window exceeds, whatever a peer's acknowledgements say: 10 Gbit/s over 200 ms.
const MAX_WINDOW: u64 = 256 << 20;

/// Builds controllers for paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BbrFactory {
    first: InitialWindow,
}

impl BbrFactory {
    pub(crate) fn new(first: InitialWindow) -> Self {
        Self { first }
    }
}

impl ControllerFactory for BbrFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Bbr::new(now, current_mtu, self.first))
    }
}

/// Section 5.3: what the flow is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Sections 5.3.1.1 and 5.6.1.
    fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Returns true if the flow looks for more bandwidth (section 5.3.3.6, BBRIsProbingBW).
    fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// Bytes noted of each batch of packets when it is sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Bytes under way with the batch.
    in_flight: u64,
    /// Lost by then.
    lost: u64,
}

/// Sample of an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Ack {
    now: Instant,
    rtt: Duration,
    /// Bytes that it acknowledges.
    acked: u64,
    /// Bytes per second; 0 if it shows none.
    rate: f64,
    /// Bytes delivered while its newest packet was under way, and before that was sent.
    volume: u64,
    before: u64,
    app_limited: bool,
    /// Bytes under way when that packet was sent, and lost since.
    sent_in_flight: u64,
    lost: u64,
}

/// Packet-timed round trips (section 5.5.1).
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// Ends with the acknowledgement of what is sent after so much was delivered.
    until: u64,
    count: u64,
    /// The acknowledgement at hand began one.
    begun: bool,
    /// The window was used up in this one, and in the one before.
    used_up: bool,
    used_up_before: bool,
    /// The same of more than half of it.
    used: bool,
    used_before: bool,
}

/// The controller of one path. Volumes are bytes, rates bytes per second.
#[derive(Clone)]
pub(crate) struct Bbr {
    packet: u64,
    first: InitialWindow,
    delivery: Delivery<Sent>,
    in_flight: u64,
    lost: u64,
    /// The bytes and the newest packet of the acknowledgement at hand.
    acked: u64,
    newest: Option<Instant>,
    state: State,
    rounds: Rounds,
    window: u64,
    /// The window before it was made small for a while.
    prior_window: u64,
    /// `None` before the first round trip.
    pacing_rate: Option<f64>,
    /// Estimated bandwidth of the path, bytes per second.
    bandwidth: f64,
    max_bandwidth: MaxBandwidth,
    min_rtt: MinRtt,
    extra_acked: ExtraAcked,
    full: FullPipe,
    bounds: Bounds,
    loss_round: LossRound,
    drain_began: u64,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
}

impl Bbr {
    fn new(now: Instant, mtu: u16, first: InitialWindow) -> Self {
        Self {
            packet: u64::from(mtu),
            first,
            delivery: Delivery::new(now),
            in_flight: 0,
            lost: 0,
            acked: 0,
            newest: None,
            state: State::Startup,
            rounds: Rounds::default(),
            window: first.bytes(mtu),
            prior_window: 0,
            pacing_rate: None,
            bandwidth: 0.0,
            max_bandwidth: MaxBandwidth::default(),
            min_rtt: MinRtt::new(now),
            extra_acked: ExtraAcked::new(now),
            full: FullPipe::default(),
            bounds: Bounds::NONE,
            loss_round: LossRound::default(),
            drain_began: 0,
            cycle: Cycle::new(now),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
        }
    }

    fn least(&self) -> u64 {
        MIN_PACKETS * self.packet
    }

    fn first_window(&self) -> u64 {
        self.first
            .bytes(u16::try_from(self.packet).unwrap_or(u16::MAX))
    }

    /// Bytes that the path holds without a queue, times `gain` (section 5.6.4.2, BBRBDPMultiple).
    fn volume(&self, gain: f64) -> u64 {
        match self.min_rtt.get() {
            Some(rtt) => (gain * self.bandwidth * rtt.as_secs_f64()) as u64,
            None => self.first_window(),
        }
    }

    /// The volume with room for the bytes that are sent at a time (section 5.6.4.2,
    /// BBRQuantizationBudget).
    fn with_quantum(&self, volume: u64) -> u64 {
        let millisecond = self.pacing_rate.unwrap_or(0.0) / 1e3;
        let quantum = (millisecond as u64).min(64 << 10).max(2 * self.packet);
        let more = match self.state {
            State::Up => 2 * self.packet,
            _ => 0,
        };
        volume.max(quantum).max(self.least()) + more
    }

    fn is_used_up(&self) -> bool {
        self.rounds.used_up || self.rounds.used_up_before
    }

    /// Returns true if so much was under way lately that the path may have been full. quinn-proto notices
    /// a moment late that the application has no more to send, and small responses would end Startup.
    fn has_tried(&self) -> bool {
        self.state != State::Startup || self.rounds.used || self.rounds.used_before
    }

    fn begin_round(&mut self) {
        self.rounds.until = self.delivery.delivered();
    }

    fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_began = self.rounds.count;
    }

    /// Section 5.2.3, BBRUpdateModelAndState.
    fn update_model(&mut self, ack: &Ack) {
        self.update_round(ack);
        let totals = (self.delivery.delivered(), self.lost);
        let sample = (ack.rate, ack.volume);
        let ended = self
            .loss_round
            .on_ack(sample, ack.before, totals, TOLERATED_LOSS);
        if ack.rate > 0.0 {
            self.max_bandwidth.on_sample(ack.rate, ack.app_limited);
        }
        if let Some(ended) = ended.filter(|ended| ended.is_congested) {
            self.on_congested_round(&ended);
        }
        self.extra_acked
            .on_ack(ack.now, ack.acked, self.bandwidth, self.window);
        if self.rounds.begun && !ack.app_limited && ack.rate > 0.0 && self.has_tried() {
            self.full.on_round(ack.rate);
        }
        if self.state == State::Startup && self.full.was_ever() {
            self.enter_drain();
        }
        self.check_drained(ack.now);
        self.update_cycle(ack);
        let is_due = self.min_rtt.on_sample(ack.now, ack.rtt);
        self.update_probe_rtt(ack.now, is_due);
        if self.delivery.delivered() > 0 {
            self.idle_restart = false;
        }
        self.bandwidth = self.max_bandwidth.get().min(self.bounds.short_rate);
    }

    /// Section 5.5.1, BBRUpdateRound.
    fn update_round(&mut self, ack: &Ack) {
        self.rounds.begun = ack.before >= self.rounds.until;
        if self.rounds.begun {
            self.begin_round();
            self.rounds.count += 1;
            self.cycle.rounds += 1;
            self.extra_acked.begin_round(!self.full.was_ever());
            self.rounds.used_up_before = std::mem::take(&mut self.rounds.used_up);
            self.rounds.used_before = std::mem::take(&mut self.rounds.used);
        }
    }

    /// Sections 5.3.1.3 and 5.5.10.3.
    fn on_congested_round(&mut self, round: &losses::RoundResult) {
        if self.state == State::Startup {
            if round.is_full {
                self.full.declare();
                self.bounds.long = self.volume(1.0).max(round.volume).max(self.least());
            }
        } else if !self.state.is_accelerating() {
            let rate = self.max_bandwidth.get();
            self.bounds.lower(round, self.window, rate);
        }
    }

    /// Section 5.3.2, BBRCheckDrainDone.
    fn check_drained(&mut self, now: Instant) {
        let is_drained = || {
            self.in_flight <= self.with_quantum(self.volume(1.0))
                || self.rounds.count > self.drain_began + 3
        };
        if self.state == State::Drain && is_drained() {
            self.begin_down(now);
        }
    }

    /// Section 5.2.3, BBRUpdateControlParameters.
    fn update_control(&mut self, ack: &Ack) {
        self.set_pacing_rate(self.state.pacing_gain(), ack.rtt);
        self.set_window(ack.acked);
    }

    /// Section 5.6.2. Before the pipe was full once the rate only rises.
    fn set_pacing_rate(&mut self, gain: f64, rtt: Duration) {
        let rate = gain * self.bandwidth * MARGIN;
        let known = self.pacing_rate.unwrap_or_else(|| {
            let rtt = rtt.max(Duration::from_micros(1)).as_secs_f64();
            State::Startup.pacing_gain() * self.first_window() as f64 / rtt
        });
        let rate = match self.full.was_ever() {
            true => rate,
            false => rate.max(known),
        };
        // A flow that is paced at nothing would learn nothing.
        let slowest = self.packet as f64;
        self.pacing_rate = Some(rate.clamp(slowest, MAX_RATE));
    }

    /// Sections 5.6.4.5 to 5.6.4.7.
    fn set_window(&mut self, acked: u64) {
        let most = self.volume(self.state.window_gain()) + self.extra_acked.get();
        let most = self.with_quantum(most);
        let grown = self.window.saturating_add(acked);
        if self.full.was_ever() {
            self.window = grown.min(most);
        } else if self.window < most || self.delivery.delivered() < self.first_window() {
            self.window = grown;
        }
        self.window = self.window.max(self.least());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.long,
            State::Cruise | State::ProbeRtt => self.bounds.with_headroom(self.packet, self.least()),
            State::Startup | State::Drain => u64::MAX,
        };
        let cap = cap.min(self.bounds.short).max(self.least());
        self.window = self.window.min(cap).min(MAX_WINDOW);
    }

    /// Section 5.3.3.6, IsInflightTooHigh.
    fn is_too_much(&self, lost: u64, in_flight: u64) -> bool {
        lost as f64 > in_flight as f64 * TOLERATED_LOSS
    }

    /// Packets were declared lost, the newest of them sent then (section 5.5.10.2, BBRHandleLostPacket).
    fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.lost = self.lost.saturating_add(bytes);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.loss_round.on_loss(self.delivery.delivered());
        let Some((note, app_limited)) = self.delivery.noted(sent) else {
            return;
        };
        let lost = self.lost - note.lost;
        if self.cycle.samples && self.is_too_much(lost, note.in_flight) {
            let at = in_flight_at_loss(note.in_flight, lost, bytes, TOLERATED_LOSS);
            self.on_too_much(now, at, app_limited);
        }
    }

    /// Packets were marked by a router (RFC 9002 section 7.1: as if they had been lost). The draft leaves
    /// that open: it is taken for more loss than is tolerated.
    fn on_marked(&mut self, now: Instant, sent: Instant) {
        self.loss_round.on_mark(self.delivery.delivered());
        if let Some((note, app_limited)) = self.delivery.noted(sent)
            && self.cycle.samples
        {
            self.on_too_much(now, note.in_flight, app_limited);
        }
    }

    /// Section 5.5.10.2, BBRHandleInflightTooHigh.
    fn on_too_much(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.cycle.samples = false;
        if !app_limited {
            let target = self.volume(1.0).min(self.window) as f64;
            let kept = (target * BETA) as u64;
            self.bounds.long = in_flight.max(kept).max(self.least());
        }
        if self.state == State::Up {
            self.begin_down(now);
        }
    }

    /// Section 5.4.1, BBRHandleRestartFromIdle.
    fn restart(&mut self, now: Instant) {
        self.idle_restart = true;
        self.extra_acked.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0, Duration::ZERO);
        } else if self.state == State::ProbeRtt {
            self.end_probe_rtt_if_over(now);
        }
    }
}

/// Returns the bytes that were under way when more than the tolerated part of them was lost (section
/// 5.5.10.2, BBRInflightAtLoss).
fn in_flight_at_loss(in_flight: u64, lost: u64, bytes: u64, tolerated: f64) -> u64 {
    let before = in_flight.saturating_sub(bytes) as f64;
    let lost_before = lost.saturating_sub(bytes) as f64;
    let prefix = (tolerated * before - lost_before) / (1.0 - tolerated);
    (before + prefix.max(0.0)) as u64
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        if self.in_flight == 0 && self.delivery.is_limited() {
            self.restart(now);
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.rounds.used_up |= self.in_flight.saturating_add(self.packet) > self.window;
        self.rounds.used |= self.in_flight > self.window / 2;
        let note = Sent {
            in_flight: self.in_flight,
            lost: self.lost,
        };
        self.delivery.on_sent(now, note);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.acked += bytes;
        self.newest = self.newest.max(Some(sent));
        self.delivery.on_ack(now, sent, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.in_flight = in_flight;
        let acked = std::mem::take(&mut self.acked);
        let Some(newest) = self.newest.take() else {
            return;
        };
        let rtt = now.saturating_duration_since(newest);
        let smallest = self.min_rtt.get().map_or(rtt, |known| known.min(rtt));
        let shown = self.delivery.on_end_acks(in_flight, app_limited, smallest);
        let rate = shown.and_then(|shown| shown.rate).unwrap_or(0);
        let note = shown.map_or(Sent::default(), |shown| shown.note);
        let ack = Ack {
            now,
            rtt,
            acked,
            rate: (rate as f64).min(MAX_RATE),
            volume: shown.map_or(0, |shown| shown.bytes),
            before: shown.map_or(0, |shown| shown.before),
            app_limited: shown.is_none_or(|shown| shown.app_limited),
            sent_in_flight: note.in_flight,
            lost: shown.map_or(0, |_| self.lost - note.lost),
        };
        self.update_model(&ack);
        self.update_control(&ack);
    }

    /// Persistent congestion leaves the smallest window, as section 5.6.4.4 does a retransmission
    /// time-out.
    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        match lost_bytes {
            0 => self.on_marked(now, sent),
            bytes => self.on_lost(now, sent, bytes),
        }
        if is_persistent_congestion {
            self.window = self.least();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let before = self.first_window();
        self.packet = u64::from(new_mtu);
        if !self.full.was_ever() {
            self.window += self.first_window().saturating_sub(before);
        }
        self.window = self.window.max(self.least()).min(MAX_WINDOW);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window;
        metrics.pacing_rate = self.pacing_rate.map(|rate| (rate * 8.0) as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.first_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
