//! Changes that a link goes through at set times: a path that turns bad after three seconds.

use crate::{Change, ChangeError};
use std::time::Duration;

/// Changes in the order of their times, which count from the start of the link.
///
/// ```
/// use altway_link::{Schedule, Turn};
/// use std::time::Duration;
///
/// let after = |seconds, change: &str| {
///     change.parse().map(|change| Turn { after: Duration::from_secs(seconds), change })
/// };
/// let schedule = Schedule::new([after(8, "loss 0%")?, after(3, "loss 5%, delay 100ms")?])?;
/// assert_eq!(schedule.turns()[0].after, Duration::from_secs(3));
/// # Ok::<(), altway_link::ChangeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    turns: Vec<Turn>,
}

/// A change and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Time after the start of the link.
    pub after: Duration,
    /// The change of the link then.
    pub change: Change,
}

impl Schedule {
    /// The most turns that a schedule holds: more than a person writes, or one for every second of
    /// a quarter of an hour.
    pub const MOST_TURNS: usize = 1_000;

    /// A schedule of these turns; of two at the same time the one given first comes first.
    ///
    /// # Errors
    /// [`ChangeError::TooManyTurns`].
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Result<Self, ChangeError> {
        let mut turns: Vec<_> = turns.into_iter().collect();
        if turns.len() > Self::MOST_TURNS {
            return Err(ChangeError::TooManyTurns {
                found: turns.len(),
                most: Self::MOST_TURNS,
            });
        }
        turns.sort_by_key(|turn| turn.after);
        Ok(Self { turns })
    }

    /// The turns in the order of their times.
    #[must_use]
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(seconds: u64, change: &str) -> Turn {
        Turn {
            after: Duration::from_secs(seconds),
            change: change.parse().unwrap(),
        }
    }

    #[test]
    fn turns_come_in_the_order_of_their_times_then_as_given() {
        let given = [turn(3, "loss 1%"), turn(1, "loss 2%"), turn(3, "loss 0%")];
        let schedule = Schedule::new(given.clone()).unwrap();
        let [third_a, first, third_b] = given;
        assert_eq!(schedule.turns(), [first, third_a, third_b]);
    }

    #[test]
    fn is_bounded() {
        let turns = |count| std::iter::repeat_n(turn(1, "loss 1%"), count);
        assert!(Schedule::new(turns(Schedule::MOST_TURNS)).is_ok());
        let error = Schedule::new(turns(Schedule::MOST_TURNS + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1001 changes in one schedule, where at most 1000 fit"
        );
    }
}
