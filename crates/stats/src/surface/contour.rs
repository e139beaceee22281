//! Lines of one level through values on a grid: marching squares.
//!
//! Between the nodes the surface is bilinear. In a square whose corners lie crosswise above and below
//! the level, the lines part as the bilinear surface does (the asymptotic decider of Nielson and
//! Hamann 1991), so that neighbouring levels never cross.

use std::collections::BTreeMap;

/// A place on a surface, in the units of its axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Along the first axis.
    pub x: f64,
    /// Along the second axis.
    pub y: f64,
}

/// A line of straight pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct Polyline {
    /// The corners in order, no two neighbours the same; at least two.
    pub points: Vec<Point>,
    /// True if the line returns from the last corner to the first. An open line ends at the border
    /// of the grid.
    pub closed: bool,
}

/// The lines along which a bilinear surface through `values` has the value `level`.
///
/// `values[row * xs.len() + column]` belongs to `xs[column]` and `ys[row]`. A node at the level
/// itself counts as above it. The order of lines and corners is a function of the values alone.
///
/// `None` when a coordinate or value is not finite, when coordinates do not rise, or when there are
/// not as many values as nodes. A grid of one row or column has no squares and so no lines.
///
/// ```
/// use altway_stats::contour;
/// // Rises by 1 from row to row: the level 0.5 is half-way between them.
/// let lines = contour(&[0.0, 10.0], &[0.0, 1.0], &[0.0, 0.0, 1.0, 1.0], 0.5).expect("a grid");
/// assert_eq!(lines.len(), 1);
/// assert!(lines[0].points.iter().all(|point| point.y == 0.5));
/// ```
#[must_use]
pub fn contour(xs: &[f64], ys: &[f64], values: &[f64], level: f64) -> Option<Vec<Polyline>> {
    let rises = |places: &[f64]| places.windows(2).all(|pair| pair[0] < pair[1]);
    let finite = [xs, ys, values]
        .iter()
        .all(|numbers| numbers.iter().all(|number| number.is_finite()));
    let complete = xs.len().checked_mul(ys.len()) == Some(values.len());
    if !finite || !complete || !rises(xs) || !rises(ys) || !level.is_finite() {
        return None;
    }
    let nodes = Nodes {
        xs,
        ys,
        values,
        level,
    };
    Some(nodes.lines())
}

/// An edge of the grid, by the node where it starts and its direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    row: usize,
    column: usize,
    /// Towards the next row; else towards the next column.
    upright: bool,
}

/// Edges to which the line goes from an edge: into one square, or into the two that share the edge.
type Neighbours = BTreeMap<Edge, Vec<Edge>>;

struct Nodes<'a> {
    xs: &'a [f64],
    ys: &'a [f64],
    values: &'a [f64],
    level: f64,
}

