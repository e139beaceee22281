//! Pairs of series that are held against each other, out of two runs or of two parts of a run.

use super::axis::Axis;
use crate::analysis::{Analysis, Series};
use crate::{Error, Run, words};
use altway_record::{Cell, Manifest};
use std::time::Duration;

/// A run, or the part of one.
pub(super) struct Side<'s, 'a> {
    pub(super) analysis: &'s Analysis<'a>,
    /// Series in which something was measured.
    pub(super) series: Vec<&'s Series>,
}

impl<'s, 'a> Side<'s, 'a> {
    pub(super) fn whole(analysis: &'s Analysis<'a>) -> Self {
        let measured = |series: &&Series| {
            analysis
                .cells_of(series)
                .any(|cell| !cell.pairings.is_empty())
        };
        Self {
            analysis,
            series: analysis.series.iter().filter(measured).collect(),
        }
    }

    /// The parts that differ in `axis`, each with its value, in the plan's order.
    pub(super) fn by(analysis: &'s Analysis<'a>, axis: Axis) -> Vec<(String, Self)> {
        let whole = Self::whole(analysis);
        let mut parts: Vec<(String, Self)> = Vec::new();
        for series in &whole.series {
            let value = axis.value(whole.cell_of(series));
            match parts.iter_mut().find(|(one, _)| *one == value) {
                Some((_, part)) => part.series.push(series),
                None => parts.push((
                    value,
                    Self {
                        analysis,
                        series: vec![series],
                    },
                )),
            }
        }
        parts
    }

    fn cells(&self) -> Vec<Cell> {
        let indices = self.series.iter().flat_map(|series| &series.cells);
        indices
            .map(|index| self.analysis.cells[*index].cell)
            .collect()
    }

    /// A cell that stands for its series.
    pub(super) fn cell_of(&self, series: &Series) -> &'s Cell {
        &self.analysis.cells[series.cells[0]].cell
    }

    /// The series of the same conditions as `cell`, whatever it has in the axes `ignored`.
    pub(super) fn like(&self, cell: &Cell, ignored: &[Axis]) -> Option<&'s Series> {
        let key = condition(cell, ignored);
        let mut all = self.series.iter().copied();
        all.find(|series| condition(self.cell_of(series), ignored) == key)
    }
}

/// The cell without its delay, its place in the plan and what is ignored.
fn condition(cell: &Cell, ignored: &[Axis]) -> Cell {
    let bare = Cell {
        index: 0,
        delay: Duration::ZERO,
        ..*cell
    };
    ignored.iter().fold(bare, |cell, axis| axis.without(cell))
}

/// Returns the axes around the link that have one value in the first run and another in the second; none
/// when the runs have a series in common as they are.
pub(super) fn apart(a: &Analysis<'_>, b: &Analysis<'_>) -> Vec<Axis> {
    let (of_a, of_b) = (Side::whole(a), Side::whole(b));
    let in_both = |series: &&Series| of_b.like(of_a.cell_of(series), &[]).is_some();
    if of_a.series.iter().any(in_both) {
        return Vec::new();
    }
    let only = |side: &Side<'_, '_>, axis: Axis| {
        let mut cells = side.series.iter().map(|series| *side.cell_of(series));
        let first = cells.next()?;
        cells
            .all(|cell| axis.is_same(&first, &cell))
            .then_some(first)
    };
    let differ = |axis: &Axis| {
        let both = only(&of_a, *axis).zip(only(&of_b, *axis));
        both.is_some_and(|(a, b)| !axis.is_same(&a, &b))
    };
    Axis::AROUND_THE_LINK.into_iter().filter(differ).collect()
}

/// Returns the run's values on the axes, which each have one value in it.
pub(super) fn values(analysis: &Analysis<'_>, axes: &[Axis]) -> String {
    let cell = &analysis.cells[0].cell;
    let values: Vec<String> = axes.iter().map(|axis| axis.value(cell)).collect();
    values.join(", ")
}

/// Returns the words that two series have in common.
pub(super) fn common_words(a: &Cell, b: &Cell) -> String {
    let of_b = words::series(b);
    let in_both = |part: &&str| of_b.split(" · ").any(|other| other == *part);
    let of_a = words::series(a);
    of_a.split(" · ")
        .filter(in_both)
        .collect::<Vec<_>>()
        .join(" · ")
}

