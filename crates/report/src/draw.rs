//! Figures on paper: sentences, legend, panels and how to read them, as SVG and PNG.
//!
//! Left to others: what stands in a figure (`pictures`), colours and fonts (`canvas`).

mod marks;
mod panel;

use crate::canvas::{
    self, Area, DrawResult, Drawing, GREY, HEIGHT, INK, MarkStyle, Marker, WIDTH, mark_style,
};
use crate::figure::{Figure, LegendEntry, Mark, Panel};
use crate::pictures::{evenly, left_out};
use crate::{Error, Picture};
use panel::PanelLayout;
use plotters::element::{DashedPathElement, PathElement};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::borrow::Cow;

/// Space around everything, in pixels.
const MARGIN: i32 = 40;
/// Width that texts have.
const ROOM: i32 = WIDTH as i32 - 2 * MARGIN;
/// Height of a line of the title, of what follows from the picture, of the legend, and of how to
/// read it.
const LINES: [i32; 4] = [52, 37, 46, 30];
/// Least height of a panel, and of a row of places that are no quantity.
const LEAST: (i32, i32) = (300, 30);

/// Paper has room for so many panels.
pub(crate) const MAX_PANELS: usize = 12;

/// Draws a figure.
pub(crate) fn draw(figure: Figure) -> Result<Picture, Error> {
    let on_paper = abridged(&figure);
    let sheet = WrappedFigure::new(&on_paper);
    let height = sheet.height;
    let (svg, png) = canvas::paint(&figure.name, height, &sheet)?;
    Ok(Picture {
        figure,
        width: WIDTH,
        height,
        svg,
        png,
    })
}

/// The figure with as many of its panels as paper has room for, and a sentence about the rest.
fn abridged(figure: &Figure) -> Cow<'_, Figure> {
    let all = figure.panels.len();
    if all <= MAX_PANELS {
        return Cow::Borrowed(figure);
    }
    Cow::Owned(Figure {
        panels: evenly(figure.panels.clone(), MAX_PANELS),
        legend_text: figure.legend_text.clone() + &left_out(MAX_PANELS, all, "panels"),
        ..figure.clone()
    })
}

/// A figure whose texts are broken into lines, and what that makes of its height.
struct WrappedFigure<'a> {
    figure: &'a Figure,
    title: Vec<String>,
    caption: Vec<String>,
    /// Each key with its left end.
    legend: Vec<Vec<(i32, &'a LegendEntry)>>,
    legend_text: Vec<String>,
    /// True if colours fill areas, and are no lines.
    filled: bool,
    columns: usize,
    rows: usize,
    height: u32,
}

impl<'a> WrappedFigure<'a> {
    fn new(figure: &'a Figure) -> Self {
        let columns = columns(figure);
        let mut sheet = Self {
            figure,
            title: canvas::wrapped(&figure.title, ROOM, &title_style()),
            caption: canvas::wrapped(&figure.caption, ROOM, &caption_style()),
            legend: legend_rows(&figure.legend),
            legend_text: canvas::wrapped(&figure.legend_text, ROOM, &legend_text_style()),
            filled: fills(figure),
            columns,
            rows: figure.panels.len().div_ceil(columns).max(1),
            height: HEIGHT,
        };
        let least = figure.panels.iter().map(least_height).max().unwrap_or(0);
        let all = sheet.header() + sheet.rows as i32 * least + sheet.footer();
        sheet.height = HEIGHT.max(u32::try_from(all).unwrap_or(HEIGHT));
        sheet
    }

    /// Height of what stands above the panels.
    fn header(&self) -> i32 {
        let [title, caption, legend, _] = LINES;
        MARGIN
            + title * self.title.len() as i32
            + caption * self.caption.len() as i32
            + legend * self.legend.len() as i32
            + 16
    }

    /// Height of what stands below them.
    fn footer(&self) -> i32 {
        LINES[3] * self.legend_text.len() as i32 + MARGIN
    }

    fn draw_header<B: DrawingBackend>(&self, paper: &Area<B>) -> DrawResult<B> {
        let mut y = MARGIN - 10;
        let parts = [
            (&self.title, title_style(), LINES[0]),
            (&self.caption, caption_style(), LINES[1]),
        ];
        for (lines, style, height) in parts {
            draw_lines(paper, lines, &style, y, height)?;
            y += height * lines.len() as i32;
        }
        for row in &self.legend {
            for (x, key) in row {
                let middle = (*x, y + LINES[2] / 2);
                draw_key(paper, middle, key, self.filled)?;
            }
            y += LINES[2];
        }
        Ok(())
    }
}

impl Drawing for WrappedFigure<'_> {
    fn draw<B: DrawingBackend>(&self, paper: &Area<B>) -> DrawResult<B> {
        paper.fill(&WHITE)?;
        self.draw_header(paper)?;
        let foot = self.height as i32 - self.footer();
        let (above, _) = paper.split_vertically(foot);
        let (_, middle) = above.split_vertically(self.header());
        let middle = middle.margin(0, 8, MARGIN / 2, MARGIN);
        let layout = PanelLayout::for_panels(self.rows, self.columns);
        let areas = middle.split_evenly((self.rows, self.columns));
        for (panel, area) in self.figure.panels.iter().zip(areas) {
            panel::draw(panel, &area, &layout)?;
        }
        draw_lines(
            paper,
            &self.legend_text,
            &legend_text_style(),
            foot + 10,
            LINES[3],
        )
    }
}

