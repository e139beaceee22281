//! Selection logs of simulated servers, whose truth is known: the same visits under other policies.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

use altway_select::replay::{PageTrial, Replay};
use altway_select::{
    Client, Evidence, Hints, LoggedPage, LoggedProtocol, LoggedStart, ModelKind, Offer, Secret,
    SelectionEntry, Surface, UnixTime,
};
use altway_simulate::{
    AltSvc, AlwaysH2, AlwaysH3, Ask, MONTH, Mix, ObservedPage, Policy, Population, Region,
    SelectorPolicy, run,
};
use altway_stats::{ClusteredMean, Trial, off_policy, treatment_difference};
use std::collections::HashMap;
use std::time::Duration;

/// Monday, 2026-11-23 00:00 UTC, as for `SelectorPolicy`.
const BEGINNING: u64 = 1_795_392_000;

/// The times of pages by when and where they were loaded, under the policy that is wrapped.
struct Timed<P> {
    policy: P,
    times: Times,
}

type Times = HashMap<(u64, std::net::IpAddr), f64>;

impl<P: Policy> Timed<P> {
    fn run(population: &Population, policy: P) -> Self {
        let mut timed = Self {
            policy,
            times: HashMap::new(),
        };
        run(population, &mut timed);
        timed
    }
}

impl<P: Policy> Policy for Timed<P> {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        self.policy.decide(ask)
    }

    fn observe(&mut self, seen: &ObservedPage<'_>) {
        let at = (seen.ask.now.to_bits(), seen.ask.address);
        self.times.insert(at, seen.time);
        self.policy.observe(seen);
    }
}

/// A server that throws a coin for each address and week, and knows nothing but round trips.
struct Coin {
    secret: Secret,
    /// Probability of HTTP/3.
    http3: f64,
    decided: Option<Offer>,
    log: Vec<(f64, std::net::IpAddr, SelectionEntry)>,
}

impl Coin {
    fn new(seed: u64, http3: f64) -> Self {
        let mut key = [7; 16];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self {
            secret: Secret::new(key),
            http3,
            decided: None,
            log: Vec::new(),
        }
    }

    fn client(&self, ask: &Ask<'_>, week: u64) -> (Client, f64) {
        let hints = Hints {
            user_agent: Some(ask.user_agent.as_bytes()),
            ..Hints::default()
        };
        let class = altway_select::ClientClass::of(&hints);
        let client = Client::new(&self.secret, ask.address, class);
        // Another keyed hash of the client, as uniform as its key.
        let mixed = (client.pseudonym() ^ week.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
        (client, (mixed >> 11) as f64 / (1_u64 << 53) as f64)
    }

    fn note(
        &mut self,
        seen: &ObservedPage<'_>,
        page: Option<LoggedPage>,
        protocol: LoggedProtocol,
    ) {
        let ask = &seen.ask;
        let time = UnixTime::from_secs(BEGINNING + ask.now as u64);
        let (client, _) = self.client(ask, time.week());
        let offer = self.decided.unwrap();
        let entry = SelectionEntry {
            v: altway_select::ENTRY_VERSION,
            time,
            client: client.key(),
            class: client.class(),
            host: "".into(),
            protocol,
            page,
            beacon: None,
            offer,
            reason: "hold-out".into(),
            propensity: match offer {
                Offer::Http3 => self.http3,
                Offer::Http2 => 1.0 - self.http3,
            },
            held: true,
            path: Evidence {
                rtt: Some(ask.rtt),
                limit_bps: 5e8,
                ..Evidence::default()
            },
        };
        self.log.push((ask.now, ask.address, entry));
    }
}

impl Policy for Coin {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        let week = UnixTime::from_secs(BEGINNING + ask.now as u64).week();
        let http3 = self.client(ask, week).1 < self.http3;
        self.decided = Some(if http3 { Offer::Http3 } else { Offer::Http2 });
        let offer = |max_age| AltSvc::Offer {
            max_age: Duration::from_secs_f64(max_age),
            persist: false,
        };
        match (http3, ask.over_h3) {
            (true, _) => offer(MONTH),
            (false, true) => offer(600.0),
            (false, false) => AltSvc::Clear,
        }
    }

    fn observe(&mut self, seen: &ObservedPage<'_>) {
        let page = LoggedPage {
            start: if seen.ask.warm {
                LoggedStart::Warm
            } else {
                LoggedStart::Cold
            },
            first: seen.page.document as u64,
            rest: seen.page.objects as u64,
            responses: seen.page.count + 1,
            seconds: seen.time,
        };
        let protocol = match seen.ask.over_h3 {
            true => LoggedProtocol::H3,
            false => LoggedProtocol::H2,
        };
        self.note(seen, seen.pure.then_some(page), protocol);
        if seen.arrived {
            self.note(seen, None, LoggedProtocol::H3);
        }
    }
}

fn trial(it: &PageTrial) -> Trial {
    Trial {
        cluster: it.cluster(),
        second: it.offer == Offer::Http3,
        propensity: it.propensity,
        outcome: it.ln_time,
        predicted: it.predicted,
    }
}

fn replay() -> Replay {
    let surface = Surface::embedded();
    let policies = ["h2", "h3"].map(|it| it.parse::<ModelKind>().unwrap().build(surface));
    Replay::new(surface.clone(), policies.into())
}

/// Estimates from a log, and the truth of the same pages.
struct Told {
    name: &'static str,
    estimate: ClusteredMean,
    truth: f64,
}

