//! A part of a plan, so that several machines measure it together.

use crate::words::text_in_files;
use crate::{Cell, Sampling};
use std::fmt;
use std::str::FromStr;

/// Part `i` of `n` of a plan. Text form: `2/5`.
///
/// The cells are dealt out like cards, each round beginning one further, so that no axis falls on
/// one machine alone; and a cell is measured on one machine with all protocols. Where sampling is adaptive, maps are dealt
/// out in place of cells: which cell of a map is next follows from all that is measured of it.
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

    /// Keeps the cells of a plan that are measured in this part.
    pub(crate) fn deal(self, cells: &mut Vec<Cell>, sampling: Sampling) {
        let mut maps: Vec<Cell> = Vec::new();
        cells.retain(|cell| match sampling {
            Sampling::Grid => self.has(cell.index),
            Sampling::Adaptive => {
                let map = maps.iter().position(|map| map.is_of_map_of(cell));
                let map = map.unwrap_or_else(|| {
                    maps.push(*cell);
                    maps.len() - 1
                });
                self.has(u32::try_from(map).unwrap_or(u32::MAX))
            }
        });
    }

    /// Returns whether the card of this number, from 0, is dealt to this part.
    fn has(self, number: u32) -> bool {
        let row = number / self.of;
        number.wrapping_add(row) % self.of == self.part - 1
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
        let plan = text.parse::<Plan>().unwrap();
        assert_eq!(plan.part(Shard::WHOLE), plan.cells());
        let parts = (1..=3).map(|part| plan.part(Shard::new(part, 3).unwrap()));
        let mut cells = parts.collect::<Vec<_>>().concat();
        cells.sort_by_key(|cell| cell.index);
        assert_eq!(cells, plan.cells());
    }

    #[test]
    fn a_part_of_an_adaptive_plan_has_whole_maps() {
        let text = "name = \"p\"\nrate = [\"5mbit\", \"9mbit\", \"20mbit\"]\ndelay = \"0ms..5ms by 1ms\"\n\
                    loss = [\"0%\", \"1%\"]\nsize = \"1MB\"\npairs = 60\nsampling = \"adaptive\"";
        let plan = text.parse::<Plan>().unwrap();
        let rates = |part| {
            let cells = plan.part(Shard::new(part, 2).unwrap());
            let mut rates: Vec<_> = cells.iter().map(|cell| cell.rate.to_string()).collect();
            assert!(
                rates
                    .chunks(12)
                    .all(|map| map.iter().all(|rate| *rate == map[0]))
            );
            rates.dedup();
            (rates, cells.len())
        };
        // Dealt out with a shift: the third map begins a round of its own.
        assert_eq!(rates(1), (vec!["5mbit".to_owned()], 12));
        assert_eq!(
            rates(2),
            (vec!["9mbit".to_owned(), "20mbit".to_owned()], 24)
        );
    }
}
