//! The axes along which readers choose what the charts show, and where each panel of a figure stands
//! on them.

use crate::analysis::Analysis;
use crate::words::{self, PARTS};
use altway_record::Cell;
use serde_json::{Map, Value, json};

/// Names of the [`values`], in their order.
const NAMES: [&str; PARTS + 1] = [
    "rate",
    "loss",
    "size",
    "queue",
    "link",
    "connection",
    "topology",
    "congestion control",
    "initial window",
    "certificate",
    "certificate compression",
    "client",
    "server",
    "delay",
];
/// Text between the parts of a panel's title.
const SEPARATOR: &str = " · ";

/// The axes of a run that have more than one value.
#[derive(Default)]
pub(super) struct Choices {
    axes: Vec<(&'static str, Vec<String>)>,
}

impl Choices {
    pub(super) fn new(analysis: &Analysis<'_>) -> Self {
        let cells: Vec<_> = analysis.cells.iter().map(|one| values(&one.cell)).collect();
        let axis = |(i, name): (usize, &'static str)| {
            let values = distinct(cells.iter().map(|cell| &cell[i]));
            (values.len() > 1).then_some((name, values))
        };
        Self {
            axes: NAMES.into_iter().enumerate().filter_map(axis).collect(),
        }
    }

    /// Position of the panel of this title: the value on each axis that its title names.
    pub(super) fn place(&self, title: &str) -> Map<String, Value> {
        let named = |part: &str| {
            let (name, _) = self
                .axes
                .iter()
                .find(|(_, values)| values.iter().any(|value| value == part))?;
            Some(((*name).to_owned(), part.into()))
        };
        title.split(SEPARATOR).filter_map(named).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let axis = |(name, values): &(&str, Vec<String>)| json!({"name": name, "values": values});
        self.axes.iter().map(axis).collect()
    }
}

/// The values that may set a cell apart, as panels name them.
fn values(cell: &Cell) -> Vec<String> {
    let parts = words::parts(cell).into_iter();
    parts
        .chain([format!("{} delay", words::delay(cell.delay))])
        .collect()
}

/// Each value once, in the order in which they come.
fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if !seen.contains(value) {
            seen.push(value.clone());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_names_the_place_of_its_panel() {
        let axis = |name, values: [&str; 2]| (name, values.map(str::to_owned).to_vec());
        let choices = Choices {
            axes: vec![
                axis("rate", ["5 Mbit/s", "20 Mbit/s"]),
                axis("loss", ["0 % loss", "1 % loss"]),
            ],
        };
        let place = Value::Object(choices.place("20 Mbit/s · 1 % loss"));
        assert_eq!(place, json!({"rate": "20 Mbit/s", "loss": "1 % loss"}));
        assert!(choices.place("").is_empty());
    }
}
