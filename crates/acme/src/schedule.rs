//! The schedule of orders, renewals and questions: a state machine over all names.
//!
//! Pure: it is told the time and what came of its tasks, and gives tasks. Contract: after each change take
//! [`next_task`](Schedule::next_task) until there is none, carry the tasks out in whatever order, tell what came of each,
//! and come again at [`next_wakeup`](Schedule::next_wakeup) at the latest.
//!
//! The schedule goes by two clocks. What waits (attempts, orders that are pending) goes by one that nobody sets; how old a certificate
//! is goes by the time of day, which may jump.
#![warn(clippy::disallowed_methods)]

mod backoff;
mod demand;
mod entry;
mod failure;
mod renewal;

pub use demand::Answer;
pub use entry::{NameStatus, SavedState};
pub use failure::{Cause, Failure};
pub use renewal::{Validity, Window};

use backoff::{Budget, OF_AUTHORITY, OF_NAMES, ORDERS};
use demand::{Demand, MAX_ORDERS_ON_DEMAND, RESERVED_ORDERS};
use entry::{Entry, Pending};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The most tasks at the same time.
const MAX_TASKS: usize = 8;

/// The most orders that are begun and not yet decided.
const MAX_ORDERS: usize = 16;

/// The longest time without a look at the time of day.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The time after which an order that is still pending is given up.
const PENDING_ORDER_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The longest times that an authority can ask to be left alone for: by what it says of itself, and of a name.
const MAX_AUTHORITY_RETRY_AFTER: Duration = Duration::from_secs(86_400);
const MAX_NAME_RETRY_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// The least time after a rate limit that says none.
const DEFAULT_RATE_LIMIT_WAIT: Duration = Duration::from_secs(3_600);

/// Bounds of the time between two questions for the time of renewal (RFC 9773 section 4.3.2).
const INFO_INTERVAL: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(86_400));

/// The time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since an origin of the caller's choice, on a clock that nobody sets.
    pub elapsed: Duration,
    /// The time of day.
    pub wall: SystemTime,
}

/// A way in which a name is shown to be this server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Challenge {
    /// A file over HTTP in clear text, `http-01` (RFC 8555 section 8.3).
    Http01,
    /// A certificate in a handshake for `acme-tls/1`, `tls-alpn-01` (RFC 8737).
    TlsAlpn01,
}

/// A task at the authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// A new order. Answer: [`Schedule::on_pending`], [`Schedule::on_failed`].
    Order {
        /// The name.
        name: String,
        /// The challenge to take, if the authority has it.
        challenge: Challenge,
        /// True if the order replaces the certificate that there is (RFC 9773 section 5), where the authority knows of
        /// that.
        replaces: bool,
    },
    /// A look at an order that there is, and its next step. Answer: the same, or [`Schedule::on_issued`].
    Poll {
        /// The name.
        name: String,
        /// The challenge, as of [`Order`](Self::Order).
        challenge: Challenge,
    },
    /// A question for the time of renewal (RFC 9773 section 4). Answer: [`Schedule::on_renewal_info`].
    RenewalInfo {
        /// The name.
        name: String,
    },
    /// A question whether a name on demand may have a certificate, for whoever runs the server and not for the authority.
    /// Answer: [`Schedule::on_answered`].
    Permission {
        /// The name.
        name: String,
    },
}

impl Task {
    /// The name that it is about.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Order { name, .. }
            | Self::Poll { name, .. }
            | Self::RenewalInfo { name }
            | Self::Permission { name } => name,
        }
    }
}

/// The names and what is to be done about each.
#[derive(Debug)]
pub struct Schedule {
    entries: BTreeMap<String, Entry>,
    challenges: Vec<Challenge>,
    rng: Rng,
    budget: Budget,
    demand: Demand,
    /// Failures of the authority or the account, one after the other without an answer between them.
    consecutive_failures: u32,
    paused_until: Duration,
}

impl Schedule {
    /// Makes a schedule without names. `challenges`: those that can be answered, the first one first; without any
    /// nothing is ordered. `seed`: of jitter.
    #[must_use]
    pub fn new(challenges: Vec<Challenge>, seed: u64, now: Now) -> Self {
        Self {
            entries: BTreeMap::new(),
            challenges,
            rng: Rng::with_seed(seed),
            budget: Budget::new(ORDERS, now.elapsed),
            demand: Demand::new(now.elapsed),
            consecutive_failures: 0,
            paused_until: Duration::ZERO,
        }
    }

