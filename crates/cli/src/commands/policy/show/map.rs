//! A surface's predictions over rates and delays, as text and as JSON.

use altway_select::{ClientClass, Congestion, Exchange, Surface, Times};
use altway_units::{DataSize, Ratio};
use serde::Serialize;

/// Mbit/s of the columns.
pub(super) const RATES: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Milliseconds one way, of the rows from top to bottom.
pub(super) const DELAYS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

/// Difference in per cent within which neither is faster.
const TIE: f64 = 3.0;

/// Conditions that all cells share.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) size: DataSize,
    pub(super) page: bool,
    pub(super) warm: bool,
    pub(super) loss: Ratio,
    pub(super) class: ClientClass,
    pub(super) congestion: [Congestion; 2],
    /// Names of the congestion controls.
    pub(super) controls: String,
}

/// Predicted times of all cells.
#[derive(Debug)]
pub(super) struct Map {
    model: String,
    conditions: Conditions,
    /// Bit/s that the class takes over QUIC.
    limit: f64,
    /// The times of each delay, of each rate.
    cells: Vec<Vec<Times>>,
    /// The surface was made from cells under this congestion control.
    is_measured: bool,
}

/// The JSON of `--json`.
#[derive(Serialize)]
pub(super) struct Json<'a> {
    model: &'a str,
    class: String,
    quic_limit_bps: f64,
    size_bytes: u64,
    page: bool,
    connection: &'static str,
    loss: f64,
    congestion: &'a str,
    /// The surface was made from cells under this congestion control.
    is_measured: bool,
    cells: Vec<JsonCell>,
}

#[derive(Serialize)]
struct JsonCell {
    rate_bps: u64,
    delay_ms: f64,
    h2_s: f64,
    h3_s: f64,
    /// Time that HTTP/3 takes beyond HTTP/2's, in per cent of that.
    difference_percent: f64,
}

impl Map {
    pub(super) fn new(model: &str, surface: &Surface, conditions: Conditions) -> Self {
        let bytes = conditions.size.as_bytes() as f64;
        let exchange = if conditions.page {
            Exchange::page(bytes, !conditions.warm)
        } else {
            Exchange::object(bytes, !conditions.warm)
        };
        let times = |rate: u32, delay: f64| {
            let (rate, rtt) = (f64::from(rate) * 1e6, 2e-3 * delay);
            let loss = conditions.loss.as_f64();
            let path_properties =
                surface.path_properties(conditions.class, rate, rtt, loss, conditions.congestion);
            surface.times(&path_properties, &exchange)
        };
        let row = |delay: f64| RATES.map(|rate| times(rate, delay)).to_vec();
        let cells = DELAYS.map(row).to_vec();
        Self {
            model: model.into(),
            limit: surface.expected_limit(conditions.class),
            is_measured: surface.is_measured(conditions.congestion),
            cells,
            conditions,
        }
    }

    /// The difference of HTTP/3 from HTTP/2 in per cent of the time, negative where HTTP/3 is faster, as in the lab's reports; with
    /// the cell's row and column.
    pub(super) fn differences(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.cells.iter().enumerate().flat_map(|(row, cells)| {
            let cells = cells.iter().enumerate();
            cells.map(move |(column, times)| (row, column, difference(times)))
        })
    }

    /// The map's subject: `1MB on a new connection, 0% loss, chromium-linux (735 Mbit/s over QUIC), cubic`.
    pub(super) fn subject(&self) -> String {
        let it = &self.conditions;
        let what = if it.page { "a page of " } else { "" };
        let connection = if it.warm { "an open" } else { "a new" };
        format!(
            "{what}{} on {connection} connection, {} loss, {} ({:.0} Mbit/s over QUIC), {}",
            it.size,
            it.loss,
            it.class,
            self.limit / 1e6,
            it.controls
        )
    }

