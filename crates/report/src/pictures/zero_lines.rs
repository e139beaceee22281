//! The lines on which neither protocol is faster, one for each value of a third quantity, in one
//! picture: does the region of one of them grow with the rate?

use super::atlas::{Atlas, Map};
use super::axes;
use super::dimensions::{Dimension, Names};
use super::{finding, quantile_of};
use crate::analysis::Analysis;
use crate::figure::{
    Align, Axis, Datum, Figure, Form, LegendEntry, Mark, MarkColor, Panel, Series, Spacing, Spread,
    Table,
};
use crate::words;
use altway_record::Cell;
use altway_stats::{Point, Polyline, ZeroLine};

/// Tails of a 95 % interval.
const TAILS: (f64, f64) = (0.025, 0.975);

pub(super) fn figure(analysis: &Analysis<'_>, atlas: &Atlas<'_>) -> Option<Figure> {
    let crossed = |map: &Map<'_>| map.line.as_ref().is_some_and(|line| !line.lines.is_empty());
    if !atlas.maps().any(crossed) {
        return None;
    }
    let names = Names::new(analysis);
    let finding = region(analysis, atlas)?;
    let panels = atlas
        .groups
        .iter()
        .map(|maps| panel(analysis, atlas, &names, maps))
        .collect();
    let cell = &atlas.maps().next()?.cell;
    Some(Figure {
        name: format!("zero-lines{}", atlas.suffix),
        title: finding.title,
        caption: finding.caption,
        legend_text: format!(
            "On a line the two are equally fast, in the band around it (95 %) it stays open who is \
             faster. Between measured cells the difference is interpolated.{}",
            names.common(cell)
        ),
        legend: legend(atlas),
        panels,
        table: table(analysis, atlas, &names),
    })
}

/// Size of the first protocol's region, and its growth.
pub(super) struct Finding {
    /// The title, without full stop.
    pub(super) title: String,
    pub(super) caption: String,
}

/// Sums up the zero lines; `None` without any surface.
pub(super) fn region(analysis: &Analysis<'_>, atlas: &Atlas<'_>) -> Option<Finding> {
    let name = analysis.baseline.name();
    let regions = |maps: &[Map<'_>]| -> Vec<Region> {
        maps.iter()
            .filter_map(|map| Region::new(atlas, map))
            .collect()
    };
    let groups: Vec<Vec<Region>> = atlas.groups.iter().map(|maps| regions(maps)).collect();
    let first = groups.iter().find(|regions| !regions.is_empty())?;
    let title = match (groups.as_slice(), atlas.layer) {
        ([only], Some(layer)) if only.len() > 1 => growth_title(only, layer, name),
        ([only], _) => format!("{name} is faster {}", extent(only[0].share, atlas)),
        _ => format!(
            "Where {name} stops being the faster one, over {}",
            atlas.ground()
        ),
    };
    let sizes: Vec<String> = first.iter().map(Region::sentence).collect();
    let mut caption = format!(
        "Of the measured range of {}, {name} is faster on {}.",
        atlas.ground(),
        words::list(&sizes)
    );
    if let Some(layer) = atlas.layer.filter(|_| first.len() > 1) {
        caption.push_str(&growth(first, layer));
    }
    if groups.len() > 1 {
        let names = Names::new(analysis);
        let place = names.of(&atlas.groups[0][0].cell, &[atlas.x, atlas.y]);
        caption = format!("{place}: {caption}");
    }
    Some(Finding { title, caption })
}

/// The part of a map where the first protocol is faster.
struct Region {
    /// The map's place in the layer, as `20 Mbit/s`; empty when it is the only one.
    name: String,
    share: f64,
    /// The share of each surface of the ensemble.
    shares: Vec<f64>,
}

impl Region {
    fn new(atlas: &Atlas<'_>, map: &Map<'_>) -> Option<Self> {
        let line = map.line.as_ref()?;
        Some(Self {
            name: atlas
                .layer
                .map_or_else(String::new, |layer| layer.text(&map.cell)),
            share: line.first_share,
            shares: line.first_shares.clone(),
        })
    }

    fn sentence(&self) -> String {
        let share = per_cent(self.share);
        if self.name.is_empty() {
            let (low, high) = interval(&self.shares);
            return format!(
                "{share} (95 % interval {} to {})",
                per_cent(low),
                per_cent(high)
            );
        }
        format!("{share} at {}", self.name)
    }