fn title_style() -> TextStyle<'static> {
    canvas::bold(42, INK)
}

fn caption_style() -> TextStyle<'static> {
    canvas::text(28, INK)
}

fn legend_text_style() -> TextStyle<'static> {
    canvas::text(22, GREY)
}

fn draw_lines<B: DrawingBackend>(
    paper: &Area<B>,
    lines: &[String],
    style: &TextStyle<'static>,
    y: i32,
    height: i32,
) -> DrawResult<B> {
    for (i, line) in lines.iter().enumerate() {
        let at = (MARGIN, y + height * i as i32);
        paper.draw(&Text::new(line.as_str(), at, style.clone()))?;
    }
    Ok(())
}

/// Width of a key's line, and from its left end to its name.
const KEY: (i32, i32) = (76, 92);

fn key_style() -> TextStyle<'static> {
    canvas::text(28, INK).pos(Pos::new(HPos::Left, VPos::Center))
}

/// The keys from left to right, in as many rows as they need.
fn legend_rows(keys: &[LegendEntry]) -> Vec<Vec<(i32, &LegendEntry)>> {
    let mut rows: Vec<Vec<(i32, &LegendEntry)>> = Vec::new();
    let mut x = MARGIN;
    for key in keys {
        let width = KEY.1 + canvas::width_of(&key.name, &key_style());
        if rows.is_empty() || x + width > MARGIN + ROOM {
            rows.push(Vec::new());
            x = MARGIN;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, key));
        }
        x += width + 48;
    }
    rows
}

/// Returns whether a figure's colours fill areas: cells or spans of time.
fn fills(figure: &Figure) -> bool {
    let mut marks = figure.panels.iter().flat_map(|panel| &panel.marks);
    marks.any(|mark| matches!(mark, Mark::Tiles(_) | Mark::Bars(_)))
}

fn draw_key<B: DrawingBackend>(
    paper: &Area<B>,
    (x, y): (i32, i32),
    key: &LegendEntry,
    filled: bool,
) -> DrawResult<B> {
    let mark_style = mark_style(key.color);
    let name = Text::new(key.name.as_str(), (x + KEY.1, y + 2), key_style());
    if filled {
        let corners = [(x, y - 14), (x + KEY.0, y + 14)];
        paper.draw(&Rectangle::new(corners, mark_style.color.filled()))?;
        return paper.draw(&name);
    }
    let line = vec![(x, y), (x + KEY.0, y)];
    let style = mark_style.color.stroke_width(4);
    if mark_style.dashed {
        paper.draw(&DashedPathElement::new(line, 12, 8, style))?;
    } else {
        paper.draw(&PathElement::new(line, style))?;
    }
    draw_key_marker(paper, (x + KEY.0 / 2, y), &mark_style)?;
    paper.draw(&Text::new(
        key.name.as_str(),
        (x + KEY.1, y + 2),
        key_style(),
    ))
}

fn draw_key_marker<B: DrawingBackend>(
    paper: &Area<B>,
    (x, y): (i32, i32),
    mark_style: &MarkStyle,
) -> DrawResult<B> {
    const SIZE: i32 = 9;
    let style = mark_style.color.filled();
    match mark_style.marker {
        Marker::Circle => paper.draw(&Circle::new((x, y), SIZE, style)),
        Marker::Triangle => paper.draw(&TriangleMarker::new((x, y), SIZE + 3, style)),
        Marker::Square => paper.draw(&Rectangle::new(
            [(x - SIZE, y - SIZE), (x + SIZE, y + SIZE)],
            style,
        )),
    }
}

fn least_height(panel: &Panel) -> i32 {
    let (least, row) = LEAST;
    let rows = match panel.y.unit.as_str() {
        "" => panel.y.ticks.len() as i32,
        _ => 0,
    };
    least.max(130 + row * rows)
}

/// Returns how many panels stand side by side: fewer when their own columns would become too narrow.
fn columns(figure: &Figure) -> usize {
    const BROAD: usize = 6;
    let broad = |panel: &Panel| {
        let mut marks = panel.marks.iter();
        panel.x.ticks.len() > BROAD && marks.any(|mark| matches!(mark, Mark::Tiles(_)))
    };
    let most = if figure.panels.iter().any(broad) {
        2
    } else {
        4
    };
    let columns = match figure.panels.len() {
        0 | 1 => 1,
        2 | 4 => 2,
        3 | 5..=9 => 3,
        _ => 4,
    };
    columns.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::MarkColor;

    #[test]
    fn a_legend_that_is_too_long_goes_on_in_the_next_row() {
        let key = |at| LegendEntry {
            color: MarkColor::Step { at, of: 12 },
            name: format!("{at}00 Mbit/s"),
        };
        let keys: Vec<LegendEntry> = (0..12).map(key).collect();
        let rows = legend_rows(&keys);
        assert!(rows.len() > 1);
        assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), 12);
        assert!(rows.iter().all(|row| row[0].0 == MARGIN));
    }
}
