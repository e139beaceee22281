//! What is to be measured: a TOML file becomes a [`Plan`] whose every value is valid.

use crate::axis::{self, AxisError, AxisValue};
use crate::{Protocol, Rate};
use altway_units::{DataSize, Ratio};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most transfers that one plan may ask for.
pub const MAX_TRANSFERS: u64 = 1_000_000;

/// The most pairs a cell may have.
pub const MAX_PAIRS: u32 = 10_000;

/// A plan: the matrix rate × delay × loss × size × protocol, and how often each cell is measured.
///
/// ```
/// let plan: altway_record::Plan = r#"
///     name = "demo"
///     rate = "5mbit"
///     delay = "0ms..100ms by 50ms"
///     size = "1MB"
///     pairs = 5
/// "#.parse()?;
/// assert_eq!(plan.cells().len(), 3);
/// assert_eq!(plan.transfers(), 30);
/// # Ok::<(), altway_record::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Names the run folder: lower-case letters, digits and `-`, at most 64.
    pub name: String,
    /// What the plan is for, in a sentence.
    pub description: String,
    /// Rates of the link, the same in both directions.
    pub rates: Vec<Rate>,
    /// One-way delays, applied in both directions: the path's RTT is at least twice this.
    #[serde(with = "durations")]
    pub delays: Vec<Duration>,
    /// Share of packets lost at random in each direction.
    pub losses: Vec<Ratio>,
    /// Sizes of the object that is fetched, in body bytes.
    pub sizes: Vec<DataSize>,
    /// The protocols compared; the first is the one that the others are held against.
    pub protocols: Vec<Protocol>,
    /// How often each cell is measured with each protocol.
    pub pairs: u32,
    /// Bytes that wait at the link before packets are dropped; `None`: the link's default for its
    /// rate.
    pub queue: Option<DataSize>,
    /// Congestion control of both transports at both ends.
    pub congestion: Congestion,
    /// Decides the order of the transfers and which packets the links lose.
    pub seed: u64,
    /// How long one transfer may take before it counts as failed.
    #[serde(with = "altway_units::duration")]
    pub timeout: Duration,
}

/// The congestion controls that kernel TCP and our QUIC both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// RFC 9002 §7 and RFC 5681.
    Reno,
}

impl Congestion {
    /// The name that the kernel and `altway serve --congestion` know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
        }
    }
}

/// One condition of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Ordinal in the plan, from 0.
    pub index: u32,
    /// Rate of the link.
    pub rate: Rate,
    /// One-way delay in both directions.
    #[serde(with = "altway_units::duration")]
    pub delay: Duration,
    /// Share of packets lost in each direction.
    pub loss: Ratio,
    /// Size of the object.
    pub size: DataSize,
}

/// Why a text is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not TOML, or a value of the wrong type; the message names line and column.
    #[error("{}", .0.to_string().trim_end())]
    Toml(#[from] toml::de::Error),
    /// A key that no plan has.
    #[error("line {line}: unknown key `{key}`{}", suggestion(.nearest.as_ref()))]
    UnknownKey {
        /// What was found.
        key: String,
        /// Where, from 1.
        line: usize,
        /// The known key that looks most like it.
        nearest: Option<&'static str>,
    },
    /// A key that every plan must have is missing.
    #[error("the key `{0}` is missing")]
    Missing(&'static str),
    /// A value that can't be.
    #[error("line {line}: `{key}`: {source}")]
    Axis {
        /// The key.
        key: &'static str,
        /// Where, from 1.
        line: usize,
        /// What is wrong with it.
        source: AxisError,
    },
    /// A name that makes no good folder.
    #[error(
        "`{0}` is not a plan's name: expected 1 to 64 lower-case letters, digits and `-`, starting with a letter or digit"
    )]
    Name(String),
    /// No pairs, or too many.
    #[error("`pairs` is {0}: expected 1 to {MAX_PAIRS}")]
    Pairs(u32),
    /// The matrix is too large.
    #[error("the plan asks for {0} transfers: expected at most {MAX_TRANSFERS}")]
    TooLarge(u64),
    /// Nothing can be fetched.
    #[error("`size` holds an object of 0 bytes")]
    EmptyObject,
}

