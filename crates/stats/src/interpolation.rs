//! The crossover as earlier studies reported it: straight lines between the means of neighbouring
//! cells.
//!
//! No interval, and every change of sign is one, noise included: for comparison with published
//! figures. For a finding take [`crossover`](crate::crossover).

use crate::comparison::Winner;

/// Place where the lines between means cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlainCrossing {
    /// The place, in the unit of the axis.
    pub x: f64,
    /// The one whose mean is smaller beyond it.
    pub then: Winner,
}

/// All places where the polylines through `(x, mean of the first, mean of the second)` cross, in
/// rising order; none when they don't. Two means that are equal at a measured place cross there if
/// the sign differs before and after.
///
/// Points may come in any order. `None` when an x is repeated or anything is not finite.
///
/// ```
/// // 1 MB at 5 Mbit/s, the published means of an earlier study, in seconds.
/// let means = [(0.0, 1.761, 1.888), (50.0, 2.169, 2.166), (100.0, 2.608, 2.568)];
/// let found = altway_stats::plain_crossings(&means).expect("three places");
/// assert!((found[0].x - 48.8).abs() < 0.1);
/// ```
#[must_use]
pub fn plain_crossings(means: &[(f64, f64, f64)]) -> Option<Vec<PlainCrossing>> {
    let mut points: Vec<(f64, f64)> = means.iter().map(|(x, a, b)| (*x, b - a)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let distinct = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let finite = points
        .iter()
        .all(|(x, difference)| x.is_finite() && difference.is_finite());
    if !distinct || !finite {
        return None;
    }
    let mut found = Vec::new();
    let mut before: Option<(f64, f64)> = None;
    let mut zeros: Option<(f64, f64)> = None;
    for (x, difference) in points {
        if difference == 0.0 {
            zeros = Some((zeros.map_or(x, |(first, _)| first), x));
            continue;
        }
        if let Some((x0, d0)) = before.filter(|(_, d0)| (*d0 < 0.0) != (difference < 0.0)) {
            let x = match zeros {
                Some((first, last)) => f64::midpoint(first, last),
                None => x0 + d0 / (d0 - difference) * (x - x0),
            };
            let then = if difference < 0.0 {
                Winner::Second
            } else {
                Winner::First
            };
            found.push(PlainCrossing { x, then });
        }
        (before, zeros) = (Some((x, difference)), None);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossings(differences: &[f64]) -> Vec<(f64, Winner)> {
        let at = |(i, d): (usize, &f64)| (i as f64, 1.0, 1.0 + d);
        let means: Vec<_> = differences.iter().enumerate().map(at).collect();
        let found = plain_crossings(&means).unwrap();
        found
            .iter()
            .map(|crossing| (crossing.x, crossing.then))
            .collect()
    }

    #[test]
    fn every_change_of_sign_is_one() {
        assert_eq!(
            crossings(&[0.5, -0.5, 0.25]),
            [(0.5, Winner::Second), (1.0 + 2.0 / 3.0, Winner::First)]
        );
        assert_eq!(crossings(&[0.5, 0.25]), []);
        assert_eq!(crossings(&[]), []);
    }

    #[test]
    fn zeros_in_between_are_the_place_and_at_an_end_they_are_none() {
        assert_eq!(crossings(&[0.5, 0.0, -0.5]), [(1.0, Winner::Second)]);
        assert_eq!(crossings(&[0.5, 0.0, 0.0, -0.5]), [(1.5, Winner::Second)]);
        assert_eq!(crossings(&[0.5, 0.0, 0.5]), []);
        assert_eq!(crossings(&[0.0, -0.5, 0.0]), []);
    }

    #[test]
    fn refuses_what_is_no_axis() {
        assert_eq!(plain_crossings(&[(1.0, 1.0, 1.0), (1.0, 2.0, 1.0)]), None);
        assert_eq!(plain_crossings(&[(f64::NAN, 1.0, 1.0)]), None);
        assert_eq!(plain_crossings(&[(0.0, 1.0, f64::INFINITY)]), None);
    }

    #[test]
    fn finds_the_crossovers_that_two_published_environments_reported() {
        let bare = [
            (0.0, 1.761, 1.888),
            (50.0, 2.169, 2.166),
            (100.0, 2.608, 2.568),
            (150.0, 3.056, 3.060),
        ];
        let proxied = [
            (0.0, 1.747, 1.795),
            (1.0, 1.828, 1.800),
            (2.0, 1.841, 1.795),
            (50.0, 2.444, 2.041),
        ];
        let (bare, proxied) = (
            plain_crossings(&bare).unwrap(),
            plain_crossings(&proxied).unwrap(),
        );
        // Reported as about 45 to 50 ms, and about 0.6 ms.
        assert!((45.0..50.0).contains(&bare[0].x), "{bare:?}");
        assert!(
            (bare[1].x - 145.5).abs() < 0.1,
            "and back, by 4 ms of 3 s: {bare:?}"
        );
        assert!((proxied[0].x - 0.63).abs() < 0.01, "{proxied:?}");
        assert_eq!(proxied.len(), 1);
    }
}
