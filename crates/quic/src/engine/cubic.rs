//! CUBIC (RFC 9438), with HyStart++ (RFC 9406) to end slow start before the queue overflows.
//!
//! In place of the engine's own, which doubles its window until packets are lost, and whose estimate of
//! what Reno would send is RFC 8312's, slower on lossy paths (decision 0021 has the figures). Left to
//! others: detecting losses, round-trip times and pacing (the engine), ending slow start
//! ([`hystart`](crate::hystart)).

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::hystart::{HyStart, Verdict};
use crate::initial_window::InitialWindow;

/// RFC 9438 section 4.6: "beta_cubic SHOULD be set to 0.7."
const BETA: f64 = 0.7;

/// Constant of the cubic function, in packets per second cubed. RFC 9438 section 5.1: "C SHOULD be set
/// to 0.4".
const C: f64 = 0.4;

/// Number of packets a round trip by which the estimate of Reno grows until it is where the window
/// was: that sends as much as Reno does, which halves its window and adds one packet (RFC 9438
/// section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 9438 section 4.2: the window grows by half in a round trip at most.
const MOST_GROWTH: f64 = 1.5;

/// Builds controllers for paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CubicFactory {
    first: InitialWindow,
}

impl CubicFactory {
    pub(crate) fn new(first: InitialWindow) -> Self {
        Self { first }
    }
}

impl ControllerFactory for CubicFactory {
    fn build(self: Arc<Self>, _: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Cubic::new(current_mtu, self.first))
    }
}

/// The controller of one path. Windows are in bytes and have fractions: a small window grows by less
/// than a byte for each that is acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    mtu: u16,
    first: InitialWindow,
    window: f64,
    slow_start_threshold: f64,
    /// Packets sent until then were sent before the window was cut: their loss or arrival says nothing
    /// new (RFC 9002 section 7.3.2).
    cut: Option<Instant>,
    /// Congestion avoidance; `None` in slow start.
    avoidance: Option<Avoidance>,
    hystart: HyStart,
    usage: Usage,
}

/// The most that was under way at once lately, bytes.
///
/// RFC 9002 section 7.8: a window that isn't used SHOULD NOT grow. In slow start one counts as used of
/// which more than half was, as in Linux' TCP (`tcp_is_cwnd_limited`): the last flight of a response is
/// rarely a full one, and would cost the next response a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    in_flight: u64,
    most: u64,
    /// Time of that maximum; once a packet that was sent later is acknowledged, it is of a former round
    /// trip.
    at: Option<Instant>,
    over: bool,
}

/// A stage of congestion avoidance (RFC 9438 section 4.2).
///
/// Congestion avoidance begins when the window is cut, and not a round trip later with the first
/// acknowledgement that counts. So does the time by which both of its functions grow, Reno's too, as RFC
/// 8312 section 4.2 has it. On a path that loses every third packet most of the time goes by without an
/// acknowledgement, and a window that grows by these alone stays at two packets, of which no third tells
/// that they are lost.
#[derive(Clone, Copy, Debug)]
struct Avoidance {
    began: Instant,
    /// Time since which the application sends less than it might: that time doesn't count.
    paused: Option<Instant>,
    /// The window at the beginning, and just before that.
    base: f64,
    prior: f64,
    plateau: f64,
    /// Seconds from the beginning to the plateau.
    k: f64,
}