    /// Returns by how much `later` is larger, as a share of the whole range: estimate and 95 % interval.
    fn growth(&self, later: &Self) -> (f64, (f64, f64)) {
        let pairs = self.shares.iter().zip(&later.shares);
        let differences: Vec<f64> = pairs.map(|(a, b)| b - a).collect();
        (later.share - self.share, interval(&differences))
    }
}

fn interval(values: &[f64]) -> (f64, f64) {
    (quantile_of(values, TAILS.0), quantile_of(values, TAILS.1))
}

fn per_cent(share: f64) -> String {
    match 100.0 * share {
        value if value > 0.0 && value < 0.5 => "less than 1 %".into(),
        value if value > 99.5 && value < 100.0 => "over 99 %".into(),
        value => format!("{value:.0} %"),
    }
}

/// `on 62 % of the measured range of one-way delay and loss`, `nowhere in` it.
fn extent(share: f64, atlas: &Atlas<'_>) -> String {
    let part = match per_cent(share).as_str() {
        "0 %" => "nowhere in".to_owned(),
        "100 %" => "everywhere in".to_owned(),
        part => format!("on {part} of"),
    };
    format!("{part} the measured range of {}", atlas.ground())
}

fn growth_title(regions: &[Region], layer: Dimension, name: &str) -> String {
    let (first, last) = (&regions[0], &regions[regions.len() - 1]);
    let (_, (low, high)) = first.growth(last);
    let layer = layer.name();
    if low > 0.0 {
        format!("The region where {name} is faster grows with the {layer}")
    } else if high < 0.0 {
        format!("The region where {name} is faster shrinks as the {layer} grows")
    } else if regions.iter().all(|region| region.share == 0.0) {
        format!("{name} is faster nowhere, whatever the {layer}")
    } else {
        format!("No clear change of the region where {name} is faster with the {layer}")
    }
}

/// Describes the growth from the first to the last value of the layer, and says if each step on the way is sure.
fn growth(regions: &[Region], layer: Dimension) -> String {
    let (first, last) = (&regions[0], &regions[regions.len() - 1]);
    let (grown, (low, high)) = first.growth(last);
    let points = |share: f64| words::signed(100.0 * share);
    let what = match (low > 0.0, high < 0.0) {
        (true, _) => "grows",
        (_, true) => "shrinks",
        _ => "does not surely change",
    };
    let sure = |pair: &[Region]| {
        let (_, (low, high)) = pair[0].growth(&pair[1]);
        low > 0.0 || high < 0.0
    };
    let steps = regions.len() - 1;
    let each = match regions.windows(2).filter(|pair| sure(pair)).count() {
        _ if steps == 1 => String::new(),
        sure if sure == steps => ", and each step on the way is sure by itself".into(),
        sure => format!(", with {sure} of {steps} steps on the way sure by themselves"),
    };
    format!(
        " That region {what} with the {}: {} points from {} to {} (95 % interval {} to {}){each}.",
        layer.name(),
        points(grown),
        first.name,
        last.name,
        points(low),
        points(high)
    )
}

fn legend(atlas: &Atlas<'_>) -> Vec<LegendEntry> {
    let Some(layer) = atlas.layer else {
        return Vec::new();
    };
    let mut cells: Vec<&Cell> = atlas.maps().map(|map| &map.cell).collect();
    cells.sort_by_key(|cell| layer.order(cell));
    cells.dedup_by_key(|cell| layer.order(cell));
    let of = cells.len();
    let key = |(at, cell): (usize, &&Cell)| LegendEntry {
        color: MarkColor::Step { at, of },
        name: layer.text(cell),
    };
    cells.iter().enumerate().map(key).collect()
}

/// The ink of a map's line: the same as in the legend.
fn color(atlas: &Atlas<'_>, map: &Map<'_>) -> MarkColor {
    let Some(layer) = atlas.layer else {
        return MarkColor::Plain;
    };
    let mut orders: Vec<u64> = atlas.maps().map(|map| layer.order(&map.cell)).collect();
    orders.sort_unstable();
    orders.dedup();
    let of = orders.len();
    let own = layer.order(&map.cell);
    let at = orders.partition_point(|order| *order < own);
    MarkColor::Step { at, of }
}