/// HTTP/3 against HTTP/2, and each for all against the log, by a server that throws a coin.
fn coin(seed: u64, http3: f64) -> Vec<Told> {
    let population = Population {
        clients: 300,
        days: 14,
        visits: 0.8,
        ..Population::new(Region::National, Mix::WEB, seed)
    };
    let logged = Timed::run(&population, Coin::new(seed, http3));
    let all2 = Timed::run(&population, AlwaysH2).times;
    let all3 = Timed::run(&population, AlwaysH3 { max_age: MONTH }).times;
    let (mut replay, mut trials, mut pages) = (replay(), Vec::new(), Vec::new());
    for (now, address, entry) in &logged.policy.log {
        let page = (now.to_bits(), *address);
        // curl's that fail where all are offered HTTP/3 have no time there.
        let loads = all3.contains_key(&page);
        if let Some(found) = replay.read(entry).filter(|_| loads) {
            pages.push(page);
            trials.push(trial(&found));
        }
    }
    let truth = |a: &Times, b: &Times| {
        let sum: f64 = pages.iter().map(|at| (a[at] / b[at]).ln()).sum();
        sum / pages.len() as f64
    };
    let told = |name, estimate, truth| Told {
        name,
        estimate,
        truth,
    };
    let of = |wanted| off_policy(&trials, |_| wanted, 0.95).unwrap();
    let (of2, of3) = (of(false), of(true));
    let (truth2, truth3) = (truth(&all2, &logged.times), truth(&all3, &logged.times));
    vec![
        told(
            "difference",
            treatment_difference(&trials, 0.95).unwrap(),
            truth(&all3, &all2),
        ),
        told("doubly robust, h2", of2.doubly_robust_difference, truth2),
        told("doubly robust, h3", of3.doubly_robust_difference, truth3),
        told("SNIPS, h2", of2.snips_difference.unwrap(), truth2),
        told("SNIPS, h3", of3.snips_difference.unwrap(), truth3),
    ]
}

#[test]
fn intervals_hold_the_truth_and_nothing_is_biased_in_two_hundred_logs() {
    for http3 in [0.5, 0.8] {
        let logs: Vec<Vec<Told>> = (0..200).map(|seed| coin(seed, http3)).collect();
        let count = logs.len() as f64;
        for place in 0..logs[0].len() {
            let told = || logs.iter().map(|log| &log[place]);
            let name = logs[0][place].name;
            let inside = told().filter(|it| it.estimate.interval.contains(it.truth));
            let inside = inside.count() as f64 / count;
            let off = || told().map(|it| it.estimate.value - it.truth);
            let bias = off().sum::<f64>() / count;
            let spread = off().map(|it| (it - bias).powi(2)).sum::<f64>().sqrt() / count;
            println!("{name} at {http3}: {inside:.3} hold the truth, bias {bias:.4} ± {spread:.4}");
            // A quotient of two sums: what is left of its bias falls with the number of clients.
            let of_quotient = if name.starts_with("SNIPS") {
                0.01
            } else {
                0.003
            };
            assert!(inside >= 0.93, "{name} at {http3}: {inside}");
            assert!(
                bias.abs() < of_quotient + 2.5 * spread,
                "{name} at {http3}: {bias}"
            );
        }
    }
}

#[test]
fn a_learned_servers_log_says_what_the_simulation_says() {
    for (region, mix, seed) in [
        (Region::National, Mix::WEB, 71),
        (Region::Metro, Mix::BULK, 72),
    ] {
        let population = Population {
            clients: 2_000,
            ..Population::new(region, mix, seed)
        };
        let policy =
            SelectorPolicy::new(&ModelKind::Learned(None), Surface::embedded().clone()).with_log();
        let logged = Timed::run(&population, Logging::of(policy));
        let worlds = [
            Timed::run(&population, AlwaysH2).times,
            Timed::run(&population, AlwaysH3 { max_age: MONTH }).times,
        ];
        let mut replay = replay();
        let mut found = Vec::new();
        for (at, entry) in &logged.policy.entries() {
            found.extend(replay.read(entry).map(|trial| (*at, trial)));
        }
        for (place, world) in worlds.iter().enumerate() {
            let agrees = |it: &PageTrial| (it.offer == Offer::Http3) == it.wants_http3(place);
            let shown = found
                .iter()
                .filter(|(_, it)| it.propensity < 1.0 || agrees(it));
            let shown: Vec<_> = shown.copied().collect();
            let trials: Vec<Trial> = shown.iter().map(|(_, it)| trial(it)).collect();
            let ln = |(at, _): &((u64, std::net::IpAddr), PageTrial)| {
                (world[at] / logged.times[at]).ln()
            };
            let truth = shown.iter().map(ln).sum::<f64>() / shown.len() as f64;
            let wanted = |index: usize| shown[index].1.wants_http3(place);
            let of = off_policy(&trials, wanted, 0.95).unwrap();
            let robust = of.doubly_robust_difference;
            println!(
                "{region:?} {place}: {truth} {robust:?} {:?} {}",
                of.snips_difference,
                shown.len()
            );
            assert!(robust.interval.contains(truth), "{truth}: {robust:?}");
        }
    }
}

/// Notes to which page each line of the log belongs.
struct Logging {
    selected: SelectorPolicy,
    at: Vec<(u64, std::net::IpAddr)>,
}

impl Logging {
    fn of(selected: SelectorPolicy) -> Self {
        Self {
            selected,
            at: Vec::new(),
        }
    }

    fn entries(&self) -> Vec<((u64, std::net::IpAddr), SelectionEntry)> {
        let entries = self.selected.log().iter().cloned();
        self.at.iter().copied().zip(entries).collect()
    }
}

impl Policy for Logging {
    fn decide(&mut self, ask: &Ask<'_>) -> AltSvc {
        self.selected.decide(ask)
    }

    fn observe(&mut self, seen: &ObservedPage<'_>) {
        self.selected.observe(seen);
        let at = (seen.ask.now.to_bits(), seen.ask.address);
        self.at.resize(self.selected.log().len(), at);
    }
}
