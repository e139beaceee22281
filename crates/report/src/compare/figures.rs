//! Two tables of figures held against each other: who is faster by how much in each, where straight lines
//! between the means cross, and how times grow with the delay.
//!
//! Means alone are known of both, so nothing here has an interval, and the text says so.

use super::grown::{MeansAt, TimeGrowth};
use super::reference::{Condition, Means, Over, Reference, condition_words, crossovers, growth};
use super::text;
use crate::{Error, words};
use altway_record::{Protocol, ReferenceRow};
use altway_stats::CompareOptions;
use serde::Serialize;
use std::collections::BTreeSet;

/// The comparison of one table of figures (A) with another (B).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiguresContrast {
    /// Name of A.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// Series that both have, by everything but the delay; of what each table has one value, over that.
    pub series: Vec<FiguresSeries>,
    /// Number of means that stand in one of the two alone.
    pub unmatched: usize,
    /// Conclusions, in sentences.
    pub findings: Vec<String>,
}

/// A protocol against another over the delay, in both tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiguresSeries {
    /// The conditions in A, in words.
    pub condition_a: String,
    /// The conditions in B.
    pub condition_b: String,
    /// The protocol that the other is held against.
    pub first: Protocol,
    /// The other one.
    pub second: Protocol,
    /// The delays that both have, rising.
    pub cells: Vec<FiguresCell>,
    /// Places where straight lines between A's means cross, one-way delay in ms.
    pub crossovers_a_ms: Vec<f64>,
    /// The same in B.
    pub crossovers_b_ms: Vec<f64>,
    /// Cost of a millisecond of one-way delay in A, in ms: first and second protocol; `None` with fewer
    /// than two delays.
    pub growth_a: Option<[f64; 2]>,
    /// The same in B.
    pub growth_b: Option<[f64; 2]>,
    /// Growth of the times in per cent over the delays that both have; `None` with fewer than two.
    pub grown: Option<TimeGrowth>,
}

/// The comparison at one delay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FiguresCell {
    /// Delay of each direction.
    pub delay_us: u64,
    /// Mean times in A, in µs: first and second protocol.
    pub a_us: [f64; 2],
    /// Mean times in B.
    pub b_us: [f64; 2],
    /// Difference of the second from the first in A, in per cent; below 0 it is faster.
    pub difference_a_percent: f64,
    /// The same in B.
    pub difference_b_percent: f64,
    /// True if the two differences lie within 3 percentage points of each other.
    pub agrees: bool,
}

impl FiguresContrast {
    /// The tables and findings for a terminal of 100 columns, with a line end.
    #[must_use]
    pub fn table(&self) -> String {
        text::of_figures(self)
    }
}

/// Holds figures `b` against figures `a`, each with its name, where rate, loss, size and delay are the same; topology,
/// server, client and what else both state too, unless each table has one value of it.
///
/// # Errors
/// They have no delay with two protocols in common.
pub fn compare_figures(
    a: (&str, &[ReferenceRow]),
    b: (&str, &[ReferenceRow]),
) -> Result<FiguresContrast, Error> {
    let tables = [Reference::new(a.1), Reference::new(b.1)];
    let over = Over::of(&tables[0].conditions(), &tables[1].conditions());
    let mut series = Vec::new();
    let mut matched = 0;
    for of_a in tables[0].means.keys() {
        for of_b in tables[1]
            .means
            .keys()
            .filter(|of_b| of_a.is_as(of_b, &over))
        {
            for one in of_conditions(&tables, of_a, of_b) {
                matched += one.cells.len();
                series.push(one);
            }
        }
    }
    if series.is_empty() {
        return Err(Error::NoCommonCell {
            differ: "rate, loss, size, delay, protocols or another condition that both state are others in the second table"
                .into(),
        });
    }
    let all: usize = tables.iter().map(delays).sum();
    Ok(FiguresContrast {
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        findings: findings(&series),
        unmatched: all.saturating_sub(2 * matched),
        series,
    })
}

fn delays(table: &Reference) -> usize {
    table
        .means
        .values()
        .map(std::collections::BTreeMap::len)
        .sum()
}

