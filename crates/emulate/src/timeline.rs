//! The timeline of a running link: the changes that are to come, and what must be remembered of those made.

use altway_link::{Change, Schedule};
use altway_units::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The timeline of one run of the link. It holds one [`Schedule`] at most.
#[derive(Debug)]
pub(crate) struct Timeline {
    started: Timestamp,
    /// Changes to come, in the order of their times.
    to_come: VecDeque<(Timestamp, Change)>,
    least_delay: Duration,
}

impl Timeline {
    /// Begins the timeline of a run that starts at `now` with this `delay`, the longer of the two directions'.
    pub(crate) fn new(now: Timestamp, delay: Duration) -> Self {
        Self {
            started: now,
            to_come: VecDeque::new(),
            least_delay: delay,
        }
    }

    /// Replaces the changes that are to come; their times count from `now`.
    pub(crate) fn set_schedule(&mut self, now: Timestamp, schedule: &Schedule) {
        let changes = schedule.changes().iter();
        self.to_come = changes
            .map(|scheduled| (now + scheduled.after, scheduled.change.clone()))
            .collect();
    }

    /// The next change whose time has come, with that time; call it until it returns `None`.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<(Timestamp, Change)> {
        self.to_come.pop_front_if(|(at, _)| *at <= now)
    }

    /// Notes that the longer of the two directions' delays is this from now on.
    pub(crate) fn delays(&mut self, delay: Duration) {
        self.least_delay = self.least_delay.min(delay);
    }

    /// The time of the next change.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        self.to_come.front().map(|(at, _)| *at)
    }

    /// The least delay there was: it sets the limit of lateness for the whole run.
    pub(crate) fn least_delay(&self) -> Duration {
        self.least_delay
    }

    /// The time since the run started.
    pub(crate) fn running(&self, now: Timestamp) -> Duration {
        now - self.started
    }

    /// The changes that are to come, with the time until then.
    pub(crate) fn to_come(&self, now: Timestamp) -> Vec<(Duration, Change)> {
        let to_come = self.to_come.iter();
        to_come
            .map(|(at, change)| (*at - now, change.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_link::ScheduledChange;

    fn scheduled(seconds: u64, change: &str) -> ScheduledChange {
        ScheduledChange {
            after: Duration::from_secs(seconds),
            change: change.parse().unwrap(),
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn changes_come_at_their_times_however_late_one_asks() {
        let mut timeline = Timeline::new(at(10), Duration::ZERO);
        let schedule = Schedule::new([scheduled(3, "loss 5%"), scheduled(1, "loss 1%")]).unwrap();
        timeline.set_schedule(at(20), &schedule);
        assert_eq!(timeline.poll_timeout(), Some(at(21)));
        assert_eq!(timeline.next_due(at(20)), None);
        assert_eq!(timeline.to_come(at(20))[1].0, Duration::from_secs(3));
        let (first, second) = (
            timeline.next_due(at(99)).unwrap(),
            timeline.next_due(at(99)).unwrap(),
        );
        assert_eq!((first.0, second.0), (at(21), at(23)));
        assert_eq!(second.1.to_string(), "loss 5%");
        assert_eq!(
            (timeline.next_due(at(99)), timeline.poll_timeout()),
            (None, None)
        );
        assert_eq!(timeline.running(at(15)), Duration::from_secs(5));
    }

    #[test]
    fn a_new_schedule_takes_the_place_of_the_old_one() {
        let mut timeline = Timeline::new(at(0), Duration::ZERO);
        timeline.set_schedule(at(0), &Schedule::new([scheduled(3, "loss 5%")]).unwrap());
        timeline.set_schedule(at(1), &Schedule::new([scheduled(4, "loss 1%")]).unwrap());
        assert_eq!(timeline.to_come(at(1)).len(), 1);
        assert_eq!(timeline.poll_timeout(), Some(at(5)));
    }

    #[test]
    fn the_least_delay_is_kept() {
        let mut timeline = Timeline::new(at(0), Duration::from_millis(200));
        timeline.delays(Duration::from_millis(20));
        timeline.delays(Duration::from_millis(100));
        assert_eq!(timeline.least_delay(), Duration::from_millis(20));
    }
}
