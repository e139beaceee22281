//! Drawing of the marks between the axes.

use super::panel::{PanelLayout, Place};
use crate::canvas::{self, DrawResult, GREY, INK, MarkStyle, Marker, mark_style};
use crate::figure::{Align, Bar, Form, Mark, Series, Spread, Tile, Tiles};
use plotters::chart::ChartContext;
use plotters::element::{DashedPathElement, PathElement};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Half the width of a whisker's cap, in pixels.
const CAP: i32 = 7;
/// Distance between the lines of a hatched cell, in pixels.
const HATCH: i32 = 12;
/// The smallest text that is worth printing.
const SMALLEST: u32 = 12;

type Chart<'a, B> = ChartContext<'a, B, Place>;

pub(super) fn draw<B: DrawingBackend>(
    mark: &Mark,
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    match mark {
        Mark::Series(series) => draw_series(series, chart, layout),
        Mark::Tiles(tiles) => draw_tiles(tiles, false, chart, layout),
        Mark::Area { color, outline, .. } => {
            let color = mark_style(*color).color.mix(0.14);
            chart.draw_series([Polygon::new(outline.clone(), color)])?;
            Ok(())
        }
        Mark::Bars(bars) => draw_bars(bars, chart),
        Mark::Rule {
            color,
            from,
            to,
            dashed,
            ..
        } => {
            let (line, style) = (vec![*from, *to], mark_style(*color).color.stroke_width(2));
            if *dashed {
                chart.draw_series([DashedPathElement::new(line, 10, 8, style)])?;
            } else {
                chart.draw_series([PathElement::new(line, style)])?;
            }
            Ok(())
        }
        Mark::Note { at, text, align } => draw_note(*at, text, *align, chart, layout),
    }
}

fn draw_series<B: DrawingBackend>(
    series: &Series,
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let mark_style = mark_style(series.color);
    draw_spread(series, &mark_style, chart, layout)?;
    let points: Vec<(f64, f64)> = series
        .points
        .iter()
        .map(|datum| (datum.x + series.aside, datum.y))
        .collect();
    match series.form {
        Form::Line => draw_line(&points, &mark_style, chart, layout),
        Form::Points => draw_markers(&points, &mark_style, chart, layout.marker),
        Form::LineAndPoints => {
            draw_line(&points, &mark_style, chart, layout)?;
            draw_markers(&points, &mark_style, chart, layout.marker)
        }
        Form::Steps => draw_line(&staircase(&points, chart), &mark_style, chart, layout),
        Form::SmallPoints => {
            let color = mark_style.color.mix(0.35).filled();
            chart.draw_series(
                points
                    .iter()
                    .map(|at| Circle::new(*at, layout.speck, color)),
            )?;
            Ok(())
        }
    }
}

fn draw_spread<B: DrawingBackend>(
    series: &Series,
    mark_style: &MarkStyle,
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let intervals = series.points.iter().filter_map(|datum| {
        let (low, high) = datum.interval?;
        Some((datum.x + series.aside, low, high))
    });
    let intervals: Vec<(f64, f64, f64)> = intervals.collect();
    match series.spread {
        Spread::None => {}
        Spread::Ribbon => {
            let lower = intervals.iter().map(|(x, low, _)| (*x, *low));
            let upper = intervals.iter().rev().map(|(x, _, high)| (*x, *high));
            let outline: Vec<(f64, f64)> = lower.chain(upper).collect();
            chart.draw_series([Polygon::new(outline, mark_style.color.mix(0.18))])?;
        }
        Spread::Bars => {
            let style = mark_style.color.mix(0.3).stroke_width(2 * layout.line + 6);
            let bar = |(x, low, high)| PathElement::new(vec![(x, low), (x, high)], style);
            chart.draw_series(intervals.into_iter().map(bar))?;
        }
        Spread::Whiskers => {
            let style = mark_style.color.stroke_width(layout.line - 1);
            for (x, low, high) in intervals {
                let cap = || PathElement::new(vec![(-CAP, 0), (CAP, 0)], style);
                chart.draw_series([PathElement::new(vec![(x, low), (x, high)], style)])?;
                chart.draw_series([low, high].map(|y| EmptyElement::at((x, y)) + cap()))?;
            }
        }
    }
    Ok(())
}

/// The distribution from edge to edge: each value raises it.
fn staircase<B: DrawingBackend>(points: &[(f64, f64)], chart: &Chart<'_, B>) -> Vec<(f64, f64)> {
    let range = chart.x_range();
    let (mut steps, mut level) = (vec![(range.start, 0.0)], 0.0);
    for (x, y) in points {
        steps.extend([(*x, level), (*x, *y)]);
        level = *y;
    }
    steps.push((range.end, level));
    steps
}

