//! The links that bytes are moved over.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A link, the same both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    #[value(name = "loss-5")]
    #[serde(rename = "loss-5")]
    Loss5,
    #[value(name = "loss-1")]
    #[serde(rename = "loss-1")]
    Loss1,
    Clean,
    Shallow,
}

/// A link as `altway emulate` takes it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Description {
    name: Link,
    rate: Option<&'static str>,
    one_way_delay: &'static str,
    loss: &'static str,
    /// `None`: 100 ms at the rate, or what `altway emulate` has without one.
    queue: Option<&'static str>,
    bytes: u64,
}

/// A transfer of so many bytes over a link with a seed.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    /// The options of `altway emulate`.
    pub(crate) link: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
}

impl Link {
    pub(crate) const ALL: [Self; 4] = [Self::Loss5, Self::Loss1, Self::Clean, Self::Shallow];

    /// `divisor`: a transfer has this fraction of its bytes.
    pub(crate) fn describe(self, divisor: u64) -> Description {
        let (rate, one_way_delay, loss, queue, bytes) = match self {
            Self::Loss5 => (None, "100ms", "5%", None, 1_000_000),
            Self::Loss1 => (None, "50ms", "1%", None, 2_000_000),
            Self::Clean => (Some("20mbit"), "50ms", "0%", None, 10_000_000),
            Self::Shallow => (Some("5mbit"), "25ms", "0%", Some("64KiB"), 3_000_000),
        };
        Description {
            name: self,
            rate,
            one_way_delay,
            loss,
            queue,
            bytes: bytes / divisor,
        }
    }

    pub(crate) fn transfer(self, seed: u64, divisor: u64) -> Transfer {
        let it = self.describe(divisor);
        let options = [
            ("--rate", it.rate),
            ("--delay", Some(it.one_way_delay)),
            ("--loss", Some(it.loss)),
            ("--queue", it.queue),
        ];
        let given = options
            .iter()
            .filter_map(|(name, value)| Some([*name, (*value)?]));
        Transfer {
            link: given.flatten().map(str::to_owned).collect(),
            seed,
            bytes: it.bytes,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no link is hidden");
        f.pad(value.get_name())
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            one_way_delay,
            loss,
            ..
        } = self;
        write!(
            f,
            "{name}: {one_way_delay} of delay and {loss} loss each way"
        )?;
        if let Some(rate) = self.rate {
            write!(f, ", {rate}")?;
        }
        if let Some(queue) = self.queue {
            write!(f, ", a queue of {queue}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_given_to_the_emulation_as_its_options() {
        let transfer = Link::Shallow.transfer(7, 5);
        assert_eq!(
            transfer.link.join(" "),
            "--rate 5mbit --delay 25ms --loss 0% --queue 64KiB"
        );
        assert_eq!((transfer.seed, transfer.bytes), (7, 600_000));
    }

    #[test]
    fn a_link_is_described_in_a_line() {
        assert_eq!(
            Link::Loss5.describe(1).to_string(),
            "loss-5: 100ms of delay and 5% loss each way"
        );
    }
}
