//! The hold-out: a few clients get the protocol that a coin chooses, the same for a week, so that what HTTP/3
//! is worth can be told from who uses it.

use crate::Client;
use crate::Secret;
use crate::secret::Domain;

/// Share times visits of a week that shows a difference of 2 % in a week (two-sided 5 %, power 80 %, residuals
/// of 0.45, four pages a client).
pub(crate) const NEEDED: f64 = 6_950.0;

/// Least and largest share of clients.
const SHARES: (f64, f64) = (0.002, 0.05);

/// Difference of the protocols above which no client is held.
pub(crate) const MOST_HARM: f64 = 0.10;

/// Below the least probability of a decision that chance turned: half of the least share, at the largest difference.
pub(crate) const LEAST_PROPENSITY: f64 = 3e-4;

/// Difference that costs a held client nothing that counts: that of the model's hysteresis, within which clients stay as they are.
const HARMLESS: f64 = 0.01;

/// Share of the clients with a predicted `difference` that are held, by the visits of the week before; the largest where
/// these aren't known.
///
/// The fewer are held of a kind, the more a page of them weighs in an estimate: with shares `e` the variance grows as Σ 1/e, and what
/// the held lose as Σ e·|difference|. Of all shares that lose as much, those in proportion to 1/√|difference| have the least variance.
pub(crate) fn share(visits: Option<u64>, difference: f64) -> f64 {
    let most = |visits: u64| (NEEDED / (visits as f64).max(1.0)).clamp(SHARES.0, SHARES.1);
    let cost = difference.abs();
    visits.map_or(SHARES.1, most) * (HARMLESS / (HARMLESS + cost)).sqrt()
}

/// The coin's word for `client` in `week`: `None` if the client isn't held, else whether it gets HTTP/3.
pub(crate) fn coin(secret: &Secret, client: &Client, week: u64, share: f64) -> Option<bool> {
    let drawn = uniform(secret, Domain::HoldOut, client, week);
    (drawn < share).then(|| assigned(secret, client, week))
}

/// The protocol of `client` in `week` if it is held, HTTP/3 or not: the same one with whatever share it is.
pub(crate) fn assigned(secret: &Secret, client: &Client, week: u64) -> bool {
    uniform(secret, Domain::Assignment, client, week) < 0.5
}

/// One of fifty weeks, in which a client is offered HTTP/3 although it never came.
pub(crate) fn retries_udp(secret: &Secret, client: &Client, week: u64) -> bool {
    uniform(secret, Domain::UdpRetry, client, week) < 0.02
}

fn uniform(secret: &Secret, domain: Domain, client: &Client, week: u64) -> f64 {
    let parts = [client.address.to_le_bytes(), week.to_le_bytes()];
    secret.uniform(domain, &[&parts[0], &parts[1], &[client.class.index()]])
}

/// Probability of `chosen` where without a coin `wanted` is chosen.
pub(crate) fn propensity(chosen: bool, wanted: bool, share: f64) -> f64 {
    if chosen == wanted {
        1.0 - share / 2.0
    } else {
        share / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientClass;
    use std::net::Ipv4Addr;

    fn client(number: u32) -> Client {
        let address = Ipv4Addr::from_bits(number).into();
        Client::new(&Secret::new([1; 16]), address, ClientClass::OTHER)
    }

    #[test]
    fn the_share_follows_the_visits_of_a_week() {
        assert_eq!(share(None, 0.0), 0.05);
        assert_eq!(share(Some(0), 0.0), 0.05);
        assert_eq!(share(Some(700_000), 0.0), 6_950.0 / 700_000.0);
        assert_eq!(share(Some(u64::MAX), 0.0), 0.002);
    }

    #[test]
    fn fewer_are_held_where_it_costs_them_more() {
        assert_eq!(share(None, -0.03), 0.025);
        assert_eq!(share(None, 0.03), 0.025);
        assert!(share(None, MOST_HARM) < 0.016);
        assert_eq!(share(Some(700_000), 0.15), 6_950.0 / 700_000.0 / 4.0);
    }

    #[test]
    fn no_decision_is_less_probable_than_the_least() {
        let least = propensity(true, false, share(Some(u64::MAX), MOST_HARM));
        assert!(
            (LEAST_PROPENSITY..1.01 * LEAST_PROPENSITY).contains(&least),
            "{least}"
        );
    }

    #[test]
    fn who_is_held_of_a_larger_share_keeps_the_protocol_that_it_has_of_a_smaller() {
        let secret = Secret::new([2; 16]);
        for number in 0..5_000 {
            let of = |share| coin(&secret, &client(number), 7, share);
            if let Some(http3) = of(0.01) {
                assert_eq!(of(0.05), Some(http3));
            }
        }
    }

    #[test]
    fn half_of_the_held_get_each_protocol_and_keep_it_for_the_week() {
        let secret = Secret::new([2; 16]);
        let mut counts = [0; 2];
        for number in 0..20_000 {
            let first = coin(&secret, &client(number), 7, 0.05);
            assert_eq!(first, coin(&secret, &client(number), 7, 0.05));
            if let Some(http3) = first {
                counts[usize::from(http3)] += 1;
            }
        }
        // 500 each, with a standard deviation of 22.
        assert!(
            counts.iter().all(|count| (400..600).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn another_week_holds_others() {
        let secret = Secret::new([2; 16]);
        let held = |week| {
            (0..5_000)
                .filter(|it| coin(&secret, &client(*it), week, 0.05).is_some())
                .collect::<Vec<_>>()
        };
        let (one, two) = (held(1), held(2));
        let both = one.iter().filter(|it| two.contains(it)).count();
        assert!(both < 40, "{both} of {}", one.len());
    }

    #[test]
    fn probabilities_of_both_offers_are_one() {
        let sum = propensity(true, true, 0.05) + propensity(false, true, 0.05);
        assert_eq!(sum, 1.0);
    }
}
