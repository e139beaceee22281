//! The choice of a server for each cell, beside what was measured of both protocols.

use crate::analysis::{Analysis, CellResult};
use crate::table::columns;
use crate::words::{self, TimeUnit};
use crate::{Error, Run};
use altway_record::{Cell, Protocol};

/// A server's choice for a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The protocol that it offers.
    pub protocol: Protocol,
    /// ln(time over HTTP/3 / time over HTTP/2) that it predicts.
    pub predicted: f64,
}

/// The medians of HTTP/2 and HTTP/3 in each cell of a run, with what `choose` says of it: a table for a
/// terminal, which ends with how many choices were the better ones. `None` where the run doesn't compare the
/// two, or has measured nothing.
///
/// # Errors
/// A sample that does not belong to the plan.
pub fn choices(run: &Run<'_>, choose: &dyn Fn(&Cell) -> Choice) -> Result<Option<String>, Error> {
    let analysis = Analysis::of_cells(run)?;
    let median = |cell: &CellResult<'_>, protocol| {
        let arm = cell.arms.get(&protocol)?;
        arm.summary.map(|summary| summary.median)
    };
    let measured = |cell: &&CellResult<'_>| {
        let (h2, h3) = (median(cell, Protocol::H2)?, median(cell, Protocol::H3)?);
        Some((cell.cell, h2, h3, choose(&cell.cell)))
    };
    let cells: Vec<_> = analysis
        .cells
        .iter()
        .filter_map(|cell| measured(&cell))
        .collect();
    if cells.is_empty() {
        return Ok(None);
    }
    let unit = TimeUnit::for_times(cells.iter().flat_map(|(_, h2, h3, _)| [*h2, *h3]));
    let row = |(cell, h2, h3, choice): &(Cell, f64, f64, Choice)| {
        let times = [*h2, *h3].map(|time| unit.text(time));
        let percent = |ln: f64| words::percent((ln.exp() - 1.0) * 100.0);
        let mut row = vec![words::delay(cell.delay)];
        row.extend(times);
        row.extend([percent((h3 / h2).ln()), percent(choice.predicted)]);
        row.extend([choice.protocol.name().into(), words::series(cell)]);
        row
    };
    let head = [
        "delay",
        "HTTP/2",
        "HTTP/3",
        "difference",
        "predicted",
        "altway",
        "link",
    ];
    let rows: Vec<_> = cells.iter().map(row).collect();
    let better = |(_, h2, h3, choice): &&(Cell, f64, f64, Choice)| {
        (choice.protocol == Protocol::H3) == (h3 < h2)
    };
    let right = cells.iter().filter(better).count();
    Ok(Some(format!(
        "What altway offers over such a link by its prediction\n\n{}\nThe faster median in {right} of {}; \
         HTTP/3 is offered where it is predicted to gain more than 4 %.\n",
        columns(&head.map(str::to_owned), &rows, 5),
        words::count(cells.len(), "cell"),
    )))
}
