//! Costs of a run to its clients and its server.

use crate::population::Population;
use altway_select::replay::processor_seconds;
use std::fmt;

/// Pages of a client from which on its mean is looked at.
const MIN_PAGES: u32 = 3;

/// A page, as it was.
pub(crate) struct PageCost {
    pub(crate) day: u32,
    pub(crate) client: u32,
    pub(crate) hostile: bool,
    pub(crate) blocked: bool,
    /// UDP gets less of the path's rate than TCP.
    pub(crate) throttled: bool,
    pub(crate) time: f64,
    pub(crate) h2: f64,
    pub(crate) h3: f64,
    pub(crate) on_h3: bool,
    /// True if it moved to HTTP/3 within the page.
    pub(crate) moved: bool,
    pub(crate) warm: bool,
    pub(crate) bytes: f64,
    pub(crate) requests: u32,
    /// A long offer was made.
    pub(crate) offer: bool,
}

/// A client's pages.
#[derive(Debug, Clone, Copy, Default)]
struct ClientTally {
    pages: u32,
    /// Sum of ln(time / time over HTTP/2).
    harm: f64,
    /// The latest decision, and how often it changed.
    offer: Option<bool>,
    changes: u32,
}

pub(crate) struct Tally {
    days: u32,
    regrets: Vec<f32>,
    honest: (f64, u64),
    late: (f64, u64),
    throttled: (f64, u64),
    accounts: Vec<ClientTally>,
    time: f64,
    best: f64,
    against_h2: f64,
    processor: f64,
    processor_of_h3: f64,
    on_h3: u64,
    failed: u64,
}

/// Costs of a policy to a population. Regret is a page's time beyond that of the protocol that was the better for
/// it, as a share; nobody can have 0, for one entry serves small pages and large ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Pages loaded.
    pub pages: u64,
    /// Regret of all pages' time together.
    pub total: f64,
    /// Mean regret of a page.
    pub mean: f64,
    /// The same of clients that don't lie.
    pub honest: f64,
    /// Mean regret in the second half of the days.
    pub late: f64,
    /// Mean regret on networks that throttle UDP; 0 without one.
    pub throttled: f64,
    /// Mean regret of the worst 1 % of pages.
    pub worst_pages: f64,
    /// Mean ln(time / time over HTTP/2) of the worst 1 % of clients with three pages or more.
    pub worst_clients: f64,
    /// Mean ln(time / time over HTTP/2): below 0 is faster than HTTP/2 for all.
    pub against_h2: f64,
    /// Share of pages that ended over HTTP/3.
    pub h3_share: f64,
    /// Share of all pages that were asked for and could not be loaded: their clients tried QUIC alone, and UDP was blocked. They
    /// count nowhere else.
    pub failed: f64,
    /// Processor time, as a share of that with HTTP/3 for all.
    pub processor: f64,
    /// Changes of decision of a client a week, mean.
    pub changes: f64,
}

impl Tally {
    pub(crate) fn new(population: &Population, clients: usize) -> Self {
        Self {
            days: population.days,
            regrets: Vec::new(),
            honest: (0.0, 0),
            late: (0.0, 0),
            throttled: (0.0, 0),
            accounts: vec![ClientTally::default(); clients],
            time: 0.0,
            best: 0.0,
            against_h2: 0.0,
            processor: 0.0,
            processor_of_h3: 0.0,
            on_h3: 0,
            failed: 0,
        }
    }

    /// Counts a page that could not be loaded.
    pub(crate) fn fail(&mut self) {
        self.failed += 1;
    }

    pub(crate) fn add(&mut self, paid: &PageCost) {
        let best = if paid.blocked {
            paid.h2
        } else {
            paid.h2.min(paid.h3)
        };
        let regret = paid.time / best - 1.0;
        let harm = (paid.time / paid.h2).ln();
        self.regrets.push(regret as f32);
        if !paid.hostile {
            add(&mut self.honest, regret);
        }
        if paid.day >= self.days / 2 {
            add(&mut self.late, regret);
        }
        if paid.throttled {
            add(&mut self.throttled, regret);
        }
        self.time += paid.time;
        self.best += best;
        self.against_h2 += harm;
        self.on_h3 += u64::from(paid.on_h3);
        let moved = if paid.moved {
            processor_seconds(true, true, 0.0, 0.0)
        } else {
            0.0
        };
        self.processor += cost(paid, paid.on_h3) + moved;
        self.processor_of_h3 += cost(paid, !paid.blocked);
        let account = &mut self.accounts[paid.client as usize];
        account.pages += 1;
        account.harm += harm;
        account.changes += u32::from(account.offer.is_some_and(|before| before != paid.offer));
        account.offer = Some(paid.offer);
    }

    pub(crate) fn outcome(mut self) -> Outcome {
        let pages = self.regrets.len().max(1) as f64;
        let mean = self
            .regrets
            .iter()
            .map(|regret| f64::from(*regret))
            .sum::<f64>()
            / pages;
        let known = self
            .accounts
            .iter()
            .filter(|account| account.pages >= MIN_PAGES);
        let mut harms: Vec<f32> = known
            .map(|account| (account.harm / f64::from(account.pages)) as f32)
            .collect();
        let clients = self
            .accounts
            .iter()
            .filter(|account| account.pages > 0)
            .count()
            .max(1);
        let changes: u32 = self.accounts.iter().map(|account| account.changes).sum();
        let weeks = f64::from(self.days) / 7.0;
        Outcome {
            pages: self.regrets.len() as u64,
            total: self.time / self.best - 1.0,
            mean,
            honest: self.honest.0 / self.honest.1.max(1) as f64,
            late: self.late.0 / self.late.1.max(1) as f64,
            throttled: self.throttled.0 / self.throttled.1.max(1) as f64,
            worst_pages: worst(&mut self.regrets),
            worst_clients: worst(&mut harms),
            against_h2: self.against_h2 / pages,
            h3_share: self.on_h3 as f64 / pages,
            failed: self.failed as f64 / (pages + self.failed as f64),
            processor: self.processor / self.processor_of_h3,
            changes: f64::from(changes) / clients as f64 / weeks,
        }
    }
}

fn add(sum: &mut (f64, u64), value: f64) {
    *sum = (sum.0 + value, sum.1 + 1);
}

fn cost(paid: &PageCost, http3: bool) -> f64 {
    processor_seconds(http3, !paid.warm, f64::from(paid.requests), paid.bytes)
}

/// Mean of the largest 1 %.
fn worst(values: &mut [f32]) -> f64 {
    let count = (values.len() / 100).max(1);
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    values[..count]
        .iter()
        .map(|value| f64::from(*value))
        .sum::<f64>()
        / count as f64
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:5.2} % mean regret, {:5.2} % of all time, {:6.2} % against HTTP/2, worst clients {:5.1} %, \
             worst pages {:5.0} %, HTTP/3 {:3.0} %, processor {:.2}",
            100.0 * self.mean,
            100.0 * self.total,
            100.0 * self.against_h2,
            100.0 * self.worst_clients,
            100.0 * self.worst_pages,
            100.0 * self.h3_share,
            self.processor
        )
    }
}
