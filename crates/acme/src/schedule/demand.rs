//! Names that come at run time: each is asked for before a certificate is ordered, and forgotten once nobody uses it.
//!
//! A name that is wanted has its question, of which there are few at a time and few a second. One that is allowed is
//! then ordered for as others are, after those of the configuration; one that is refused is not asked for again for a
//! while. Before each further order the question is asked again, once the answer is old.
#![warn(clippy::disallowed_methods)]

use super::backoff::{Budget, QUESTIONS};
use super::entry::{Entry, unix};
use super::{Now, SavedState, Schedule, Validity};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most questions at the same time.
const MAX_QUESTIONS: usize = 4;

/// The most names that wait for their question; others are left out, and may be wanted again.
const MAX_WAITING: usize = 256;

/// The most names that are known beside those that have a certificate or an order. As many questions are asked in the time
/// for which a refusal holds, or fewer.
const MAX_OTHERS: usize = 4_096;

/// The most orders for names on demand that are begun and not yet decided.
pub(super) const MAX_ORDERS_ON_DEMAND: usize = 8;

/// The orders of the budget that are left to the names of the configuration.
pub(super) const RESERVED_ORDERS: f64 = 50.0;

/// The time for which a name that is allowed may be ordered for.
const ALLOWED_FOR: Duration = Duration::from_secs(3_600);

/// The time for which a name that is refused is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The same where there was no answer.
const UNANSWERED_FOR: Duration = Duration::from_secs(30);

/// The time after which a name is forgotten that nobody has used and that has no certificate.
const UNUSED_WITHOUT_CERTIFICATE: Duration = Duration::from_secs(86_400);

/// The precision with which it is kept over a restart when a name was last used.
const DAY: u64 = 86_400;

/// An answer to the question whether a name may have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name may have a certificate.
    Allowed,
    /// The name may have none.
    Refused,
    /// Nobody has answered.
    Unanswered,
}

/// The names that came at run time.
#[derive(Debug)]
pub(super) struct Demand {
    /// Number of names that may have a certificate or an order.
    most: usize,
    /// Number of names that have one at the moment.
    held: usize,
    names: BTreeMap<String, Demanded>,
    budget: Budget,
}

#[derive(Debug)]
struct Demanded {
    permission: Permission,
    /// Time without a handshake, up to `since`.
    unused: Duration,
    /// Elapsed time of the latest handshake, or of the process's first.
    since: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// The name is to be asked for, since then.
    Wanted(Duration),
    /// The question is under way.
    Asked,
    /// The name may be ordered for until then.
    Allowed(Duration),
    /// The name is not asked for until then.
    Refused(Duration),
}

