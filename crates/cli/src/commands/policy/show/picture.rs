//! A surface's map as a figure, drawn as the lab's maps are.

use super::map::{DELAYS, Map, RATES, signed};
use altway_record::Protocol;
use altway_report::figure::{
    Axis, Figure, LegendEntry, Mark, MarkColor, Panel, Spacing, Table, Tile, Tiles,
};

/// The difference from which on a cell has its full colour, in per cent.
const LIMIT: f64 = 20.0;

pub(super) fn figure(map: &Map) -> Figure {
    let key = |protocol: Protocol| LegendEntry {
        color: MarkColor::Protocol(protocol),
        name: format!("{} faster", protocol.name()),
    };
    Figure {
        name: "surface".into(),
        title: "Where HTTP/3 is predicted to be faster".into(),
        caption: map.subject(),
        legend_text: "In each cell the predicted difference of HTTP/3 from HTTP/2 in per cent: negative is faster."
            .into(),
        legend: [Protocol::H2, Protocol::H3].map(key).to_vec(),
        panels: vec![Panel {
            title: String::new(),
            x: axis("rate (Mbit/s)", RATES.map(|rate| rate.to_string()).to_vec()),
            y: axis(
                "one-way delay (ms)",
                DELAYS.map(|delay| delay.to_string()).to_vec(),
            ),
            marks: vec![Mark::Tiles(tiles(map))],
        }],
        table: Table::default(),
    }
}

/// Places one apart, each with its text.
fn axis(name: &str, texts: Vec<String>) -> Axis {
    let ticks: Vec<(f64, String)> = (0..).map(f64::from).zip(texts).collect();
    Axis {
        name: name.into(),
        unit: String::new(),
        range: -0.5..ticks.len() as f64 - 0.5,
        spacing: Spacing::Linear,
        ticks,
    }
}

fn tiles(map: &Map) -> Tiles {
    let tile = |(row, column, difference): (usize, usize, f64)| {
        let text = signed(difference);
        Tile {
            at: (column as f64, row as f64),
            value: Some(difference),
            sure: true,
            note: format!("HTTP/3 predicted {text} % time"),
            text,
        }
    };
    Tiles {
        below: Protocol::H3,
        above: Protocol::H2,
        value: "predicted difference of HTTP/3 (%)".into(),
        limit: LIMIT,
        tiles: map.differences().map(tile).collect(),
    }
}
