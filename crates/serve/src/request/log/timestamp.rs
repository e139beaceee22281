//! The times of lines, made anew once a second.

use std::cell::Cell;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// A time as RFC 3339 says it, in UTC and with milliseconds.
pub(crate) struct Rfc3339Time(pub(super) [u8; Rfc3339Time::LEN]);

impl fmt::Display for Rfc3339Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).expect("ASCII"))
    }
}

impl Rfc3339Time {
    pub(super) const LEN: usize = "2026-11-22T02:05:13.123Z".len();

    /// Years before 1970 and after 9999 are told as these.
    pub(crate) fn of(time: SystemTime) -> Self {
        thread_local! {
            static LAST: LastTold<{ Rfc3339Time::LEN }> = const { LastTold::new() };
        }
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut text = LAST.with(|last| last.text(since.as_secs(), Self::second));
        let millis = since.subsec_millis();
        for (place, digit) in [
            (20, millis / 100),
            (21, millis / 10 % 10),
            (22, millis % 10),
        ] {
            text[place] = b'0' + u8::try_from(digit).expect("one digit");
        }
        Self(text)
    }

    fn second(at: OffsetDateTime) -> String {
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second) = at.to_hms();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z")
    }
}

/// A time as the combined log format says it, in UTC: `22/Nov/2026:02:05:13 +0000`.
pub(super) struct CombinedLogTime(pub(super) [u8; CombinedLogTime::LEN]);

impl CombinedLogTime {
    pub(super) const LEN: usize = "22/Nov/2026:02:05:13 +0000".len();

    /// Years before 1970 and after 9999 are told as these.
    pub(super) fn of(time: SystemTime) -> Self {
        thread_local! {
            static LAST: LastTold<{ CombinedLogTime::LEN }> = const { LastTold::new() };
        }
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(LAST.with(|last| last.text(since.as_secs(), Self::second)))
    }

    fn second(at: OffsetDateTime) -> String {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let month = MONTHS[usize::from(u8::from(at.month())) - 1];
        let (day, year) = (at.day(), at.year());
        let (hour, minute, second) = at.to_hms();
        format!("{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

/// The second that was told last, and its text.
struct LastTold<const LEN: usize>(Cell<(u64, [u8; LEN])>);

impl<const LEN: usize> LastTold<LEN> {
    const fn new() -> Self {
        Self(Cell::new((u64::MAX, [0; LEN])))
    }

    /// Returns the text of a second of Unix time, which `tell` makes if it is another one than the last.
    fn text(&self, second: u64, tell: impl FnOnce(OffsetDateTime) -> String) -> [u8; LEN] {
        let (last, text) = self.0.get();
        if last == second {
            return text;
        }
        let text = tell(date_time(second));
        let text = text.as_bytes().try_into();
        let text = text.expect("each part has its number of digits");
        self.0.set((second, text));
        text
    }
}

fn date_time(second: u64) -> OffsetDateTime {
    const LAST: i64 = 253_402_300_799;
    let second = i64::try_from(second).map_or(LAST, |second| second.min(LAST));
    OffsetDateTime::from_unix_timestamp(second).expect("within the years up to 9999")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_has_milliseconds_and_no_surprises() {
        let timestamp = |millis| {
            let timestamp = Rfc3339Time::of(UNIX_EPOCH + Duration::from_millis(millis)).0;
            String::from_utf8(timestamp.into()).unwrap()
        };
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_795_313_113_123), "2026-11-22T02:05:13.123Z");
        assert_eq!(timestamp(1_795_313_113_009), "2026-11-22T02:05:13.009Z");
        assert_eq!(timestamp(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(timestamp(u64::MAX / 2), "9999-12-31T23:59:59.807Z");
    }

    #[test]
    fn the_combined_format_has_its_own_times() {
        let timestamp = |second| {
            let timestamp = CombinedLogTime::of(UNIX_EPOCH + Duration::from_secs(second)).0;
            String::from_utf8(timestamp.into()).unwrap()
        };
        assert_eq!(timestamp(0), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(timestamp(1_795_313_113), "22/Nov/2026:02:05:13 +0000");
        assert_eq!(timestamp(1_795_313_114), "22/Nov/2026:02:05:14 +0000");
        assert_eq!(timestamp(u64::MAX / 4), "31/Dec/9999:23:59:59 +0000");
    }
}
