//! A figure as the page's script reads it: short names, numbers of six digits, and no more single
//! transfers than a screen can show.

use super::choices::Choices;
use crate::figure::{
    Align, Axis, Bar, Datum, Figure, Form, Mark, MarkColor, Panel, Series, Spacing, Spread, Tile,
    Tiles,
};
use serde_json::{Value, json};

/// A figure has at most about so many points on the page: distributions and single transfers are
/// thinned evenly. At 15 bytes each this keeps the page of a large run below 3 MB.
const MAX_POINTS: usize = 20_000;
/// However many series there are, each keeps so many.
const LEAST_POINTS: usize = 12;

/// Limits to which a figure's distributions and single transfers are thinned.
pub(super) struct Thinning {
    /// Points that can be left out, in all.
    all: usize,
    /// Number of these points that each series keeps at most.
    limit: usize,
    kept: usize,
}

impl Thinning {
    pub(super) fn of(figure: &Figure) -> Self {
        let lengths: Vec<usize> = figure
            .panels
            .iter()
            .flat_map(|panel| &panel.marks)
            .filter_map(|mark| match mark {
                Mark::Series(series) if can_be_thinned(series) => Some(series.points.len()),
                _ => None,
            })
            .collect();
        let all = lengths.iter().sum();
        let limit = if all > MAX_POINTS {
            (MAX_POINTS / lengths.len()).max(LEAST_POINTS)
        } else {
            usize::MAX
        };
        let kept = lengths.iter().map(|length| (*length).min(limit)).sum();
        Self { all, limit, kept }
    }

    pub(super) fn sentence(&self) -> Option<String> {
        let Self { all, kept, .. } = self;
        (kept < all).then(|| {
            format!(
                "The chart on this page has {kept} of {all} points, evenly thinned; samples.csv \
                 has every transfer."
            )
        })
    }
}

pub(super) fn figure(figure: &Figure, choices: &Choices) -> Value {
    let thinning = Thinning::of(figure);
    let legend: Vec<Value> = figure
        .legend
        .iter()
        .map(|key| json!({"ink": color(key.color), "name": key.name}))
        .collect();
    let panels: Vec<Value> = figure
        .panels
        .iter()
        .map(|one| panel(one, choices, &thinning))
        .collect();
    json!({"name": figure.name, "title": figure.title, "legend": legend, "panels": panels})
}

/// Steps and specks: there are as many as transfers.
fn can_be_thinned(series: &Series) -> bool {
    matches!(series.form, Form::SmallPoints | Form::Steps)
}

/// Returns at most `limit` of the points, evenly spread, the first and the last included.
fn evenly(points: &[Datum], limit: usize) -> Vec<&Datum> {
    if points.len() <= limit {
        return points.iter().collect();
    }
    let (last, steps) = (points.len() - 1, limit - 1);
    (0..limit).map(|i| &points[i * last / steps]).collect()
}

fn panel(panel: &Panel, choices: &Choices, thinning: &Thinning) -> Value {
    let marks: Vec<Value> = panel.marks.iter().map(|one| mark(one, thinning)).collect();
    json!({
        "title": panel.title,
        "at": choices.place(&panel.title),
        "x": axis(&panel.x),
        "y": axis(&panel.y),
        "marks": marks,
    })
}

fn axis(axis: &Axis) -> Value {
    let ticks: Vec<Value> = axis
        .ticks
        .iter()
        .map(|(place, text)| json!([number(*place), text]))
        .collect();
    json!({
        "name": axis.name,
        "unit": axis.unit,
        "from": number(axis.range.start),
        "to": number(axis.range.end),
        "log": axis.spacing == Spacing::Logarithmic,
        "ticks": ticks,
    })
}

fn mark(mark: &Mark, thinning: &Thinning) -> Value {
    match mark {
        Mark::Series(one) => series(one, thinning),
        Mark::Tiles(one) => tiles(one),
        Mark::Area {
            name,
            color: of,
            outline,
        } => {
            let outline: Vec<Value> = outline.iter().map(|at| place(*at)).collect();
            json!({"kind": "area", "name": name, "ink": color(*of), "outline": outline})
        }
        Mark::Bars(bars) => {
            let bars: Vec<Value> = bars.iter().map(bar).collect();
            json!({"kind": "bars", "bars": bars})
        }
        Mark::Rule {
            name,
            color: of,
            from,
            to,
            dashed,
        } => json!({
            "kind": "rule", "name": name, "ink": color(*of), "dashed": dashed,
            "from": place(*from), "to": place(*to),
        }),
        Mark::Note {
            at,
            text,
            align: (x, y),
        } => json!({
            "kind": "note", "at": place(*at), "text": text, "align": [align(*x), align(*y)],
        }),
    }
}