impl Nodes<'_> {
    fn lines(&self) -> Vec<Polyline> {
        let mut neighbours = self.neighbours();
        let mut lines = Vec::new();
        // Open lines first, from their ends; what is left are loops.
        let ends: Vec<Edge> = neighbours
            .iter()
            .filter(|(_, next)| next.len() == 1)
            .map(|(edge, _)| *edge)
            .collect();
        for end in ends {
            lines.extend(self.trace(end, false, &mut neighbours));
        }
        while let Some((start, _)) = neighbours.first_key_value() {
            lines.extend(self.trace(*start, true, &mut neighbours));
        }
        lines
    }

    fn neighbours(&self) -> Neighbours {
        let mut neighbours = Neighbours::new();
        for row in 1..self.ys.len() {
            for column in 1..self.xs.len() {
                for (a, b) in self.pieces(row - 1, column - 1) {
                    neighbours.entry(a).or_default().push(b);
                    neighbours.entry(b).or_default().push(a);
                }
            }
        }
        neighbours
    }

    /// The pieces of lines in the square whose lowest corner is given, as pairs of its edges.
    fn pieces(&self, row: usize, column: usize) -> Vec<(Edge, Edge)> {
        let edge = |row, column, upright| Edge {
            row,
            column,
            upright,
        };
        let (bottom, top) = (edge(row, column, false), edge(row + 1, column, false));
        let (left, right) = (edge(row, column, true), edge(row, column + 1, true));
        let corners = [
            self.below(row, column),
            self.below(row, column + 1),
            self.below(row + 1, column + 1),
            self.below(row + 1, column),
        ];
        match corners {
            [a, b, c, d] if a == c && b == d && a != b => {
                // The corners that share the saddle's side hang together; lines cut off the others.
                if self.saddle_is_below(row, column) == a {
                    vec![(bottom, right), (left, top)]
                } else {
                    vec![(bottom, left), (right, top)]
                }
            }
            [a, b, c, d] => {
                let crossed = [
                    (a != b, bottom),
                    (b != c, right),
                    (c != d, top),
                    (d != a, left),
                ];
                let mut crossed = crossed
                    .iter()
                    .filter(|(yes, _)| *yes)
                    .map(|(_, edge)| *edge);
                crossed.next().zip(crossed.next()).into_iter().collect()
            }
        }
    }

    fn saddle_is_below(&self, row: usize, column: usize) -> bool {
        // Relative to the level, so that nothing large cancels.
        let at = |row, column| self.value(row, column) - self.level;
        let (a, b) = (at(row, column), at(row, column + 1));
        let (c, d) = (at(row + 1, column + 1), at(row + 1, column));
        // (ac − bd) / (a + c − b − d), whose denominator has the sign of the corners a and c.
        let ac_below = a < 0.0;
        let numerator = a * c - b * d;
        (numerator < 0.0) != ac_below && numerator != 0.0
    }

    /// Follows a line from `start` and takes it out of `neighbours`; `None` when all its points
    /// are one.
    fn trace(&self, start: Edge, closed: bool, neighbours: &mut Neighbours) -> Option<Polyline> {
        let mut points: Vec<Point> = Vec::new();
        let mut next = Some(start);
        while let Some(edge) = next {
            let Some(ways) = neighbours.remove(&edge) else {
                break;
            };
            let point = self.point(edge);
            if points.last() != Some(&point) {
                points.push(point);
            }
            next = ways.into_iter().find(|way| neighbours.contains_key(way));
        }
        if closed && points.len() > 1 && points.first() == points.last() {
            points.pop();
        }
        (points.len() > 1).then_some(Polyline { points, closed })
    }

    /// Place where the level lies on an edge.
    fn point(&self, edge: Edge) -> Point {
        let (row, column) = (edge.row, edge.column);
        let from = self.value(row, column);
        let between = |to: f64, a: f64, b: f64| a + (self.level - from) / (to - from) * (b - a);
        if edge.upright {
            let y = between(self.value(row + 1, column), self.ys[row], self.ys[row + 1]);
            Point {
                x: self.xs[column],
                y,
            }
        } else {
            let to = self.value(row, column + 1);
            let x = between(to, self.xs[column], self.xs[column + 1]);
            Point { x, y: self.ys[row] }
        }
    }

    fn below(&self, row: usize, column: usize) -> bool {
        self.value(row, column) < self.level
    }

    fn value(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.xs.len() + column]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit(values: [f64; 4], level: f64) -> Vec<Polyline> {
        contour(&[0.0, 1.0], &[0.0, 1.0], &values, level).unwrap()
    }

    fn ends(line: &Polyline) -> [(f64, f64); 2] {
        let (first, last) = (line.points[0], line.points[line.points.len() - 1]);
        [(first.x, first.y), (last.x, last.y)]
    }

    #[test]
    fn refuses_what_is_no_grid() {
        assert_eq!(contour(&[0.0, 1.0], &[0.0], &[1.0], 0.0), None);
        assert_eq!(contour(&[1.0, 1.0], &[0.0], &[1.0, 2.0], 0.0), None);
        assert_eq!(contour(&[0.0], &[0.0], &[f64::NAN], 0.0), None);
        assert_eq!(contour(&[0.0], &[0.0], &[1.0], f64::INFINITY), None);
        assert_eq!(
            contour(&[0.0, 1.0], &[0.0], &[-1.0, 1.0], 0.0),
            Some(vec![])
        );
        assert_eq!(contour(&[], &[], &[], 0.0), Some(vec![]));
    }

    #[test]
    fn every_corner_can_be_cut_off() {
        for corner in 0..4 {
            let mut values = [1.0; 4];
            values[corner] = -1.0;
            let lines = unit(values, 0.0);
            assert_eq!(lines.len(), 1);
            assert_eq!(lines[0].points.len(), 2);
            assert_eq!(unit(values.map(|value| -value), 0.0).len(), 1);
        }
        assert!(unit([1.0; 4], 0.0).is_empty());
        assert!(unit([-1.0; 4], 0.0).is_empty());
    }

    #[test]
    fn a_saddle_parts_as_the_bilinear_surface_does() {
        // Low at (0, 0) and (1, 1); the saddle's value is −1/2, so the low corners hang together
        // and the high ones are cut off.
        let lines = unit([-2.0, 1.0, 1.0, -2.0], 0.0);
        assert_eq!(lines.len(), 2);
        for line in &lines {
            let [(x0, y0), (x1, y1)] = ends(line);
            let high_right = x0 > 0.5 && x1 > 0.5 && y0.min(y1) < 0.5;
            let high_left = x0 < 0.5 && x1 < 0.5 && y0.max(y1) > 0.5;
            assert!(high_right || high_left, "{line:?}");
        }
        // With the level below the saddle the low corners are cut off.
        for line in unit([-2.0, 1.0, 1.0, -2.0], -0.6) {
            let [(x0, y0), (x1, y1)] = ends(&line);
            let low = (x0 < 0.5 && x1 < 0.5 && y0.max(y1) < 0.5)
                || (x0 > 0.5 && x1 > 0.5 && y0.min(y1) > 0.5);
            assert!(low, "{line:?}");
        }
    }

    #[test]
    fn an_island_is_one_closed_line() {
        let mut values = [1.0; 25];
        values[12] = -1.0;
        let axis = [0.0, 1.0, 2.0, 3.0, 4.0];
        let lines = contour(&axis, &axis, &values, 0.0).unwrap();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].closed);
        let corners = [(2.0, 1.5), (1.5, 2.0), (2.0, 2.5), (2.5, 2.0)];
        assert_eq!(lines[0].points.len(), 4);
        for (x, y) in corners {
            assert!(lines[0].points.contains(&Point { x, y }), "{lines:?}");
        }
    }

    #[test]
    fn a_node_at_the_level_makes_no_line_of_one_point() {
        assert!(unit([0.0, 1.0, 1.0, 1.0], 0.0).is_empty());
        assert!(unit([0.0, -1.0, -1.0, -1.0], 0.0).is_empty());
        let diagonal = unit([-1.0, 0.0, 0.0, 1.0], 0.0);
        assert_eq!(diagonal.len(), 1);
        assert_eq!(diagonal[0].points.len(), 2);
    }

    proptest! {
        #[test]
        fn lines_are_where_the_bilinear_surface_has_the_level(
            values in prop::collection::vec(-1.0..1.0_f64, 20),
        ) {
            let (xs, ys) = ([0.0, 1.0, 2.5, 3.0, 7.0], [0.0, 2.0, 3.0, 4.0]);
            for line in contour(&xs, &ys, &values, 0.1).unwrap() {
                prop_assert!(line.points.len() > 1);
                for point in &line.points {
                    let column = xs.iter().rposition(|x| *x <= point.x).unwrap().min(3);
                    let row = ys.iter().rposition(|y| *y <= point.y).unwrap().min(2);
                    let tx = (point.x - xs[column]) / (xs[column + 1] - xs[column]);
                    let ty = (point.y - ys[row]) / (ys[row + 1] - ys[row]);
                    let at = |row: usize, column: usize| values[row * 5 + column];
                    let low = at(row, column) * (1.0 - tx) + at(row, column + 1) * tx;
                    let high = at(row + 1, column) * (1.0 - tx) + at(row + 1, column + 1) * tx;
                    prop_assert!((low * (1.0 - ty) + high * ty - 0.1).abs() < 1e-9);
                }
                if !line.closed {
                    for (x, y) in ends(&line) {
                        prop_assert!(x == 0.0 || x == 7.0 || y == 0.0 || y == 4.0);
                    }
                }
            }
        }
    }
}
