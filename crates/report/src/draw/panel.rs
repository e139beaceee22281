//! A pair of axes with its marks.

use super::marks;
use crate::canvas::{self, Area, DrawResult, GREY, GRID, INK};
use crate::figure::{Axis, Mark, Panel};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// Sizes that depend on how many panels share the picture, in pixels.
pub(super) struct PanelLayout {
    pub(super) text: u32,
    pub(super) marker: i32,
    pub(super) speck: i32,
    pub(super) line: u32,
}

impl PanelLayout {
    pub(super) fn for_panels(rows: usize, columns: usize) -> Self {
        let (text, marker, speck, line) = match (rows, columns) {
            (1, 1) => (28, 9, 3, 4),
            (1 | 2, 1 | 2) => (24, 7, 3, 3),
            (_, 1..=3) => (21, 5, 2, 3),
            _ => (19, 5, 2, 2),
        };
        Self {
            text,
            marker,
            speck,
            line,
        }
    }
}

/// Coordinate system on which a panel's marks are drawn.
pub(super) type Place = Cartesian2d<PlottersAxis, PlottersAxis>;

/// An axis as plotters takes it.
#[derive(Clone)]
pub(super) struct PlottersAxis(Axis);

impl Ranged for PlottersAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        // Far outside is as good as further outside, and no number overflows.
        let share = self.0.share(*value).clamp(-4.0, 5.0);
        start + (share * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            return Vec::new();
        }
        self.0.ticks.iter().map(|(place, _)| *place).collect()
    }

    fn range(&self) -> Range<f64> {
        self.0.range.clone()
    }
}

impl ValueFormatter<f64> for PlottersAxis {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.0.ticks.iter().find(|(place, _)| place == value);
        tick.map_or_else(String::new, |(_, text)| text.clone())
    }
}

pub(super) fn draw<B: DrawingBackend>(
    panel: &Panel,
    area: &Area<B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let text = canvas::text(layout.text, INK);
    let (width, _) = area.dim_in_pixel();
    let left = left_of_axis(panel, layout);
    let x = uncrowded(&panel.x, width as i32 - left as i32 - 24, layout);
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(12)
        .x_label_area_size(layout.text * 5 / 2)
        .y_label_area_size(left);
    if !panel.title.is_empty() {
        builder.caption(
            &panel.title,
            fitting(&panel.title, width as i32 - 24, layout),
        );
    }
    let mut chart = builder.build_cartesian_2d(PlottersAxis(x), PlottersAxis(panel.y.clone()))?;
    chart
        .configure_mesh()
        .x_labels(panel.x.ticks.len())
        .y_labels(panel.y.ticks.len())
        .x_desc(panel.x.label())
        .y_desc(panel.y.label())
        .label_style(text.clone())
        .axis_desc_style(text)
        .axis_style(GREY)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    let lined = |mark: &Mark| matches!(mark, Mark::Series(_));
    let lined = panel.marks.iter().any(lined);
    for mark in &panel.marks {
        match mark {
            Mark::Tiles(tiles) => marks::draw_tiles(tiles, lined, &mut chart, layout)?,
            other => marks::draw(other, &mut chart, layout)?,
        }
    }
    Ok(())
}

/// The panel's title in the largest size that fits.
fn fitting(title: &str, room: i32, layout: &PanelLayout) -> TextStyle<'static> {
    const SMALLEST: u32 = 14;
    let sizes = (SMALLEST..=layout.text).rev();
    let mut styles = sizes.map(|size| canvas::bold(size, INK));
    let fits = |style: &TextStyle<'_>| canvas::width_of(title, style) <= room;
    styles
        .find(fits)
        .unwrap_or_else(|| canvas::bold(SMALLEST, INK))
}

/// Room for the texts of the y-axis and for its name.
fn left_of_axis(panel: &Panel, layout: &PanelLayout) -> u32 {
    let style = canvas::text(layout.text, INK);
    let widths = panel.y.ticks.iter();
    let widest = widths.map(|(_, text)| canvas::width_of(text, &style)).max();
    let name = if panel.y.label().is_empty() { 1 } else { 2 };
    widest.unwrap_or(0).max(0) as u32 + layout.text * name
}

/// The axis with every so many of its ticks that their texts stand apart.
fn uncrowded(axis: &Axis, room: i32, layout: &PanelLayout) -> Axis {
    let style = canvas::text(layout.text, INK);
    let widths = axis.ticks.iter();
    let widest = widths.map(|(_, text)| canvas::width_of(text, &style)).max();
    let pixels = |place: f64| axis.share(place) * f64::from(room);
    let apart = |every: &usize| {
        let places: Vec<f64> = axis
            .ticks
            .iter()
            .step_by(*every)
            .map(|tick| pixels(tick.0))
            .collect();
        let least = f64::from(widest.unwrap_or(0)) + 12.0;
        places.windows(2).all(|pair| pair[1] - pair[0] >= least)
    };
    let every = (1..=axis.ticks.len()).find(apart).unwrap_or(1);
    let ticks = axis.ticks.iter().step_by(every).cloned().collect();
    Axis {
        ticks,
        ..axis.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Spacing;

    #[test]
    fn texts_of_an_axis_never_touch() {
        let tick = |i: u32| (f64::from(i), format!("{i} Mbit/s"));
        let axis = Axis {
            name: String::new(),
            unit: String::new(),
            range: -0.5..39.5,
            spacing: Spacing::Linear,
            ticks: (0..40).map(tick).collect(),
        };
        let layout = PanelLayout::for_panels(1, 1);
        let kept = uncrowded(&axis, 1_400, &layout).ticks;
        assert!((4..12).contains(&kept.len()), "{}", kept.len());
        assert_eq!(uncrowded(&axis, 14_000, &layout).ticks.len(), 40);
    }
}
