//! Changes of a link: their words, and what they do to a [`Config`].
//!
//! One language for all who change a link: the command line, a plan's schedule, the request to a
//! running link. When a change happens, and to which link, is the caller's business.

use crate::setting::{self, DirectionSet, Setting};
use crate::{Config, Error, Queue};
use std::fmt;
use std::str::FromStr;

/// Change of the two directions of a link; all else stays as it is.
///
/// Text form: settings, separated by commas. Each is a name and a value, with `up` or `down` before
/// it when it is meant for one direction only; of two that contradict each other the later one
/// holds.
///
/// | setting | value |
/// |---|---|
/// | `rate` | IP bits per second (`5mbit`), or `none` |
/// | `delay` | one way (`100ms`) |
/// | `jitter` | a [`Jitter`](crate::Jitter) (`5ms normal`) |
/// | `loss` | a [`LossModel`](crate::LossModel) (`5%`, `gilbert 1% burst 4`) |
/// | `duplicate`, `corrupt` | a share of the packets (`1%`) |
/// | `reorder` | a [`Reordering`](crate::Reordering) (`1% late 5ms`) |
/// | `queue` | a [`Queue`] (`64KiB`, `30ms`, `50packets`, `none`), or `default` for what goes with the rate |
/// | `discipline` | `drop-tail` or `codel` |
/// | `udp` | a [`UdpTreatment`](crate::UdpTreatment) (`block`, `rate 5mbit burst 64KiB`), or `pass` |
///
/// A queue that goes with its rate ([`Queue::default_for`]) follows a change of the rate, unless the
/// change says something else.
///
/// ```
/// use altway_link::{Change, Config};
/// use std::time::Duration;
///
/// let change: Change = "delay 100ms, down loss 5%".parse()?;
/// let (mut up, mut down) = (Config::default(), Config::default());
/// change.apply(&mut up, &mut down);
/// assert_eq!(up.delay, Duration::from_millis(100));
/// assert_eq!(down.loss, "5%".parse()?);
/// assert_eq!(change.to_string(), "delay 100ms, down loss 5%");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    settings: Vec<(DirectionSet, Setting)>,
}

/// A text that is no change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A text with nothing to change, or nothing between two commas.
    #[error("nothing to change: expected settings like `loss 5%, delay 100ms`")]
    Empty,
    /// A text with more settings than a link has.
    #[error("{found} settings, where at most {most} make sense")]
    TooMany {
        /// Number of settings.
        found: usize,
        /// [`Change::MOST_SETTINGS`].
        most: usize,
    },
    /// A schedule with more changes in a row than it may hold.
    #[error("{found} changes in one schedule, where at most {most} fit")]
    TooManyTurns {
        /// Number of changes.
        found: usize,
        /// [`Schedule::MAX_CHANGES`](crate::Schedule::MAX_CHANGES).
        most: usize,
    },
    /// A link has no such setting.
    #[error(
        "`{name}` is no setting of a link: expected {}, or up or down before one of them",
        setting::NAMES
    )]
    Unknown {
        /// The name that was found.
        name: String,
    },
    /// The value is not what the setting takes.
    #[error("`{name}`: {reason}")]
    Value {
        /// The setting.
        name: &'static str,
        /// Reason why it is not.
        reason: Error,
    },
}

impl Change {
    /// The most settings of one change: more than a link has, twice.
    pub const MOST_SETTINGS: usize = 32;

    /// A change of one setting.
    #[must_use]
    pub fn new(way: DirectionSet, setting: Setting) -> Self {
        Self {
            settings: vec![(way, setting)],
        }
    }

    /// Adds what `later` changes; where the two contradict each other `later` holds.
    ///
    /// # Errors
    /// [`ChangeError::TooMany`] when together they are more than [`MOST_SETTINGS`](Self::MOST_SETTINGS).
    pub fn and(mut self, later: Self) -> Result<Self, ChangeError> {
        self.settings.extend(later.settings);
        self.bounded()
    }

    /// Changes the two directions.
    pub fn apply(&self, up: &mut Config, down: &mut Config) {
        self.apply_to(DirectionSet::Up, up);
        self.apply_to(DirectionSet::Down, down);
    }

    fn apply_to(&self, way: DirectionSet, config: &mut Config) {
        let mut follows = config.queue == Queue::default_for(&config.rate);
        let settings = self.settings.iter();
        for (_, setting) in settings.filter(|(meant, _)| meant.covers(way)) {
            match setting {
                Setting::Queue(None) => follows = true,
                Setting::Queue(Some(_)) => follows = false,
                _ => {}
            }
            setting.apply(config);
        }
        if follows {
            config.queue = Queue::default_for(&config.rate);
        }
    }

