//! Visits: when a client comes, over which network, and which pages it loads.

use crate::browser::Browser;
use crate::population::{Kind, Population, SampledPopulation};
use crate::random::Random;
use crate::truth::{Page, Path, Setup, mixed, times};
use std::net::{IpAddr, Ipv4Addr};

/// Seconds of a day.
pub(crate) const DAY: f64 = 86_400.0;

/// Pages of a visit at most.
const MAX_PAGES: u32 = 6;

/// A visit: a client's pages within some minutes.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) client: u32,
    pub(crate) browser: Browser,
    /// True if nothing tells the server what the browser is.
    pub(crate) unreadable: bool,
    pub(crate) hostile: bool,
    pub(crate) address: IpAddr,
    pub(crate) path: Path,
    pub(crate) blocked: bool,
    /// QUIC is known to work on this network.
    pub(crate) quic_known: bool,
    pub(crate) pages: Vec<Load>,
}

/// A page of a visit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) at: f64,
    pub(crate) page: Page,
    /// True on a connection that is open already.
    pub(crate) warm: bool,
    /// Over HTTP/3 its first request comes in early data.
    pub(crate) early: bool,
    /// Seconds over HTTP/2, HTTP/3, begun over HTTP/2 and moved, begun over HTTP/3 and moved.
    pub(crate) h2: f64,
    pub(crate) h3: f64,
    pub(crate) to_h3: f64,
    pub(crate) to_h2: f64,
    pub(crate) noise: Noise,
}

/// Noise that makes one measurement differ from the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    /// ln of what the client adds to the time that the server sees over HTTP/2 and HTTP/3.
    pub(crate) h2: f64,
    pub(crate) h3: f64,
    /// Factor of the least RTT that a connection sees.
    pub(crate) rtt: f64,
    /// ln of the error of a full delivery rate.
    pub(crate) rate: f64,
    /// Share of the rate that a small page shows.
    pub(crate) partial: f64,
    /// Lost packets; of them those of the path's own queue.
    pub(crate) lost: u64,
}

/// The visits of a day, in the order of their clients.
pub(crate) fn of_day(population: &Population, sampled: &SampledPopulation, day: u32) -> Vec<Visit> {
    let mut visits = Vec::new();
    for (index, client) in (0u32..).zip(&sampled.clients) {
        let mut random = Random::of(population.seed, [u64::from(index), u64::from(day)]);
        for _ in 0..random.count(client.visits) {
            visits.push(visit(population, sampled, index, day, &mut random));
        }
    }
    visits
}

fn visit(
    population: &Population,
    sampled: &SampledPopulation,
    index: u32,
    day: u32,
    random: &mut Random,
) -> Visit {
    let client = &sampled.clients[index as usize];
    let hour = (16.0 + random.normal(5.0)).clamp(0.0, 23.99);
    let on_cell = random.chance(client.mobility);
    let at = if on_cell { client.cell } else { client.home };
    let network = &sampled.networks[at as usize];
    let busy = network.congested && hour > 19.0 && hour < 23.5;
    let base = if on_cell {
        client.cell_rate
    } else {
        client.home_rate
    };
    let varied = if on_cell {
        random.normal(0.5).exp()
    } else {
        (-random.normal(0.1).abs()).exp()
    };
    let rate = base * if busy { 0.5 } else { 1.0 } * varied;
    let jitter = random.normal(0.2).exp();
    let local_loss = if on_cell { 0.001 } else { client.wifi_loss };
    let evening_loss = if busy { 0.003 } else { 0.0 };
    let path = Path {
        rate,
        udp_rate: rate * network.throttle,
        rtt: network.rtt * jitter + if busy { 0.008 } else { 0.0 } + 0.0003,
        loss: (network.loss + local_loss + evening_loss).clamp(1e-5, 0.08),
        quic_limit: client.quic_limit * changed(population, client.browser, day),
        middlebox: network.middlebox,
    };
    let early_data = random.chance(client.browser.early_data());
    let mut count = 1;
    while count < MAX_PAGES && !random.chance(1.0 / 3.0) {
        count += 1;
    }
    let start = f64::from(day) * DAY + hour * 3600.0;
    let quic_known = random.chance(0.5);
    let pages = (0..count).map(|number| {
        let at = start + f64::from(number) * population.page_gap;
        let warm = number > 0 && random.chance(0.7);
        load(
            population,
            client.browser,
            &path,
            at,
            warm,
            early_data,
            random,
        )
    });
    let pages = pages.collect();
    Visit {
        client: index,
        browser: client.browser,
        unreadable: client.unreadable,
        hostile: client.hostile,
        address: address(population, network.kind, at, index, day),
        path,
        blocked: network.blocked,
        quic_known,
        pages,
    }
}

