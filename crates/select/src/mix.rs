//! The mix of what a host's visitors load: how often exchanges of each size come, on new and on open connections.
//!
//! One `Alt-Svc` entry serves a host's small pages and its large downloads alike, so the decision weighs both
//! protocols over what the host really sends. A host of downloads and a site differ by it.

use crate::observation::{Page, Start};
use crate::snapshot::Reader;
use crate::surface::{Exchange, Times};

/// Classes of size: each a power of two, from 1 KiB on.
const SIZES: usize = 32;

/// Pages after which the host's own counts are used alone, and what follows a first page is known.
const ENOUGH: f64 = 200.0;

/// Pages that the usual mix counts as beside fewer than [`ENOUGH`] of the host's own. Hosts differ more among each other
/// than the pages of one host do, so that one of its own says as much of it as what is usual.
const USUAL_PAGES: f64 = 1.0;

/// Exchanges that a decision weighs at most: it is made once a second for each connection.
pub(crate) const HEAVIEST: usize = 8;

/// Counts above which all are halved, so that a host that changes is followed.
const MOST: f64 = 100_000.0;

/// Round trips of a new connection before its first request: TCP and TLS 1.3; QUIC, where half of the
/// returning clients use early data.
pub(crate) const COLD: (f64, f64) = (2.0, 0.5);

/// The usual mix: bytes of the document and of the objects, their number, and weight.
const USUAL: [(f64, f64, bool, f64); 3] = [
    (20e3, 400e3, true, 0.7),
    (20e3, 1e6, true, 0.2),
    (1e3, 10e6, false, 0.1),
];

/// Counts of one class of exchange.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Count {
    weight: f64,
    bytes: f64,
    many: f64,
}

/// Exchanges of a host by size and by whether the connection was new: 64 classes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mix {
    /// Counts on new connections, then on open ones.
    counts: [Count; 2 * SIZES],
    total: f64,
    /// Pages and their bytes on new connections, then on open ones.
    sums: [(f64, f64); 2],
    /// Places in `counts` of those with the largest weights, the largest first, and of equal ones the first; each
    /// page moves one of them, where each decision would look through all.
    heaviest: [u8; HEAVIEST],
    /// Places that are used of `heaviest`.
    ranked: u8,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            counts: [Count::default(); 2 * SIZES],
            total: 0.0,
            sums: [(0.0, 0.0); 2],
            heaviest: [0; HEAVIEST],
            ranked: 0,
        }
    }
}

impl Mix {
    /// Counts a page of a visitor.
    pub(crate) fn add_page(&mut self, page: &Page) {
        let bytes = page.first.as_bytes().saturating_add(page.rest.as_bytes());
        self.add(bytes, page.responses, page.start != Start::Warm);
    }

    /// Counts what a visitor loaded at one go: `bytes` in so many responses, on a new connection or not.
    pub(crate) fn add(&mut self, bytes: u64, responses: u32, cold: bool) {
        let class = (bytes >> 10)
            .checked_ilog2()
            .map_or(0, |log| log as usize + 1);
        let place = usize::from(!cold) * SIZES + class.min(SIZES - 1);
        let count = &mut self.counts[place];
        count.weight += 1.0;
        count.bytes += bytes as f64;
        count.many += f64::from(u8::from(Exchange::has_many(responses)));
        self.total += 1.0;
        let (pages, sum) = &mut self.sums[usize::from(!cold)];
        *pages += 1.0;
        *sum += bytes as f64;
        self.rank(place as u8);
        if self.total > MOST {
            self.halve();
        }
    }