    fn bounded(self) -> Result<Self, ChangeError> {
        match self.settings.len() {
            0 => Err(ChangeError::Empty),
            1..=Self::MOST_SETTINGS => Ok(self),
            found => Err(ChangeError::TooMany {
                found,
                most: Self::MOST_SETTINGS,
            }),
        }
    }
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let settings = text
            .split(',')
            .map(setting::read)
            .collect::<Result<_, _>>()?;
        Self { settings }.bounded()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (way, setting)) in self.settings.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{way}{setting}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::tests::any_setting;
    use crate::{LossModel, Rate};
    use altway_units::{DataSize, Ratio};
    use proptest::prelude::*;
    use std::time::Duration;

    fn applied(text: &str, config: &Config) -> (Config, Config) {
        let (mut up, mut down) = (config.clone(), config.clone());
        text.parse::<Change>().unwrap().apply(&mut up, &mut down);
        (up, down)
    }

    fn refused(text: &str) -> String {
        text.parse::<Change>().unwrap_err().to_string()
    }

    fn at(rate: &str) -> Config {
        let rate = Rate::Fixed(rate.parse().unwrap());
        Config {
            queue: Queue::default_for(&rate),
            rate,
            ..Config::default()
        }
    }

    #[test]
    fn changes_what_is_named_and_nothing_else() {
        let before = Config {
            delay: Duration::from_millis(7),
            ..at("20mbit")
        };
        let (up, down) = applied(" loss  5% ,down delay 100ms", &before);
        let loss = LossModel::Random(Ratio::from_percent(5).unwrap());
        assert_eq!(
            up,
            Config {
                loss: loss.clone(),
                ..before.clone()
            }
        );
        let delay = Duration::from_millis(100);
        assert_eq!(
            down,
            Config {
                loss,
                delay,
                ..before
            }
        );
    }

    #[test]
    fn the_later_of_two_holds() {
        let (up, down) = applied("delay 1ms, up delay 2ms", &Config::default());
        assert_eq!((up.delay.as_millis(), down.delay.as_millis()), (2, 1));
        let (up, down) = applied("up delay 2ms, delay 1ms", &Config::default());
        assert_eq!((up.delay.as_millis(), down.delay.as_millis()), (1, 1));
    }

    #[test]
    fn a_queue_that_goes_with_the_rate_follows_it() {
        assert_eq!(applied("rate 5mbit", &at("20mbit")).0, at("5mbit"));
        assert_eq!(applied("rate 5mbit", &Config::default()).0, at("5mbit"));
        assert_eq!(applied("rate none", &at("20mbit")).0, Config::default());
    }

    #[test]
    fn a_queue_of_its_own_stays() {
        let queue = Queue::Bytes(DataSize::from_bytes(9_000));
        let before = Config {
            queue,
            ..at("20mbit")
        };
        assert_eq!(applied("rate 5mbit", &before).0.queue, queue);
        assert_eq!(applied("rate 5mbit, queue default", &before).0, at("5mbit"));
        assert_eq!(
            applied("queue 9000B, rate 5mbit", &at("20mbit")).0.queue,
            queue
        );
        assert_eq!(applied("queue none", &before).0.queue, Queue::Unlimited);
    }

    #[test]
    fn says_what_is_wrong_with_a_text() {
        for text in ["", " ", "loss 5%,", ","] {
            assert!(refused(text).starts_with("nothing to change"), "{text:?}");
        }
        assert!(
            refused("lots 5%").contains("`lots` is no setting of a link: expected rate, delay")
        );
        assert!(refused("up up loss 5%").contains("`up` is no setting"));
        assert!(refused("up loss").starts_with("`loss`: "));
        assert!(refused("loss 150%").contains("`loss`: `150%` is not a ratio"));
        assert!(refused("queue many").contains("`queue`: "));
    }

    #[test]
    fn is_bounded() {
        let most = vec!["loss 1%"; Change::MOST_SETTINGS].join(",");
        let change: Change = most.parse().unwrap();
        assert!(refused(&format!("{most},loss 1%")).starts_with("33 settings"));
        let one = Change::new(DirectionSet::Up, Setting::Rate(Rate::Unlimited));
        assert!(matches!(change.and(one), Err(ChangeError::TooMany { .. })));
    }

    proptest! {
        #[test]
        fn parses_what_it_prints(settings in proptest::collection::vec(
            (prop_oneof![Just(DirectionSet::Both), Just(DirectionSet::Up), Just(DirectionSet::Down)], any_setting()),
            1..=Change::MOST_SETTINGS,
        )) {
            let change = Change { settings };
            prop_assert_eq!(change.to_string().parse(), Ok(change));
        }

        #[test]
        fn any_text_is_a_change_or_an_error(text in "\\PC{0,60}") {
            let _ = text.parse::<Change>();
        }
    }
}