fn panel(analysis: &Analysis<'_>, atlas: &Atlas<'_>, names: &Names, maps: &[Map<'_>]) -> Panel {
    let mut except = vec![atlas.x, atlas.y];
    except.extend(atlas.layer);
    let (x, y) = (axis(atlas.x, &atlas.columns), axis(atlas.y, &atlas.rows));
    let with_lines = || {
        maps.iter()
            .filter_map(|map| Some((map, map.line.as_ref()?)))
    };
    let mut marks = Vec::new();
    for (map, line) in with_lines() {
        marks.extend(band(atlas, map, line));
    }
    let count = with_lines().count();
    for (i, (map, line)) in with_lines().enumerate() {
        marks.extend(curves(atlas, map, line));
        if atlas.layer.is_some() {
            marks.extend(label(atlas, map, line, &x, (i, count)));
        }
    }
    let parts = [
        names.of(&maps[0].cell, &except),
        sides(analysis, atlas, &x, &y, maps),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Panel {
        title: parts.join(" · "),
        x,
        y,
        marks,
    }
}

/// Returns the axis from the first to the last measured place; ticks at what was measured while they do not crowd.
fn axis(dim: Dimension, cells: &[Cell]) -> Axis {
    let places: Vec<f64> = cells.iter().filter_map(|cell| dim.place(cell)).collect();
    let axis = axes::measured(dim.name(), dim.unit(), &places);
    let range = places[0]..places[places.len() - 1];
    let spacing = match dim {
        Dimension::Delay | Dimension::Loss => Spacing::Linear,
        Dimension::Rate | Dimension::Size => Spacing::Logarithmic,
    };
    let ticks = match spacing {
        Spacing::Linear => axis.ticks,
        Spacing::Logarithmic => {
            let tick = |place: &f64| (*place, axes::plain(*place));
            places.iter().map(tick).collect()
        }
    };
    let inside = |(place, _): &(f64, String)| (range.start..=range.end).contains(place);
    Axis {
        ticks: ticks.into_iter().filter(inside).collect(),
        range,
        spacing,
        ..axis
    }
}

fn band<'m>(
    atlas: &'m Atlas<'_>,
    map: &'m Map<'_>,
    line: &'m ZeroLine,
) -> impl Iterator<Item = Mark> + 'm {
    let area = |outline: Polyline| Mark::Area {
        name: format!("{}: open", map_name(atlas, map)),
        color: color(atlas, map),
        outline: outline
            .points
            .iter()
            .map(|point| (point.x, point.y))
            .collect(),
    };
    let open = line.field.open_regions();
    open.into_iter().map(area)
}

fn map_name(atlas: &Atlas<'_>, map: &Map<'_>) -> String {
    let name = atlas.layer.map(|layer| layer.text(&map.cell));
    name.unwrap_or_else(|| "zero line".into())
}

fn curves<'m>(
    atlas: &'m Atlas<'_>,
    map: &'m Map<'_>,
    line: &'m ZeroLine,
) -> impl Iterator<Item = Mark> + 'm {
    let datum = |point: &Point| Datum {
        x: point.x,
        y: point.y,
        interval: None,
        of: None,
    };
    line.lines.iter().map(move |curve| {
        let closing = curve.points.first().filter(|_| curve.closed);
        Mark::Series(Series {
            name: map_name(atlas, map),
            value: atlas.y.name().into(),
            interval: String::new(),
            color: color(atlas, map),
            form: Form::Line,
            spread: Spread::None,
            aside: 0.0,
            points: curve.points.iter().chain(closing).map(datum).collect(),
        })
    })
}

/// The name beside the line itself, each further along its own so that they don't meet; none for a
/// line that is shorter than its name.
fn label(
    atlas: &Atlas<'_>,
    map: &Map<'_>,
    line: &ZeroLine,
    x: &Axis,
    (which, of): (usize, usize),
) -> Option<Mark> {
    const SHORTEST: f64 = 0.15;
    let longest = line.lines.iter().max_by_key(|line| line.points.len())?;
    let shares = longest.points.iter().map(|point| x.share(point.x));
    let (left, right) = shares.fold((1.0_f64, 0.0_f64), |(left, right), share| {
        (left.min(share), right.max(share))
    });
    let share = (which as f64 + 1.0) / (of as f64 + 1.0);
    let at = longest.points[(share * (longest.points.len() - 1) as f64) as usize];
    (right - left >= SHORTEST).then(|| Mark::Note {
        at: (at.x, at.y),
        text: map_name(atlas, map),
        align: (Align::After, Align::After),
    })
}

