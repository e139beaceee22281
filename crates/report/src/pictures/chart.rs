//! Panels of shapes under one title, drawn with plotters.

use super::axis::Axis;
use crate::canvas::{
    self, Area, Drawing, Drawn, GREY, GRID, HEIGHT, INK, Look, Marker, WIDTH, look,
};
use altway_record::Protocol;
use plotters::chart::ChartContext;
use plotters::element::{DashedPathElement, PathElement};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Space around everything, in pixels.
const MARGIN: i32 = 40;
/// Half the width of a whisker's cap.
const CAP: i32 = 8;
/// Height of title, subtitle and legend together.
const HEADER: i32 = 190;

/// A whole picture.
pub(super) struct Chart {
    pub(super) title: String,
    /// How to read it, in a line.
    pub(super) subtitle: String,
    /// For the legend.
    pub(super) protocols: Vec<Protocol>,
    pub(super) panels: Vec<Panel>,
}

/// One pair of axes.
pub(super) struct Panel {
    /// Empty when there is only one panel.
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// From back to front.
    pub(super) shapes: Vec<Shape>,
}

/// What can stand in a panel; all places in the panel's own units.
pub(super) enum Shape {
    /// A filled outline.
    Fill {
        outline: Vec<(f64, f64)>,
        color: RGBAColor,
    },
    /// A curve in the protocol's colour and dash.
    Curve {
        points: Vec<(f64, f64)>,
        protocol: Protocol,
    },
    /// The protocol's markers.
    Markers {
        points: Vec<(f64, f64)>,
        protocol: Protocol,
    },
    /// Single transfers: small and light.
    Specks {
        points: Vec<(f64, f64)>,
        protocol: Protocol,
    },
    /// An interval with caps at its ends.
    Whisker {
        x: f64,
        low: f64,
        high: f64,
        protocol: Protocol,
    },
    /// A plain line.
    Rule {
        from: (f64, f64),
        to: (f64, f64),
        color: RGBColor,
        dashed: bool,
    },
    /// A note at a place.
    Note {
        at: (f64, f64),
        text: String,
        anchor: Pos,
    },
}

impl Panel {
    /// A part of the x-axis's length, to set marks beside each other.
    pub(super) fn aside(axis: &Axis, protocols: usize, which: usize) -> f64 {
        let step = axis.span() / 130.0;
        step * (which as f64 - (protocols as f64 - 1.0) / 2.0)
    }
}

impl Drawing for Chart {
    fn draw<B: DrawingBackend>(&self, paper: &Area<B>) -> Drawn<B> {
        paper.fill(&WHITE)?;
        self.draw_header(paper)?;
        let (_, below) = paper.split_vertically(HEADER);
        let below = below.margin(0, MARGIN / 2, MARGIN / 2, MARGIN);
        let columns = columns(self.panels.len());
        let rows = self.panels.len().div_ceil(columns).max(1);
        let pen = Pen::for_panels(rows, columns);
        for (panel, area) in self.panels.iter().zip(below.split_evenly((rows, columns))) {
            panel.draw(&area, &pen)?;
        }
        Ok(())
    }
}

impl Chart {
    fn draw_header<B: DrawingBackend>(&self, paper: &Area<B>) -> Drawn<B> {
        let room = WIDTH as i32 - 2 * MARGIN;
        let title = fitting(paper, &self.title, room, 48, |size| canvas::bold(size, INK))?;
        paper.draw(&Text::new(self.title.as_str(), (MARGIN, 30), title))?;
        let subtitle = fitting(paper, &self.subtitle, room, 30, |size| {
            canvas::text(size, GREY)
        })?;
        paper.draw(&Text::new(self.subtitle.as_str(), (MARGIN, 94), subtitle))?;
        self.draw_legend(paper)
    }

    fn draw_legend<B: DrawingBackend>(&self, paper: &Area<B>) -> Drawn<B> {
        const MIDDLE: i32 = 156;
        let mut x = MARGIN;
        for protocol in &self.protocols {
            let look = look(*protocol);
            let line = vec![(x, MIDDLE), (x + 76, MIDDLE)];
            if look.dashed {
                paper.draw(&DashedPathElement::new(line, 12, 8, stroke(&look, 4)))?;
            } else {
                paper.draw(&PathElement::new(line, stroke(&look, 4)))?;
            }
            draw_legend_marker(paper, (x + 38, MIDDLE), &look)?;
            let style = canvas::text(30, INK).pos(Pos::new(HPos::Left, VPos::Center));
            let (width, _) = paper.estimate_text_size(protocol.name(), &style)?;
            paper.draw(&Text::new(protocol.name(), (x + 92, MIDDLE + 2), style))?;
            x += 92 + width as i32 + 56;
        }
        Ok(())
    }
}

/// Sizes that depend on how many panels share the picture, in pixels.
struct Pen {
    text: u32,
    marker: i32,
    speck: i32,
    line: u32,
}

impl Pen {
    fn for_panels(rows: usize, columns: usize) -> Self {
        match rows.max(columns) {
            1 => Self {
                text: 30,
                marker: 9,
                speck: 3,
                line: 4,
            },
            2 => Self {
                text: 25,
                marker: 7,
                speck: 3,
                line: 3,
            },
            _ => Self {
                text: 22,
                marker: 5,
                speck: 2,
                line: 3,
            },
        }
    }
}

type Place = Cartesian2d<Axis, Axis>;

