//! Processors that a thread may run on, and how they are shared out among the link and its ends.

use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fmt;
use std::str::FromStr;

/// A set of processors, at least one.
///
/// Text form: numbers and ranges, separated by commas, as the kernel writes them: `0-1,3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

/// A text that names no processors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no processors: expected numbers below {MOST}, like `2` or `0-1,3`", MOST = CpuSet::MAX_CPU)]
pub struct ProcessorsError {
    text: String,
}

/// Processors for the link and its ends on which they are in each other's way as little as can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) link: usize,
    pub(crate) client: Processors,
    pub(crate) server: Processors,
}

impl Processors {
    /// Returns those that the calling thread may run on.
    ///
    /// # Errors
    /// The kernel doesn't say.
    pub(crate) fn allowed() -> Result<Self, Error> {
        let set = sched_getaffinity(None).map_err(|errno| Error::ReadProcessors {
            source: errno.into(),
        })?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number));
        Ok(Self(numbers.collect()))
    }

    /// The processor of this number.
    #[must_use]
    pub fn one(number: usize) -> Self {
        Self(vec![number])
    }

    /// Makes sure that all of them are among the `allowed`.
    pub(crate) fn check(&self, allowed: &Self) -> Result<(), Error> {
        if self.0.iter().all(|number| allowed.0.contains(number)) {
            return Ok(());
        }
        Err(Error::Processors {
            asked: self.to_string(),
            allowed: allowed.to_string(),
        })
    }

    pub(crate) fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        for number in self.0.iter().filter(|number| **number < CpuSet::MAX_CPU) {
            set.set(*number);
        }
        set
    }
}

impl Places {
    /// Shares the `allowed` processors out: one for the link, which is the one that must not wait,
    /// and one for each end, or one for both if there are no more. The first ones, on which the
    /// kernel and everything else like to run, are left free as far as they are not needed.
    ///
    /// `None` when there is one only.
    pub(crate) fn among(allowed: &Processors) -> Option<Self> {
        let (link, rest) = allowed.0.split_last()?;
        let (server, rest) = rest.split_last()?;
        // With three, the first is left to the others.
        let client = rest.get(1..).and_then(<[usize]>::last).unwrap_or(server);
        Some(Self {
            link: *link,
            client: Processors::one(*client),
            server: Processors::one(*server),
        })
    }
}

impl FromStr for Processors {
    type Err = ProcessorsError;

    fn from_str(text: &str) -> Result<Self, ProcessorsError> {
        let wrong = || ProcessorsError { text: text.into() };
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().ok();
            let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(wrong());
            }
            numbers.extend(first..=last);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self(numbers))
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges = self.0.chunk_by(|one, next| one + 1 == *next);
        for (place, range) in ranges.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match range {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(text: &str) -> Processors {
        text.parse().unwrap()
    }

    #[test]
    fn reads_what_the_kernel_writes_and_prints_it_alike() {
        for (text, numbers) in [
            ("0", vec![0]),
            ("0-1,3", vec![0, 1, 3]),
            ("2-4", vec![2, 3, 4]),
        ] {
            assert_eq!(processors(text), Processors(numbers));
            assert_eq!(processors(text).to_string(), text);
        }
        assert_eq!(processors("3, 1,0-1").to_string(), "0-1,3");
    }

    #[test]
    fn refuses_what_names_no_processors() {
        for text in ["", "a", "1-", "-1", "3-1", "0,,1", "99999", "0-99999999999"] {
            let error = text.parse::<Processors>().unwrap_err().to_string();
            assert!(error.contains("names no processors"), "{error}");
        }
    }

    #[test]
    fn processors_that_are_not_there_are_an_error() {
        let allowed = processors("0-1");
        assert!(processors("1").check(&allowed).is_ok());
        let error = processors("1-2").check(&allowed).unwrap_err().to_string();
        assert!(error.contains("1-2") && error.contains("0-1"), "{error}");
    }

    #[test]
    fn the_link_has_a_processor_of_its_own_if_there_are_two() {
        let places = |text| {
            Places::among(&processors(text))
                .map(|places| format!("{} {} {}", places.link, places.client, places.server))
        };
        assert_eq!(places("0"), None);
        assert_eq!(places("0-1").unwrap(), "1 0 0");
        assert_eq!(places("0-2").unwrap(), "2 1 1");
        assert_eq!(places("0-3").unwrap(), "3 1 2");
        assert_eq!(places("4,8,12,16,20").unwrap(), "20 12 16");
    }
}
