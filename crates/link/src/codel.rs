//! CoDel: which packets to drop from the front of a queue so that none waits long (RFC 8289).

use altway_units::Timestamp;
use std::time::Duration;

/// Time that packets may wait, but for an [`INTERVAL`] at a time: "5 ms TARGET queue delay" (RFC 8289
/// §5.3).
const TARGET: Duration = Duration::from_millis(5);
/// "100 ms sliding-minimum window" (RFC 8289 §5.3).
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of CoDel; the names are those of RFC 8289 §5.2.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoDel {
    /// Time at which packets will have waited too long for an interval; `None` while they don't.
    first_above: Option<Timestamp>,
    drop_next: Timestamp,
    count: u64,
    last_count: u64,
    is_dropping: bool,
}

/// The front of a queue.
#[derive(Debug)]
pub(crate) struct Head<T> {
    pub(crate) item: T,
    /// Time that it has waited.
    pub(crate) waited: Duration,
    /// True if no more than a full packet waits behind it.
    pub(crate) is_almost_last: bool,
}

impl CoDel {
    /// Takes the next packet to send from a queue, and drops others before it: `dequeue` of RFC 8289 §5.5.
    pub(crate) fn next<T>(
        &mut self,
        now: Timestamp,
        mut pop: impl FnMut() -> Option<Head<T>>,
        mut drop: impl FnMut(T),
    ) -> Option<T> {
        let (mut item, mut may_drop) = self.judge(now, pop());
        if self.is_dropping {
            self.is_dropping = may_drop;
            while self.is_dropping && now >= self.drop_next {
                if let Some(item) = item {
                    drop(item);
                }
                self.count += 1;
                (item, may_drop) = self.judge(now, pop());
                if may_drop {
                    self.drop_next = control_law(self.drop_next, self.count);
                }
                self.is_dropping = may_drop;
            }
        } else if may_drop {
            if let Some(item) = item {
                drop(item);
            }
            (item, _) = self.judge(now, pop());
            self.begin_dropping(now);
        }
        item
    }

    /// "If min went above TARGET close to when it last went below, assume that the drop rate that
    /// controlled the queue on the last cycle is a good starting point to control it now" (RFC 8289
    /// §5.5).
    fn begin_dropping(&mut self, now: Timestamp) {
        self.is_dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let is_recent = now - self.drop_next < INTERVAL * 16;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.drop_next = control_law(now, self.count);
        self.last_count = self.count;
    }

    /// The packet at the front, and whether it may be dropped: `dodequeue` of RFC 8289 §5.6.
    fn judge<T>(&mut self, now: Timestamp, head: Option<Head<T>>) -> (Option<T>, bool) {
        let Some(head) = head else {
            self.first_above = None;
            return (None, false);
        };
        let is_above = head.waited >= TARGET && !head.is_almost_last;
        let may_drop = is_above && self.first_above.is_some_and(|first| now >= first);
        self.first_above = match self.first_above {
            _ if !is_above => None,
            None => Some(now + INTERVAL),
            first => first,
        };
        (Some(head.item), may_drop)
    }
}

/// The time of the next drop: `t + INTERVAL / √count` (RFC 8289 §5.6), in whole ns.
fn control_law(t: Timestamp, count: u64) -> Timestamp {
    let interval = INTERVAL.as_nanos() as u64;
    t + Duration::from_nanos((interval * interval / count.max(1)).isqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// A queue that is asked for a packet every `gap` ms and whose packets have waited for `waited`
    /// ms then. Returns the times of the drops in µs.
    fn drops(
        codel: &mut CoDel,
        from: u64,
        to: u64,
        gap: usize,
        waited: impl Fn(u64) -> u64,
    ) -> Vec<u64> {
        let mut times = Vec::new();
        for now in (from..to).step_by(gap) {
            let head = || {
                Some(Head {
                    item: (),
                    waited: Duration::from_millis(waited(now)),
                    is_almost_last: false,
                })
            };
            codel.next(ms(now), head, |()| times.push(now));
        }
        times
    }

    /// RFC 8289 §5.6: after the first drop, which comes an interval after the packets began to wait
    /// for longer than the target, the next one comes 100 ms / √1 later, then 100 ms / √2, √3, …:
    /// 0, 100, 170.7, 228.4, 278.4, 323.2, 364.0, 401.8, 437.1 ms; looked at each millisecond.
    #[test]
    fn drops_at_an_increasing_rate_while_packets_wait_too_long() {
        let mut codel = CoDel::default();
        let times = drops(&mut codel, 50, 590, 1, |_| 6);
        assert_eq!(times, [150, 250, 321, 379, 429, 474, 514, 552, 588]);
    }

    #[test]
    fn drops_nothing_below_the_target_or_for_less_than_an_interval() {
        let mut codel = CoDel::default();
        assert_eq!(drops(&mut codel, 0, 1_000, 1, |_| 4), []);
        let dips = |now| if now % 100 == 99 { 4 } else { 50 };
        assert_eq!(drops(&mut codel, 1_000, 3_000, 1, dips), []);
        assert_eq!(drops(&mut codel, 3_000, 3_101, 1, |_| 5), [3_100]);
    }

    #[test]
    fn goes_on_where_it_was_when_packets_soon_wait_too_long_again() {
        let mut codel = CoDel::default();
        assert_eq!(drops(&mut codel, 0, 500, 1, |_| 6).len(), 7);
        drops(&mut codel, 500, 510, 1, |_| 0);
        // `count` was 7 and `lastcount` 1: 100 ms / √6 is 40.8 ms.
        assert_eq!(drops(&mut codel, 510, 652, 1, |_| 6), [610, 651]);
        // Long afterwards it begins with 100 ms again.
        drops(&mut codel, 652, 3_000, 1, |_| 0);
        let times = drops(&mut codel, 3_000, 3_201, 1, |_| 6);
        assert_eq!(times, [3_100, 3_200]);
    }

    #[test]
    fn several_drops_may_fall_due_at_once() {
        let mut codel = CoDel::default();
        drops(&mut codel, 0, 151, 1, |_| 6);
        // 200, 270.7 and 328.4 ms have passed by then.
        assert_eq!(drops(&mut codel, 330, 331, 1, |_| 6), [330, 330, 330]);
    }

    #[test]
    fn never_drops_the_last_full_packet() {
        let mut codel = CoDel::default();
        let mut queue: VecDeque<_> = (0..3).collect();
        let mut dropped = Vec::new();
        let mut next = |codel: &mut CoDel, now| {
            let pop = || {
                queue.pop_front().map(|item| Head {
                    item,
                    waited: Duration::from_secs(1),
                    is_almost_last: queue.len() <= 1,
                })
            };
            codel.next(ms(now), pop, |item| dropped.push(item))
        };
        assert_eq!(next(&mut codel, 0), Some(0));
        assert_eq!(next(&mut codel, 200), Some(1));
        assert_eq!(next(&mut codel, 400), Some(2));
        assert_eq!(next(&mut codel, 600), None);
        assert!(dropped.is_empty());
    }
}