fn suggestion(nearest: Option<&&'static str>) -> String {
    nearest.map_or_else(String::new, |nearest| {
        format!("; did you mean `{nearest}`?")
    })
}

const KEYS: [&str; 12] = [
    "name",
    "description",
    "rate",
    "delay",
    "loss",
    "size",
    "protocols",
    "pairs",
    "queue",
    "congestion",
    "seed",
    "timeout",
];

/// The file as typed.
#[derive(Deserialize)]
struct PlanFile {
    name: Option<String>,
    #[serde(default)]
    description: String,
    rate: Option<OneOrMany>,
    delay: Option<OneOrMany>,
    loss: Option<OneOrMany>,
    size: Option<OneOrMany>,
    protocols: Option<OneOrMany>,
    pairs: Option<u32>,
    queue: Option<DataSize>,
    congestion: Option<Congestion>,
    seed: Option<u64>,
    timeout: Option<TimeOut>,
}

#[derive(Deserialize)]
struct TimeOut(#[serde(with = "altway_units::duration")] Duration);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text or a list of texts, like `\"5mbit\"`"
)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn texts(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

impl Plan {
    /// The cells, in the plan's order: rate, then loss, then size, then delay.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &rate in &self.rates {
            for &loss in &self.losses {
                for &size in &self.sizes {
                    for &delay in &self.delays {
                        let index = u32::try_from(cells.len()).expect("bounded by MAX_TRANSFERS");
                        cells.push(Cell {
                            index,
                            rate,
                            delay,
                            loss,
                            size,
                        });
                    }
                }
            }
        }
        cells
    }

    /// How many transfers the plan asks for, repetitions for faults not counted.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        let lengths = [
            self.rates.len(),
            self.losses.len(),
            self.sizes.len(),
            self.delays.len(),
            self.protocols.len(),
            self.pairs as usize,
        ];
        lengths.iter().fold(1_u64, |product, length| {
            product.saturating_mul(*length as u64)
        })
    }

    fn check(self) -> Result<Self, PlanError> {
        let name_is_good = (1..=64).contains(&self.name.len())
            && !self.name.starts_with('-')
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !name_is_good {
            return Err(PlanError::Name(self.name));
        }
        if !(1..=MAX_PAIRS).contains(&self.pairs) {
            return Err(PlanError::Pairs(self.pairs));
        }
        if self.transfers() > MAX_TRANSFERS {
            return Err(PlanError::TooLarge(self.transfers()));
        }
        if self.sizes.contains(&DataSize::ZERO) {
            return Err(PlanError::EmptyObject);
        }
        Ok(self)
    }
}

impl std::str::FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        refuse_unknown_keys(text)?;
        let file: PlanFile = toml::from_str(text)?;
        let source = Source(text);
        let plan = Self {
            name: file.name.ok_or(PlanError::Missing("name"))?,
            description: file.description,
            rates: source.axis("rate", file.rate, None)?,
            delays: source.axis("delay", file.delay, None)?,
            losses: source.axis("loss", file.loss, Some(&["0%"]))?,
            sizes: source.axis("size", file.size, None)?,
            protocols: source.axis("protocols", file.protocols, Some(&["h2", "h3"]))?,
            pairs: file.pairs.ok_or(PlanError::Missing("pairs"))?,
            queue: file.queue,
            congestion: file.congestion.unwrap_or(Congestion::Cubic),
            seed: file.seed.unwrap_or(1),
            timeout: file
                .timeout
                .map_or(Duration::from_secs(60), |timeout| timeout.0),
        };
        plan.check()
    }
}

/// The text of a plan, to say on which line a key stands.
struct Source<'a>(&'a str);