/// Factor of what a browser takes over QUIC after an update.
fn changed(population: &Population, browser: Browser, day: u32) -> f64 {
    let updated = population.browsers_change.is_some_and(|from| day >= from);
    match browser {
        Browser::ChromiumDesktop if updated => 2.2,
        Browser::Safari if updated => 0.4,
        _ => 1.0,
    }
}

/// A home has an address of its own within its network's /24, an office and a mobile network one for all.
fn address(population: &Population, kind: Kind, network: u32, client: u32, day: u32) -> IpAddr {
    const FIRST: u32 = 0x0a00_0000;
    let host = if kind == Kind::Fixed {
        let move_ = population.address_life.map_or(0, |life| day / life.max(1));
        1 + (client
            .wrapping_mul(31)
            .wrapping_add(move_.wrapping_mul(101)))
            % 250
    } else {
        1
    };
    Ipv4Addr::from(FIRST.wrapping_add(network << 8) | host).into()
}

fn load(
    population: &Population,
    browser: Browser,
    path: &Path,
    at: f64,
    warm: bool,
    early_data: bool,
    random: &mut Random,
) -> Load {
    let weights = population.mix.0.map(|(_, weight)| weight);
    let kind = random.choice(&weights);
    let page = population.mix.0[kind].0;
    let setup = if warm {
        Setup::WARM
    } else {
        Setup::cold(early_data)
    };
    let (h2, h3) = times(path, &page, setup);
    let (to_h3, to_h2) = mixed(path, &page, setup, browser.switch());
    let packets = page.bytes() / 1460.0;
    let own_queue = if fills(&page, path) {
        packets * 3e-4
    } else {
        0.01
    };
    let shared = random.heavy(0.25);
    let noise = Noise {
        h2: shared + random.normal(0.08),
        h3: shared + random.normal(0.08),
        rtt: random.normal(0.05).abs().exp(),
        rate: random.normal(0.12),
        partial: random.between(0.3, 1.0),
        lost: random.count(packets * path.loss) + random.count(own_queue),
    };
    Load {
        at,
        page,
        warm,
        early: early_data && !warm,
        h2,
        h3,
        to_h3,
        to_h2,
        noise,
    }
}

/// True if the page shows the path's full rate.
pub(crate) fn fills(page: &Page, path: &Path) -> bool {
    page.bytes() >= 5e6 || (page.bytes() >= 1e6 && page.bytes() * 8.0 / path.rate > 4.0 * path.rtt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::{Mix, Region};

    fn visits(seed: u64) -> Vec<Visit> {
        let mut population = Population::new(Region::National, Mix::WEB, seed);
        population.clients = 500;
        let sampled = SampledPopulation::new(&population);
        (0..10)
            .flat_map(|day| of_day(&population, &sampled, day))
            .collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_visits() {
        let facts = |seed| -> Vec<_> {
            let visits = visits(seed);
            visits
                .iter()
                .map(|visit| (visit.client, visit.pages.len(), visit.pages[0].h2.to_bits()))
                .collect()
        };
        assert_eq!(facts(1), facts(1));
        assert_ne!(facts(1), facts(2));
    }

    #[test]
    fn clients_come_every_other_day_or_so_and_see_two_or_three_pages() {
        let visits = visits(3);
        let a_day = visits.len() as f64 / 5_000.0;
        assert!((0.25..0.6).contains(&a_day), "{a_day}");
        let pages: usize = visits.iter().map(|visit| visit.pages.len()).sum();
        let each = pages as f64 / visits.len() as f64;
        assert!((2.3..3.2).contains(&each), "{each}");
    }

    #[test]
    fn a_mobile_network_has_one_address_and_homes_have_their_own() {
        let population = Population::new(Region::Metro, Mix::WEB, 1);
        let of = |kind, client| address(&population, kind, 7, client, 0);
        assert_eq!(of(Kind::Cellular, 1), of(Kind::Cellular, 2));
        assert_ne!(of(Kind::Fixed, 1), of(Kind::Fixed, 2));
    }
}