    /// True if nothing is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranked == 0
    }

    /// The number of pages that are counted, where old ones count for less.
    pub(crate) fn pages(&self) -> f64 {
        self.total
    }

    /// Writes the counts, 25 bytes for each class of exchange that is counted and 33 beside.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let counts = self.counts.iter().enumerate();
        let used: Vec<_> = counts.filter(|(_, it)| it.weight > 0.0).collect();
        to.push(used.len() as u8);
        for (
            place,
            Count {
                weight,
                bytes,
                many,
            },
        ) in used
        {
            to.push(place as u8);
            for number in [weight, bytes, many] {
                to.extend(number.to_le_bytes());
            }
        }
        for (pages, bytes) in self.sums {
            to.extend(pages.to_le_bytes());
            to.extend(bytes.to_le_bytes());
        }
    }

    /// Reads what [`write`](Self::write) wrote; `None` for what it would not have written.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let is_sum = |number: f64| (0.0..1e30).contains(&number);
        let mut mix = Self::default();
        let [used] = *from.take()?;
        for _ in 0..used {
            let [place] = *from.take()?;
            let (weight, bytes, many) = (from.f64()?, from.f64()?, from.f64()?);
            let is_sane =
                0.0 < weight && weight <= MOST && is_sum(bytes) && (0.0..=weight).contains(&many);
            let count = mix.counts.get_mut(usize::from(place))?;
            let is_free = *count == Count::default();
            *count = (is_sane && is_free).then_some(Count {
                weight,
                bytes,
                many,
            })?;
            mix.total += weight;
            mix.rank(place);
        }
        for sums in &mut mix.sums {
            *sums = (from.f64()?, from.f64()?);
            (is_sum(sums.0) && is_sum(sums.1)).then_some(())?;
        }
        Some(mix)
    }

    fn halve(&mut self) {
        for count in &mut self.counts {
            count.weight /= 2.0;
            count.bytes /= 2.0;
            count.many /= 2.0;
        }
        self.total /= 2.0;
        for (pages, bytes) in &mut self.sums {
            *pages /= 2.0;
            *bytes /= 2.0;
        }
        self.ranked = 0;
        for place in 0..self.counts.len() {
            if self.counts[place].weight > 0.0 {
                self.rank(place as u8);
            }
        }
    }

    /// Moves the class at `place` up to its rank, now that its weight has grown.
    fn rank(&mut self, place: u8) {
        let weight = |place: u8| self.counts[usize::from(place)].weight;
        let is_before = |a: u8, b: u8| weight(a) > weight(b) || (weight(a) == weight(b) && a < b);
        let mut ranks = self.heaviest;
        let ranked = usize::from(self.ranked);
        let mut at = match ranks[..ranked].iter().position(|one| *one == place) {
            Some(at) => at,
            None if ranked < HEAVIEST => {
                self.ranked += 1;
                ranked
            }
            None if is_before(place, ranks[HEAVIEST - 1]) => HEAVIEST - 1,
            None => return,
        };
        ranks[at] = place;
        while at > 0 && is_before(place, ranks[at - 1]) {
            ranks.swap(at, at - 1);
            at -= 1;
        }
        self.heaviest = ranks;
    }

    /// True if the host's own counts are used alone.
    #[must_use]
    pub(crate) fn is_known(&self) -> bool {
        self.total >= ENOUGH
    }

    /// Bytes that a connection is expected to load after the page that it is at: what its host's connections load after
    /// their first page, for the length of a visit says nothing of what is left of it (a geometric distribution). 0 while
    /// too few pages are counted.
    #[must_use]
    pub(crate) fn bytes_left(&self) -> f64 {
        let [(cold, _), (_, bytes)] = self.sums;
        if self.is_known() {
            bytes / cold.max(1.0)
        } else {
            0.0
        }
    }

    /// Weighted means of ln T2 and ln T3 over what the host's visitors load, and over what those of a usual site do while
    /// few are counted; and the part of T3 that waits for its bytes, which grows as the rate falls.
    /// At most [`HEAVIEST`] of the host's exchanges are asked for, those with the largest weights.
    pub(crate) fn times(&self, times: impl Fn(&Exchange) -> Times) -> (f64, f64, f64) {
        let (mut sums, mut weights) = ((0.0, 0.0, 0.0), 0.0);
        let mut add = |exchange: &Exchange, weight: f64| {
            let times = times(exchange);
            sums.0 += weight * times.h2.ln();
            sums.1 += weight * times.h3.ln();
            sums.2 += weight * times.waiting.min(1.0);
            weights += weight;
        };
        for (count, cold) in self.heaviest() {
            add(&count.exchange(cold), count.weight);
        }
        if !self.is_known() {
            for (document, objects, many, weight) in USUAL {
                for cold in [true, false] {
                    let weight = weight * USUAL_PAGES / 2.0;
                    add(&exchange(document, objects, many, cold), weight);
                }
            }
        }
        (sums.0 / weights, sums.1 / weights, sums.2 / weights)
    }

    /// The heaviest classes, each with whether its connections were new.
    fn heaviest(&self) -> impl Iterator<Item = (&Count, bool)> {
        let places = &self.heaviest[..usize::from(self.ranked)];
        places.iter().map(|place| {
            (
                &self.counts[usize::from(*place)],
                usize::from(*place) < SIZES,
            )
        })
    }
}