impl Source<'_> {
    fn axis<T: AxisValue>(
        &self,
        key: &'static str,
        typed: Option<OneOrMany>,
        default: Option<&[&str]>,
    ) -> Result<Vec<T>, PlanError> {
        let texts = match (typed, default) {
            (Some(typed), _) => typed.texts(),
            (None, Some(default)) => default.iter().map(ToString::to_string).collect(),
            (None, None) => return Err(PlanError::Missing(key)),
        };
        axis::read(&texts).map_err(|source| PlanError::Axis {
            key,
            line: self.line_of(key),
            source,
        })
    }

    fn line_of(&self, key: &str) -> usize {
        let starts_with_key = |line: &str| {
            let name = line.split('=').next().unwrap_or_default().trim();
            name.trim_matches(['"', '\'']) == key
        };
        self.0
            .lines()
            .position(starts_with_key)
            .map_or(1, |index| index + 1)
    }
}

fn refuse_unknown_keys(text: &str) -> Result<(), PlanError> {
    let table: toml::Table = toml::from_str(text)?;
    let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) else {
        return Ok(());
    };
    let nearest = KEYS
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .map(|(_, known)| known);
    Err(PlanError::UnknownKey {
        key: key.clone(),
        line: Source(text).line_of(key),
        nearest,
    })
}

/// A list of durations as texts.
mod durations {
    use altway_units::duration;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(all: &[Duration], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(all.iter().map(|one| duration::format(*one)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Duration>, D::Error> {
        let texts = Vec::<String>::deserialize(d)?;
        texts
            .iter()
            .map(|text| duration::parse(text).map_err(serde::de::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        rate = "5mbit"
        delay = ["0ms", "50ms"]
        size = "1MB"
        pairs = 3
    "#;

    fn error(text: &str) -> String {
        text.parse::<Plan>().unwrap_err().to_string()
    }

    #[test]
    fn fills_in_what_is_left_out() {
        let plan: Plan = SMALL.parse().unwrap();
        assert_eq!(plan.protocols, [Protocol::H2, Protocol::H3]);
        assert_eq!(plan.losses, [Ratio::ZERO]);
        assert_eq!(plan.congestion, Congestion::Cubic);
        assert_eq!((plan.queue, plan.seed), (None, 1));
    }

    #[test]
    fn cells_number_the_whole_matrix() {
        let plan: Plan = SMALL
            .replace("\"5mbit\"", "[\"5mbit\", \"unlimited\"]")
            .parse()
            .unwrap();
        let cells = plan.cells();
        assert_eq!(cells.len(), 4);
        assert_eq!((cells[2].index, cells[2].rate), (2, Rate::Unlimited));
        assert_eq!(cells[3].delay, Duration::from_millis(50));
        assert_eq!(plan.transfers(), 24);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_key() {
        assert_eq!(
            error(&SMALL.replace("delay", "dealy")),
            "line 4: unknown key `dealy`; did you mean `delay`?"
        );
        assert_eq!(error("colour = 1"), "line 1: unknown key `colour`");
    }

    #[test]
    fn impossible_values_are_named_with_key_and_line() {
        assert_eq!(
            error(&SMALL.replace("5mbit", "-5mbit")),
            "line 3: `rate`: `-5mbit` is not a bandwidth: it can't be negative"
        );
        let lossy = format!("{SMALL}\nloss = \"150%\"");
        assert!(
            error(&lossy).contains("`loss`: `150%` is not a ratio: it must be from 0% to 100%")
        );
    }

    #[test]
    fn missing_and_malformed_keys_are_errors() {
        assert_eq!(
            error(&SMALL.replace("pairs = 3", "")),
            "the key `pairs` is missing"
        );
        assert!(error(&SMALL.replace("pairs = 3", "pairs = 0")).contains("expected 1 to"));
        assert!(error(&SMALL.replace("\"small\"", "\"../etc\"")).contains("not a plan's name"));
        assert!(error(&SMALL.replace("1MB", "0B")).contains("0 bytes"));
        assert!(error("name = ").contains("line 1"));
        assert!(error(&SMALL.replace("\"5mbit\"", "5")).contains("expected a text or a list"));
    }

    #[test]
    fn a_plan_that_would_never_end_is_refused() {
        let huge = SMALL.replace("[\"0ms\", \"50ms\"]", "\"0ms..999ms by 1ms\"");
        assert!(error(&huge.replace("pairs = 3", "pairs = 10000")).contains("20000000 transfers"));
    }

    #[test]
    fn survives_a_round_trip_through_json() {
        let plan: Plan = SMALL.parse().unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }
}