/// Every protocol against the first that both have.
fn of_conditions(
    tables: &[Reference; 2],
    of_a: &Condition,
    of_b: &Condition,
) -> Vec<FiguresSeries> {
    let protocols = |table: &Reference, condition: &Condition| -> BTreeSet<Protocol> {
        let delays = table.means[condition].values();
        delays.flat_map(|means| means.keys().copied()).collect()
    };
    let (a, b) = (protocols(&tables[0], of_a), protocols(&tables[1], of_b));
    let both: Vec<Protocol> = a.intersection(&b).copied().collect();
    let first = match both.contains(&Protocol::H2) {
        true => Protocol::H2,
        false => match both.first() {
            Some(first) => *first,
            None => return Vec::new(),
        },
    };
    let others = both.iter().filter(|one| **one != first);
    others
        .filter_map(|second| {
            let a = means(&tables[0], of_a, first, *second);
            let b = means(&tables[1], of_b, first, *second);
            of_means((of_a, &a), (of_b, &b), first, *second)
        })
        .collect()
}

fn means(table: &Reference, condition: &Condition, first: Protocol, second: Protocol) -> Means {
    let delays = table.means[condition].iter();
    delays
        .filter_map(|(delay, of)| Some((*delay, (*of.get(&first)?, *of.get(&second)?))))
        .collect()
}

fn of_means(
    (of_a, a): (&Condition, &Means),
    (of_b, b): (&Condition, &Means),
    first: Protocol,
    second: Protocol,
) -> Option<FiguresSeries> {
    let band = 100.0 * CompareOptions::default().band;
    let percent = |(first, second): (f64, f64)| 100.0 * (second / first - 1.0);
    let cell = |(delay, of_a): (&u64, &(f64, f64))| {
        let of_b = b.get(delay)?;
        let (in_a, in_b) = (percent(*of_a), percent(*of_b));
        Some(FiguresCell {
            delay_us: *delay,
            a_us: [of_a.0, of_a.1],
            b_us: [of_b.0, of_b.1],
            difference_a_percent: in_a,
            difference_b_percent: in_b,
            agrees: (in_a - in_b).abs() <= band,
        })
    };
    let cells: Vec<FiguresCell> = a.iter().filter_map(cell).collect();
    cells.first()?;
    Some(FiguresSeries {
        condition_a: condition_words(of_a),
        condition_b: condition_words(of_b),
        first,
        second,
        crossovers_a_ms: crossovers(a),
        crossovers_b_ms: crossovers(b),
        growth_a: growth(a),
        growth_b: growth(b),
        grown: TimeGrowth::over(means_of_both(a, b)),
        cells,
    })
}

fn means_of_both(a: &Means, b: &Means) -> impl Iterator<Item = MeansAt> {
    a.iter().filter_map(|(delay, (first_a, second_a))| {
        let (first_b, second_b) = b.get(delay)?;
        Some((*delay, [*first_a, *first_b, *second_a, *second_b]))
    })
}

fn findings(series: &[FiguresSeries]) -> Vec<String> {
    let mut sentences = Vec::new();
    for one in series {
        let about = match series.len() {
            1 => String::new(),
            _ => format!("{}: ", one.condition_a),
        };
        let agreeing = one.cells.iter().filter(|cell| cell.agrees).count();
        let all = words::count(one.cells.len(), "delay");
        sentences.push(format!(
            "{about}The difference is the same within 3 points at {agreeing} of {all}."
        ));
        sentences.push(format!(
            "{about}Straight lines between the means of {} and {} cross {} in A and {} in B.",
            one.first.name(),
            one.second.name(),
            places(&one.crossovers_a_ms),
            places(&one.crossovers_b_ms),
        ));
        if let Some((a, b)) = one.growth_a.zip(one.growth_b) {
            let (first, second) = (one.first.name(), one.second.name());
            sentences.push(format!(
                "{about}A millisecond of one-way delay costs {first} {:.1} ms in A and {:.1} ms in B ({}), \
                 {second} {:.1} ms and {:.1} ms ({}).",
                a[0],
                b[0],
                more(a[0], b[0]),
                a[1],
                b[1],
                more(a[1], b[1]),
            ));
        }
        if let Some(grown) = one.grown {
            let names = [one.first.name(), one.second.name()];
            let sentence = grown.sentence(names, ["in A", "in B"]);
            sentences.push(format!("{about}{sentence}"));
        }
    }
    sentences.push("Of both the means alone are known: none of this has an interval.".into());
    sentences
}

