//! Changes that a link goes through at set times: a path that turns bad after three seconds.

use crate::{Change, ChangeError};
use std::time::Duration;

/// Changes in the order of their times, which count from the start of the link.
///
/// ```
/// use altway_link::{Schedule, ScheduledChange};
/// use std::time::Duration;
///
/// let after = |seconds, change: &str| {
///     change.parse().map(|change| ScheduledChange { after: Duration::from_secs(seconds), change })
/// };
/// let schedule = Schedule::new([after(8, "loss 0%")?, after(3, "loss 5%, delay 100ms")?])?;
/// assert_eq!(schedule.changes()[0].after, Duration::from_secs(3));
/// # Ok::<(), altway_link::ChangeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    changes: Vec<ScheduledChange>,
}

/// A change and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledChange {
    /// Time after the start of the link.
    pub after: Duration,
    /// The change of the link then.
    pub change: Change,
}

impl Schedule {
    /// The most changes that a schedule holds: more than a person writes, or one for every second of
    /// a quarter of an hour.
    pub const MAX_CHANGES: usize = 1_000;

    /// A schedule of these changes; of two at the same time the one given first comes first.
    ///
    /// # Errors
    /// [`ChangeError::TooManyTurns`].
    pub fn new(changes: impl IntoIterator<Item = ScheduledChange>) -> Result<Self, ChangeError> {
        let mut changes: Vec<_> = changes.into_iter().collect();
        if changes.len() > Self::MAX_CHANGES {
            return Err(ChangeError::TooManyTurns {
                found: changes.len(),
                most: Self::MAX_CHANGES,
            });
        }
        changes.sort_by_key(|scheduled| scheduled.after);
        Ok(Self { changes })
    }

    /// The changes in the order of their times.
    #[must_use]
    pub fn changes(&self) -> &[ScheduledChange] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduled(seconds: u64, change: &str) -> ScheduledChange {
        ScheduledChange {
            after: Duration::from_secs(seconds),
            change: change.parse().unwrap(),
        }
    }

    #[test]
    fn turns_come_in_the_order_of_their_times_then_as_given() {
        let given = [
            scheduled(3, "loss 1%"),
            scheduled(1, "loss 2%"),
            scheduled(3, "loss 0%"),
        ];
        let schedule = Schedule::new(given.clone()).unwrap();
        let [third_a, first, third_b] = given;
        assert_eq!(schedule.changes(), [first, third_a, third_b]);
    }

    #[test]
    fn is_bounded() {
        let changes = |count| std::iter::repeat_n(scheduled(1, "loss 1%"), count);
        assert!(Schedule::new(changes(Schedule::MAX_CHANGES)).is_ok());
        let error = Schedule::new(changes(Schedule::MAX_CHANGES + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1001 changes in one schedule, where at most 1000 fit"
        );
    }
}