impl Panel {
    fn draw<B: DrawingBackend>(&self, area: &Area<B>, pen: &Pen) -> Drawn<B> {
        let text = canvas::text(pen.text, INK);
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(12)
            .x_label_area_size(pen.text * 5 / 2)
            .y_label_area_size(self.y_label_width(area, pen)?);
        if !self.title.is_empty() {
            builder.caption(&self.title, canvas::bold(pen.text, INK));
        }
        let mut chart = builder.build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .x_labels(self.x.ticks.len())
            .y_labels(self.y.ticks.len())
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .label_style(text.clone())
            .axis_desc_style(text)
            .axis_style(GREY)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for shape in &self.shapes {
            shape.draw(&mut chart, pen)?;
        }
        Ok(())
    }

    fn y_label_width<B: DrawingBackend>(&self, area: &Area<B>, pen: &Pen) -> Drawn<B, u32> {
        let style = canvas::text(pen.text, INK);
        let mut widest = 0;
        for (_, text) in &self.y.ticks {
            widest = widest.max(area.estimate_text_size(text, &style)?.0);
        }
        Ok(widest + pen.text * 2)
    }
}

impl Shape {
    fn draw<B: DrawingBackend>(
        &self,
        chart: &mut ChartContext<'_, B, Place>,
        pen: &Pen,
    ) -> Drawn<B> {
        match self {
            Self::Fill { outline, color } => {
                chart.draw_series([Polygon::new(outline.clone(), *color)])?;
            }
            Self::Curve { points, protocol } => draw_curve(chart, points, *protocol, pen)?,
            Self::Markers { points, protocol } => {
                let look = look(*protocol);
                draw_markers(chart, points, &look, pen.marker)?;
            }
            Self::Specks { points, protocol } => {
                let color = look(*protocol).color.mix(0.35).filled();
                chart.draw_series(points.iter().map(|at| Circle::new(*at, pen.speck, color)))?;
            }
            Self::Whisker {
                x,
                low,
                high,
                protocol,
            } => {
                let style = stroke(&look(*protocol), pen.line - 1);
                let cap = || PathElement::new(vec![(-CAP, 0), (CAP, 0)], style);
                chart.draw_series([PathElement::new(vec![(*x, *low), (*x, *high)], style)])?;
                chart.draw_series([*low, *high].map(|y| EmptyElement::at((*x, y)) + cap()))?;
            }
            Self::Rule {
                from,
                to,
                color,
                dashed,
            } => {
                let line = vec![*from, *to];
                if *dashed {
                    chart.draw_series([DashedPathElement::new(
                        line,
                        10,
                        8,
                        color.stroke_width(2),
                    )])?;
                } else {
                    chart.draw_series([PathElement::new(line, color.stroke_width(2))])?;
                }
            }
            Self::Note { at, text, anchor } => {
                let style = canvas::text(pen.text - 2, GREY).pos(*anchor);
                chart.draw_series([Text::new(text.clone(), *at, style)])?;
            }
        }
        Ok(())
    }
}

fn draw_curve<B: DrawingBackend>(
    chart: &mut ChartContext<'_, B, Place>,
    points: &[(f64, f64)],
    protocol: Protocol,
    pen: &Pen,
) -> Drawn<B> {
    let look = look(protocol);
    let style = stroke(&look, pen.line);
    if look.dashed {
        chart.draw_series(DashedLineSeries::new(points.iter().copied(), 14, 9, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    }
    Ok(())
}

fn draw_markers<B: DrawingBackend>(
    chart: &mut ChartContext<'_, B, Place>,
    points: &[(f64, f64)],
    look: &Look,
    size: i32,
) -> Drawn<B> {
    let style = look.color.filled();
    match look.marker {
        Marker::Circle => {
            chart.draw_series(points.iter().map(|at| Circle::new(*at, size, style)))?;
        }
        Marker::Triangle => {
            chart.draw_series(
                points
                    .iter()
                    .map(|at| TriangleMarker::new(*at, size + 3, style)),
            )?;
        }
        Marker::Square => {
            let corners = |(x, y): (i32, i32)| [(x - size, y - size), (x + size, y + size)];
            chart.draw_series(
                points
                    .iter()
                    .map(|at| EmptyElement::at(*at) + Rectangle::new(corners((0, 0)), style)),
            )?;
        }
    }
    Ok(())
}

fn draw_legend_marker<B: DrawingBackend>(
    paper: &Area<B>,
    (x, y): (i32, i32),
    look: &Look,
) -> Drawn<B> {
    const SIZE: i32 = 9;
    let style = look.color.filled();
    match look.marker {
        Marker::Circle => paper.draw(&Circle::new((x, y), SIZE, style)),
        Marker::Triangle => paper.draw(&TriangleMarker::new((x, y), SIZE + 3, style)),
        Marker::Square => paper.draw(&Rectangle::new(
            [(x - SIZE, y - SIZE), (x + SIZE, y + SIZE)],
            style,
        )),
    }
}

fn stroke(look: &Look, width: u32) -> ShapeStyle {
    look.color.stroke_width(width)
}

/// `style` of the largest size, from `size` down, in which `text` is at most `room` pixels wide.
fn fitting<'a, B: DrawingBackend>(
    paper: &Area<B>,
    text: &str,
    room: i32,
    size: u32,
    style: impl Fn(u32) -> TextStyle<'a>,
) -> Drawn<B, TextStyle<'a>> {
    const SMALLEST: u32 = 18;
    let (width, _) = paper.estimate_text_size(text, &style(size))?;
    let share = f64::from(room) / f64::from(width.max(1));
    let fit = (f64::from(size) * share.min(1.0)) as u32;
    Ok(style(fit.clamp(SMALLEST, size)))
}

fn columns(panels: usize) -> usize {
    match panels {
        0 | 1 => 1,
        2 | 4 => 2,
        3 | 5..=9 => 3,
        _ => 4,
    }
}

const _: () = assert!(HEADER * 4 < HEIGHT as i32, "most of the picture is data");
