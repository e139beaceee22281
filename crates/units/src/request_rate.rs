//! Requests in a time, and the limit that they may have.

use crate::ParseError;
use crate::text::as_text;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

const QUANTITY: &str = "limit of requests";
const EXAMPLE: &str = "200/s, burst 1000";
const RANGE: &str = "from 1 to 1000000000 requests, and a burst of 1 to 4294967295";

/// The most requests in a period: one in a nanosecond.
const MOST: u32 = 1_000_000_000;

/// A steady rate of requests, and how many of them may come at once.
///
/// Text form: `200/s, burst 1000`; the period is a second, a minute or an hour (`30/min`, `5/h`). Without a
/// burst it is as many as come in one period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestRate {
    requests: NonZeroU32,
    period: Period,
    burst: NonZeroU32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Period {
    Second,
    Minute,
    Hour,
}

impl Period {
    const ALL: [(Self, &'static str, u64); 3] = [
        (Self::Second, "s", 1),
        (Self::Minute, "min", 60),
        (Self::Hour, "h", 3_600),
    ];
}

impl RequestRate {
    /// `requests` a second, 1,000,000,000 at most, of which `burst` may come at once; `None` where one of the
    /// two is 0, or there are more.
    ///
    /// ```
    /// use altway_units::RequestRate;
    ///
    /// let rate = RequestRate::per_second(200, 1_000).expect("neither is 0");
    /// assert_eq!(rate.to_string(), "200/s, burst 1000");
    /// assert_eq!(rate.interval().as_micros(), 5_000);
    /// ```
    #[must_use]
    pub const fn per_second(requests: u32, burst: u32) -> Option<Self> {
        match (NonZeroU32::new(requests), NonZeroU32::new(burst)) {
            (Some(requests), Some(burst)) if requests.get() <= MOST => Some(Self {
                requests,
                period: Period::Second,
                burst,
            }),
            _ => None,
        }
    }

    /// Returns the time between two requests of a steady stream, rounded down to nanoseconds; 1 ns or more.
    #[must_use]
    pub fn interval(self) -> Duration {
        let (_, _, seconds) = Period::ALL[self.period as usize];
        Duration::from_secs(seconds) / self.requests.get()
    }

    /// Returns how many requests may come at once after a pause.
    #[must_use]
    pub fn burst(self) -> NonZeroU32 {
        self.burst
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, unit, _) = Period::ALL[self.period as usize];
        f.pad(&format!("{}/{unit}, burst {}", self.requests, self.burst))
    }
}

impl FromStr for RequestRate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no_number = || ParseError::NoNumber {
            text: text.into(),
            quantity: QUANTITY,
            example: EXAMPLE,
        };
        let range = || ParseError::Range {
            text: text.into(),
            quantity: QUANTITY,
            range: RANGE,
        };
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            let number = is_number.then(|| digits.parse().map_err(|_| range()));
            number.ok_or_else(no_number)?
        };
        let (rate, burst) = match text.split_once(',') {
            Some((rate, burst)) => (rate, Some(burst)),
            None => (text, None),
        };
        let (requests, unit) = rate.split_once('/').ok_or_else(no_number)?;
        let requests: NonZeroU32 = number(requests.trim())?;
        let mut periods = Period::ALL.into_iter();
        let period = periods.find(|(_, name, _)| *name == unit.trim());
        let (period, _, _) = period.ok_or_else(|| ParseError::Unit {
            text: text.into(),
            quantity: QUANTITY,
            units: "/s, /min or /h",
            example: EXAMPLE,
        })?;
        let burst = match burst {
            Some(burst) => number(
                burst
                    .trim()
                    .strip_prefix("burst ")
                    .ok_or_else(no_number)?
                    .trim(),
            )?,
            None => requests,
        };
        if requests.get() > MOST {
            return Err(range());
        }
        Ok(Self {
            requests,
            period,
            burst,
        })
    }
}

as_text!(RequestRate);

/// A limit to how many requests come in a time, or none.
///
/// Text form: that of [`RequestRate`], or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestLimit {
    /// No limit.
    Off,
    /// Limit to so many requests.
    Rate(RequestRate),
}

impl fmt::Display for RequestLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.pad("off"),
            Self::Rate(rate) => rate.fmt(f),
        }
    }
}

impl FromStr for RequestLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.trim() {
            "off" => Ok(Self::Off),
            rate => rate.parse().map(Self::Rate),
        }
    }
}

as_text!(RequestLimit);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_parse_what_they_print() {
        for text in [
            "200/s, burst 1000",
            "30/min, burst 5",
            "5/h, burst 5",
            "off",
        ] {
            let limit: RequestLimit = text.parse().unwrap();
            assert_eq!(limit.to_string(), text);
        }
    }

    #[test]
    fn a_rate_without_a_burst_may_come_at_once() {
        let rate: RequestRate = " 30 / min ".parse().unwrap();
        assert_eq!(rate.to_string(), "30/min, burst 30");
        assert_eq!(rate.interval(), Duration::from_secs(2));
    }

    #[test]
    fn the_fastest_rate_has_an_interval_still() {
        let rate: RequestRate = "1000000000/s, burst 1".parse().unwrap();
        assert_eq!(rate.interval(), Duration::from_nanos(1));
        assert_eq!(RequestRate::per_second(1_000_000_001, 1), None);
    }

    #[test]
    fn what_is_no_rate_is_refused_with_an_example() {
        let refused = |text: &str| text.parse::<RequestLimit>().unwrap_err().to_string();
        for (text, why) in [
            (
                "",
                "expected a number with a unit, like `200/s, burst 1000`",
            ),
            (
                "200",
                "expected a number with a unit, like `200/s, burst 1000`",
            ),
            ("200/d", "expected one of the units /s, /min or /h"),
            ("0/s", "it must be from 1 to 1000000000 requests"),
            ("1000000001/s", "it must be from 1 to 1000000000 requests"),
            ("200/s, burst 0", "and a burst of 1 to 4294967295"),
            ("200/s, 1000", "expected a number with a unit"),
            ("-1/s", "expected a number with a unit"),
            ("200/s, burst", "expected a number with a unit"),
        ] {
            let found = refused(text);
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