impl Cubic {
    fn new(mtu: u16, first: InitialWindow) -> Self {
        Self {
            mtu,
            first,
            window: first.bytes(mtu) as f64,
            slow_start_threshold: f64::INFINITY,
            cut: None,
            avoidance: None,
            hystart: HyStart::default(),
            usage: Usage::default(),
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.slow_start_threshold
    }

    /// RFC 9002 section 7.2: "The RECOMMENDED value is 2 * max_datagram_size."
    fn minimum_window(&self) -> f64 {
        2.0 * f64::from(self.mtu)
    }

    fn avoid(&mut self, now: Instant, bytes: f64, rtt: f64) {
        let packet = f64::from(self.mtu);
        // Slow start ended without a loss: the plateau is here (RFC 9438 sections 4.8 and 4.10).
        let level = || Avoidance::begin(now, self.window, self.window, self.window, packet);
        let avoidance = self.avoidance.get_or_insert_with(level);
        let time = avoidance.elapsed(now);
        let reno = avoidance.reno(time / rtt, packet);
        let window = if avoidance.cubic(time, packet) < reno {
            reno
        } else {
            let target = avoidance.cubic(time + rtt, packet);
            let target = target.clamp(self.window, MOST_GROWTH * self.window);
            self.window + (target - self.window) * bytes / self.window
        };
        // Never faster than in slow start, however long nothing was heard.
        self.window = window.clamp(self.window, self.window + bytes);
    }

    fn cut(&mut self, now: Instant) {
        let known = self.avoidance.map_or(0.0, |avoidance| avoidance.plateau);
        // A window that is cut below the last plateau makes room for others (RFC 9438 section 4.7).
        let plateau = match self.window < known {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        let prior = self.window;
        self.window = (self.window * BETA).max(self.minimum_window());
        self.slow_start_threshold = self.window;
        self.cut = Some(now);
        let packet = f64::from(self.mtu);
        self.avoidance = Some(Avoidance::begin(now, self.window, prior, plateau, packet));
    }

    /// RFC 9002 section 7.6.2, and RFC 9438 section 4.8: from the start again, up to where the last cut
    /// led.
    fn collapse(&mut self) {
        self.window = self.minimum_window();
        self.cut = None;
        self.avoidance = None;
        self.hystart = HyStart::default();
    }

    /// A packet was acknowledged.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: Duration) {
        self.hystart.on_ack(sent);
        self.usage.on_ack(sent);
        if self.is_before_cut(sent) {
            return;
        }
        if app_limited && !(self.in_slow_start() && self.usage.is_most_of(self.window)) {
            if let Some(avoidance) = &mut self.avoidance {
                avoidance.paused.get_or_insert(now);
            }
            return;
        }
        let bytes = bytes as f64;
        if self.in_slow_start() {
            self.window += bytes / self.hystart.divisor();
        } else {
            self.avoid(now, bytes, rtt.as_secs_f64());
        }
    }

    fn is_before_cut(&self, sent: Instant) -> bool {
        self.cut.is_some_and(|cut| sent <= cut)
    }
}

impl Usage {
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.in_flight += bytes;
        if self.in_flight > self.most || self.over {
            (self.most, self.at, self.over) = (self.in_flight, Some(now), false);
        }
    }

    fn on_ack(&mut self, sent: Instant) {
        self.over |= self.at.is_some_and(|at| at < sent);
    }

    fn is_most_of(&self, window: f64) -> bool {
        window < 2.0 * self.most as f64
    }
}

impl Avoidance {
    fn begin(now: Instant, base: f64, prior: f64, plateau: f64, packet: f64) -> Self {
        let plateau = plateau.max(base);
        Self {
            began: now,
            paused: None,
            base,
            prior: prior.max(base),
            plateau,
            k: ((plateau - base) / packet / C).cbrt(),
        }
    }

    /// Seconds.
    fn elapsed(&mut self, now: Instant) -> f64 {
        if let Some(paused) = self.paused.take() {
            self.began += now.saturating_duration_since(paused);
        }
        now.saturating_duration_since(self.began).as_secs_f64()
    }

    /// RFC 9438 figure 1, after so many seconds.
    fn cubic(&self, time: f64, packet: f64) -> f64 {
        self.plateau + C * (time - self.k).powi(3) * packet
    }

