//! The parameters in words, as they stand in plans and on the command line: what is read and printed.
//!
//! None of them holds a comma, so that several may stand in a row with commas between them.

use crate::{
    Discipline, Distribution, Error, GilbertElliott, Jitter, LossModel, PacketList, Policer, Queue,
    Reordering, Shift, UdpTreatment,
};
use altway_units::{DataSize, ParseError, Ratio, duration};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The word for what is not there.
const NONE: &str = "none";
/// Another word for a limit that is not there, as plans have it.
const UNLIMITED: &str = "unlimited";
const UNIFORM: &str = "uniform";
const NORMAL: &str = "normal";
const PARETO: &str = "pareto";
const KEEP_ORDER: &str = "keep-order";
const MAY_REORDER: &str = "may-reorder";
const GILBERT: &str = "gilbert";
const PACKETS: &str = "packets";
const DROP_TAIL: &str = "drop-tail";
const CODEL: &str = "codel";
const PASS: &str = "pass";
const BLOCK: &str = "block";

/// `5ms`, `5ms normal`, `5ms pareto may-reorder`, `none`.
impl FromStr for Jitter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |_| Error::Text {
            text: text.into(),
            what: "a jitter",
            expected: "a time, then uniform, normal or pareto, then keep-order or may-reorder, like \
                       `5ms normal`",
        };
        if text.trim() == NONE {
            return Ok(Self::default());
        }
        let (rest, order) = split_word(text.trim(), &[(KEEP_ORDER, false), (MAY_REORDER, true)]);
        let distributions = [
            (UNIFORM, Distribution::Uniform),
            (NORMAL, Distribution::Normal),
            (PARETO, Distribution::Pareto),
        ];
        let (spread, distribution) = split_word(rest, &distributions);
        Ok(Self {
            spread: duration::parse(spread).map_err(wrong)?,
            distribution: distribution.unwrap_or_default(),
            may_reorder: order.unwrap_or_default(),
        })
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distribution = match self.distribution {
            Distribution::Uniform => UNIFORM,
            Distribution::Normal => NORMAL,
            Distribution::Pareto => PARETO,
        };
        write!(f, "{} {distribution}", duration::format(self.spread))?;
        if self.may_reorder {
            write!(f, " {MAY_REORDER}")?;
        }
        Ok(())
    }
}

/// `1%`, `gilbert 1% burst 4`, `gilbert p 0.25% r 25% good 0% bad 100%` (the last two may be left out),
/// `packets 3 7 10-12`, `none`.
impl FromStr for LossModel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [NONE] => Ok(Self::default()),
            [GILBERT, link @ ..] => gilbert(text, link).map(Self::GilbertElliott),
            [PACKETS, list @ ..] => packets(text, list).map(Self::Packets),
            _ => Ok(Self::Random(text.parse::<Ratio>()?)),
        }
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(ratio) => write!(f, "{ratio}"),
            Self::GilbertElliott(link) => write!(
                f,
                "{GILBERT} p {} r {} good {} bad {}",
                link.to_bad, link.to_good, link.loss_good, link.loss_bad
            ),
            Self::Packets(list) => {
                f.write_str(PACKETS)?;
                for range in list.ranges() {
                    let (first, last) = (range.start(), range.end());
                    if first == last {
                        write!(f, " {first}")?;
                    } else {
                        write!(f, " {first}-{last}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// `64KiB`, `100ms`, `50packets`, `none` (or `unlimited`).
impl FromStr for Queue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let word = text.trim();
        if [NONE, UNLIMITED].contains(&word) {
            return Ok(Self::Unlimited);
        }
        let count = word
            .strip_suffix("packets")
            .or_else(|| word.strip_suffix("packet"));
        let packets = count.and_then(|count| Some(Self::Packets(count.trim().parse().ok()?)));
        packets
            .or_else(|| Some(Self::Bytes(word.parse::<DataSize>().ok()?)))
            .or_else(|| Some(Self::Time(duration::parse(word).ok()?)))
            .ok_or_else(|| Error::Text {
                text: text.into(),
                what: "a queue",
                expected: "bytes, a time or a number of packets, like `64KiB`, `100ms` or `50packets`",
            })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(size) => write!(f, "{size}"),
            Self::Packets(count) => write!(f, "{count}packets"),
            Self::Time(time) => f.write_str(&duration::format(*time)),
            Self::Unlimited => f.write_str(NONE),
        }
    }
}

/// `25%`, `1% early 5ms`, `1% late 5ms`, `none`.
impl FromStr for Reordering {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Text {
            text: text.into(),
            what: "a reordering",
            expected: "a share of the packets, then early or late and a time, like `1% late 5ms`",
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let time = |text| duration::parse(text).map_err(|_| wrong());
        let (share, shift) = match words.as_slice() {
            [NONE] => return Ok(Self::default()),
            [share] => (share, Shift::AtOnce),
            [share, "early", by] => (share, Shift::Early(time(by)?)),
            [share, "late", by] => (share, Shift::Late(time(by)?)),
            _ => return Err(wrong()),
        };
        let share = share.parse()?;
        Ok(Self { share, shift })
    }
}

impl fmt::Display for Reordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shift {
            Shift::AtOnce => write!(f, "{}", self.share),
            Shift::Early(by) => write!(f, "{} early {}", self.share, duration::format(by)),
            Shift::Late(by) => write!(f, "{} late {}", self.share, duration::format(by)),
        }
    }
}

