//! The time at which a client has all that it was sent over TCP: finds out when the last byte was acknowledged.
//!
//! No event tells of it. Time stamps of acknowledgements (SO_TIMESTAMPING) come through the socket's
//! error queue, which event loops take for an error that never goes away (decision 0026). So the kernel's
//! counters are looked at when the last byte should be there, and again if it is not; with them the
//! kernel tells when it last heard of the peer, which makes a look that is late exact again, unless the
//! peer has said something else since.
//!
//! The cost is bounded by asking seldom: once in [`MEASUREMENT_INTERVAL`], and after more than the first flight. Left to others:
//! reading the counters (`measured`), and when to ask (`selection`).

use altway_socket::TcpInfo;
use std::time::{Duration, Instant};

/// Time between the beginnings of two measurements on a connection, at least. With two or three looks each that is a
/// dozen a second of a connection that never rests, of some microseconds with the wake.
pub(super) const MEASUREMENT_INTERVAL: Duration = Duration::from_millis(250);

/// Looks in vain after which the watch is given up: the peer acknowledges nothing any more, or the connection sends
/// more and more.
pub(super) const MAX_LOOKS: u32 = 32;

/// Bounds of the time from a look to the next, whatever the path.
const LEAST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Waits for all that was sent to be acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckWatch {
    began: Instant,
    /// Bytes that have to be acknowledged: those written at the first look.
    target: Option<u64>,
    /// Time of the latest look at which they were not.
    looked: Instant,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckStatus {
    /// The client had all of it at that time, when so many bytes were acknowledged.
    Arrived(Instant, u64),
    /// Look again after this time.
    NotYet(Duration),
    /// The kernel doesn't tell (Linux before 4.19).
    Nothing,
}

impl AckWatch {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            target: None,
            looked: now,
        }
    }

    pub(super) fn look(&mut self, now: Instant, info: &TcpInfo) -> AckStatus {
        let Some(written) = info.bytes_written() else {
            return AckStatus::Nothing;
        };
        let target = *self.target.get_or_insert(written);
        if info.bytes_acked < target {
            self.looked = now;
            let waited = now.saturating_duration_since(self.began);
            return AckStatus::NotYet(wait(target - info.bytes_acked, waited, info));
        }
        let last_ack = now.checked_sub(info.since_acknowledgement).unwrap_or(now);
        AckStatus::Arrived(last_ack.max(self.looked), info.bytes_acked)
    }
}

/// Returns the time after which so many bytes should be acknowledged, at the latest delivery rate: four looks a round
/// trip, but none later than a quarter of the time `waited` so far, for a rate may grow.
fn wait(bytes: u64, waited: Duration, info: &TcpInfo) -> Duration {
    let round_trip = info.smoothed_rtt.unwrap_or_default();
    let sending = info.delivery_rate.map_or(round_trip, |rate| {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(rate.bytes_per_second.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    });
    let longest = round_trip.max(waited / 4);
    let wait = sending.clamp(round_trip / 4, longest);
    wait.clamp(LEAST_WAIT, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_socket::TcpDeliveryRate;

    const MS: Duration = Duration::from_millis(1);

    /// A connection over a round trip of 100 ms that has sent `written` bytes at 1 MB/s.
    fn info(written: u64, acked: u64, since_acknowledgement: Duration) -> TcpInfo {
        TcpInfo {
            min_rtt: Some(100 * MS),
            smoothed_rtt: Some(100 * MS),
            rtt_variation: None,
            data_segments_sent: 0,
            bytes_sent: Some(written + 3_000),
            bytes_unsent: Some(0),
            segments_delivered: None,
            bytes_acked: acked,
            retransmissions: 2,
            bytes_retransmitted: Some(3_000),
            duplicates: None,
            delivery_rate: Some(TcpDeliveryRate {
                bytes_per_second: 1_000_000,
                app_limited: false,
            }),
            congestion_window: 10,
            segment_bytes: 1_448,
            option_bytes: 12,
            path_mtu: 1_500,
            since_acknowledgement,
            unanswered: 0,
        }
    }

    /// A watch, and when it began.
    fn watch() -> (AckWatch, Instant) {
        let began = Instant::now();
        (AckWatch::new(began), began)
    }

    /// Milliseconds from its beginning.
    fn arrived(found: AckStatus, began: Instant) -> Duration {
        match found {
            AckStatus::Arrived(at, _) => at - began,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_late_look_finds_out_when_the_last_acknowledgement_came() {
        let (mut watch, began) = watch();
        let at = |ms: u32| began + ms * MS;
        // 80,000 bytes are on their way, which take as many microseconds.
        let found = watch.look(at(20), &info(200_000, 120_000, MS));
        assert_eq!(found, AckStatus::NotYet(80 * MS));
        let found = watch.look(at(170), &info(200_000, 200_000, 30 * MS));
        assert_eq!(arrived(found, began), 140 * MS);
    }

    #[test]
    fn what_was_not_there_at_a_look_came_after_it() {
        let (mut watch, began) = watch();
        let at = |ms: u32| began + ms * MS;
        watch.look(at(200), &info(200_000, 199_999, MS));
        let found = watch.look(at(205), &info(200_000, 200_000, 10 * MS));
        assert_eq!(arrived(found, began), 200 * MS);
    }

    #[test]
    fn what_is_written_after_the_response_is_not_waited_for() {
        let (mut watch, began) = watch();
        watch.look(began + 20 * MS, &info(200_000, 0, MS));
        let later = info(900_000, 250_000, Duration::ZERO);
        let found = watch.look(began + 300 * MS, &later);
        assert_eq!(found, AckStatus::Arrived(began + 300 * MS, 250_000));
    }

    #[test]
    fn a_rate_that_may_grow_is_not_believed_for_long() {
        let (mut watch, began) = watch();
        let slow = info(9_000_000, 0, MS);
        assert_eq!(
            watch.look(began + 20 * MS, &slow),
            AckStatus::NotYet(100 * MS)
        );
        assert_eq!(
            watch.look(began + 800 * MS, &slow),
            AckStatus::NotYet(200 * MS)
        );
        assert_eq!(
            watch.look(began + 60_000 * MS, &slow),
            AckStatus::NotYet(LONGEST_WAIT)
        );
    }

    #[test]
    fn the_last_bytes_are_looked_for_four_times_a_round_trip() {
        let mut near = info(200_000, 199_999, MS);
        let (mut watch, began) = watch();
        assert_eq!(watch.look(began, &near), AckStatus::NotYet(25 * MS));
        near.smoothed_rtt = Some(MS);
        assert_eq!(watch.look(began, &near), AckStatus::NotYet(LEAST_WAIT));
    }

    #[test]
    fn an_old_kernel_tells_nothing() {
        let (mut watch, began) = watch();
        let mut old = info(200_000, 0, MS);
        old.bytes_sent = None;
        assert_eq!(watch.look(began, &old), AckStatus::Nothing);
    }
}
