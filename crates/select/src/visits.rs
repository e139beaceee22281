//! Visits: how many there have been, and how many in a week.

use crate::UnixTime;

/// Counts of visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Visits {
    pub(crate) total: u64,
    pub(crate) week: u64,
    pub(crate) this_week: u64,
    /// Visits of the latest week that was counted from its beginning to its end.
    pub(crate) whole_week: Option<u64>,
    pub(crate) is_whole: bool,
}

impl Visits {
    pub(crate) fn add(&mut self, now: UnixTime) {
        let week = now.week();
        // The clock was wrong, and has been set right.
        let was_ahead = week + 1 < self.week;
        if week > self.week || was_ahead {
            self.whole_week = match self.week + 1 == week {
                _ if was_ahead => None,
                true if self.is_whole => Some(self.this_week),
                false if self.is_whole => Some(0),
                _ => self.whole_week,
            };
            // The first week that is seen may have begun long before.
            self.is_whole = self.week > 0 && !was_ahead;
            (self.week, self.this_week) = (week, 0);
        }
        self.total = self.total.saturating_add(1);
        self.this_week = self.this_week.saturating_add(1);
    }

    pub(crate) const fn is_enough(&self, least: u64) -> bool {
        self.total >= least
    }

    pub(crate) const fn of_last_week(&self) -> Option<u64> {
        self.whole_week
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_week_may_be_a_part_of_one_and_does_not_count() {
        let mut visits = Visits::default();
        let week = |week: u64| UnixTime::from_secs(week * 7 * 86_400);
        for (number, expected) in [
            (1_000, None),
            (1_001, None),
            (1_002, Some(2)),
            (1_003, Some(2)),
        ] {
            visits.add(week(number));
            visits.add(week(number));
            assert_eq!(visits.of_last_week(), expected, "{number}");
        }
        assert!(visits.is_enough(8) && !visits.is_enough(9));
        // A clock that was ten years ahead is set right.
        for (number, expected) in [
            (1_500, Some(0)),
            (1_004, None),
            (1_005, None),
            (1_006, Some(1)),
        ] {
            visits.add(week(number));
            assert_eq!(visits.of_last_week(), expected, "{number}");
        }
    }
}
