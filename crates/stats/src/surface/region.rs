//! Regions of a surface below zero, as outlines to fill.
//!
//! Lines of a level end at the border of the grid; an outline goes along it. So the grid gets a rim
//! above zero, hardly wider than nothing, along which every line closes.

use super::contour::{Point, Polyline, contour};

/// Breadth of the rim, as a share of the axis.
const RIM: f64 = 1e-7;

/// Outlines of the regions in which the surface through `values` is below zero; holes are joined to
/// the outline around them by a cut.
pub(super) fn regions(xs: &[f64], ys: &[f64], values: &[f64]) -> Vec<Polyline> {
    if xs.len() < 2 || ys.len() < 2 {
        return Vec::new();
    }
    let (wide, high) = (rimmed(xs), rimmed(ys));
    let mut framed = vec![1.0; wide.len() * high.len()];
    for (row, values) in values.chunks(xs.len()).enumerate() {
        let start = (row + 1) * wide.len() + 1;
        framed[start..start + xs.len()].copy_from_slice(values);
    }
    let rings = contour(&wide, &high, &framed, 0.0).unwrap_or_default();
    let mut rings: Vec<Vec<Point>> = rings.into_iter().map(|ring| ring.points).collect();
    for point in rings.iter_mut().flatten() {
        point.x = point.x.clamp(xs[0], xs[xs.len() - 1]);
        point.y = point.y.clamp(ys[0], ys[ys.len() - 1]);
    }
    joined(&rings)
}

fn rimmed(places: &[f64]) -> Vec<f64> {
    let (first, last) = (places[0], places[places.len() - 1]);
    let rim = RIM * (last - first);
    let mut wider = vec![first - rim];
    wider.extend_from_slice(places);
    wider.push(last + rim);
    wider
}

/// Each outer ring with the holes in it. A ring within an odd number of others is a hole of the
/// innermost of them.
fn joined(rings: &[Vec<Point>]) -> Vec<Polyline> {
    let around = |ring: &[Point]| -> Vec<usize> {
        let holds = |i: &usize| !std::ptr::eq(&*rings[*i], ring) && contains(&rings[*i], ring[0]);
        (0..rings.len()).filter(holds).collect()
    };
    let parents: Vec<Vec<usize>> = rings.iter().map(|ring| around(ring)).collect();
    let mut outlines = Vec::new();
    for (i, ring) in rings.iter().enumerate() {
        if parents[i].len() % 2 == 1 {
            continue;
        }
        let is_hole = |hole: &usize| {
            parents[*hole].len() == parents[i].len() + 1 && parents[*hole].contains(&i)
        };
        let holes = (0..rings.len()).filter(is_hole);
        let points = holes.fold(ring.clone(), |outline, hole| cut_to(outline, &rings[hole]));
        outlines.push(Polyline {
            points,
            closed: true,
        });
    }
    outlines
}

/// Returns whether a ray from `point` crosses the ring an odd number of times.
fn contains(ring: &[Point], point: Point) -> bool {
    let next = ring.iter().cycle().skip(1);
    let crosses = |(a, b): &(&Point, &Point)| {
        let beside = (a.y > point.y) != (b.y > point.y);
        beside && point.x < a.x + (point.y - a.y) / (b.y - a.y) * (b.x - a.x)
    };
    ring.iter().zip(next).filter(crosses).count() % 2 == 1
}

/// The outline, cut open at the place nearest to the hole, around it in the opposite direction, and
/// back.
fn cut_to(outline: Vec<Point>, hole: &[Point]) -> Vec<Point> {
    let distance = |a: &Point, b: &Point| (a.x - b.x).hypot(a.y - b.y);
    let pairs = (0..outline.len()).flat_map(|i| (0..hole.len()).map(move |j| (i, j)));
    let nearest = pairs.min_by(|(i, j), (k, l)| {
        distance(&outline[*i], &hole[*j]).total_cmp(&distance(&outline[*k], &hole[*l]))
    });
    let Some((from, to)) = nearest else {
        return outline;
    };
    let mut around: Vec<Point> = (0..=hole.len())
        .map(|step| hole[(to + step) % hole.len()])
        .collect();
    if (area(&outline) > 0.0) == (area(hole) > 0.0) {
        around.reverse();
    }
    let mut points = outline[..=from].to_vec();
    points.extend(around);
    points.extend_from_slice(&outline[from..]);
    points
}

/// Twice the area, below zero when the ring runs clockwise.
fn area(ring: &[Point]) -> f64 {
    let next = ring.iter().cycle().skip(1);
    ring.iter()
        .zip(next)
        .map(|(a, b)| a.x * b.y - b.x * a.y)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACES: [f64; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];

    fn areas(values: &[f64]) -> Vec<f64> {
        let found = regions(&PLACES, &PLACES, values);
        found
            .iter()
            .map(|one| area(&one.points).abs() / 2.0)
            .collect()
    }

    fn by_column(of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let at = |i: usize| of(PLACES[i % 5], PLACES[i / 5]);
        (0..25).map(at).collect()
    }

    #[test]
    fn a_region_reaches_to_the_border_and_no_further() {
        let found = areas(&by_column(|x, _| x - 1.5));
        assert!(
            found.len() == 1 && (found[0] - 6.0).abs() < 1e-3,
            "{found:?}"
        );
        let all = areas(&[-1.0; 25]);
        assert!(all.len() == 1 && (all[0] - 16.0).abs() < 1e-3, "{all:?}");
        assert!(areas(&[1.0; 25]).is_empty());
    }

    #[test]
    fn a_hole_is_no_part_of_its_region() {
        let mut values = [-1.0; 25];
        values[12] = 1.0;
        let found = areas(&values);
        // The hole is the square between the places half-way to the four neighbours.
        assert!(
            found.len() == 1 && (found[0] - 15.5).abs() < 1e-3,
            "{found:?}"
        );
    }

    #[test]
    fn two_regions_are_two_outlines() {
        let found = areas(&by_column(|x, _| 1.5 - (x - 2.0).abs()));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn one_row_has_no_regions() {
        assert!(regions(&PLACES, &[0.0], &[-1.0; 5]).is_empty());
    }

    proptest! {
        #[test]
        fn regions_above_and_below_fill_the_range(
            values in prop::collection::vec(-1.0..1.0_f64, 25),
        ) {
            let turned: Vec<f64> = values.iter().map(|value| -value).collect();
            let sum: f64 = areas(&values).iter().chain(&areas(&turned)).sum();
            prop_assert!((sum - 16.0).abs() < 1e-2, "{}", sum);
        }
    }
}
