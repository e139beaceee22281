//! The states of classes of clients: its limit over QUIC, what the hold-out says, and changes.

use crate::cusum::Cusum;
use crate::limit::{Grid, MEASURED, UNMEASURED};
use crate::residuals::NOISE;
use crate::time::is_ahead;
use crate::{Client, ClientClass, Surface, UnixTime};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Half-life of votes in days, and within a week of an alarm.
const HALF_LIFE: f64 = 6.0;
const HALF_LIFE_ALARMED: f64 = 1.5;
const ALARM_DAYS: u16 = 7;

/// Number of networks that must have voted before a limit may leave a factor around its prior.
const QUORUM: u32 = 30;
const BEFORE_QUORUM: f64 = 1.5;

/// Half-lives by which votes count less under another congestion control: what a client takes over QUIC is still the
/// best guess, but rates that loss held down were no sign of it.
const OTHER_CONTROL: f64 = 3.0;

/// Pages of the hold-out from which on it corrects the class, and ln by which classes are off, as a standard deviation.
const ENOUGH_HELD: f64 = 4_000.0;
const CORRECTION: f64 = 0.03;

/// bit/s where no class was measured at all.
const NO_LIMIT: f64 = 469e6;

/// All classes, each with a lock of its own.
#[derive(Debug)]
pub(crate) struct Classes {
    states: Vec<Mutex<State>>,
}

/// The state of a class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    pub(crate) grid: Grid,
    /// Networks that have voted, by 256 places of their hash.
    pub(crate) voted_networks: [u64; 4],
    pub(crate) day: u16,
    pub(crate) alarmed: u16,
    /// Pages and sums of residuals of the held, over HTTP/2 and HTTP/3.
    pub(crate) held: [[f64; 2]; 2],
    pub(crate) cusum: Cusum,
    limit: f64,
}

/// A class has become faster or slower over HTTP/3 than it used to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alarm {
    /// The class.
    pub class: ClientClass,
    /// ln of the factor by which HTTP/3 takes longer than before, against HTTP/2.
    pub change: f64,
}

/// `safari-ios over HTTP/3 is 12 % slower`.
impl std::fmt::Display for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = 100.0 * self.change.abs().exp_m1();
        let how = if self.change > 0.0 {
            "slower"
        } else {
            "faster"
        };
        write!(
            f,
            "{} over HTTP/3 is {percent:.0} % {how} than it was, against HTTP/2",
            self.class
        )
    }
}

impl Classes {
    pub(crate) fn new(surface: &Surface) -> Self {
        let class = |index| ClientClass::from_index(index).unwrap_or(ClientClass::OTHER);
        let state = |index| Mutex::new(State::new(prior(surface, class(index))));
        Self {
            states: (0..ClientClass::COUNT as u8).map(state).collect(),
        }
    }

    /// Sums are sums, whatever happened to a thread that added to them.
    pub(crate) fn state(&self, class: ClientClass) -> MutexGuard<'_, State> {
        self.states[usize::from(class.index())]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// bit/s that the class takes over QUIC, and its correction by the hold-out.
    pub(crate) fn get(&self, class: ClientClass) -> (f64, f64) {
        let state = self.state(class);
        (state.limit, state.correction())
    }
}

/// The limit that is expected of a class beforehand, and the width of that.
pub(crate) fn prior(surface: &Surface, class: ClientClass) -> (f64, f64) {
    if let Some(limit) = surface.limit(class) {
        return (limit, MEASURED);
    }
    let limit = if class.is_browser() {
        surface.median_limit()
    } else {
        surface.least_browser_limit()
    };
    (limit.unwrap_or(NO_LIMIT), UNMEASURED)
}

impl State {
    fn new((limit, width): (f64, f64)) -> Self {
        let grid = Grid::new(limit, width);
        Self {
            voted_networks: [0; 4],
            day: 0,
            alarmed: 0,
            held: [[0.0; 2]; 2],
            cusum: Cusum::default(),
            limit: grid.value(),
            grid,
        }
    }

    /// A client whose rates over TCP and QUIC are known.
    pub(crate) fn vote(&mut self, client: &Client, rate2: f64, rate3: f64) {
        self.voted_networks[(client.voting_network >> 6 & 3) as usize] |=
            1 << (client.voting_network & 63);
        self.grid.vote(rate2, rate3);
        self.settle();
    }

