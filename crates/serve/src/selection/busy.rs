//! The rate of a client that is owed something: that at which the second half of a large response, or of several at
//! once, and what was under way before it were acknowledged. In the first half a path may still be in slow start.

use altway_select::Bulk;
use altway_units::{Bandwidth, DataSize};
use std::time::{Duration, Instant};

use super::counters::Counters;

/// The first mark; smaller responses say nothing of a rate.
const FIRST_MARK: u64 = 64 << 10;

/// A client that takes nothing for so long of what there is for it pauses, as a player of videos does whose buffer is full: a path
/// of 256 kbit/s takes the next 64 KiB within it, and no more than that waits in the kernel over a slow path.
const PAUSE: Duration = Duration::from_secs(2);

/// A time in which at least one response was under way, with marks at 64 KiB, 128 KiB, 256 KiB … handed over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy {
    /// Bytes of responses that were handed over.
    bytes: u64,
    /// The latest marks, the older one first, which is in the first half. In a box, for most connections have none.
    marks: Option<Box<[Option<Mark>; 2]>>,
    /// Bytes that had been handed over when the sources of responses last had nothing to give, or the client last paused.
    starved: Option<u64>,
    /// Time at which bytes were last handed over.
    last: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    bytes: u64,
    at: Instant,
    acked: u64,
}

impl Busy {
    /// Bytes were handed over; whether [`mark`](Self::mark) is to be called.
    pub(crate) fn sent(&mut self, bytes: u64, now: Instant) -> bool {
        if bytes > 0 {
            self.last = Some(now);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes >= self.next_mark()
    }

    /// The time for which the client has taken nothing, if it has paused: then what comes from it is no rate of the path.
    pub(crate) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let pause = now.saturating_duration_since(self.last?);
        (pause > PAUSE).then(|| {
            self.starved = Some(self.bytes);
            pause
        })
    }

    /// Bytes that were handed over.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if there is a mark, without which there is no rate.
    pub(crate) fn is_marked(&self) -> bool {
        self.latest_mark().is_some()
    }

    /// Notes what is acknowledged by now.
    pub(crate) fn mark(&mut self, at: Instant, acked: u64) {
        let marks = self.marks.get_or_insert_default();
        marks.rotate_left(1);
        marks[1] = Some(Mark {
            bytes: self.bytes,
            at,
            acked,
        });
    }

    /// The sources of responses have nothing to give at the moment.
    pub(crate) fn mark_app_limited(&mut self) {
        self.starved = Some(self.bytes);
    }

    /// The client had everything at `at`, when `acked` bytes were acknowledged. The rate, if enough was sent to
    /// have one; begins anew.
    pub(crate) fn end(&mut self, at: Instant, acked: u64, counters: &Counters) -> Option<Bulk> {
        let Self {
            bytes,
            marks,
            starved,
            last,
        } = std::mem::take(self);
        let marks = marks?;
        let in_first_half = |mark: &&Mark| mark.bytes <= bytes / 2;
        let handed_over = marks.iter().rev().flatten().find(in_first_half).copied();
        let first = marks.iter().flatten().next()?;
        let acknowledged = acknowledged(bytes, acked, first, counters);
        let marks = [handed_over, acknowledged].into_iter().flatten();
        let mark = marks.max_by_key(|mark| mark.at)?;
        // Before the mark a source may pause, and after the last byte was handed over none can.
        let is_after_mark = |starved| starved >= mark.bytes;
        let all_was_there = last.is_none_or(|last| last <= mark.at);
        let time = at.checked_duration_since(mark.at)?;
        let nanos = time.as_nanos().max(1);
        let bits = counters.bits(acked.saturating_sub(mark.acked));
        let rate = u128::from(bits) * 1_000_000_000 / nanos;
        Some(Bulk {
            size: DataSize::from_bytes(bytes),
            rate: Bandwidth::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))?,
            app_limited: starved.is_some_and(is_after_mark) && !all_was_there,
        })
    }

    fn next_mark(&self) -> u64 {
        let latest = self.latest_mark().map_or(FIRST_MARK / 2, |mark| mark.bytes);
        // A mark is made late where much is handed over at once.
        latest.saturating_mul(2).max(FIRST_MARK)
    }

    fn latest_mark(&self) -> Option<Mark> {
        self.marks.as_ref()?[1]
    }
}