    /// The map for a terminal: at most 100 columns, plain text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: {}\n\n{:>8}", self.model, self.subject(), "one way");
        for rate in RATES {
            text.push_str(&format!("{rate:>8}"));
        }
        text.push_str(" Mbit/s\n");
        for (delay, cells) in DELAYS.iter().zip(&self.cells) {
            text.push_str(&format!("{:>8}", format!("{delay} ms")));
            for times in cells {
                let difference = difference(times);
                text.push_str(&format!("{:>6} {}", signed(difference), mark(difference)));
            }
            text.push('\n');
        }
        text.push_str("\nPer cent more time that HTTP/3 takes than HTTP/2. 3: HTTP/3 is faster, 2: HTTP/2 is, =: within ±3 %.\n");
        if !self.is_measured {
            text.push_str(
                "The surface was not measured with this congestion control: its formulas alone.\n",
            );
        }
        text
    }

    pub(super) fn json(&self) -> Json<'_> {
        let it = &self.conditions;
        let cell = |(row, column, difference_percent): (usize, usize, f64)| JsonCell {
            rate_bps: u64::from(RATES[column]) * 1_000_000,
            delay_ms: DELAYS[row],
            h2_s: self.cells[row][column].h2,
            h3_s: self.cells[row][column].h3,
            difference_percent,
        };
        Json {
            model: &self.model,
            class: it.class.to_string(),
            quic_limit_bps: self.limit,
            size_bytes: it.size.as_bytes(),
            page: it.page,
            connection: if it.warm { "warm" } else { "cold" },
            loss: it.loss.as_f64(),
            congestion: &it.controls,
            is_measured: self.is_measured,
            cells: self.differences().map(cell).collect(),
        }
    }
}

fn difference(times: &Times) -> f64 {
    100.0 * (times.h3 / times.h2 - 1.0)
}

/// A difference without decimals and with the minus sign of typography, and 0 without a sign.
pub(super) fn signed(difference: f64) -> String {
    altway_report::signed_to(difference, 0)
}

fn mark(difference: f64) -> char {
    if difference < -TIE {
        '3'
    } else if difference > TIE {
        '2'
    } else {
        '='
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(class: &str) -> Map {
        let conditions = Conditions {
            size: "10MB".parse().unwrap(),
            page: false,
            warm: false,
            loss: Ratio::ZERO,
            class: class.parse().unwrap(),
            congestion: [Congestion::LossBased; 2],
            controls: "cubic".into(),
        };
        Map::new("surface", Surface::embedded(), conditions)
    }

    #[test]
    fn near_and_fast_http2_is_faster_to_firefox_and_far_away_http3() {
        let differences: Vec<_> = map("firefox-linux").differences().collect();
        assert_eq!(differences.len(), RATES.len() * DELAYS.len());
        let (_, _, near) = differences[RATES.len() - 1];
        let (_, _, far) = differences[differences.len() - RATES.len()];
        assert!(near > 40.0 && far < -0.3, "{near} {far}");
    }

    #[test]
    fn the_text_has_a_row_for_each_delay_and_fits_a_terminal() {
        let text = map("firefox-linux").text();
        assert!(
            text.starts_with(
                "surface: 10MB on a new connection, 0% loss, firefox-linux (420 Mbit/s"
            )
        );
        assert_eq!(text.lines().filter(|line| line.contains(" ms ")).count(), 9);
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_map_under_congestion_control_that_was_not_measured_says_so() {
        let mut conditions = map("firefox-linux").conditions;
        let note = "not measured with this congestion control";
        assert!(!map("firefox-linux").text().contains(note));
        conditions.congestion = [Congestion::RateBased, Congestion::LossBased];
        let map = Map::new("surface", Surface::embedded(), conditions);
        assert!(map.text().contains(note) && !map.json().is_measured);
    }

    #[test]
    fn no_difference_has_no_sign() {
        assert_eq!([-0.4, 0.4, -1.5, 12.3].map(signed), ["0", "0", "−2", "+12"]);
    }

    #[test]
    fn within_three_per_cent_neither_is_faster() {
        assert_eq!([3.1, 3.0, -3.0, -3.1].map(mark), ['2', '=', '=', '3']);
    }
}