impl Count {
    fn exchange(&self, cold: bool) -> Exchange {
        let bytes = self.bytes / self.weight;
        // A document that names the rest, where there is a rest.
        let document = if bytes > 40e3 { 20e3 } else { bytes };
        exchange(
            document,
            bytes - document,
            self.many * 2.0 > self.weight,
            cold,
        )
    }
}

fn exchange(document: f64, objects: f64, many: bool, cold: bool) -> Exchange {
    let (setup2, setup3) = if cold { COLD } else { (0.0, 0.0) };
    Exchange {
        document,
        objects,
        many,
        setup2,
        setup3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Means of bytes and of round trips over TCP, as if they were times.
    fn means(mix: &Mix) -> (f64, f64) {
        let times = |exchange: &Exchange| Times {
            h2: (exchange.document + exchange.objects).max(1.0),
            h3: exchange.setup2.exp(),
            waiting: 1.0,
        };
        let (bytes, setup, waiting) = mix.times(times);
        assert!((waiting - 1.0).abs() < 1e-9);
        (bytes.exp(), setup)
    }

    #[test]
    fn a_host_that_nobody_knows_is_a_usual_site() {
        let expected = 0.7 * 420e3_f64.ln() + 0.2 * 1.02e6_f64.ln() + 0.1 * 10.001e6_f64.ln();
        let (bytes, setup) = means(&Mix::default());
        assert!(
            (bytes.ln() - expected).abs() < 1e-9 && (setup - 1.0).abs() < 1e-9,
            "{bytes} {setup}"
        );
    }

    #[test]
    fn one_page_says_as_much_of_a_host_as_what_is_usual() {
        let usual = means(&Mix::default()).0.ln();
        let mut mix = Mix::default();
        for pages in 1..=20 {
            mix.add(50_000_000, 1, true);
            let own = f64::from(pages) / (f64::from(pages) + 1.0);
            let expected = own * 50e6_f64.ln() + (1.0 - own) * usual;
            let (bytes, setup) = means(&mix);
            assert!((bytes.ln() - expected).abs() < 1e-9, "{pages}: {bytes}");
            assert!((setup - (1.0 + own)).abs() < 1e-9, "{pages}: {setup}");
        }
    }

    #[test]
    fn after_two_hundred_pages_a_host_of_downloads_is_nothing_else() {
        let mut mix = Mix::default();
        for number in 0..200 {
            assert!(!mix.is_known(), "{number}");
            mix.add(50_000_000, 1, true);
        }
        let (bytes, setup) = means(&mix);
        assert!(
            (bytes - 50e6).abs() < 1.0 && setup == 2.0,
            "{bytes} {setup}"
        );
    }

    #[test]
    fn a_host_that_changes_is_followed() {
        let mut mix = Mix::default();
        for size in [1 << 20, 1 << 14] {
            for _ in 0..200_000 {
                mix.add(size, 1, false);
            }
        }
        assert!(means(&mix).0 < 70e3, "{}", means(&mix).0);
    }

    #[test]
    fn what_is_left_of_a_visit_is_what_follows_a_first_page() {
        let mut mix = Mix::default();
        for _ in 0..66 {
            mix.add(9_000_000, 20, true);
            mix.add(500_000, 5, false);
            mix.add(1_500_000, 5, false);
        }
        assert_eq!(mix.bytes_left(), 0.0, "too few");
        mix.add(9_000_000, 20, true);
        mix.add(2_000_000, 20, false);
        assert_eq!(mix.bytes_left(), 2e6);
    }

    #[test]
    fn the_eight_heaviest_are_weighed() {
        let mut mix = Mix::default();
        for power in 0..12 {
            for _ in 0..100 * (power + 1) {
                mix.add(1 << (10 + power), 1, true);
            }
        }
        let weights: Vec<f64> = mix.heaviest().map(|(count, _)| count.weight).collect();
        assert_eq!(weights, [1200., 1100., 1000., 900., 800., 700., 600., 500.]);
    }

    #[test]
    fn three_objects_beside_a_document_are_few() {
        for (responses, many) in [(4, false), (5, true)] {
            let mut mix = Mix::default();
            mix.add(100_000, responses, true);
            let (count, cold) = mix.heaviest().next().unwrap();
            let page = Exchange::of_responses(20_000, 80_000, responses, COLD);
            assert_eq!(count.exchange(cold), page);
            assert_eq!(page.many, many);
        }
    }

    proptest! {
        #[test]
        fn counts_are_the_same_when_they_are_read_again(
            pages in prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), 0..300),
        ) {
            let mut mix = Mix::default();
            for (bytes, responses, cold) in pages {
                mix.add(bytes.into(), responses, cold);
            }
            let mut bytes = Vec::new();
            mix.write(&mut bytes);
            let mut from = Reader(&bytes);
            prop_assert_eq!(Mix::read(&mut from), Some(mix));
            prop_assert!(from.0.is_empty());
        }

        #[test]
        fn any_bytes_are_refused_or_have_finite_means(bytes: Vec<u8>) {
            if let Some(mix) = Mix::read(&mut Reader(&bytes)) {
                let (bytes, setup) = means(&mix);
                prop_assert!(bytes.is_finite() && setup.is_finite());
            }
        }

        #[test]
        fn means_are_finite_whatever_is_counted(
            pages in prop::collection::vec((any::<u64>(), any::<u32>(), any::<bool>()), 0..300),
        ) {
            let mut mix = Mix::default();
            for (bytes, requests, cold) in pages {
                mix.add(bytes, requests, cold);
            }
            let (bytes, setup) = means(&mix);
            prop_assert!(bytes.is_finite() && setup.is_finite());
        }

        #[test]
        fn the_heaviest_are_those_that_a_look_at_all_would_find(
            pages in prop::collection::vec((0_u32..14, 0_u32..9, any::<bool>()), 0..400),
        ) {
            let mut mix = Mix::default();
            for (power, requests, cold) in pages {
                mix.add(1 << power << 8, requests, cold);
                let mut all: Vec<usize> = (0..mix.counts.len()).collect();
                all.retain(|place| mix.counts[*place].weight > 0.0);
                // Stable: of equal ones the first.
                all.sort_by(|a, b| mix.counts[*b].weight.total_cmp(&mix.counts[*a].weight));
                all.truncate(HEAVIEST);
                let ranked = &mix.heaviest[..usize::from(mix.ranked)];
                let ranked: Vec<usize> = ranked.iter().map(|place| usize::from(*place)).collect();
                prop_assert_eq!(ranked, all);
            }
        }
    }
}