    /// Returns the window that Reno would have after so many round trips: slower than Reno by [`ALPHA`]
    /// to where the window was, for it was cut by less, and from there at Reno's own pace (RFC 9438
    /// section 4.3).
    fn reno(&self, rounds: f64, packet: f64) -> f64 {
        let to_prior = (self.prior - self.base) / (ALPHA * packet);
        if rounds < to_prior {
            self.base + ALPHA * packet * rounds
        } else {
            self.prior + packet * (rounds - to_prior)
        }
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.usage.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked(now, sent, bytes, app_limited, rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.usage.in_flight = in_flight;
        let verdict = self.hystart.on_end_acks(now);
        if verdict == Verdict::End && self.in_slow_start() {
            self.slow_start_threshold = self.window;
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        _: u64,
    ) {
        if !self.is_before_cut(sent) {
            self.cut(now);
        }
        if is_persistent_congestion {
            self.collapse();
        }
    }

    /// RFC 9002 section 7.2: "If the maximum datagram size changes during the connection, the initial
    /// congestion window SHOULD be recalculated with the new size."
    fn on_mtu_update(&mut self, new_mtu: u16) {
        if self.slow_start_threshold == f64::INFINITY {
            let before = self.first.bytes(self.mtu);
            let more = self.first.bytes(new_mtu).saturating_sub(before);
            self.window += more as f64;
        }
        self.mtu = new_mtu;
        self.window = self.window.max(self.minimum_window());
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = Some(self.slow_start_threshold as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.first.bytes(self.mtu)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    const MTU: u16 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    /// A sender that keeps its window full over a path of [`RTT`].
    struct Sender {
        cubic: Cubic,
        now: Instant,
    }

    impl Sender {
        fn new() -> Self {
            Self {
                cubic: Cubic::new(MTU, InitialWindow::default()),
                now: Instant::now(),
            }
        }

        /// A sender in congestion avoidance after the loss of a packet out of so many.
        fn after_a_loss_at(packets: u32) -> Self {
            let mut sender = Self::new();
            sender.cubic.window = f64::from(packets) * f64::from(MTU);
            sender.lose(false);
            sender
        }

        fn packets(&self) -> f64 {
            self.cubic.window / f64::from(MTU)
        }

        /// A window's packets are sent, and acknowledged one after the other during a round trip.
        fn round(&mut self, app_limited: bool) {
            let packets = self.packets() as u32;
            let sent = self.now + RTT / packets;
            for packet in 1..=packets {
                let sent = sent + RTT * packet / packets;
                self.now = sent + RTT;
                self.cubic
                    .acked(self.now, sent, MTU.into(), app_limited, RTT);
                self.cubic.on_end_acks(self.now, 0, app_limited, None);
            }
            self.now -= RTT;
        }

        fn lose(&mut self, persistent: bool) {
            self.now += Duration::from_millis(1);
            self.cubic
                .on_congestion_event(self.now, self.now, persistent, MTU.into());
        }
    }

    fn assert_near(value: f64, expected: f64) {
        let error = (value / expected - 1.0).abs();
        assert!(error < 0.02, "{value}, and not {expected}");
    }

    #[test]
    fn the_window_is_recalculated_when_larger_packets_are_found() {
        for (at_least, bytes) in [(0, 14_520), (14_000, 14_520), (50_000, 50_000)] {
            let first = InitialWindow {
                at_least,
                ..InitialWindow::default()
            };
            let mut cubic = Cubic::new(1_200, first);
            cubic.on_mtu_update(1_452);
            assert_eq!(cubic.window(), bytes);
        }
    }

    #[test]
    fn slow_start_doubles_the_window_each_round() {
        let mut sender = Sender::new();
        sender.round(false);
        assert_near(sender.packets(), 20.0);
        sender.round(false);
        assert_near(sender.packets(), 40.0);
    }

    /// Sends so many packets at once, the last that there are, and has them acknowledged.
    fn last_flight(sender: &mut Sender, packets: u64) {
        let sent = sender.now;
        sender.cubic.on_sent(sent, packets * u64::from(MTU), 0);
        sender.now += RTT;
        for left in (0..packets).rev() {
            let (now, mtu) = (sender.now, u64::from(MTU));
            sender.cubic.acked(now, sent, mtu, true, RTT);
            sender.cubic.on_end_acks(now, left * mtu, true, None);
        }
    }

    #[test]
    fn a_window_of_which_more_than_half_was_used_grows_in_slow_start() {
        for (packets, window) in [(10, 20.0), (6, 12.0), (5, 10.0), (1, 10.0)] {
            let mut sender = Sender::new();
            last_flight(&mut sender, packets);
            assert_near(sender.packets(), window);
        }
        let mut sender = Sender::after_a_loss_at(20);
        last_flight(&mut sender, 14);
        assert_near(sender.packets(), 14.0);
    }

    #[test]
    fn what_was_used_before_the_last_round_trip_does_not_count() {
        let mut sender = Sender::after_a_loss_at(100);
        last_flight(&mut sender, 70);
        sender.lose(true);
        for _ in 0..10 {
            sender.now += RTT;
            last_flight(&mut sender, 1);
        }
        assert!(sender.packets() < 4.0, "{}", sender.packets());
    }

    #[test]
    fn a_loss_cuts_the_window_once_a_round() {
        let mut sender = Sender::new();
        let sent = sender.now;
        sender.lose(false);
        assert_near(sender.packets(), 7.0);
        // Another one of the same flight.
        let now = sender.now;
        sender.cubic.on_congestion_event(now, sent, false, 1_000);
        assert_near(sender.packets(), 7.0);
        sender.lose(false);
        assert_near(sender.packets(), 4.9);
    }

    #[test]
    fn the_window_is_never_below_two_packets() {
        let mut sender = Sender::new();
        for _ in 0..20 {
            sender.lose(false);
        }
        assert_eq!(sender.cubic.window(), 2_000);
    }

    #[test]
    fn a_large_window_grows_as_the_cubic_function_says() {
        // K = cbrt(10,000 × 0.3 / 0.4) = 19.6 s.
        let mut sender = Sender::after_a_loss_at(10_000);
        let began = sender.now;
        for (seconds, packets) in [
            (5, 10_000.0 - 0.4 * 14.57_f64.powi(3)),
            (19, 10_000.0),
            (25, 10_000.0 + 0.4 * 5.43_f64.powi(3)),
        ] {
            while sender.now < began + Duration::from_secs(seconds) {
                sender.round(false);
            }
            assert_near(sender.packets(), packets);
        }
    }

    #[test]
    fn a_small_window_grows_as_reno_does_on_the_whole() {
        let mut sender = Sender::after_a_loss_at(20);
        for _ in 0..6 {
            sender.round(false);
        }
        // The first of them goes by before anything is acknowledged.
        assert_near(sender.packets(), 14.0 + 7.0 * ALPHA);
        // Where it was before the loss, Reno's pace is one packet a round.
        let mut rounds = 0;
        while sender.packets() < 22.0 {
            sender.round(false);
            rounds += 1;
        }
        assert!((6..=8).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_window_that_shrinks_makes_room_for_others() {
        let mut sender = Sender::after_a_loss_at(1_000);
        sender.round(false);
        let at = sender.packets();
        assert!(at < 1_000.0);
        sender.lose(false);
        assert_near(sender.cubic.avoidance.unwrap().plateau / 1e3, at * 0.85);
    }

    #[test]
    fn time_in_which_the_application_sends_little_does_not_count() {
        let busy = |idle: Duration| {
            let mut sender = Sender::after_a_loss_at(1_000);
            sender.round(false);
            sender.round(true);
            sender.now += idle;
            (0..10).for_each(|_| sender.round(false));
            sender.packets()
        };
        assert_near(busy(Duration::from_secs(60)), busy(Duration::ZERO));
    }

    #[test]
    fn a_path_that_was_gone_is_tried_from_the_start() {
        let mut sender = Sender::after_a_loss_at(100);
        sender.lose(true);
        assert_eq!(sender.cubic.window(), 2_000);
        // Slow start, up to where the cut led.
        for _ in 0..4 {
            sender.round(false);
        }
        assert_near(sender.packets(), 32.0);
        for _ in 0..4 {
            sender.round(false);
        }
        assert!(
            (49.0..60.0).contains(&sender.packets()),
            "{}",
            sender.packets()
        );
    }

    #[test]
    fn a_window_grows_by_no_more_than_half_a_round() {
        let mut sender = Sender::after_a_loss_at(10);
        sender.round(false);
        // Long after the plateau the cubic function is far above.
        sender.cubic.avoidance.as_mut().unwrap().began -= Duration::from_secs(600);
        let before = sender.packets();
        sender.round(false);
        assert!(sender.packets() <= before * 1.65, "{}", sender.packets());
    }
}
