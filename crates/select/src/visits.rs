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
        if week > self.week {
            if self.is_whole {
                self.whole_week = Some(if week == self.week + 1 {
                    self.this_week
                } else {
                    0
                });
            }
            // The first week that is seen may have begun long before.
            self.is_whole = self.week > 0;
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
    }
}
