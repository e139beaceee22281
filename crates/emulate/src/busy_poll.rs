//! Busy polling of the link thread: when it sleeps, and when it polls the clock until a packet is due.
//!
//! A processor that sleeps takes microseconds to wake, in a virtual machine a hundred; by as much would
//! every packet be late. So the thread wakes a little before one is due, as long as waking took recently,
//! and polls the clock until then. That costs processor time, so a budget bounds its share.

use altway_units::Timestamp;
use std::time::Duration;

/// The longest lead, and the first: how long before something is due the thread begins to poll. Waking takes
/// longer than that only when the machine has something else to do.
const MAX_LEAD: Duration = Duration::from_micros(100);

/// The lead becomes shorter by this part with each time that the thread woke earlier than that: it covers all but
/// a few wake-ups of a hundred.
const DECAY: u32 = 64;

/// Polling takes at most this part of the time that the thread sleeps. The hosts of a link may share
/// its processor; and the kernel stops a real-time thread for 50 ms that used 95 % of a second, so that the
/// more work it has the less may be added to it.
const SHARE: u32 = 4;

/// The largest budget: what may be saved up for a burst of packets that are due one by one.
const MAX_BUDGET: Duration = Duration::from_millis(2);

/// The time without polling after another link's thread had to wait for it: with several links on one processor,
/// a share for each would be all of it.
const PAUSE: Duration = Duration::from_millis(100);

/// The state of one thread's busy polling.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    lead: Duration,
    /// The time at which the thread asked to be woken.
    wake_time: Option<Timestamp>,
    /// The processor time that polling may still take.
    budget: Duration,
    /// The last time at which there was nothing to do.
    idle_since: Timestamp,
    /// True if the thread has polled since then.
    is_polling: bool,
    /// The end of a pause.
    paused_until: Timestamp,
}

/// The way to wait for what is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Look at the clock again at once.
    Poll,
    /// Sleep so long, unless something happens.
    Sleep(Duration),
    /// Sleep until something happens.
    Block,
}

impl BusyPoll {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            lead: MAX_LEAD,
            wake_time: None,
            budget: MAX_BUDGET,
            idle_since: now,
            is_polling: false,
            paused_until: now,
        }
    }

    /// Stops polling for a while: another thread had to wait for this one, until `now`.
    pub(crate) fn pause(&mut self, now: Timestamp) {
        self.paused_until = now + PAUSE;
    }

    /// Decides how to wait from `now` on, when there is nothing to do until something is `due`.
    pub(crate) fn wait(&mut self, now: Timestamp, due: Option<Timestamp>) -> Wait {
        if self.is_polling {
            self.budget = self.budget.saturating_sub(now - self.idle_since);
        }
        self.is_polling = false;
        self.idle_since = now;
        self.wake_time = None;
        let Some(left) = due.map(|due| due - now) else {
            return Wait::Block;
        };
        let lead = if self.budget < self.lead || now < self.paused_until {
            Duration::ZERO
        } else {
            self.lead
        };
        if left <= lead {
            self.is_polling = true;
            return Wait::Poll;
        }
        let time = left - lead;
        self.wake_time = Some(now + time);
        Wait::Sleep(time)
    }

    /// Counts the time that the thread slept until `now`, because its time was over or something happened.
    pub(crate) fn slept(&mut self, now: Timestamp) {
        self.budget = (self.budget + (now - self.idle_since) / SHARE).min(MAX_BUDGET);
    }

    /// Learns how long waking took: the thread slept for its whole time, and nothing happened meanwhile.
    pub(crate) fn woke(&mut self, now: Timestamp) {
        if let Some(wake_time) = self.wake_time.take().filter(|at| *at <= now) {
            let shorter = self.lead - self.lead / DECAY;
            self.lead = shorter.max(now - wake_time).min(MAX_LEAD);
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
        let mut busy_poll = BusyPoll::new(Timestamp::ZERO);
        assert_eq!(busy_poll.wait(micros(0), None), Wait::Block);
        let due = Some(micros(25_000));
        let expected = Wait::Sleep(Duration::from_micros(24_900));
        assert_eq!(busy_poll.wait(micros(0), due), expected);
        assert_eq!(busy_poll.wait(micros(24_900), due), Wait::Poll);
        assert_eq!(busy_poll.wait(micros(24_999), due), Wait::Poll);
        assert_eq!(busy_poll.wait(micros(25_001), due), Wait::Poll);
    }

    #[test]
    fn it_polls_as_early_as_waking_took_recently() {
        let mut busy_poll = BusyPoll::new(Timestamp::ZERO);
        let mut now = Timestamp::ZERO;
        let mut sleep = |late: u64| {
            let due = now + Duration::from_millis(10);
            let Wait::Sleep(time) = busy_poll.wait(now, Some(due)) else {
                panic!("it has time")
            };
            busy_poll.woke(now + time + Duration::from_micros(late));
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
    fn an_early_event_says_nothing_of_how_long_waking_takes() {
        let mut busy_poll = BusyPoll::new(Timestamp::ZERO);
        let wait = busy_poll.wait(micros(0), Some(micros(1_000)));
        assert_eq!(wait, Wait::Sleep(Duration::from_micros(900)));
        busy_poll.woke(micros(500));
        assert_eq!(
            busy_poll.wait(micros(500), Some(micros(1_000))),
            Wait::Sleep(Duration::from_micros(400))
        );
    }

    #[test]
    fn it_pauses_when_other_threads_had_to_wait() {
        let mut busy_poll = BusyPoll::new(Timestamp::ZERO);
        busy_poll.pause(micros(1_000));
        let due = |now: u64| Some(micros(now + 50));
        let asleep = Wait::Sleep(Duration::from_micros(50));
        assert_eq!(busy_poll.wait(micros(1_000), due(1_000)), asleep);
        assert_eq!(busy_poll.wait(micros(100_999), due(100_999)), asleep);
        assert_eq!(busy_poll.wait(micros(101_000), due(101_000)), Wait::Poll);
    }

    /// The time spent polling in a second with a packet every 50 µs, each of which takes so long to pass on.
    fn polling_in_a_second(work: Duration) -> Duration {
        let step = Duration::from_micros(2);
        let (mut busy_poll, mut now) = (BusyPoll::new(Timestamp::ZERO), Timestamp::ZERO);
        let (mut polling, mut due) = (Duration::ZERO, micros(50));
        while now < micros(1_000_000) {
            while due <= now {
                due = due + Duration::from_micros(50);
                now = now + work;
            }
            match busy_poll.wait(now, Some(due)) {
                Wait::Poll => {
                    polling += step;
                    now = now + step;
                }
                Wait::Sleep(left) => {
                    assert!(now + left <= due);
                    now = now + left;
                    busy_poll.slept(now);
                    busy_poll.woke(now + Duration::from_micros(60));
                }
                Wait::Block => unreachable!("something is due"),
            }
        }
        polling
    }

    #[test]
    fn polling_takes_a_fifth_of_the_time_at_most() {
        let polling = polling_in_a_second(Duration::ZERO);
        let (least, most) = (Duration::from_millis(150), Duration::from_millis(203));
        assert!((least..=most).contains(&polling), "{polling:?}");
    }

    #[test]
    fn polling_takes_a_fifth_of_what_its_work_leaves() {
        let polling = polling_in_a_second(Duration::from_micros(40));
        let (least, most) = (Duration::from_millis(25), Duration::from_millis(43));
        assert!((least..=most).contains(&polling), "{polling:?}");
    }
}