fn places(found: &[f64]) -> String {
    match found {
        [] => "nowhere".into(),
        found => {
            let found: Vec<String> = found
                .iter()
                .map(|place| words::milliseconds(*place))
                .collect();
            format!("at {}", words::list(&found))
        }
    }
}

/// Says by how much B's slope is above A's, in per cent.
fn more(a: f64, b: f64) -> String {
    match a.abs() > f64::EPSILON {
        true => words::percent(100.0 * (b / a - 1.0)),
        false => "none in A".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_record::read_reference;

    /// The published means of two environments of an earlier lab.
    fn rows(topology: &str) -> Vec<ReferenceRow> {
        let text = include_str!("../../../../results/reference/environments.csv");
        let mut rows = read_reference(text).unwrap();
        rows.retain(|row| row.topology.to_string() == topology);
        rows
    }

    #[test]
    fn two_published_environments_cross_where_they_were_reported_to() {
        let (direct, proxied) = (rows("direct"), rows("proxied"));
        let found = compare_figures(("direct.csv", &direct), ("proxied.csv", &proxied)).unwrap();
        let series = &found.series[0];
        assert!(
            (45.0..50.0).contains(&series.crossovers_a_ms[0]),
            "{series:?}"
        );
        assert!((series.crossovers_b_ms[0] - 0.6).abs() < 0.05, "{series:?}");
        let [h2, h3] = series.growth_b.unwrap();
        assert!(h2 > h3, "{h2} {h3}");
        let grown = series.grown.unwrap();
        assert_eq!((grown.from_delay_us, grown.to_delay_us), (0, 50_000));
        assert!((grown.first_b_percent - 39.9).abs() < 0.05, "{grown:?}");
        let text = found.table();
        assert!(text.contains("A: direct.csv\nB: proxied.csv\n"), "{text}");
        assert!(text.contains("none of this has an interval"), "{text}");
    }

    #[test]
    fn figures_of_several_servers_or_clients_are_kept_apart() {
        let table = |servers: &[(&str, f64)]| {
            let mut text = "server,client,delay_us,size_bytes,protocol,mean_us\n".to_owned();
            for (server, h3) in servers {
                text.push_str(&format!(
                    "{server},altway,0,1000,h2,10\n{server},altway,0,1000,h3,{h3}\n"
                ));
            }
            read_reference(&text).unwrap()
        };
        let both = table(&[("altway", 8.0), ("nginx", 12.0)]);
        let found = compare_figures(("a", &both), ("b", &both)).unwrap();
        let said: Vec<_> = found
            .series
            .iter()
            .map(|one| {
                (
                    one.condition_b.rsplit(" · ").next().unwrap(),
                    one.cells[0].b_us[1],
                )
            })
            .collect();
        assert_eq!(said, [("server altway", 8.0), ("server nginx", 12.0)]);
        // One each is what the two are compared over.
        let (altway, nginx) = (table(&[("altway", 8.0)]), table(&[("nginx", 12.0)]));
        let found = compare_figures(("a", &altway), ("b", &nginx)).unwrap();
        assert!(
            found.table().contains("server altway in A, "),
            "{}",
            found.table()
        );
        // A table of one beside one of two: of the same server alone.
        let found = compare_figures(("a", &nginx), ("b", &both)).unwrap();
        assert_eq!((found.series.len(), found.unmatched), (1, 1));
    }

    #[test]
    fn a_table_agrees_with_itself_and_with_nothing_of_another_size() {
        let rows = rows("direct");
        let same = compare_figures(("a", &rows), ("b", &rows)).unwrap();
        assert!(same.series[0].cells.iter().all(|cell| cell.agrees));
        assert_eq!(same.unmatched, 0);
        let mut other = rows.clone();
        other.iter_mut().for_each(|row| row.size_bytes += 1);
        assert!(matches!(
            compare_figures(("a", &rows), ("b", &other)),
            Err(Error::NoCommonCell { .. })
        ));
    }
}
