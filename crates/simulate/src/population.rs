//! Clients and their networks: the parameters, and what is drawn once.

use crate::browser::Browser;
use crate::random::Random;
use crate::truth::Page;

/// Distance of clients from the server, by the median RTT of their networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Region {
    /// 4 ms: a server in the city.
    Metro,
    /// 18 ms.
    National,
    /// 70 ms.
    Global,
}

impl Region {
    fn rtt(self) -> f64 {
        match self {
            Self::Metro => 0.004,
            Self::National => 0.018,
            Self::Global => 0.070,
        }
    }
}

/// Pages that a site has, and how often each is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix(pub [(Page, f64); 3]);

const fn page(document: f64, objects: f64, count: u32) -> Page {
    Page {
        document,
        objects,
        count,
    }
}

impl Mix {
    /// 70 % pages of 400 KB and 20 objects, 20 % of 1 MB, 10 % of 10 MB.
    pub const WEB: Self = Self::weighted([0.7, 0.2, 0.1]);
    /// The same pages, 10, 20 and 70 %: a host of downloads.
    pub const BULK: Self = Self::weighted([0.1, 0.2, 0.7]);

    const fn weighted(weights: [f64; 3]) -> Self {
        Self([
            (page(20e3, 400e3, 20), weights[0]),
            (page(20e3, 1e6, 8), weights[1]),
            (page(1e3, 10e6, 1), weights[2]),
        ])
    }
}

/// Ways in which some clients mislead the server.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Hostility {
    /// Share of clients; each visits five times as often as others.
    pub share: f64,
    /// Clients that acknowledge so that HTTP/3 seems e² times slower and HTTP/2 e times faster.
    pub fake_times: bool,
    /// Clients that take 15 % of what they could over HTTP/3.
    pub fake_rates: bool,
    /// Clients of which each visit has another User-Agent.
    pub fake_agents: bool,
}

/// Parameters of a population.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Population {
    /// Distance to the server.
    pub region: Region,
    /// Pages of the site.
    pub mix: Mix,
    /// Number of clients, 200 or more.
    pub clients: u32,
    /// Days that are simulated.
    pub days: u32,
    /// Median visits of a client a day.
    pub visits: f64,
    /// Seconds between two pages of a visit.
    pub page_gap: f64,
    /// Clients that lie.
    pub hostility: Hostility,
    /// Day from which on desktop Chromium takes 2.2 times as much over QUIC, and Safari 0.4 times.
    pub browsers_change: Option<u32>,
    /// Days after which a client at home gets another address: IPv6 prefixes that change; `None`: never.
    pub address_life: Option<u32>,
    /// Seed: the same one gives the same clients, visits and noise.
    pub seed: u64,
}

impl Population {
    /// 28 days of 4,000 clients in `region` who visit a site of `mix` every 2.5 days or so.
    #[must_use]
    pub fn new(region: Region, mix: Mix, seed: u64) -> Self {
        Self {
            region,
            mix,
            clients: 4_000,
            days: 28,
            visits: 0.4,
            page_gap: 72.0,
            hostility: Hostility::default(),
            browsers_change: None,
            address_life: None,
            seed,
        }
    }
}

/// Kinds of access networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Homes, each with an address of its own.
    Fixed,
    /// A mobile network behind carrier-grade NAT: one address for all.
    Cellular,
    /// An office behind one address.
    Office,
}

/// A network of clients that share an address prefix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) kind: Kind,
    pub(crate) rtt: f64,
    pub(crate) loss: f64,
    /// UDP does not get through.
    pub(crate) blocked: bool,
    /// Share of the rate that UDP gets.
    pub(crate) throttle: f64,
    /// ln of what its middleboxes do to HTTP/3's time.
    pub(crate) middlebox: f64,
    /// Congested in the evening.
    pub(crate) congested: bool,
}

/// A client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) browser: Browser,
    /// Nothing tells the server what it is.
    pub(crate) unreadable: bool,
    pub(crate) home: u32,
    pub(crate) cell: u32,
    pub(crate) home_rate: f64,
    pub(crate) cell_rate: f64,
    /// Share of its visits over the mobile network.
    pub(crate) mobility: f64,
    pub(crate) wifi_loss: f64,
    pub(crate) quic_limit: f64,
    pub(crate) visits: f64,
    pub(crate) hostile: bool,
}

