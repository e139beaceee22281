//! The state of one name, and what it waits for.
#![warn(clippy::disallowed_methods)]

use super::backoff::{OF_AUTHORITY, OF_NAMES, OF_POLLS};
use super::failure::{Cause, Failure};
use super::renewal::{Renewal, Validity, Window};
use super::{DEFAULT_RATE_LIMIT_WAIT, MAX_NAME_RETRY_AFTER, Now};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time after an attempt from which on a restart makes another one at once, however long would have been waited: whoever
/// starts a server anew wants to see what comes of it, and one that starts again and again is to ask seldom.
const RESTART_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The bounds of an interval between two looks at an order that the authority gives.
const POLL_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// The memory of a name that is kept over a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedState {
    /// Failures one after the other.
    pub failures: u32,
    /// Failures in which the name was refused.
    pub refusals: u32,
    /// The latest attempt, in seconds since 1970.
    pub tried_at: u64,
    /// The next attempt, in seconds since 1970.
    pub retry_at: u64,
    /// True if that is by a limit of the authority, which holds after a restart as well.
    pub is_limited: bool,
    /// True if an order is open, which is gone on with.
    #[serde(skip)]
    pub has_order: bool,
    /// The latest failure.
    pub error: Option<String>,
    /// The day on which a name on demand was last used, in seconds since 1970; 0: it is not on demand.
    pub used_at: u64,
}

/// The state of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// The certificate's time; `None`: there is none yet.
    pub validity: Option<Validity>,
    /// The time of day of its renewal.
    pub renew_at: Option<SystemTime>,
    /// True if a new certificate is on its way.
    pub is_ordering: bool,
    /// Time to the next attempt, after a failure.
    pub retry_in: Option<Duration>,
    /// Failures one after the other.
    pub failures: u32,
    /// The latest failure, since the certificate was issued.
    pub error: Option<String>,
}

/// An order that is not yet decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    since: Duration,
    pub(super) next: Duration,
    looks: u32,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) held: Option<Renewal>,
    pub(super) pending: Option<Pending>,
    /// True if a task is under way.
    pub(super) is_busy: bool,
    /// True if that task is a new order.
    pub(super) is_ordering: bool,
    pub(super) tried_at: Duration,
    /// The same since 1970, also from before a restart.
    tried_on: Duration,
    /// Failures of the name or of its orders, one after the other.
    failures: u32,
    /// Failures in which the name was refused: the challenge goes by them.
    pub(super) refusals: u32,
    /// Failures of the authority at this name, one after the other.
    consecutive_failures: u32,
    retry_at: Duration,
    pub(super) is_limited: bool,
    /// True if an order may name the certificate that it replaces.
    pub(super) may_replace: bool,
    ask_at: Duration,
    error: Option<String>,
}

impl Entry {
    pub(super) fn new(
        held: Option<Validity>,
        saved_state: &SavedState,
        now: Now,
        rng: &mut Rng,
    ) -> Self {
        let wall = unix(now.wall);
        let wait = Duration::from_secs(saved_state.retry_at).saturating_sub(wall);
        let since = wall.saturating_sub(Duration::from_secs(saved_state.tried_at));
        let wait = match saved_state.is_limited {
            true => wait.min(MAX_NAME_RETRY_AFTER),
            false => wait.min(RESTART_INTERVAL.saturating_sub(since)),
        };
        let resumed = Pending {
            since: now.elapsed,
            next: now.elapsed,
            looks: 0,
        };
        Self {
            held: held.map(|validity| Renewal::new(validity, rng)),
            pending: saved_state.has_order.then_some(resumed),
            is_busy: false,
            is_ordering: false,
            tried_at: Duration::ZERO,
            tried_on: Duration::from_secs(saved_state.tried_at),
            failures: saved_state.failures,
            refusals: saved_state.refusals,
            consecutive_failures: 0,
            retry_at: now.elapsed + wait,
            is_limited: saved_state.is_limited,
            may_replace: true,
            ask_at: now.elapsed,
            error: saved_state.error.clone(),
        }
    }

    /// A task is under way.
    pub(super) fn begin(&mut self, is_order: bool, now: Now) {
        self.is_busy = true;
        self.is_ordering = is_order;
        if is_order {
            self.tried_at = now.elapsed;
            self.tried_on = unix(now.wall);
        }
    }

    /// Returns true if an order is to be made: nothing is under way, nothing is waited for, and the certificate is
    /// missing or old.
    pub(super) fn is_due(&self, now: Now) -> bool {
        let is_old = |it: &Renewal| it.moment() <= now.wall;
        self.pending.is_none()
            && !self.is_busy
            && self.retry_at <= now.elapsed
            && self.held.as_ref().is_none_or(is_old)
    }

    pub(super) fn is_to_ask(&self, elapsed: Duration) -> bool {
        let is_free = !self.is_busy && self.pending.is_none();
        is_free && self.held.is_some() && self.ask_at <= elapsed
    }

    /// The elapsed times at which something may become due.
    pub(super) fn moments(&self, now: Now) -> [Duration; 3] {
        if let Some(pending) = self.pending {
            return [pending.next; 3];
        }
        let Some(held) = &self.held else {
            return [self.retry_at; 3];
        };
        let left = held.moment().duration_since(now.wall).unwrap_or_default();
        let old_at = now.elapsed.saturating_add(left);
        [self.ask_at, old_at.max(self.retry_at), self.ask_at]
    }

