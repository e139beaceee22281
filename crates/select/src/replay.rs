//! What another policy would have been worth, from a log of decisions.
//!
//! Each page is logged with the probability of the protocol that it was given and what was predicted of both.
//! Weighting by the probability makes up for who was given what (IPS, and SNIPS, which divides by the sum of
//! the weights); weighting only what the prediction leaves (DR) has a quarter of the variance, and is right if
//! either probability or prediction is: Dudík, Langford, Li, "Doubly Robust Policy Evaluation" (ICML 2011).

use crate::Offer;
use std::collections::BTreeMap;

/// Weights above this are cut: the least probability of a hold-out is a tenth of a per cent.
const MOST: f64 = 50.0;

/// Of a normal distribution, for 95 %.
const Z: f64 = 1.96;

/// A page of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Logged {
    /// Pages of one client are not independent: the same number for the same client.
    pub client: u64,
    /// What the client was told to use, whatever it used then.
    pub offer: Offer,
    /// Probability of that offer, above 0.
    pub propensity: f64,
    /// ln of the seconds that the page took.
    pub ln_time: f64,
    /// The same as predicted over HTTP/2 and over HTTP/3.
    pub predicted: [f64; 2],
}

/// A mean of ln seconds, with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a policy would have been worth, by three estimators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// Inverse probability weighting.
    pub ips: Estimate,
    /// The same over the sum of the weights.
    pub snips: Estimate,
    /// Doubly robust.
    pub dr: Estimate,
    /// Pages whose offer the policy would have made, too.
    pub pages: usize,
}

/// Estimates the mean ln seconds of a page had `policy` decided. `None` without a page that can be used: ln
/// times must be finite, and probabilities above 0 and at most 1.
pub fn estimate(log: &[Logged], policy: impl Fn(&Logged) -> Offer) -> Option<Estimates> {
    let usable = |it: &&Logged| {
        let finite = it.ln_time.is_finite() && it.predicted.iter().all(|it| it.is_finite());
        finite && it.propensity > 0.0 && it.propensity <= 1.0
    };
    let pages: Vec<Page> = log
        .iter()
        .filter(usable)
        .map(|it| Page::of(it, policy(it)))
        .collect();
    if pages.is_empty() {
        return None;
    }
    let mean = |value: &dyn Fn(&Page) -> f64| {
        let sum: f64 = pages.iter().map(value).sum();
        sum / pages.len() as f64
    };
    let weight = mean(&|page| page.weight).max(f64::MIN_POSITIVE);
    let ips = mean(&|page| page.weight * page.seen);
    let snips = ips / weight;
    let dr = mean(&|page| page.predicted + page.weight * (page.seen - page.expected));
    Some(Estimates {
        ips: interval(&pages, ips, |page| page.weight * page.seen - ips),
        snips: interval(&pages, snips, |page| {
            page.weight * (page.seen - snips) / weight
        }),
        dr: interval(&pages, dr, |page| {
            page.predicted + page.weight * (page.seen - page.expected) - dr
        }),
        pages: pages.iter().filter(|page| page.weight > 0.0).count(),
    })
}

/// What an estimator needs of a logged page.
struct Page {
    client: u64,
    weight: f64,
    seen: f64,
    /// Of the offer that was made.
    expected: f64,
    /// Of the offer that the policy makes.
    predicted: f64,
}

impl Page {
    fn of(logged: &Logged, wanted: Offer) -> Self {
        let prediction = |offer: Offer| logged.predicted[usize::from(offer == Offer::Http3)];
        let weight = if logged.offer == wanted {
            (1.0 / logged.propensity).min(MOST)
        } else {
            0.0
        };
        Self {
            client: logged.client,
            weight,
            seen: logged.ln_time,
            expected: prediction(logged.offer),
            predicted: prediction(wanted),
        }
    }
}

/// By the variance of what `influence` sums up to for each client.
fn interval(pages: &[Page], mean: f64, influence: impl Fn(&Page) -> f64) -> Estimate {
    let mut clients: BTreeMap<u64, f64> = BTreeMap::new();
    for page in pages {
        *clients.entry(page.client).or_default() += influence(page);
    }
    let squares: f64 = clients.values().map(|sum| sum * sum).sum();
    let half = Z * squares.sqrt() / pages.len() as f64;
    Estimate {
        mean,
        low: mean - half,
        high: mean + half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log in which HTTP/3 is faster by a tenth, and was offered to nine clients of ten.
    fn log(bias: f64) -> Vec<Logged> {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let page = |number: u64| {
            let size = 3.0 * uniform();
            let http3 = uniform() < 0.9;
            let (offer, propensity) = if http3 {
                (Offer::Http3, 0.9)
            } else {
                (Offer::Http2, 0.1)
            };
            let gain = if http3 { -0.1 } else { 0.0 };
            let ln_time = size + gain + 0.3 * (uniform() - 0.5);
            let predicted = [size + bias, size - 0.1 + bias];
            Logged {
                client: number / 4,
                offer,
                propensity,
                ln_time,
                predicted,
            }
        };
        (0..8_000).map(page).collect()
    }

    fn holds(estimate: Estimate, truth: f64) -> bool {
        estimate.low < truth && truth < estimate.high
    }

    #[test]
    fn all_three_find_what_a_policy_is_worth_and_dr_is_the_surest() {
        let all3 = estimate(&log(0.0), |_| Offer::Http3).unwrap();
        let all2 = estimate(&log(0.0), |_| Offer::Http2).unwrap();
        for (estimates, truth) in [(all3, 1.4), (all2, 1.5)] {
            for it in [estimates.ips, estimates.snips, estimates.dr] {
                assert!((it.mean - truth).abs() < 0.15, "{it:?}");
            }
            assert!(holds(estimates.dr, truth), "{estimates:?}");
        }
        let width = |it: Estimate| it.high - it.low;
        assert!(width(all2.dr) < width(all2.snips) / 2.0);
        assert!(width(all2.snips) < width(all2.ips));
        assert!(all2.pages < 1_000 && all3.pages > 7_000);
    }

    #[test]
    fn dr_is_right_with_predictions_that_are_wrong() {
        let estimates = estimate(&log(0.5), |_| Offer::Http2).unwrap();
        assert!(holds(estimates.dr, 1.5), "{estimates:?}");
    }

    #[test]
    fn pages_that_can_not_be_used_are_left_out() {
        let wrong = |change: fn(&mut Logged)| {
            let mut page = log(0.0)[0];
            change(&mut page);
            estimate(&[page], |_| Offer::Http3)
        };
        assert_eq!(wrong(|page| page.propensity = 0.0), None);
        assert_eq!(wrong(|page| page.propensity = f64::NAN), None);
        assert_eq!(wrong(|page| page.ln_time = f64::INFINITY), None);
        assert_eq!(estimate(&[], |_| Offer::Http3), None);
    }
}