/// `drop-tail` or `codel`.
impl FromStr for Discipline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim() {
            DROP_TAIL => Ok(Self::DropTail),
            CODEL => Ok(Self::CoDel),
            _ => Err(Error::Text {
                text: text.into(),
                what: "a discipline of a queue",
                expected: "drop-tail or codel",
            }),
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DropTail => DROP_TAIL,
            Self::CoDel => CODEL,
        })
    }
}

/// `pass`, `block`, `rate 5mbit`, `rate 5mbit burst 64KiB`. Not `none`, which could mean either of the
/// first two.
impl FromStr for UdpTreatment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [PASS] => Ok(Self::Pass),
            [BLOCK] => Ok(Self::Block),
            ["rate", rate] => Ok(Self::Police(Policer::of(rate.parse()?))),
            ["rate", rate, "burst", burst] => Ok(Self::Police(Policer {
                rate: rate.parse()?,
                burst: burst.parse()?,
            })),
            _ => Err(Error::Text {
                text: text.into(),
                what: "a treatment of UDP",
                expected: "pass, block, or a rate with or without a burst, like `rate 5mbit burst 64KiB`",
            }),
        }
    }
}

impl fmt::Display for UdpTreatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str(PASS),
            Self::Block => f.write_str(BLOCK),
            Self::Police(Policer { rate, burst }) => write!(f, "rate {rate} burst {burst}"),
        }
    }
}

/// Returns what stands before the last word, and what that means if it is one of these.
fn split_word<'a, T: Copy>(text: &'a str, words: &[(&str, T)]) -> (&'a str, Option<T>) {
    let Some((rest, last)) = text.rsplit_once(char::is_whitespace) else {
        return (text, None);
    };
    match words.iter().find(|(word, _)| *word == last) {
        Some((_, meaning)) => (rest.trim_end(), Some(*meaning)),
        None => (text, None),
    }
}

/// Parses what follows the word `gilbert`.
fn gilbert(text: &str, words: &[&str]) -> Result<GilbertElliott, Error> {
    let wrong = || Error::Text {
        text: text.into(),
        what: "a loss in bursts",
        expected: "`gilbert 1% burst 4` or `gilbert p 0.25% r 25% good 0% bad 100%`",
    };
    if let [mean, "burst", packets] = words {
        let (mean, packets) = (mean.parse()?, packets.parse().map_err(|_| wrong())?);
        return GilbertElliott::from_bursts(mean, packets).ok_or(Error::Bursts { mean, packets });
    }
    let ratio = |text: &str| text.parse::<Ratio>();
    let (turns, losses) = match words {
        ["p", p, "r", r] => ((p, r), (Ratio::ZERO, Ratio::ONE)),
        ["p", p, "r", r, "good", good, "bad", bad] => ((p, r), (ratio(good)?, ratio(bad)?)),
        _ => return Err(wrong()),
    };
    Ok(GilbertElliott {
        to_bad: ratio(turns.0)?,
        to_good: ratio(turns.1)?,
        loss_good: losses.0,
        loss_bad: losses.1,
    })
}

/// Parses what follows the word `packets`.
fn packets(text: &str, words: &[&str]) -> Result<PacketList, Error> {
    let range = |word: &&str| -> Option<RangeInclusive<u64>> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = words.iter().map(range).collect();
    ranges
        .and_then(|ranges| PacketList::new(&ranges))
        .ok_or_else(|| Error::Text {
            text: text.into(),
            what: "a list of packets",
            expected: "rising numbers from 1 on, like `packets 3 7 10-12`",
        })
}

/// A number with a unit is wrong: what it says is enough.
impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Self::Quantity(error)
    }
}

#[cfg(test)]
mod tests;
