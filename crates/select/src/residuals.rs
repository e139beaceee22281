//! Residuals, the brake of HTTP/3: what a client's own pages say against the prediction.
//!
//! Most paths do what the surface predicts to within some percent, and a few treat UDP far worse: throttled, or
//! processed by a middlebox. A mixture of both as the prior (spike and slab) leaves the first alone and stops
//! HTTP/3 on the second after a page or two.

/// ln: deviation of a page's residual, at random.
pub(crate) const NOISE: f64 = 0.35;

/// ln: a client's own pages are off by as much together.
const BASE: f64 = 0.2;

/// ln: width of the effects that most paths have, and of those that few have.
const SPIKE: f64 = 0.03;
const SLAB: f64 = 0.7;

/// Share of paths with a large effect.
const SLAB_SHARE: f64 = 0.03;

/// ln: a single page counts as off by so much at most.
const MOST: f64 = 1.2;

/// Pages that are counted at most; older ones lose their weight.
pub(crate) const MAX_PAGES: f64 = 20.0;

/// The residual of a page that took `seen` seconds against `predicted` seconds; 0 if either is no time.
#[must_use]
pub(crate) fn residual(seen: f64, predicted: f64) -> f64 {
    let off = (seen / predicted).ln();
    if off.is_finite() {
        off.clamp(-MOST, MOST)
    } else {
        0.0
    }
}

/// Sums of a client's residuals over one protocol.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Residuals {
    /// Weight of the pages.
    pub pages: f64,
    /// Sum of their residuals.
    pub sum: f64,
}

impl Residuals {
    /// Adds a page.
    pub(crate) fn add(&mut self, residual: f64) {
        self.pages += 1.0;
        self.sum += residual;
        if self.pages > MAX_PAGES {
            self.age(MAX_PAGES / self.pages);
        }
    }

    /// The mean of the residuals; 0 without a page.
    pub(crate) fn mean(&self) -> f64 {
        if self.pages > 0.0 {
            self.sum / self.pages
        } else {
            0.0
        }
    }

    /// Keeps `share` of the weight.
    pub(crate) fn age(&mut self, share: f64) {
        self.pages *= share;
        self.sum *= share;
    }
}

/// ln by which HTTP/3 is slower on this path than predicted, over what HTTP/2 is; 0 without a page over HTTP/3.
#[must_use]
pub(crate) fn effect(h2: Residuals, h3: Residuals) -> f64 {
    if h3.pages <= 0.0 {
        return 0.0;
    }
    let noise = NOISE * NOISE;
    let base = BASE * BASE;
    let seen2 = h2.pages.max(0.0) / noise;
    let shrunk2 = h2.mean() * seen2 / (seen2 + 1.0 / base);
    let off = h3.mean() - shrunk2;
    let variance = noise / h3.pages + 1.0 / (1.0 / base + seen2);
    shrink(off, variance)
}

/// Posterior mean of an effect that was seen as `off`, with `variance`.
fn shrink(off: f64, variance: f64) -> f64 {
    let (spike, slab) = (SPIKE * SPIKE, SLAB * SLAB);
    let likelihood = |width: f64| {
        let total = variance + width;
        -0.5 * total.ln() - 0.5 * off * off / total
    };
    let odds = likelihood(slab) - likelihood(spike) + (SLAB_SHARE / (1.0 - SLAB_SHARE)).ln();
    let large = 1.0 / (1.0 + (-odds).exp());
    let kept = |width: f64| off * width / (width + variance);
    (1.0 - large) * kept(spike) + large * kept(slab)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(count: u32, each: f64) -> Residuals {
        let mut residuals = Residuals::default();
        for _ in 0..count {
            residuals.add(each);
        }
        residuals
    }

    #[test]
    fn without_a_page_over_http3_there_is_no_effect() {
        assert_eq!(effect(pages(20, 0.5), Residuals::default()), 0.0);
    }

    #[test]
    fn a_path_that_does_as_predicted_is_left_alone() {
        assert!(effect(pages(5, 0.0), pages(20, 0.05)).abs() < 0.02);
    }

    #[test]
    fn a_path_three_times_as_slow_is_stopped_after_two_pages() {
        assert!(effect(pages(1, 0.0), pages(1, 1.1)) > 0.1);
        assert!(effect(pages(1, 0.0), pages(2, 1.1)) > 0.5);
    }

    #[test]
    fn a_path_twice_as_slow_is_stopped_after_a_few_pages() {
        assert!(effect(pages(2, 0.0), pages(1, 0.7)) < 0.1);
        assert!(
            effect(pages(2, 0.0), pages(5, 0.7)) > 0.1,
            "{}",
            effect(pages(2, 0.0), pages(5, 0.7))
        );
    }

    #[test]
    fn a_client_that_is_slow_over_both_is_not_slow_over_http3() {
        assert!(effect(pages(10, 0.6), pages(10, 0.6)).abs() < 0.05);
    }

    #[test]
    fn no_page_counts_for_more_than_its_share() {
        assert_eq!(residual(1e9, 1.0), MOST);
        assert_eq!(residual(0.0, 1.0), 0.0);
        assert_eq!(residual(f64::NAN, 1.0), 0.0);
        assert!(pages(1000, 1.0).pages <= MAX_PAGES);
    }

    proptest! {
        #[test]
        fn the_effect_is_finite_and_never_larger_than_what_was_seen(
            m2 in 0u32..30, r2 in -1.2..1.2f64, m3 in 0u32..30, r3 in -1.2..1.2f64,
        ) {
            let effect = effect(pages(m2, r2), pages(m3, r3));
            prop_assert!(effect.is_finite() && effect.abs() <= 2.4);
        }
    }
}
