//! The loss of a path, from few packets or many.
//!
//! Paths are of two kinds. Most lose next to nothing, exponentially distributed with a mean of .07 %; one of two hundred
//! is lossy (a Wi-Fi at its edge, a bad line), with a mean of 2 %. What a path has lost says which kind it is, and that kind how
//! much to believe of it: one loss in a hundred packets is chance on a clean path, seventeen in seven hundred never are.
//! A single guess with the mean of all paths would take either for nearly clean, and hold on to that for as many packets as
//! it is worth.
//!
//! Drops of a queue that the sender fills itself don't come here: an observation leaves them out.

/// Packets in which a path of the kind loses one, in the mean.
const CLEAN_PACKETS_PER_LOSS: f64 = 1_500.0;
const LOSSY_PACKETS_PER_LOSS: f64 = 50.0;

/// Lossy paths for each clean one, before anything was seen.
const LOSSY_PRIOR_ODDS: f64 = 1.0 / 199.0;

/// Losses come in bursts: as evidence of a kind, so many packets count as one. With fewer, sites in the city and of a
/// country would take more than .80 and .96 of the processor time of HTTP/3 for all (`altway policy simulate`).
const PACKETS_PER_BURST: f64 = 5.0;

/// Packets that what others of its network lose counts as, for a client of which little is known.
const NETWORK_PRIOR_PACKETS: f64 = 1_500.0;

/// Share of packets that a path loses which has lost `lost` of `sent`; `nearby` of those that addresses of its
/// network were sent. The mean of its logarithm over both kinds, for times grow slower than loss does.
///
/// With an exponential distribution of mean 1/m, `lost` of `sent` packets have the likelihood
/// m/(m + sent) · (sent/(m + sent))^lost and leave the mean (lost + 1)/(sent + m).
pub(crate) fn estimate(sent: f64, lost: f64, nearby: Option<f64>) -> f64 {
    let (sent, lost) = match nearby {
        Some(share) => (
            sent + NETWORK_PRIOR_PACKETS,
            lost + NETWORK_PRIOR_PACKETS * share.min(0.4),
        ),
        None => (sent, lost),
    };
    let (pieces, hits) = (sent / PACKETS_PER_BURST, lost / PACKETS_PER_BURST);
    let evidence =
        (hits + 1.0) * ((CLEAN_PACKETS_PER_LOSS + pieces) / (LOSSY_PACKETS_PER_LOSS + pieces)).ln();
    let odds = LOSSY_PRIOR_ODDS * LOSSY_PACKETS_PER_LOSS / CLEAN_PACKETS_PER_LOSS * evidence.exp();
    // No number above the largest: what is certain is certain.
    let lossy = 1.0 - 1.0 / (1.0 + odds);
    let clean = 1.0 - lossy;
    (lost + 1.0)
        * (-clean * (sent + CLEAN_PACKETS_PER_LOSS).ln()
            - lossy * (sent + LOSSY_PACKETS_PER_LOSS).ln())
        .exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(sent: f64, lost: f64, nearby: Option<f64>, (low, high): (f64, f64)) {
        let found = estimate(sent, lost, nearby);
        assert!((low..=high).contains(&found), "{found}");
    }

    #[test]
    fn a_path_of_which_nothing_is_known_is_nearly_clean() {
        check(0.0, 0.0, None, (5e-4, 8e-4));
    }

    #[test]
    fn many_losses_of_few_packets_are_those_of_a_lossy_path() {
        // Of 700 packets 2.4 %: counted beside a guess for clean paths it was .8 %.
        check(700.0, 17.0, None, (0.015, 0.0245));
        check(1_400.0, 34.0, None, (0.022, 0.0245));
        check(7_000.0, 170.0, None, (0.023, 0.0245));
    }

    #[test]
    fn a_loss_or_two_may_be_chance() {
        check(100.0, 1.0, None, (5e-4, 5e-3));
        check(700.0, 1.0, None, (5e-4, 1.5e-3));
        check(700.0, 0.0, None, (2e-4, 5e-4));
    }

    #[test]
    fn what_a_network_loses_is_the_guess_for_who_is_new_in_it() {
        check(0.0, 0.0, Some(0.02), (0.014, 0.022));
        check(0.0, 0.0, Some(0.0005), (4e-4, 7e-4));
        // A bad Wi-Fi in a clean network is known for what it is after some megabytes.
        check(2_100.0, 51.0, Some(0.0005), (0.012, 0.0245));
    }

    proptest! {
        #[test]
        fn more_losses_are_more_loss_and_any_counts_give_a_share(
            sent in 0.0..1e5_f64, share in 0.0..1.0_f64, more in 0.0..1.0_f64, nearby in prop::option::of(0.0..1.0_f64),
        ) {
            let lost = sent * share;
            let found = estimate(sent, lost, nearby);
            prop_assert!(found > 0.0 && found < 1.0, "{}", found);
            let lossier = estimate(sent, lost + (sent - lost) * more, nearby);
            prop_assert!(lossier >= found * (1.0 - 1e-12), "{} {}", found, lossier);
        }

        #[test]
        fn with_many_packets_the_estimate_is_the_share_that_was_lost(share in 1e-3..0.2_f64) {
            let found = estimate(60_000.0, 60_000.0 * share, None);
            prop_assert!((found / share - 1.0).abs() < 0.04, "{}", found);
        }
    }
}