    /// Votes fade with days; by how much HTTP/3 has changed, if it has.
    pub(crate) fn fade(&mut self, now: UnixTime) -> Option<f64> {
        let day = now.day();
        if self.day == 0 || is_ahead(self.day, day) {
            self.day = day;
        }
        let days = day.saturating_sub(self.day);
        self.day = self.day.max(day);
        if days == 0 {
            return None;
        }
        let alarmed = (1..ALARM_DAYS).contains(&day.saturating_sub(self.alarmed));
        let half_life = if alarmed {
            HALF_LIFE_ALARMED
        } else {
            HALF_LIFE
        };
        self.grid.age(f64::from(days) / half_life);
        self.settle();
        let change = self.cusum.day()?;
        self.alarmed = day;
        Some(change)
    }

    /// Everything was measured under another congestion control of one of the transports.
    pub(crate) fn set_other_congestion(&mut self) {
        self.grid.age(OTHER_CONTROL);
        self.held = [[0.0; 2]; 2];
        self.cusum = Cusum::default();
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        let prior = self.grid.prior();
        let voted_networks: u32 = self
            .voted_networks
            .iter()
            .map(|voted_networks| voted_networks.count_ones())
            .sum();
        let value = self.grid.value();
        self.limit = if voted_networks < QUORUM {
            value.clamp(prior / BEFORE_QUORUM, prior * BEFORE_QUORUM)
        } else {
            value
        };
    }

    /// A page of a held client whose coin said `http3`.
    pub(crate) fn add_held(&mut self, http3: bool, residual: f64) {
        let [pages, sum] = &mut self.held[usize::from(http3)];
        *pages += 1.0;
        *sum += residual;
    }

    /// ln by which HTTP/3 is slower for the class than the surface says: 0 until the hold-out has pages enough.
    pub(crate) fn correction(&self) -> f64 {
        let [[pages2, sum2], [pages3, sum3]] = self.held;
        if pages2 + pages3 < ENOUGH_HELD || pages2 < 1.0 || pages3 < 1.0 {
            return 0.0;
        }
        let variance = NOISE * NOISE * (1.0 / pages2 + 1.0 / pages3);
        let likely = CORRECTION * CORRECTION;
        (sum3 / pages3 - sum2 / pages2) * likely / (likely + variance)
    }

    #[cfg(test)]
    fn limit(&self) -> f64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;
    use crate::limit::limited_rate;
    use std::net::Ipv4Addr;

    fn client(network: u8) -> Client {
        let address = Ipv4Addr::new(10, 0, network, 1).into();
        Client::new(&Secret::new([3; 16]), address, ClientClass::OTHER)
    }

    fn state() -> State {
        State::new((735e6, MEASURED))
    }

    #[test]
    fn few_networks_move_a_limit_by_half_at_most_and_many_move_it() {
        let mut state = state();
        for _ in 0..1_000 {
            for network in 0..20 {
                state.vote(&client(network), 1e9, 6e7);
            }
        }
        assert!(
            (state.limit() - 735e6 / 1.5).abs() < 1e6,
            "{}",
            state.limit()
        );
        for network in 0..=255 {
            state.vote(&client(network), 1e9, 6e7);
        }
        assert!(state.limit() < 1e8, "{}", state.limit());
    }

    #[test]
    fn five_percent_of_hostile_votes_move_a_limit_by_less_than_half() {
        let mut state = state();
        for vote in 0..2_000_u16 {
            let rate3 = if vote % 20 == 0 {
                5e7
            } else {
                limited_rate(1e9, 735e6)
            };
            state.vote(&client((vote % 256) as u8), 1e9, rate3);
        }
        assert!(
            (state.limit() / 735e6).ln().abs() < 0.1,
            "{}",
            state.limit()
        );
    }

    #[test]
    fn a_class_is_corrected_from_4_000_held_pages_on() {
        let mut state = state();
        for page in 0..3_999 {
            state.add_held(page % 2 == 0, if page % 2 == 0 { 0.1 } else { 0.0 });
        }
        assert_eq!(state.correction(), 0.0);
        state.add_held(false, 0.0);
        assert!(
            (state.correction() - 0.088).abs() < 0.001,
            "{}",
            state.correction()
        );
        state.add_held(false, 0.0);
        assert!(state.correction() > 0.0);
    }

    #[test]
    fn the_unknown_have_the_least_limit_of_a_browser_and_the_unmeasured_the_median() {
        let of = |class: &str| prior(Surface::embedded(), class.parse().unwrap());
        assert_eq!(of("other-other"), (420e6, UNMEASURED));
        assert_eq!(of("safari-ios"), (469e6, UNMEASURED));
        assert_eq!(of("chromium-linux"), (469e6, MEASURED));
    }

    #[test]
    fn an_alarm_is_a_sentence() {
        let class = "safari-ios".parse().unwrap();
        let alarm = Alarm {
            class,
            change: 0.12,
        };
        let text = "safari-ios over HTTP/3 is 13 % slower than it was, against HTTP/2";
        assert_eq!(alarm.to_string(), text);
    }
}
