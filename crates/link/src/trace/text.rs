//! Traces as files hold them: mahimahi's format, and `time,rate` as CSV.

use super::{Step, Trace};
use crate::Error;
use altway_units::{Bandwidth, duration};
use std::str::FromStr;
use std::time::Duration;

/// The units of a column: the end of its name, and what to add to its values.
type Units = &'static [(&'static str, &'static str)];

const TIMES: Units = &[
    ("time", ""),
    ("time_ns", "ns"),
    ("time_us", "us"),
    ("time_ms", "ms"),
    ("time_s", "s"),
];
const RATES: Units = &[
    ("rate", ""),
    ("rate_bit", "bit"),
    ("rate_kbit", "kbit"),
    ("rate_mbit", "mbit"),
    ("rate_gbit", "gbit"),
];

/// The word in place of a rate that ends a trace which begins anew then.
const REPEAT: &str = "repeat";

impl Trace {
    /// The longest text of a trace, in bytes.
    pub const MAX_TEXT: usize = 32 << 20;

    /// Reads mahimahi's format: in each line the time in whole ms of an opportunity to deliver 1,500
    /// bytes, in order; several may have the same. The trace begins anew with the last.
    ///
    /// Worked number: the lines `2`, `5` and `5` are 3 packets of 1,500 bytes in 5 ms, 7.2 Mbit/s.
    ///
    /// Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// Names the line that is no time or out of order; or the trace is empty, too long, or ends at 0.
    pub fn from_mahimahi(text: &str) -> Result<Self, Error> {
        let mut times: Vec<Duration> = Vec::new();
        for (line, content) in lines(text)? {
            let millis: u64 = content
                .parse()
                .map_err(|_| wrong(line, content, "a time in whole ms"))?;
            let time = Duration::from_millis(millis);
            if times.last().is_some_and(|last| *last > time) {
                return Err(wrong(line, content, "a time at or after the one before it"));
            }
            check_room(times.len())?;
            times.push(time);
        }
        Self::opportunities(&times)
    }

    /// Reads CSV with the columns time and rate, in this order: from that time on, that rate.
    ///
    /// The units stand in the names of the columns (`time_s`, `time_ms`, `time_us`, `time_ns`;
    /// `rate_bit`, `rate_kbit`, `rate_mbit`, `rate_gbit`), or in the values when the columns are just
    /// `time` and `rate`. The first time is 0, a rate may be 0, and a last line with `repeat` as rate
    /// lets the trace begin anew at that time; without one the last rate holds for ever.
    ///
    /// Worked number: 20 Mbit/s, from second 3 on 2 Mbit/s, from second 8 on 20 Mbit/s again, and all
    /// that every 10 s, which is 11 Mbit/s in the mean:
    ///
    /// ```
    /// use altway_link::Trace;
    /// let trace = Trace::from_csv("time_s,rate_mbit\n0,20\n3,2\n8,20\n10,repeat\n")?;
    /// assert_eq!(trace.mean(), "11mbit".parse()?);
    /// assert_eq!(trace, Trace::from_csv("time,rate\n0s,20mbit\n3s,2mbit\n8s,20mbit\n10s,repeat")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// Names the line that is wrong; or the trace is empty or too long, or what
    /// [`stepped`](Self::stepped) refuses.
    pub fn from_csv(text: &str) -> Result<Self, Error> {
        let mut lines = lines(text)?;
        let (line, header) = lines.next().ok_or(Error::EmptyTrace)?;
        let columns = columns(header).ok_or_else(|| {
            wrong(
                line,
                header,
                "a header like `time_s,rate_mbit` or `time,rate`",
            )
        })?;
        let (mut steps, mut period) = (Vec::<Step>::new(), None);
        for (line, content) in lines {
            if period.is_some() {
                return Err(wrong(line, content, "the end, which `repeat` is"));
            }
            let (at, rate) = row(content, columns)
                .ok_or_else(|| wrong(line, content, "a time and a rate of the header's units"))?;
            if steps.last().is_some_and(|last| last.at >= at) {
                return Err(wrong(line, content, "a time after the one before it"));
            }
            match rate {
                RowRate::Repeat => period = Some(at),
                RowRate::Rate(rate) => {
                    check_room(steps.len())?;
                    steps.push(Step { at, rate });
                }
            }
        }
        Self::stepped(&steps, period)
    }
}

/// Reads either format: CSV has a header that begins with `time`.
impl FromStr for Trace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_csv = lines(text)?
            .next()
            .is_some_and(|(_, first)| first.starts_with("time"));
        if is_csv {
            Self::from_csv(text)
        } else {
            Self::from_mahimahi(text)
        }
    }
}

enum RowRate {
    Rate(Option<Bandwidth>),
    Repeat,
}

/// The lines that say something, with their numbers from 1 on.
fn lines(text: &str) -> Result<impl Iterator<Item = (usize, &str)>, Error> {
    if text.len() > Trace::MAX_TEXT {
        let most = Trace::MAX_TEXT;
        return Err(Error::LongTraceText { most });
    }
    let lines = text.lines().map(str::trim).enumerate();
    let says_something =
        |(_, content): &(usize, &str)| !content.is_empty() && !content.starts_with('#');
    Ok(lines
        .filter(says_something)
        .map(|(index, content)| (index + 1, content)))
}