/// Properties that are drawn once.
#[derive(Debug, Clone)]
pub(crate) struct SampledPopulation {
    pub(crate) networks: Vec<Network>,
    pub(crate) clients: Vec<Client>,
}

/// Subjects of draws that are no client on a day.
const NETWORKS: u64 = u64::MAX;
const CLIENTS: u64 = u64::MAX - 1;

impl SampledPopulation {
    pub(crate) fn new(population: &Population) -> Self {
        let clients = population.clients;
        let share = |share: f64, each: f64| (f64::from(clients) * share / each) as u32;
        let kinds = [
            (Kind::Fixed, share(0.62, 3.0).max(1)),
            (Kind::Cellular, share(0.9, 40.0).max(3)),
            (Kind::Office, share(0.12, 15.0).max(1)),
        ];
        let mut networks = Vec::new();
        for (kind, count) in kinds {
            for _ in 0..count {
                let index = networks.len() as u64;
                let mut random = Random::of(population.seed, [NETWORKS, index]);
                networks.push(network(&mut random, kind, population.region));
            }
        }
        let counts = kinds.map(|(_, count)| count);
        let client = |index| {
            let mut random = Random::of(population.seed, [CLIENTS, u64::from(index)]);
            client(&mut random, counts, population)
        };
        Self {
            networks,
            clients: (0..clients).map(client).collect(),
        }
    }
}

fn network(random: &mut Random, kind: Kind, region: Region) -> Network {
    let extra = if kind == Kind::Cellular { 0.025 } else { 0.0 };
    let blocked = match kind {
        Kind::Fixed => 0.008,
        Kind::Cellular => 0.01,
        Kind::Office => 0.12,
    };
    let loss = if random.chance(0.7) {
        1e-4
    } else if random.chance(0.67) {
        random.magnitude(1e-3, 5e-3)
    } else {
        random.magnitude(8e-3, 0.03)
    };
    let accelerator = if random.chance(0.03) { 0.13 } else { 0.0 };
    let slow_udp = if random.chance(0.02) { 0.25 } else { 0.0 };
    Network {
        kind,
        rtt: region.rtt() * random.normal(0.7).exp() + extra,
        loss,
        blocked: random.chance(blocked),
        throttle: if random.chance(0.015) {
            random.between(0.15, 0.5)
        } else {
            1.0
        },
        middlebox: random.normal(0.02) + accelerator + slow_udp,
        congested: kind == Kind::Fixed && random.chance(0.3),
    }
}

fn client(random: &mut Random, counts: [u32; 3], population: &Population) -> Client {
    const RATES: [f64; 6] = [25e6, 50e6, 100e6, 300e6, 600e6, 1000e6];
    const RATE_SHARES: [f64; 6] = [0.1, 0.18, 0.32, 0.15, 0.12, 0.13];
    let [fixed, cellular, offices] = counts;
    let browser = Browser::ALL[random.choice(&Browser::shares())];
    let mobile = browser.is_mobile();
    let home = if random.chance(0.14) {
        fixed + cellular + random.below(offices)
    } else {
        random.below(fixed)
    };
    let wired = RATES[random.choice(&RATE_SHARES)];
    let wifi = 500e6 * random.normal(0.3).exp();
    // Beta(1, 2), and a quarter who have nothing but a phone.
    let mobility = match (mobile, random.chance(0.25)) {
        (false, _) => 0.0,
        (true, true) => 1.0,
        (true, false) => 1.0 - (1.0 - random.share()).sqrt(),
    };
    let hostile = random.chance(population.hostility.share);
    let often = if hostile { 5.0 } else { 1.0 };
    Client {
        browser,
        unreadable: random.chance(0.05),
        home,
        cell: fixed + random.below(cellular),
        home_rate: if mobile { wired.min(wifi) } else { wired },
        cell_rate: (30e6 * random.normal(0.8).exp()).clamp(1e6, 400e6),
        mobility,
        wifi_loss: if random.chance(0.12) {
            random.magnitude(2e-3, 2e-2)
        } else {
            0.0
        },
        quic_limit: browser.quic_limit() * random.normal(0.35).exp(),
        visits: population.visits * (random.normal(0.8) - 0.32).exp() * often,
        hostile,
    }
}