/// Refuses runs whose times are of different kinds.
pub(super) fn check_alike(a: &Run<'_>, b: &Run<'_>) -> Result<(), Error> {
    let (a, b) = (&a.manifest.plan, &b.manifest.plan);
    if a.scenario != b.scenario {
        let (first, second) = (a.scenario.name(), b.scenario.name());
        return Err(Error::Scenarios {
            first: first.into(),
            second: match second == first {
                true => format!("{second} with other settings"),
                false => second.into(),
            },
        });
    }
    if a.protocols[0] != b.protocols[0] {
        return Err(Error::Baselines {
            first: a.protocols[0],
            second: b.protocols[0],
        });
    }
    let seconds = a.protocols[1..].iter();
    let in_both = seconds.filter(|one| b.protocols[1..].contains(one)).count();
    if in_both == 0 && a.protocols.len() > 1 && b.protocols.len() > 1 {
        return Err(Error::Seconds {
            first: a.protocols[0],
        });
    }
    Ok(())
}

/// Explains why two sides have no cell in common: by the values that none of them shares with the other.
pub(super) fn nothing_in_common(a: &Side<'_, '_>, b: &Side<'_, '_>) -> Error {
    if a.series.is_empty() || b.series.is_empty() {
        return Error::NothingMeasured;
    }
    let (of_a, of_b) = (a.cells(), b.cells());
    let apart = |value: &dyn Fn(&Cell) -> String| {
        let distinct = |cells: &[Cell]| {
            let mut values: Vec<String> = Vec::new();
            for value in cells.iter().map(value) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            values
        };
        let (first, second) = (distinct(&of_a), distinct(&of_b));
        let shared = first.iter().any(|value| second.contains(value));
        (!shared).then(|| format!("{} against {}", words::list(&first), words::list(&second)))
    };
    let mut differ: Vec<String> = Axis::ALL
        .into_iter()
        .filter_map(|axis| apart(&|cell| axis.value(cell)))
        .collect();
    differ.extend(apart(&|cell| words::size(cell.size)));
    differ.extend(apart(&|cell| format!("{} delay", words::delay(cell.delay))));
    if differ.is_empty() {
        differ.push("no combination of conditions is the same".into());
    }
    Error::NoCommonCell {
        differ: differ.join("; "),
    }
}

/// Facts of two runs that are not the same and may bear on their times.
pub(super) fn also_different(a: &Manifest, b: &Manifest) -> Vec<String> {
    let version = |of: &Manifest| {
        let commit = of.altway_commit.as_deref().unwrap_or("no commit");
        format!(
            "{} ({})",
            of.altway_version,
            commit.get(..12).unwrap_or(commit)
        )
    };
    let programs = |of: &Manifest| {
        let one = |(name, version): (&String, &String)| format!("{name} {version}");
        words::list(&of.programs.iter().map(one).collect::<Vec<_>>())
    };
    let told = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not told".into());
    let built = |of: &Manifest| {
        let build = &of.build;
        let dirty = build
            .dirty
            .filter(|dirty| *dirty)
            .map(|_| "with changes that no commit has");
        let parts = [&build.compiler, &build.target, &build.profile];
        let parts = parts.into_iter().flatten().map(String::as_str).chain(dirty);
        parts.collect::<Vec<_>>().join(", ")
    };
    let machine = |of: &Manifest| format!("{} × {}", of.host.cpu_count, of.host.cpu);
    let facts = [
        ("altway", version(a), version(b)),
        ("programs", programs(a), programs(b)),
        ("build", built(a), built(b)),
        ("distribution", told(&a.host.os), told(&b.host.os)),
        (
            "microcode",
            told(&a.host.microcode),
            told(&b.host.microcode),
        ),
        (
            "frequency governor",
            told(&a.host.governor),
            told(&b.host.governor),
        ),
        (
            "clock source",
            told(&a.host.clock_source),
            told(&b.host.clock_source),
        ),
        (
            "hypervisor",
            told(&a.host.hypervisor),
            told(&b.host.hypervisor),
        ),
        ("kernel", a.host.kernel.clone(), b.host.kernel.clone()),
        ("processors", machine(a), machine(b)),
        ("backend", a.link.backend.clone(), b.link.backend.clone()),
    ];
    let said = |text: &str| match text {
        "" => "none".to_owned(),
        text => text.to_owned(),
    };
    let differ = facts.iter().filter(|(_, a, b)| a != b);
    differ
        .map(|(name, a, b)| format!("{name}: {} in A, {} in B", said(a), said(b)))
        .collect()
}