    /// The order is there: it is looked at again. Returns how long it has been there.
    pub(super) fn set_pending(
        &mut self,
        retry_after: Option<Duration>,
        elapsed: Duration,
        rng: &mut Rng,
    ) -> Duration {
        self.end();
        self.consecutive_failures = 0;
        let begun = Pending {
            since: elapsed,
            next: elapsed,
            looks: 0,
        };
        let pending = self.pending.get_or_insert(begun);
        pending.looks = pending.looks.saturating_add(1);
        let (least, most) = POLL_INTERVAL;
        let wait = match retry_after {
            Some(asked) => asked.clamp(least, most),
            None => OF_POLLS.wait(pending.looks, rng),
        };
        pending.next = elapsed + wait;
        elapsed.saturating_sub(pending.since)
    }

    pub(super) fn issued(&mut self, validity: Validity, now: Now, rng: &mut Rng) {
        let held = Renewal::new(validity, rng);
        self.end();
        self.pending = None;
        self.failures = 0;
        self.refusals = 0;
        self.consecutive_failures = 0;
        self.is_limited = false;
        self.may_replace = true;
        self.retry_at = now.elapsed + held.least_interval();
        self.ask_at = now.elapsed;
        let is_old = held.moment() <= now.wall;
        self.error = is_old.then(|| {
            "the new certificate is old already: the clock of this machine may be wrong".into()
        });
        self.held = Some(held);
    }

    /// Returns whether the order goes on.
    pub(super) fn fail(&mut self, failure: &Failure, elapsed: Duration, rng: &mut Rng) -> bool {
        self.end();
        self.error = Some(failure.message.clone());
        let asked = failure
            .retry_after
            .unwrap_or_default()
            .min(MAX_NAME_RETRY_AFTER);
        if failure.cause == Cause::Authority {
            self.consecutive_failures = self.consecutive_failures.saturating_add(1);
            let at = elapsed + OF_AUTHORITY.wait(self.consecutive_failures, rng);
            match &mut self.pending {
                Some(pending) => {
                    pending.next = at;
                    // Patience is for an authority that is there.
                    pending.since = at;
                }
                None => self.retry_at = self.retry_at.max(at),
            }
            return self.pending.is_some();
        }
        self.pending = None;
        self.consecutive_failures = 0;
        self.failures = self.failures.saturating_add(1);
        self.is_limited = failure.cause == Cause::RateLimit;
        let usual = OF_NAMES.wait(self.failures, rng).max(asked);
        let wait = match failure.cause {
            Cause::RateLimit if failure.retry_after.is_none() => usual.max(DEFAULT_RATE_LIMIT_WAIT),
            Cause::Order if self.failures == 1 => Duration::from_secs(1),
            _ => usual,
        };
        let refused = u32::from(failure.cause == Cause::Name);
        self.refusals = self.refusals.saturating_add(refused);
        self.may_replace &= failure.cause != Cause::Order;
        self.retry_at = elapsed + wait;
        false
    }

    pub(super) fn informed(&mut self, window: Option<Window>, ask_at: Duration, rng: &mut Rng) {
        self.end();
        self.ask_at = ask_at;
        if let (Some(window), Some(held)) = (window, &mut self.held) {
            held.suggest(window, rng);
        }
    }

    pub(super) fn retry(&mut self, elapsed: Duration) {
        if !self.is_limited && self.failures.max(self.consecutive_failures) > 0 {
            self.retry_at = self.retry_at.min(elapsed);
            if let Some(pending) = &mut self.pending {
                pending.next = pending.next.min(elapsed);
            }
        }
    }

    pub(super) fn saved_state(&self, now: Now) -> SavedState {
        let retry = unix(now.wall) + self.retry_at.saturating_sub(now.elapsed);
        SavedState {
            tried_at: self.tried_on.as_secs(),
            retry_at: retry.as_secs(),
            failures: self.failures,
            refusals: self.refusals,
            is_limited: self.is_limited,
            has_order: self.pending.is_some(),
            error: self.error.clone(),
            used_at: 0,
        }
    }

    /// `paused`: the time for which the authority is not asked anything.
    pub(super) fn status(&self, name: &str, paused: Duration, now: Now) -> NameStatus {
        let wait = self.retry_at.saturating_sub(now.elapsed).max(paused);
        let waits = self.error.is_some() && !wait.is_zero() && self.pending.is_none();
        NameStatus {
            name: name.into(),
            validity: self.held.as_ref().map(|held| held.validity),
            renew_at: self.held.as_ref().map(Renewal::moment),
            is_ordering: self.is_ordering || self.pending.is_some(),
            retry_in: waits.then_some(wait),
            failures: self.failures.saturating_add(self.consecutive_failures),
            error: self.error.clone(),
        }
    }

    /// The task that was under way has ended.
    fn end(&mut self) {
        self.is_busy = false;
        self.is_ordering = false;
    }
}

/// A time of day as the time since 1970.
pub(super) fn unix(wall: SystemTime) -> Duration {
    wall.duration_since(UNIX_EPOCH).unwrap_or_default()
}
