//! When the link thread sleeps, and when it stays awake for what is due.
//!
//! A processor that sleeps takes microseconds to wake, in a virtual machine a hundred; by as much would
//! every packet be late. So the thread wakes a little before one is due, as long as waking took of late,
//! and looks at the clock until then. That costs processor time, so there is a bound on the share of it.

use altway_units::Timestamp;
use std::time::Duration;

/// How long before something is due the thread is awake at most, and at first. Longer than that it only
/// takes to wake when the machine has something else to do.
const MOST_LEAD: Duration = Duration::from_micros(100);

/// By one part in so many the lead becomes shorter with each time that the thread woke earlier than that:
/// it covers all but a few of a hundred.
const DECAY: u32 = 64;

/// It is awake for nothing for one part in so many of the time at most that it sleeps. The ends may share
/// its processor; and the kernel stops a real-time thread for 50 ms that used 95 % of a second, so that the
/// more it has to do the less may be added to it.
const SHARE: u32 = 4;

/// What may be saved up for a burst of packets that are due one by one.
const SAVED: Duration = Duration::from_millis(2);

/// How long it is not awake for nothing after another thread of its kind had to wait for that: with several
/// links on one processor, a share for each would be all of it.
const STAND_BACK: Duration = Duration::from_millis(100);

/// What the thread may still spend on being awake.
#[derive(Debug)]
pub(crate) struct Vigil {
    lead: Duration,
    /// When the thread wanted to wake.
    wanted: Option<Timestamp>,
    budget: Duration,
    /// When there was last nothing to do.
    rested: Timestamp,
    /// It has been awake for nothing since then.
    awake: bool,
    /// Until when it is not.
    stands_back: Timestamp,
}

/// What to do while there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Look again at once.
    Awake,
    /// Sleep so long, unless something happens.
    Sleep(Duration),
    /// Sleep until something happens.
    Long,
}