impl Demand {
    pub(super) fn new(elapsed: Duration) -> Self {
        Self {
            most: 0,
            held: 0,
            names: BTreeMap::new(),
            budget: Budget::new(QUESTIONS, elapsed),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Returns true if a name may be ordered for, as all may that are not on demand.
    pub(super) fn permits(&self, name: &str, elapsed: Duration) -> bool {
        let known = self.names.get(name);
        known
            .is_none_or(|it| matches!(it.permission, Permission::Allowed(until) if until > elapsed))
    }

    /// The name is one of the configuration from now on. `is_held`: it has a certificate or an order.
    pub(super) fn configured(&mut self, name: &str, is_held: bool) {
        if self.names.remove(name).is_some() && is_held {
            self.held -= 1;
        }
    }

    /// A task for the name has failed. If that was its question, nobody has answered.
    pub(super) fn failed(&mut self, name: &str, elapsed: Duration) {
        if let Some(known) = self.names.get_mut(name)
            && known.permission == Permission::Asked
        {
            known.permission = Permission::Refused(elapsed + UNANSWERED_FOR);
        }
    }

    /// The day on which it was last used, in seconds since 1970, 1 at least; `None`: it is not on demand.
    pub(super) fn used_at(&self, name: &str, now: Now) -> Option<u64> {
        let unused = self.names.get(name)?.unused_for(now.elapsed);
        let used = unix(now.wall).saturating_sub(unused).as_secs();
        Some((used - used % DAY).max(1))
    }

    /// The elapsed times at which a question may become due.
    pub(super) fn moments(
        &mut self,
        entries: &BTreeMap<String, Entry>,
        now: Now,
    ) -> impl Iterator<Item = Duration> {
        let waits = |it: &Demanded| matches!(it.permission, Permission::Wanted(_));
        let is_waiting = self.names.values().any(waits);
        let ready_at = is_waiting.then(|| self.budget.ready_at(now.elapsed));
        let refused = self
            .names
            .iter()
            .filter_map(|(name, it)| match it.permission {
                Permission::Refused(until) if entries.contains_key(name) => Some(until),
                _ => None,
            });
        refused.min().into_iter().chain(ready_at)
    }

    fn want(&mut self, name: &str, elapsed: Duration) {
        if let Some(known) = self.names.get_mut(name) {
            known.use_at(elapsed);
            if matches!(known.permission, Permission::Refused(until) if until <= elapsed) {
                known.permission = Permission::Wanted(elapsed);
            }
            return;
        }
        let waits = |it: &&Demanded| matches!(it.permission, Permission::Wanted(_));
        let waiting = self.names.values().filter(waits).count();
        if self.most == 0 || waiting >= MAX_WAITING || self.names.len() >= MAX_OTHERS + self.held {
            return;
        }
        self.insert(name, Permission::Wanted(elapsed), Duration::ZERO, elapsed);
    }

    fn insert(&mut self, name: &str, permission: Permission, unused: Duration, since: Duration) {
        let new = Demanded {
            permission,
            unused,
            since,
        };
        self.names.insert(name.to_owned(), new);
    }
}

impl Demanded {
    fn use_at(&mut self, elapsed: Duration) {
        self.unused = Duration::ZERO;
        self.since = elapsed;
    }

    fn unused_for(&self, elapsed: Duration) -> Duration {
        self.unused + elapsed.saturating_sub(self.since)
    }

    /// Returns true if the name is to be forgotten.
    fn is_over(&self, entry: Option<&Entry>, now: Now) -> bool {
        let Some(entry) = entry else {
            return matches!(self.permission, Permission::Refused(until) if until <= now.elapsed);
        };
        let held = entry.held.as_ref().map(|it| it.validity);
        let life = held.map_or(UNUSED_WITHOUT_CERTIFICATE, |it| it.lifetime());
        let is_expired = held.is_none_or(|it| it.not_after < now.wall);
        let is_refused = matches!(self.permission, Permission::Refused(_));
        !entry.is_busy && (self.unused_for(now.elapsed) > life || (is_refused && is_expired))
    }
}

/// Names on demand.
impl Schedule {
    /// Sets the most names on demand that have a certificate or an order. 0, as at first: there are none.
    pub fn set_most_on_demand(&mut self, most: usize) {
        self.demand.most = most;
    }

    /// A handshake has asked for a name that has no certificate.
    pub fn want(&mut self, name: &str, now: Now) {
        if self.demand.has(name) || !self.entries.contains_key(name) {
            self.demand.want(name, now.elapsed);
        }
    }

    /// A handshake was shown the certificate of a name.
    pub fn used(&mut self, name: &str, now: Now) {
        if let Some(known) = self.demand.names.get_mut(name) {
            known.use_at(now.elapsed);
        }
    }

    /// Adds a name that came at run time, before a restart, with what was kept of it.
    pub fn restore(
        &mut self,
        name: &str,
        held: Option<Validity>,
        saved_state: &SavedState,
        now: Now,
    ) {
        if self.entries.contains_key(name) || self.demand.held >= self.demand.most {
            return;
        }
        let used = Duration::from_secs(saved_state.used_at);
        let unused = unix(now.wall).saturating_sub(used);
        // Its order, if it needs one, is asked for first.
        let lapsed = Permission::Allowed(Duration::ZERO);
        self.demand.insert(name, lapsed, unused, now.elapsed);
        self.demand.held += 1;
        self.insert(name, held, saved_state, now);
    }

    /// The answer to [`Task::Permission`](super::Task::Permission), with what there is of the name from before. False: the
    /// name is refused, though it may be for there being as many as there may be.
    pub fn on_answered(
        &mut self,
        name: &str,
        answer: Answer,
        (held, saved_state): (Option<Validity>, &SavedState),
        now: Now,
    ) -> bool {
        let is_new = !self.entries.contains_key(name);
        let has_room = !is_new || self.demand.held < self.demand.most;
        let Some(known) = self.demand.names.get_mut(name) else {
            return false;
        };
        known.permission = match answer {
            Answer::Allowed if has_room => Permission::Allowed(now.elapsed + ALLOWED_FOR),
            Answer::Allowed | Answer::Refused => Permission::Refused(now.elapsed + REFUSED_FOR),
            Answer::Unanswered => Permission::Refused(now.elapsed + UNANSWERED_FOR),
        };
        let is_allowed = matches!(known.permission, Permission::Allowed(_));
        if is_allowed && is_new {
            self.demand.held += 1;
            self.insert(name, held, saved_state, now);
        }
        is_allowed
    }

    /// Forgets names that nobody uses, or that are refused and have no certificate that is valid; gives those that had a
    /// certificate or an order.
    pub fn forget_unused(&mut self, now: Now) -> Vec<String> {
        let (entries, names) = (&self.entries, &self.demand.names);
        let over = names
            .iter()
            .filter(|(name, it)| it.is_over(entries.get(*name), now));
        let over: Vec<_> = over.map(|(name, _)| name.clone()).collect();
        let forget = |name: &String| {
            self.demand.names.remove(name);
            self.entries.remove(name).is_some()
        };
        let forgotten: Vec<_> = over.into_iter().filter(forget).collect();
        self.demand.held -= forgotten.len();
        forgotten
    }

    /// Forgets every other name on demand.
    pub fn retain_on_demand(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let demand = &self.demand;
        self.entries
            .retain(|name, _| !demand.has(name) || is_wanted(name));
        self.demand.names.retain(|name, _| is_wanted(name));
        let held = self.demand.names.keys();
        let held = held.filter(|name| self.entries.contains_key(*name));
        self.demand.held = held.count();
    }

    /// The next name to ask for, whose question is under way from now on: of those that are wanted, or are due for an order
    /// and were allowed too long ago, the one that has waited longest.
    pub(super) fn question(&mut self, now: Now) -> Option<String> {
        let names = self.demand.names.iter();
        let asked = names
            .clone()
            .filter(|(_, it)| it.permission == Permission::Asked);
        if asked.count() >= MAX_QUESTIONS {
            return None;
        }
        let is_due = |name: &String| self.entries.get(name).is_some_and(|it| it.is_due(now));
        let waiting = names.filter_map(|(name, it)| match it.permission {
            Permission::Wanted(since) => Some((since, name)),
            Permission::Allowed(until) | Permission::Refused(until)
                if until <= now.elapsed && is_due(name) =>
            {
                Some((until, name))
            }
            _ => None,
        });
        let (_, name) = waiting.min()?;
        let name = name.clone();
        if !self.demand.budget.take(now.elapsed) {
            return None;
        }
        self.demand.names.get_mut(&name)?.permission = Permission::Asked;
        Some(name)
    }
}

#[cfg(test)]
mod tests;