fn check_room(entries: usize) -> Result<(), Error> {
    let most = Trace::MAX_ENTRIES;
    if entries >= most {
        return Err(Error::LongTrace { most });
    }
    Ok(())
}

/// Returns the units to add to the times and to the rates.
fn columns(header: &str) -> Option<(&'static str, &'static str)> {
    let (time, rate) = header.split_once(',')?;
    let unit = |units: Units, name: &str| {
        let found = units.iter().find(|(column, _)| *column == name.trim());
        found.map(|(_, unit)| *unit)
    };
    Some((unit(TIMES, time)?, unit(RATES, rate)?))
}

fn row(content: &str, units: (&str, &str)) -> Option<(Duration, RowRate)> {
    let (time, rate) = content.split_once(',')?;
    let at = duration::parse(&format!("{}{}", time.trim(), units.0)).ok()?;
    if rate.trim() == REPEAT {
        return Some((at, RowRate::Repeat));
    }
    let rate = rate_or_zero(&format!("{}{}", rate.trim(), units.1))?;
    Some((at, RowRate::Rate(rate)))
}

/// A rate, which unlike any other [`Bandwidth`] may be 0.
fn rate_or_zero(text: &str) -> Option<Option<Bandwidth>> {
    let unit = text.trim_start_matches(['0', '.']);
    let is_zero = text.starts_with('0') && !unit.starts_with(|c: char| c.is_ascii_digit());
    if is_zero {
        // The unit must be one all the same.
        return format!("1{unit}").parse::<Bandwidth>().ok().map(|_| None);
    }
    text.parse().ok().map(Some)
}

fn wrong(line: usize, content: &str, expected: &'static str) -> Error {
    const SHOWN: usize = 40;
    let found = content.chars().take(SHOWN).collect();
    Error::TraceLine {
        line,
        found,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        text.parse::<Trace>().unwrap_err().to_string()
    }

    #[test]
    fn tells_the_two_formats_apart() {
        let opportunities = [2, 5, 5].map(Duration::from_millis);
        assert_eq!("2\n5\r\n5\n".parse(), Trace::opportunities(&opportunities));
        let step = |millis, mbit| Step {
            at: Duration::from_millis(millis),
            rate: Bandwidth::from_mbit(mbit),
        };
        assert_eq!(
            "# a path that turns bad\ntime_ms, rate_mbit\n\n0, 20\n 3000.5, 0\n".parse(),
            Trace::stepped(
                &[
                    step(0, 20),
                    Step {
                        at: Duration::from_micros(3_000_500),
                        rate: None
                    }
                ],
                None
            )
        );
        assert_eq!(
            "time,rate\n0ms,0mbit\n1s,1.5mbit\n2s,repeat".parse(),
            Trace::stepped(
                &[
                    step(0, 0),
                    Step {
                        at: Duration::from_secs(1),
                        rate: Bandwidth::from_kbit(1_500)
                    }
                ],
                Some(Duration::from_secs(2))
            )
        );
    }

    #[test]
    fn names_the_line_that_is_wrong() {
        assert_eq!(
            refusal("1\n2\nx\n"),
            "line 3 of the trace: `x` is not a time in whole ms"
        );
        assert!(refusal("1\n-2").starts_with("line 2"));
        assert!(
            refusal("5\n\n4").starts_with("line 3 of the trace: `4` is not a time at or after")
        );
        assert!(refusal("time,speed\n0s,1mbit").contains("`time_s,rate_mbit`"));
        for bad in [
            "1",
            "1s",
            "1s,",
            "1,5mbit",
            "1s,5",
            "1s,-5mbit",
            "1s,0",
            "1s,00x",
            "1s,5mbit,",
        ] {
            let said = refusal(&format!("time,rate\n0s,1mbit\n{bad}\n"));
            assert!(said.starts_with("line 3 of the trace"), "{bad}: {said}");
        }
        let twice = refusal("time_s,rate_mbit\n0,1\n2,2\n2,3\n");
        assert!(twice.contains("line 4") && twice.contains("after the one before it"));
        assert!(refusal("time_s,rate_mbit\n0,1\n5,repeat\n6,1").contains("line 4"));
        assert!(refusal(&"9".repeat(1_000)).len() < 120);
    }

    #[test]
    fn refuses_what_is_no_trace_as_a_whole() {
        assert_eq!(refusal(""), "the trace is empty");
        assert_eq!(refusal("time,rate\n"), "the trace is empty");
        assert_eq!(refusal("time,rate\n5s,repeat\n"), "the trace is empty");
        assert_eq!(
            refusal("time_s,rate_mbit\n1,1"),
            "the trace does not begin at time 0"
        );
        assert!(refusal("0\n0\n").contains("after no time"));
        assert!(refusal(&"7\n".repeat(Trace::MAX_ENTRIES + 1)).contains("1048576 entries"));
        assert!(refusal(&" ".repeat(Trace::MAX_TEXT + 1)).contains("33554432 bytes"));
    }

    proptest! {
        #[test]
        fn takes_any_text_without_a_panic(text: String, lines in "(time,rate\n)?([0-9.]{0,22}(ms|s|)(,[0-9]{0,22}(mbit|)|,repeat|)\n){0,9}") {
            let _ = text.parse::<Trace>();
            if let Ok(trace) = lines.parse::<Trace>() {
                prop_assert!(trace.reaches(u128::MAX) > 0);
                prop_assert!(trace.passed(u64::MAX) > 0);
            }
        }
    }
}
