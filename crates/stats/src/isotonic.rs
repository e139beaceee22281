//! Isotonic regression: the closest curve that only falls.

/// The non-increasing sequence with the least weighted squared distance from `values`, by pooling
/// adjacent violators: a value above its predecessor is merged with it to their weighted mean.
///
/// `weights` has the length of `values`, all above zero.
pub(crate) fn non_increasing(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut pools: Vec<Pool> = Vec::with_capacity(values.len());
    for (value, weight) in values.iter().zip(weights) {
        let mut pool = Pool {
            level: *value,
            weight: *weight,
            size: 1,
        };
        while let Some(previous) = pools.pop_if(|previous| previous.level < pool.level) {
            pool = previous.merged_with(&pool);
        }
        pools.push(pool);
    }
    pools
        .iter()
        .flat_map(|pool| std::iter::repeat_n(pool.level, pool.size))
        .collect()
}

/// Neighbours that share one level.
struct Pool {
    level: f64,
    weight: f64,
    size: usize,
}

impl Pool {
    fn merged_with(&self, other: &Self) -> Self {
        let weight = self.weight + other.weight;
        let level = (self.level * self.weight + other.level * other.weight) / weight;
        Self {
            level,
            weight,
            size: self.size + other.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_falls_already_is_left_alone() {
        assert_eq!(
            non_increasing(&[3.0, 2.0, 2.0, -1.0], &[1.0; 4]),
            [3.0, 2.0, 2.0, -1.0]
        );
        assert!(non_increasing(&[], &[]).is_empty());
    }

    #[test]
    fn a_rise_is_pooled_by_weight() {
        assert_eq!(non_increasing(&[1.0, 4.0], &[2.0, 1.0]), [2.0, 2.0]);
        assert_eq!(non_increasing(&[1.0, 2.0, 3.0], &[1.0; 3]), [2.0, 2.0, 2.0]);
    }

    proptest! {
        #[test]
        fn the_fit_falls_and_keeps_the_mean(values in prop::collection::vec(-1e3..1e3_f64, 1..30)) {
            let fit = non_increasing(&values, &vec![1.0; values.len()]);
            prop_assert!(fit.windows(2).all(|pair| pair[0] >= pair[1]));
            let (before, after): (f64, f64) = (values.iter().sum(), fit.iter().sum());
            prop_assert!((before - after).abs() < 1e-6);
        }
    }
}