/// A mark by what was acknowledged after `first`, if the greater part of `bytes` was after it: QUIC takes a response of
/// megabytes at once, so that little of it was handed over in its course. As many bytes as at `first` were handed over by
/// then, or more.
fn acknowledged(bytes: u64, acked: u64, first: &Mark, counters: &Counters) -> Option<Mark> {
    let progress = counters.progress?;
    let after = acked.saturating_sub(progress.bytes_acked);
    (progress.at >= first.at && after > bytes / 2).then_some(Mark {
        bytes: first.bytes,
        at: progress.at,
        acked: progress.bytes_acked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::counters::told;

    /// `steps` pieces of `piece` bytes, each acknowledged after a millisecond; the source pauses after `starved` bytes.
    fn bulk(piece: u64, steps: u64, starved: Option<u64>) -> Option<Bulk> {
        let start = Instant::now();
        let at = |step: u64| start + Duration::from_millis(step);
        let mut busy = Busy::default();
        for step in 0..steps {
            if starved.is_some_and(|at| at == step * piece) {
                busy.mark_app_limited();
            }
            if busy.sent(piece, at(step)) {
                busy.mark(at(step), step * piece);
            }
        }
        let bulk = busy.end(at(steps), steps * piece, &told(None, 0, 0));
        assert_eq!((busy.bytes(), busy.starved), (0, None));
        bulk
    }

    #[test]
    fn a_rate_is_that_of_the_second_half() {
        // 1,000 bytes a millisecond are 8 Mbit/s.
        let bulk = bulk(1_000, 2_000, None).unwrap();
        assert_eq!(bulk.size, DataSize::from_bytes(2_000_000));
        assert_eq!((bulk.rate.as_bps(), bulk.app_limited), (8_000_000, false));
    }

    /// The kernel keeps 600 KB beyond what is acknowledged. 400 KB come at 200 bytes a millisecond, and the rest at 1,000.
    #[test]
    fn slow_start_is_not_in_a_rate() {
        let (start, total) = (Instant::now(), 2_500_000);
        let (mut busy, mut acked, mut millis) = (Busy::default(), 0, 0);
        while acked < total {
            let at = start + Duration::from_millis(millis);
            let more = total.min(acked + 600_000) - busy.bytes();
            if busy.sent(more, at) {
                busy.mark(at, acked);
            }
            acked += if acked < 400_000 { 200 } else { 1_000 };
            millis += 1;
        }
        let end = start + Duration::from_millis(millis);
        let bulk = busy.end(end, acked, &told(None, 0, 0)).unwrap();
        assert_eq!(bulk.rate.as_bps(), 8_000_000);
    }

    #[test]
    fn a_source_that_had_nothing_to_give_is_told_of() {
        for (after, is_told) in [
            (0, false),
            (100_000, false),
            (500_000, false),
            (600_000, true),
            (1_999_000, true),
        ] {
            let bulk = bulk(1_000, 2_000, Some(after)).unwrap();
            assert_eq!(bulk.app_limited, is_told, "{after}");
            assert_eq!(bulk.rate.as_bps(), 8_000_000);
        }
    }

    /// 500 KB that are handed over at once, with what is acknowledged of them: in slow start 100 KB in 100 ms, then 1,000
    /// bytes a millisecond.
    #[test]
    fn what_is_handed_over_at_once_has_a_rate_by_what_is_acknowledged() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let progress = |acked, millis| {
            Some(altway_http3::AckProgress {
                at: at(millis),
                bytes_acked: acked,
            })
        };
        let rate = |progress| {
            let mut busy = Busy::default();
            assert!(busy.sent(500_000, at(1_000)));
            busy.mark(at(1_000), 3_000);
            let counters = Counters {
                progress,
                ..told(None, 0, 0)
            };
            let bulk = busy.end(at(1_500), 503_000, &counters);
            bulk.map(|bulk| (bulk.rate.as_bps(), bulk.app_limited))
        };
        let expected = (503_000 - 68_000) * 8 * 1_000 / 410;
        assert_eq!(rate(progress(68_000, 1_090)), Some((expected, false)));
        assert_eq!(rate(progress(2_000, 990)), None, "of another transfer");
        assert_eq!(rate(progress(300_000, 1_290)), None, "of a smaller part");
        assert_eq!(rate(None), None);
    }

    #[test]
    fn a_source_that_pauses_before_all_of_it_is_handed_over_leaves_the_rate_of_what_is_acknowledged_later()
     {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let is_limited = |handed_over, acked| {
            let mut busy = Busy::default();
            assert!(busy.sent(300_000, at(1_000)));
            busy.mark(at(1_000), 0);
            busy.mark_app_limited();
            busy.sent(200_000, at(handed_over));
            let progress = altway_http3::AckProgress {
                at: at(acked),
                bytes_acked: 100_000,
            };
            let counters = Counters {
                progress: Some(progress),
                ..told(None, 0, 0)
            };
            let bulk = busy.end(at(1_500), 500_000, &counters);
            bulk.unwrap().app_limited
        };
        assert!(!is_limited(1_020, 1_090));
        assert!(is_limited(1_400, 1_090));
    }

    #[test]
    fn what_has_no_mark_in_its_first_half_has_no_rate() {
        assert_eq!(bulk(1_000, 10, None), None);
        assert_eq!(bulk(1_000_000, 1, None), None);
        // Marks at 64 KiB and on: 128 KiB and a little have one in the first half.
        assert!(bulk(1_024, 129, None).is_some());
    }
}
