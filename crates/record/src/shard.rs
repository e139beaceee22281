//! A part of a plan, so that several machines measure it together.

use crate::Cell;
use crate::words::text_in_files;
use std::fmt;
use std::str::FromStr;

/// Part `i` of `n` of a plan. Text form: `2/5`.
///
/// The cells are dealt out like cards, each round beginning one further, so that no axis falls on
/// one machine alone; and a cell is measured on one machine with all protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    part: u32,
    of: u32,
}

/// The whole plan.
impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { part: 1, of: 1 };

    /// Part `part` of `of`, counted from 1; `None` when there is no such part.
    #[must_use]
    pub fn new(part: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&part).then_some(Self { part, of })
    }

    /// Ordinal of the part, from 1.
    #[must_use]
    pub fn part(self) -> u32 {
        self.part
    }

    /// Number of parts that the plan has.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    /// Returns whether the cell is measured in this part.
    #[must_use]
    pub fn has(self, cell: &Cell) -> bool {
        let row = cell.index / self.of;
        cell.index.wrapping_add(row) % self.of == self.part - 1
    }
}

/// A text that names no part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a shard: expected PART/PARTS from 1/1 on, like `2/5`")]
pub struct BadShard(String);

impl FromStr for Shard {
    type Err = BadShard;

    fn from_str(text: &str) -> Result<Self, BadShard> {
        let parsed = || {
            let (part, of) = text.split_once('/')?;
            Self::new(part.parse().ok()?, of.parse().ok()?)
        };
        parsed().ok_or_else(|| BadShard(text.into()))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

text_in_files!(Shard);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn parses_what_it_prints_and_refuses_parts_that_are_none() {
        assert_eq!("2/5".parse::<Shard>().unwrap().to_string(), "2/5");
        for bad in ["0/5", "6/5", "1/0", "2", "a/b", "-1/2"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_cell_is_in_exactly_one_part() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..9ms by 1ms\"\nsize = \"1MB\"\npairs = 1";
        let cells = text.parse::<Plan>().unwrap().cells();
        let parts: Vec<_> = (1..=3).map(|part| Shard::new(part, 3).unwrap()).collect();
        for cell in &cells {
            assert_eq!(parts.iter().filter(|part| part.has(cell)).count(), 1);
        }
        assert!(cells.iter().all(|cell| Shard::WHOLE.has(cell)));
    }
}
