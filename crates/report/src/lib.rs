//! Tables, pictures and one HTML page from the lab's records.
//!
//! A pure function of a run's manifest and samples: the same records give the same bytes, so an old
//! run can be drawn again years later. It names who is faster where, and how sure that is; it says
//! what is missing instead of failing when a run is empty or was stopped half-way. Two runs, or two
//! parts of one, are held against each other by [`compare`] and [`compare_by`].
//! Left to others: measuring (`lab`), the statistics themselves (`stats`), the spelling of records
//! (`record`), and writing the files (`cli`).
//!
//! ```
//! # let manifest = altway_record::Manifest::from_json(include_str!("../tests/data/manifest.json"))?;
//! # let samples = altway_record::read_samples(include_str!("../tests/data/samples.csv"))?;
//! let rendered = altway_report::render(&altway_report::Run {
//!     manifest: &manifest, // from manifest.json
//!     samples: &samples,   // from samples.csv
//! })?;
//! assert!(rendered.table.contains("HTTP/3 becomes faster somewhere between 0 and 100 ms"));
//! assert!(rendered.files().any(|(name, _)| name == "report.html"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod analysis;
mod canvas;
mod choice;
mod compare;
mod draw;
mod error;
pub mod figure;
mod html;
mod judge;
mod null_arm;
mod pictures;
mod place;
mod selection;
mod summary;
mod table;
mod verdict;
mod words;

use altway_record::{Manifest, Sample, SummaryRow, Traced};
use analysis::Analysis;

pub use choice::{Choice, choices};
pub use compare::{
    Axis, CellContrast, CellSide, Circumstance, Contrast, Crossing, Estimate, FiguresCell,
    FiguresContrast, FiguresSeries, Growth, NamedRun, PartContrast, ReferenceCell,
    ReferenceContrast, ReferenceSeries, SeriesContrast, TimeGrowth, compare, compare_by,
    compare_figures, compare_with_reference,
};
pub use error::Error;
pub use figure::Figure;
pub use null_arm::{NullCheck, null_check};
pub use words::{percent, signed, signed_to, with_minus};

/// Records of a run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// `manifest.json`.
    pub manifest: &'a Manifest,
    /// `samples.csv`, in any order.
    pub samples: &'a [Sample],
}

/// The outputs that are made of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The rows of the summary: one per cell and protocol, in the plan's order.
    pub summary: Vec<SummaryRow>,
    /// The same as `summary.csv`.
    pub summary_csv: String,
    /// The closing table for a terminal: at most 100 columns, plain text, line end at the end.
    pub table: String,
    /// The pictures; those that nothing was measured for are left out.
    pub pictures: Vec<Picture>,
    /// `report.html`: one file that loads nothing from elsewhere.
    pub html: String,
}

/// A picture, as data and drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Content of the picture: its title, its sentences and its numbers.
    pub figure: Figure,
    /// Width of both forms, in pixels.
    pub width: u32,
    /// Height of both forms, in pixels: grows with the number of panels.
    pub height: u32,
    /// The SVG, with its font.
    pub svg: String,
    /// The PNG.
    pub png: Vec<u8>,
}

impl Rendered {
    /// The files of the run folder, each with its name: `summary.csv`, `report.html`, and an SVG
    /// and a PNG per picture.
    pub fn files(&self) -> impl Iterator<Item = (String, &[u8])> {
        let texts = [
            ("summary.csv", &self.summary_csv),
            ("report.html", &self.html),
        ]
        .map(|(name, text)| (name.to_owned(), text.as_bytes()));
        let pictures = self.pictures.iter().flat_map(|picture| {
            let name = &picture.figure.name;
            [
                (format!("{name}.svg"), picture.svg.as_bytes()),
                (format!("{name}.png"), picture.png.as_slice()),
            ]
        });
        texts.into_iter().chain(pictures)
    }
}

/// The rows of `summary.csv` alone, as [`render`] makes them.
///
/// # Errors
/// A sample that does not belong to the plan.
pub fn summary(run: &Run<'_>) -> Result<Vec<SummaryRow>, Error> {
    Ok(summary::rows(&Analysis::of_cells(run)?))
}

/// Draws a figure that is of no run: a model's map, the residuals of a fit.
///
/// # Errors
/// The figure can't be drawn.
pub fn draw(figure: Figure) -> Result<Picture, Error> {
    draw::draw(figure)
}

/// Makes the tables, pictures and the page of a run.
///
/// Intervals are 95 %: of the signed-rank test, from 12 pairs on; where cells may be left early, wide
/// enough for all looks. The crossover's come from 10,000 resamples seeded with the plan's seed, a zero
/// line's from 2,000. Costs less than 0.1 s per cell of 25 pairs. The pictures are at most eight, or
/// ten with three protocols, whatever the plan.
///
/// # Errors
/// A sample that does not belong to the plan, or a picture that can't be drawn.
pub fn render(run: &Run<'_>) -> Result<Rendered, Error> {
    render_with_traces(run, &[])
}

/// The same, with a section of the page that names the files of each transfer that was traced.
///
/// # Errors
/// The errors of [`render`].
pub fn render_with_traces(run: &Run<'_>, traced: &[Traced]) -> Result<Rendered, Error> {
    let analysis = Analysis::new(run)?;
    let summary = summary::rows(&analysis);
    let pictures = pictures::draw_all(&analysis)?;
    Ok(Rendered {
        summary_csv: summary::to_csv(&summary),
        table: table::closing(&analysis),
        html: html::page(&analysis, &pictures, traced),
        pictures,
        summary,
    })
}