    /// Adds a name, with the certificate that there is and what is known of it from before. A name that is there already
    /// stays as it is, and is no longer on demand.
    pub fn add(&mut self, name: &str, held: Option<Validity>, saved_state: &SavedState, now: Now) {
        self.demand
            .configured(name, self.entries.contains_key(name));
        self.insert(name, held, saved_state, now);
    }

    fn insert(&mut self, name: &str, held: Option<Validity>, saved_state: &SavedState, now: Now) {
        if !self.entries.contains_key(name) {
            let entry = Entry::new(held, saved_state, now, &mut self.rng);
            self.entries.insert(name.to_owned(), entry);
        }
    }

    /// Forgets every other name that is not on demand.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let demand = &self.demand;
        self.entries
            .retain(|name, _| is_wanted(name) || demand.has(name));
    }

    /// Replaces the challenges that can be answered from now on, the first one first; without any
    /// nothing is ordered.
    pub fn set_challenges(&mut self, challenges: Vec<Challenge>) {
        self.challenges = challenges;
    }

    /// Tries names again at once that were refused: whoever runs the server may have mended the cause. Names that an
    /// authority's limits forbid still wait.
    pub fn retry(&mut self, now: Now) {
        for entry in self.entries.values_mut() {
            entry.retry(now.elapsed);
        }
        if self.entries.values().all(|entry| !entry.is_limited) {
            self.paused_until = self.paused_until.min(now.elapsed);
        }
    }

    /// The next task, which is under way from now on; `None`: nothing is to be done yet.
    pub fn next_task(&mut self, now: Now) -> Option<Task> {
        if let Some(name) = self.question(now) {
            return Some(Task::Permission { name });
        }
        let busy = self.entries.values().filter(|it| it.is_busy).count();
        // After a failure one task alone shows whether the authority is back.
        let most = if self.consecutive_failures > 0 {
            1
        } else {
            MAX_TASKS
        };
        if now.elapsed < self.paused_until || busy >= most || self.challenges.is_empty() {
            return None;
        }
        let task = self
            .poll(now)
            .or_else(|| self.order(now))
            .or_else(|| self.ask(now))?;
        let is_order = !matches!(task, Task::RenewalInfo { .. });
        if let Some(entry) = self.entries.get_mut(task.name()) {
            entry.begin(is_order, now);
        }
        Some(task)
    }

    /// The elapsed time at which [`next_task`](Self::next_task) is to be called again at the latest, if nothing happens
    /// before; later than now.
    #[must_use]
    pub fn next_wakeup(&mut self, now: Now) -> Duration {
        let mut moments = vec![now.elapsed + MAX_SLEEP, self.paused_until];
        moments.push(self.budget.ready_at(now.elapsed));
        let idle = self.entries.values().filter(|entry| !entry.is_busy);
        moments.extend(idle.flat_map(|entry| entry.moments(now)));
        moments.extend(self.demand.moments(&self.entries, now));
        let later = moments.into_iter().filter(|at| *at > now.elapsed);
        later.min().unwrap_or(now.elapsed + MAX_SLEEP)
    }

    /// The order of a name is there and not yet decided: it is looked at again later. False: it is given up.
    pub fn on_pending(&mut self, name: &str, retry_after: Option<Duration>, now: Now) -> bool {
        self.consecutive_failures = 0;
        let Some(entry) = self.entries.get_mut(name) else {
            return false;
        };
        if entry.set_pending(retry_after, now.elapsed, &mut self.rng) <= PENDING_ORDER_TIMEOUT {
            return true;
        }
        let failure = Failure {
            cause: Cause::Name,
            retry_after: None,
            message: "the order is still pending after an hour".into(),
        };
        self.on_failed(name, &failure, now)
    }

    /// A certificate was issued and is in use.
    pub fn on_issued(&mut self, name: &str, validity: Validity, now: Now) {
        self.consecutive_failures = 0;
        if let Some(entry) = self.entries.get_mut(name) {
            entry.issued(validity, now, &mut self.rng);
        }
    }

    /// A task for a name has failed. True: its order goes on.
    pub fn on_failed(&mut self, name: &str, failure: &Failure, now: Now) -> bool {
        self.demand.failed(name, now.elapsed);
        let rng = &mut self.rng;
        let asked = failure.retry_after.unwrap_or_default();
        match failure.cause {
            // Another task of the same outage.
            Cause::Authority | Cause::Account if now.elapsed < self.paused_until => {}
            Cause::Authority | Cause::Account => {
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                let waits = match failure.cause {
                    Cause::Account => OF_NAMES,
                    _ => OF_AUTHORITY,
                };
                let wait = waits
                    .wait(self.consecutive_failures, rng)
                    .max(asked.min(MAX_AUTHORITY_RETRY_AFTER));
                self.paused_until = self.paused_until.max(now.elapsed + wait);
            }
            // It has answered.
            Cause::RateLimit | Cause::Name | Cause::Order => self.consecutive_failures = 0,
        }
        let entry = self.entries.get_mut(name);
        entry.is_some_and(|entry| entry.fail(failure, now.elapsed, rng))
    }

    /// The answer to a question for the time of renewal: a window, if there is one, and when to ask again.
    pub fn on_renewal_info(
        &mut self,
        name: &str,
        window: Option<Window>,
        ask_after: Duration,
        now: Now,
    ) {
        let (least, most) = INFO_INTERVAL;
        if let Some(entry) = self.entries.get_mut(name) {
            let at = now.elapsed + ask_after.clamp(least, most);
            entry.informed(window, at, &mut self.rng);
        }
    }

    /// The memory of a name that is to be kept over a restart.
    #[must_use]
    pub fn saved_state(&self, name: &str, now: Now) -> Option<SavedState> {
        let saved_state = self.entries.get(name)?.saved_state(now);
        let used_at = self.demand.used_at(name, now).unwrap_or_default();
        Some(SavedState {
            used_at,
            ..saved_state
        })
    }

    /// The state of each name.
    #[must_use]
    pub fn status(&self, now: Now) -> Vec<NameStatus> {
        let paused = self.paused_until.saturating_sub(now.elapsed);
        let each = self.entries.iter();
        each.map(|(name, entry)| entry.status(name, paused, now))
            .collect()
    }

    /// The order that has waited longest for a look that is due.
    fn poll(&self, now: Now) -> Option<Task> {
        let due = |pending: &&Pending| pending.next <= now.elapsed;
        let pending = self.entries.iter().filter(|(_, entry)| !entry.is_busy);
        let pending = pending.filter_map(|(name, entry)| {
            let at = entry.pending.as_ref().filter(due)?.next;
            Some((at, name, entry))
        });
        let (_, name, entry) = pending.min_by_key(|(at, ..)| *at)?;
        Some(Task::Poll {
            name: name.clone(),
            challenge: self.challenge(entry),
        })
    }

    /// An order for a name that has no certificate, or whose certificate is to be renewed: first those of the configuration,
    /// of these those without, of both the one first that was tried longest ago.
    fn order(&mut self, now: Now) -> Option<Task> {
        let demand = &self.demand;
        let is_open = |entry: &Entry| entry.pending.is_some() || entry.is_ordering;
        let open = self.entries.iter().filter(|(_, entry)| is_open(entry));
        if open.clone().count() >= MAX_ORDERS {
            return None;
        }
        let on_demand = open.filter(|(name, _)| demand.has(name)).count();
        let is_full = on_demand >= MAX_ORDERS_ON_DEMAND;
        let due = self.entries.iter().filter(|(name, entry)| {
            let is_permitted = demand.permits(name, now.elapsed);
            entry.is_due(now) && is_permitted && !(is_full && demand.has(name))
        });
        let (name, entry) = due.min_by_key(|(name, entry)| {
            let is_on_demand = demand.has(name);
            (is_on_demand, entry.held.is_some(), entry.tried_at)
        })?;
        let reserved = if demand.has(name) {
            RESERVED_ORDERS
        } else {
            0.0
        };
        let task = Task::Order {
            name: name.clone(),
            challenge: self.challenge(entry),
            replaces: entry.held.is_some() && entry.may_replace,
        };
        let is_left = self.budget.take_leaving(reserved, now.elapsed);
        is_left.then_some(task)
    }

    fn ask(&self, now: Now) -> Option<Task> {
        let mut entries = self.entries.iter();
        let (name, _) = entries.find(|(_, entry)| entry.is_to_ask(now.elapsed))?;
        Some(Task::RenewalInfo { name: name.clone() })
    }

    /// The challenge to take for a name: after each refusal the next one has its turn.
    fn challenge(&self, entry: &Entry) -> Challenge {
        self.challenges[entry.refusals as usize % self.challenges.len()]
    }
}

#[cfg(test)]
mod tests;
