//! Many tests at once: how many of the finds may be false.

/// The p-values adjusted for their number (Benjamini and Hochberg 1995), in the order given:
/// calling all cells with an adjusted value ≤ 0.05 finds leaves at most 5 % of them false on
/// average. Values outside 0 to 1 are clamped; NaN counts as 1.
///
/// ```
/// assert_eq!(altway_stats::benjamini_hochberg(&[0.01, 0.04, 0.03]), [0.03, 0.04, 0.04]);
/// ```
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let clean: Vec<f64> = p
        .iter()
        .map(|value| {
            if value.is_nan() {
                1.0
            } else {
                value.clamp(0.0, 1.0)
            }
        })
        .collect();
    let mut order: Vec<usize> = (0..clean.len()).collect();
    order.sort_by(|a, b| clean[*b].total_cmp(&clean[*a]));
    let mut adjusted = vec![1.0; clean.len()];
    let mut smallest = 1.0_f64;
    for (larger, index) in order.iter().enumerate() {
        let rank = clean.len() - larger;
        smallest = smallest.min(clean[*index] * (clean.len() as f64 / rank as f64));
        adjusted[*index] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_stays_nothing_and_nan_is_no_find() {
        assert!(benjamini_hochberg(&[]).is_empty());
        assert_eq!(benjamini_hochberg(&[f64::NAN, 0.01]), [1.0, 0.02]);
    }

    proptest! {
        #[test]
        fn never_lowers_a_p_value_and_keeps_the_order(p in prop::collection::vec(0.0..=1.0_f64, 1..30)) {
            let adjusted = benjamini_hochberg(&p);
            for (i, value) in p.iter().enumerate() {
                prop_assert!(*value <= adjusted[i] && adjusted[i] <= 1.0);
                for (j, other) in p.iter().enumerate() {
                    prop_assert!(value > other || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