impl Vigil {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            lead: MOST_LEAD,
            wanted: None,
            budget: SAVED,
            rested: now,
            awake: false,
            stands_back: now,
        }
    }

    /// Another thread had to wait, at `now`, because this one was awake for nothing.
    pub(crate) fn stand_back(&mut self, now: Timestamp) {
        self.stands_back = now + STAND_BACK;
    }

    /// There is nothing to do at `now`, and something is `due`.
    pub(crate) fn rest(&mut self, now: Timestamp, due: Option<Timestamp>) -> Rest {
        if self.awake {
            self.budget = self.budget.saturating_sub(now - self.rested);
        }
        self.awake = false;
        self.rested = now;
        self.wanted = None;
        let Some(left) = due.map(|due| due - now) else {
            return Rest::Long;
        };
        let lead = if self.budget < self.lead || now < self.stands_back {
            Duration::ZERO
        } else {
            self.lead
        };
        if left <= lead {
            self.awake = true;
            return Rest::Awake;
        }
        let time = left - lead;
        self.wanted = Some(now + time);
        Rest::Sleep(time)
    }

    /// The thread slept until `now`, because its time was over or something happened.
    pub(crate) fn slept(&mut self, now: Timestamp) {
        self.budget = (self.budget + (now - self.rested) / SHARE).min(SAVED);
    }

    /// Nothing happened while the thread slept, and its time was over.
    pub(crate) fn woke(&mut self, now: Timestamp) {
        if let Some(wanted) = self.wanted.take().filter(|wanted| *wanted <= now) {
            let shorter = self.lead - self.lead / DECAY;
            self.lead = shorter.max(now - wanted).min(MOST_LEAD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1_000)
    }

    #[test]
    fn it_sleeps_until_shortly_before_something_is_due_and_not_any_longer() {
        let mut vigil = Vigil::new(Timestamp::ZERO);
        assert_eq!(vigil.rest(micros(0), None), Rest::Long);
        let due = Some(micros(25_000));
        let expected = Rest::Sleep(Duration::from_micros(24_900));
        assert_eq!(vigil.rest(micros(0), due), expected);
        assert_eq!(vigil.rest(micros(24_900), due), Rest::Awake);
        assert_eq!(vigil.rest(micros(24_999), due), Rest::Awake);
        assert_eq!(vigil.rest(micros(25_001), due), Rest::Awake);
    }

    #[test]
    fn it_is_awake_as_early_as_waking_took_of_late() {
        let mut vigil = Vigil::new(Timestamp::ZERO);
        let mut now = Timestamp::ZERO;
        let mut sleep = |late: u64| {
            let due = now + Duration::from_millis(10);
            let Rest::Sleep(time) = vigil.rest(now, Some(due)) else {
                panic!("it has time")
            };
            vigil.woke(now + time + Duration::from_micros(late));
            let lead = due - (now + time);
            now = due;
            lead.as_micros()
        };
        assert_eq!(sleep(20), 100);
        let after: Vec<_> = (0..200).map(|_| sleep(20)).collect();
        assert!(after.is_sorted_by(|a, b| a >= b), "{after:?}");
        assert_eq!(after.last(), Some(&20));
        sleep(70);
        assert_eq!(sleep(5_000), 70);
        assert_eq!(sleep(20), 100);
    }

    #[test]
    fn what_wakes_it_early_says_nothing_of_how_long_it_takes() {
        let mut vigil = Vigil::new(Timestamp::ZERO);
        let rest = vigil.rest(micros(0), Some(micros(1_000)));
        assert_eq!(rest, Rest::Sleep(Duration::from_micros(900)));
        vigil.woke(micros(500));
        assert_eq!(
            vigil.rest(micros(500), Some(micros(1_000))),
            Rest::Sleep(Duration::from_micros(400))
        );
    }

    #[test]
    fn it_stands_back_for_a_while_when_others_had_to_wait() {
        let mut vigil = Vigil::new(Timestamp::ZERO);
        vigil.stand_back(micros(1_000));
        let due = |now: u64| Some(micros(now + 50));
        let asleep = Rest::Sleep(Duration::from_micros(50));
        assert_eq!(vigil.rest(micros(1_000), due(1_000)), asleep);
        assert_eq!(vigil.rest(micros(100_999), due(100_999)), asleep);
        assert_eq!(vigil.rest(micros(101_000), due(101_000)), Rest::Awake);
    }

    /// How long it is awake for nothing in a second with a packet every 50 µs, which is always close, that
    /// takes so long to pass on.
    fn awake_of_a_second(work: Duration) -> Duration {
        let step = Duration::from_micros(2);
        let (mut vigil, mut now) = (Vigil::new(Timestamp::ZERO), Timestamp::ZERO);
        let (mut awake, mut due) = (Duration::ZERO, micros(50));
        while now < micros(1_000_000) {
            while due <= now {
                due = due + Duration::from_micros(50);
                now = now + work;
            }
            match vigil.rest(now, Some(due)) {
                Rest::Awake => {
                    awake += step;
                    now = now + step;
                }
                Rest::Sleep(left) => {
                    assert!(now + left <= due);
                    now = now + left;
                    vigil.slept(now);
                    vigil.woke(now + Duration::from_micros(60));
                }
                Rest::Long => unreachable!("something is due"),
            }
        }
        awake
    }

    #[test]
    fn it_is_awake_for_a_fifth_of_the_time_at_most() {
        let awake = awake_of_a_second(Duration::ZERO);
        let (least, most) = (Duration::from_millis(150), Duration::from_millis(203));
        assert!((least..=most).contains(&awake), "{awake:?}");
    }

    #[test]
    fn it_is_awake_for_a_fifth_of_what_its_work_leaves() {
        let awake = awake_of_a_second(Duration::from_micros(40));
        let (least, most) = (Duration::from_millis(25), Duration::from_millis(43));
        assert!((least..=most).contains(&awake), "{awake:?}");
    }
}