/// Says on which side of the lines who is faster, as most of the maps have it: `Below left of a line
/// HTTP/2 is faster, above right HTTP/3`; empty when one protocol has every corner.
fn sides(
    analysis: &Analysis<'_>,
    atlas: &Atlas<'_>,
    x: &Axis,
    y: &Axis,
    maps: &[Map<'_>],
) -> String {
    let fields = maps
        .iter()
        .filter_map(|map| Some(&map.line.as_ref()?.field));
    let fields: Vec<_> = fields.collect();
    // Above 0: the second is faster in more of them.
    let for_second = |at_x: f64, at_y: f64| -> f64 {
        let places = fields.iter().filter_map(|field| field.at(at_x, at_y));
        places
            .map(|place| -place.estimate.signum() - place.estimate.clamp(-0.5, 0.5))
            .sum()
    };
    let (left, right, low, high) = (x.range.start, x.range.end, y.range.start, y.range.end);
    let corners = [(left, low), (right, low), (left, high), (right, high)];
    match sides_of(corners.map(|(x, y)| for_second(x, y))) {
        Some((first, second)) => format!(
            "{} of a line {} is faster, {second} {}",
            finding::capitalised(first),
            analysis.baseline.name(),
            atlas.other.name()
        ),
        None => String::new(),
    }
}

/// Names of the corners in which the first is faster, and the second, from what speaks for the second in the corners:
/// below left, below right, above left, above right.
fn sides_of(corners: [f64; 4]) -> Option<(&'static str, &'static str)> {
    const NAMES: [&str; 4] = ["below left", "below right", "above left", "above right"];
    const HALVES: [(&str, [usize; 2]); 4] = [
        ("left", [0, 2]),
        ("right", [1, 3]),
        ("below", [0, 1]),
        ("above", [2, 3]),
    ];
    let half = |sign: f64| {
        let has = |(_, of): &&(&str, [usize; 2])| of.iter().all(|i| sign * corners[*i] > 0.0);
        HALVES.iter().find(has).map(|(name, _)| *name)
    };
    let wholly = half(-1.0).zip(half(1.0));
    let by_score = |a: &usize, b: &usize| corners[*a].total_cmp(&corners[*b]);
    let first = (0..4).min_by(by_score).filter(|i| corners[*i] < 0.0)?;
    let second = (0..4).max_by(by_score).filter(|i| corners[*i] > 0.0)?;
    Some(wholly.unwrap_or((NAMES[first], NAMES[second])))
}

/// Table of where each map's line crosses each measured place of y.
fn table(analysis: &Analysis<'_>, atlas: &Atlas<'_>, names: &Names) -> Table {
    let head = [
        "map".to_owned(),
        atlas.y.name().to_owned(),
        format!("zero line at {}", atlas.x.name()),
        "open from".to_owned(),
        "open to".to_owned(),
        format!("{} faster on", analysis.baseline.name()),
    ];
    let mut rows = Vec::new();
    for map in atlas.maps() {
        let Some(line) = &map.line else { continue };
        let share = per_cent(line.first_share);
        for cell in &atlas.rows {
            let Some(y) = atlas.y.place(cell) else {
                continue;
            };
            let unit = atlas.x.unit();
            let place = |value: f64| match value.is_finite() {
                true => format!("{} {unit}", words::significant(value)),
                false => "beyond the range".to_owned(),
            };
            let crossings = line.field.crossings_at(y);
            let start = [names.of(&map.cell, &[atlas.x, atlas.y]), atlas.y.text(cell)];
            if crossings.is_empty() {
                let none = ["none".to_owned(), "–".into(), "–".into(), share.clone()];
                rows.push(start.iter().cloned().chain(none).collect());
            }
            for one in crossings {
                let (low, high) = (place(one.interval.low), place(one.interval.high));
                let found = [place(one.x), low, high, share.clone()];
                rows.push(start.iter().cloned().chain(found).collect());
            }
        }
    }
    Table {
        head: head.to_vec(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_named_as_simply_as_the_corners_allow() {
        assert_eq!(
            sides_of([-1.0, 1.0, 1.0, 2.0]),
            Some(("below left", "above right"))
        );
        assert_eq!(sides_of([-1.0, 1.0, -2.0, 2.0]), Some(("left", "right")));
        assert_eq!(sides_of([1.0, 1.0, -2.0, -2.0]), Some(("above", "below")));
        assert_eq!(sides_of([1.0, 1.0, 1.0, 1.0]), None);
    }

    #[test]
    fn shares_that_are_almost_nothing_or_all_say_so() {
        assert_eq!(per_cent(0.0), "0 %");
        assert_eq!(per_cent(0.001), "less than 1 %");
        assert_eq!(per_cent(0.999), "over 99 %");
        assert_eq!(per_cent(1.0), "100 %");
    }
}