fn series(series: &Series, thinning: &Thinning) -> Value {
    let limit = if can_be_thinned(series) {
        thinning.limit
    } else {
        usize::MAX
    };
    let points: Vec<Value> = evenly(&series.points, limit)
        .into_iter()
        .map(datum)
        .collect();
    json!({
        "kind": "series",
        "name": series.name,
        "value": series.value,
        "interval": series.interval,
        "ink": color(series.color),
        "form": match series.form {
            Form::Line => "line",
            Form::Points => "points",
            Form::LineAndPoints => "line-and-points",
            Form::Steps => "steps",
            Form::SmallPoints => "specks",
        },
        "spread": match series.spread {
            Spread::None => "none",
            Spread::Ribbon => "ribbon",
            Spread::Whiskers => "whiskers",
            Spread::Bars => "bars",
        },
        "aside": number(series.aside),
        "points": points,
    })
}

fn datum(datum: &Datum) -> Value {
    let (x, y) = (number(datum.x), number(datum.y));
    let (low, high) = datum.interval.unzip();
    match (low.map(number), high.map(number), datum.of) {
        (None, None, None) => json!([x, y]),
        (low, high, None) => json!([x, y, low, high]),
        (low, high, of) => json!([x, y, low, high, of]),
    }
}

fn tiles(tiles: &Tiles) -> Value {
    let all: Vec<Value> = tiles.tiles.iter().map(tile).collect();
    json!({
        "kind": "tiles",
        "below": tiles.below.to_string(),
        "above": tiles.above.to_string(),
        "limit": number(tiles.limit),
        "tiles": all,
    })
}

fn tile(tile: &Tile) -> Value {
    json!({
        "at": place(tile.at),
        "value": tile.value.map(number),
        "sure": tile.sure,
        "text": tile.text,
        "note": tile.note,
    })
}

fn bar(bar: &Bar) -> Value {
    json!({
        "name": bar.name,
        "ink": color(bar.color),
        "strength": number(bar.strength),
        "y": number(bar.y),
        "breadth": number(bar.breadth),
        "from": number(bar.x.start),
        "to": number(bar.x.end),
    })
}

fn color(color: MarkColor) -> String {
    match color {
        MarkColor::Protocol(protocol) => protocol.to_string(),
        MarkColor::Null(protocol) => format!("null-{protocol}"),
        MarkColor::Step { at, of } => format!("step-{at}-{of}"),
        MarkColor::Plain => "plain".into(),
        MarkColor::Faint => "faint".into(),
    }
}

fn align(align: Align) -> &'static str {
    match align {
        Align::Before => "before",
        Align::Centre => "centre",
        Align::After => "after",
    }
}

fn place((x, y): (f64, f64)) -> Value {
    json!([number(x), number(y)])
}

/// Six digits: more than a screen has pixels.
fn number(value: f64) -> Value {
    let short: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if short.fract() == 0.0 && short.abs() < 1e15 {
        return json!(short as i64);
    }
    json!(short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Table;
    use altway_record::Protocol;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(25.0).to_string(), "25");
        assert_eq!(number(1.234_567_89).to_string(), "1.23457");
        assert_eq!(number(-0.0).to_string(), "0");
    }

    #[test]
    fn thinning_keeps_both_ends() {
        let point = |i: u32| Datum {
            x: f64::from(i),
            y: 0.0,
            interval: None,
            of: None,
        };
        let points: Vec<Datum> = (0..1000).map(point).collect();
        let kept = evenly(&points, 12);
        assert_eq!(kept.len(), 12);
        assert_eq!((kept[0].x, kept[11].x), (0.0, 999.0));
    }

    /// A panel with the staircases of two protocols, of so many transfers each.
    fn distribution(transfers: u32) -> Panel {
        let axis = |name: &str| Axis {
            name: name.into(),
            unit: "s".into(),
            range: 0.0..1.0,
            spacing: Spacing::Linear,
            ticks: vec![],
        };
        let point = |i: u32| Datum {
            x: 1.23456 + f64::from(i) / 97.0,
            y: f64::from(i) / f64::from(transfers),
            interval: None,
            of: None,
        };
        let of_protocol = |protocol: Protocol| {
            Mark::Series(Series {
                name: protocol.name().into(),
                value: "share done".into(),
                interval: String::new(),
                color: MarkColor::Protocol(protocol),
                form: Form::Steps,
                spread: Spread::None,
                aside: 0.0,
                points: (0..transfers).map(point).collect(),
            })
        };
        Panel {
            title: "5 Mbit/s · 1 % loss".into(),
            x: axis("time"),
            y: axis("share done"),
            marks: [Protocol::H2, Protocol::H3].map(of_protocol).to_vec(),
        }
    }

    fn of_panels(panels: Vec<Panel>) -> Figure {
        Figure {
            name: "distribution".into(),
            title: String::new(),
            caption: String::new(),
            legend_text: String::new(),
            legend: vec![],
            panels,
            table: Table::default(),
        }
    }

    #[test]
    fn two_hundred_cells_of_a_thousand_transfers_take_half_a_megabyte_and_say_what_is_left_out() {
        let large = of_panels((0..200).map(|_| distribution(1000)).collect());
        let text = figure(&large, &Choices::default()).to_string();
        assert!(text.len() < 500_000, "{}", text.len());
        let sentence = Thinning::of(&large).sentence().unwrap();
        assert!(sentence.contains("20000 of 400000 points"), "{sentence}");
        let small = of_panels(vec![distribution(1000)]);
        assert_eq!(Thinning::of(&small).sentence(), None);
    }
}