fn draw_line<B: DrawingBackend>(
    points: &[(f64, f64)],
    mark_style: &MarkStyle,
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let style = mark_style.color.stroke_width(layout.line);
    if mark_style.dashed {
        chart.draw_series(DashedLineSeries::new(points.iter().copied(), 14, 9, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    }
    Ok(())
}

fn draw_markers<B: DrawingBackend>(
    points: &[(f64, f64)],
    mark_style: &MarkStyle,
    chart: &mut Chart<'_, B>,
    size: i32,
) -> DrawResult<B> {
    let style = mark_style.color.filled();
    match mark_style.marker {
        Marker::Circle => {
            chart.draw_series(points.iter().map(|at| Circle::new(*at, size, style)))?;
        }
        Marker::Triangle => {
            let triangle = |at: &(f64, f64)| TriangleMarker::new(*at, size + 3, style);
            chart.draw_series(points.iter().map(triangle))?;
        }
        Marker::Square => {
            let square = || Rectangle::new([(-size, -size), (size, size)], style);
            chart.draw_series(points.iter().map(|at| EmptyElement::at(*at) + square()))?;
        }
    }
    Ok(())
}

fn draw_bars<B: DrawingBackend>(bars: &[Bar], chart: &mut Chart<'_, B>) -> DrawResult<B> {
    let bar = |bar: &Bar| {
        let half = bar.breadth / 2.0;
        let corners = [(bar.x.start, bar.y - half), (bar.x.end, bar.y + half)];
        Rectangle::new(
            corners,
            mark_style(bar.color).color.mix(bar.strength).filled(),
        )
    };
    chart.draw_series(bars.iter().map(bar))?;
    Ok(())
}

/// A map's cells; `lined` when lines go through them.
pub(super) fn draw_tiles<B: DrawingBackend>(
    tiles: &Tiles,
    lined: bool,
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let side = |a: (f64, f64), b: (f64, f64)| {
        let (a, b) = (chart.backend_coord(&a), chart.backend_coord(&b));
        ((b.0 - a.0).abs(), (b.1 - a.1).abs())
    };
    let size = side((0.0, 0.0), (1.0, 1.0));
    // Lines between cells go through their middles: where there is room, the text is above.
    let text = text_size(tiles, size, layout).map(|text| {
        let up = if lined && size.1 > 4 * text as i32 {
            0.27
        } else {
            0.0
        };
        (text, up)
    });
    for tile in &tiles.tiles {
        draw_tile(tile, tiles, size, chart)?;
        if let Some(text) = text {
            draw_tile_text(tile, tiles, text, chart)?;
        }
    }
    Ok(())
}

/// The size in which every cell's text fits its cell; `None` when that can't be read.
fn text_size(tiles: &Tiles, (width, height): (i32, i32), layout: &PanelLayout) -> Option<u32> {
    let fits = |size: &u32| {
        let style = canvas::text(*size, INK);
        let texts = tiles.tiles.iter().map(|tile| &tile.text);
        let widest = texts.map(|text| canvas::width_of(text, &style)).max();
        widest.unwrap_or(0) + 8 <= width && *size as i32 + 6 <= height
    };
    (SMALLEST..=layout.text + 2).rev().find(fits)
}

fn color_of(tile: &Tile, tiles: &Tiles) -> RGBColor {
    let share = tile.value.map_or(0.0, |value| value / tiles.limit);
    canvas::diverging(share, tiles.below, tiles.above)
}

fn draw_tile<B: DrawingBackend>(
    tile: &Tile,
    tiles: &Tiles,
    (width, height): (i32, i32),
    chart: &mut Chart<'_, B>,
) -> DrawResult<B> {
    let (x, y) = tile.at;
    let corners = || [(x - 0.5, y - 0.5), (x + 0.5, y + 0.5)];
    chart.draw_series([Rectangle::new(corners(), color_of(tile, tiles).filled())])?;
    if !tile.sure {
        let corner = (x - 0.5, y + 0.5);
        let style = GREY.mix(0.35).stroke_width(1);
        let hatch = |at: i32| {
            let from = ((at - height).max(0), at.min(height));
            let to = (at.min(width), (at - width).max(0));
            EmptyElement::at(corner) + PathElement::new(vec![from, to], style)
        };
        let lines = (1..)
            .map(|i| i * HATCH)
            .take_while(|at| *at < width + height);
        chart.draw_series(lines.map(hatch))?;
    }
    chart.draw_series([Rectangle::new(corners(), WHITE.stroke_width(2))])?;
    Ok(())
}

fn draw_tile_text<B: DrawingBackend>(
    tile: &Tile,
    tiles: &Tiles,
    (size, up): (u32, f64),
    chart: &mut Chart<'_, B>,
) -> DrawResult<B> {
    let color = if canvas::is_light(color_of(tile, tiles)) {
        INK
    } else {
        WHITE
    };
    let style = canvas::text(size, color).pos(Pos::new(HPos::Center, VPos::Center));
    let at = (tile.at.0, tile.at.1 + up);
    chart.draw_series([Text::new(tile.text.clone(), at, style)])?;
    Ok(())
}

/// A text on a white ground, so that what lies behind does not cross it.
fn draw_note<B: DrawingBackend>(
    at: (f64, f64),
    text: &str,
    (along_x, along_y): (Align, Align),
    chart: &mut Chart<'_, B>,
    layout: &PanelLayout,
) -> DrawResult<B> {
    let style = canvas::text(layout.text - 2, GREY);
    let (width, height) = (canvas::width_of(text, &style), layout.text as i32);
    let left = match along_x {
        Align::Before => -width,
        Align::Centre => -width / 2,
        Align::After => 0,
    };
    // Pixels count downwards, the axis upwards.
    let top = match along_y {
        Align::Before => 0,
        Align::Centre => -height / 2,
        Align::After => -height,
    };
    let ground = [(left - 4, top - 2), (left + width + 4, top + height - 6)];
    let style = style.pos(Pos::new(HPos::Left, VPos::Top));
    chart.draw_series([EmptyElement::at(at)
        + Rectangle::new(ground, WHITE.mix(0.8).filled())
        + Text::new(text.to_owned(), (left, top), style)])?;
    Ok(())
}
