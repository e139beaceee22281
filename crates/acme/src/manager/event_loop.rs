//! The loop of the thread that orders certificates.

use super::{Assignment, Event, Observer, Status, kept};
use crate::authority::{Authority, own_fault};
use crate::certificate::Issued;
use crate::client::{LATEST_RESPONSE, ResponseFacts};
use crate::on_demand::OnDemand;
use crate::order::{OpenOrder, Step};
use crate::responder::Responder;
use crate::schedule::{Answer, Failure, Now, Schedule, Task, Window};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};

/// The least time between two looks at the names that handshakes ask for: they come in any number.
const ON_DEMAND_INTERVAL: Duration = Duration::from_millis(100);

/// The least time between two complaints about names on demand.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The state of the loop.
pub(super) struct EventLoop {
    assignments: watch::Receiver<Assignment>,
    authority: Arc<Authority>,
    on_demand: OnDemand,
    /// The earliest time of the next look at names on demand.
    look_at: Instant,
    /// The latest complaint about names on demand.
    complained_at: Option<Instant>,
    responder: Arc<dyn Responder>,
    observer: Observer,
    status: Arc<Mutex<Status>>,
    schedule: Schedule,
    origin: Instant,
    /// Orders between two steps.
    orders: HashMap<String, Box<OpenOrder>>,
    tasks: JoinSet<Outcome>,
    /// Tasks whose outcomes count.
    running: HashMap<Id, Running>,
}

/// A task under way.
struct Running {
    name: String,
    /// True if it asks whether a name may have a certificate: a name need not be there for that.
    is_question: bool,
    task: AbortHandle,
}

/// The outcome of a task.
enum Outcome {
    Step(Step),
    Failed(Failure, Option<Box<OpenOrder>>),
    RenewalInfo(Option<Window>, Duration),
    Permission(Result<bool, String>),
}

impl EventLoop {
    pub(super) fn new(
        mut assignments: watch::Receiver<Assignment>,
        on_demand: OnDemand,
        (responder, observer): (Arc<dyn Responder>, Observer),
        status: Arc<Mutex<Status>>,
    ) -> Self {
        let origin = Instant::now();
        let Assignment { authority, names } = assignments.borrow_and_update().clone();
        let mut work = Self {
            schedule: schedule(&authority, now(origin)),
            assignments,
            authority,
            on_demand,
            look_at: origin,
            complained_at: None,
            responder,
            observer,
            status,
            origin,
            orders: HashMap::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
        };
        work.rename(&names);
        work
    }

    /// Runs until nobody can change the names any more.
    pub(super) async fn run(mut self) {
        let on_demand = self.on_demand.clone();
        loop {
            self.forget_unused();
            while let Some(task) = self.schedule.next_task(now(self.origin)) {
                self.begin(task);
            }
            self.publish();
            let now = now(self.origin);
            let wait = self.schedule.next_wakeup(now).saturating_sub(now.elapsed);
            let look_at = self.look_at.into();
            let wanted = async {
                on_demand.wanted().await;
                tokio::time::sleep_until(look_at).await;
            };
            tokio::select! {
                Some(done) = self.tasks.join_next_with_id() => {
                    let (id, outcome) = match done {
                        Ok((id, outcome)) => (id, outcome),
                        Err(error) => (error.id(), Outcome::Failed(own_fault(&error), None)),
                    };
                    if let Some(ended) = self.running.remove(&id) {
                        self.end(&ended.name, outcome);
                    }
                }
                changed = self.assignments.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let new = self.assignments.borrow_and_update().clone();
                    self.follow(new.authority);
                    self.rename(&new.names);
                }
                () = wanted => self.look(),
                () = tokio::time::sleep(wait) => self.look(),
            }
        }
    }

    /// Goes by other settings. Orders at another authority are none of this one, and neither is what becomes of them.
    fn follow(&mut self, authority: Arc<Authority>) {
        if Arc::ptr_eq(&authority, &self.authority) {
            return;
        }
        if authority.folder == self.authority.folder {
            let challenges = authority.settings.challenges.clone();
            self.schedule.set_challenges(challenges);
            let telling = Arc::clone(&authority);
            tokio::task::spawn_local(async move { telling.contact_changed().await });
        } else {
            self.schedule = schedule(&authority, now(self.origin));
            self.orders.clear();
            self.running.clear();
        }
        self.authority = authority;
    }

    fn rename(&mut self, names: &[String]) {
        let now = now(self.origin);
        let folder = &self.authority.folder;
        let asking = self.authority.settings.on_demand.as_ref();
        self.schedule
            .set_most_on_demand(asking.map_or(0, |it| it.most));
        let is_wanted = |name: &str| names.iter().any(|it| it == name);
        self.schedule.retain(is_wanted);
        abort_gone(&mut self.running, &self.schedule, now);
        for name in names {
            let (held, saved_state) = kept(folder, name);
            self.schedule.add(name, held, &saved_state, now);
        }
        let is_on_demand = |name: &str| asking.is_some() && self.on_demand.covers(name);
        self.schedule.retain_on_demand(is_on_demand);
        abort_gone(&mut self.running, &self.schedule, now);
        let known = asking.map(|_| folder.known_on_demand()).unwrap_or_default();
        for name in known.iter().filter(|name| is_on_demand(name)) {
            let (held, saved_state) = kept(folder, name);
            self.schedule.restore(name, held, &saved_state, now);
        }
        self.orders
            .retain(|name, _| self.schedule.saved_state(name, now).is_some());
        self.schedule.retry(now);
    }

    /// Takes the names that handshakes have asked for.
    fn look(&mut self) {
        self.look_at = Instant::now() + ON_DEMAND_INTERVAL;
        let now = now(self.origin);
        let seen = self.on_demand.take();
        for name in seen.wanted {
            self.schedule.want(&name, now);
        }
        for name in seen.used {
            let before = self.schedule.saved_state(&name, now);
            self.schedule.used(&name, now);
            if self.schedule.saved_state(&name, now) != before {
                self.keep(&name, now);
            }
        }
    }

    /// Forgets names on demand that nobody uses.
    fn forget_unused(&mut self) {
        let now = now(self.origin);
        let forgotten = self.schedule.forget_unused(now);
        if forgotten.is_empty() {
            return;
        }
        abort_gone(&mut self.running, &self.schedule, now);
        for name in &forgotten {
            self.orders.remove(name);
            self.authority.folder.forget(name);
        }
        (self.observer)(&Event::OnDemand { forgotten });
    }

    /// Carries a task out beside others.
    fn begin(&mut self, task: Task) {
        let name = task.name().to_owned();
        let of = name.clone();
        let is_question = matches!(task, Task::Permission { .. });
        let authority = Arc::clone(&self.authority);
        let responder = Arc::clone(&self.responder);
        let open = match task {
            Task::Poll { .. } => self.orders.remove(&name),
            _ => None,
        };
        let work = async move {
            let outcome = match task {
                Task::RenewalInfo { .. } => match Issued::kept(&authority.folder, &name) {
                    Some(held) => {
                        let (window, ask_after) = authority.renewal_info(&held).await;
                        Outcome::RenewalInfo(window, ask_after)
                    }
                    None => Outcome::RenewalInfo(None, Duration::MAX),
                },
                Task::Permission { .. } => Outcome::Permission(match &authority.program {
                    Some(program) => program.allows(&name).await,
                    None => Ok(false),
                }),
                Task::Order {
                    challenge,
                    replaces,
                    ..
                } => {
                    let held = replaces
                        .then(|| Issued::kept(&authority.folder, &name))
                        .flatten();
                    let begun =
                        OpenOrder::begin(&authority, &responder, &name, challenge, held.as_ref());
                    match begun.await {
                        Ok(open) => Outcome::Step(Step::Pending(open, None)),
                        Err(failure) => Outcome::Failed(failure, None),
                    }
                }
                Task::Poll { challenge, .. } => {
                    let open = match open {
                        Some(open) => Ok(open),
                        None => OpenOrder::resume(&authority, &responder, &name, challenge).await,
                    };
                    match open {
                        Ok(open) => match open.advance(&authority).await {
                            Ok(step) => Outcome::Step(step),
                            Err((failure, open)) => Outcome::Failed(failure, open),
                        },
                        Err(failure) => Outcome::Failed(failure, None),
                    }
                }
            };
            if let Outcome::Failed(failure, _) = &outcome {
                authority.look_again(failure).await;
            }
            outcome
        };
        let work = LATEST_RESPONSE.scope(Cell::new(ResponseFacts::default()), work);
        let task = self.tasks.spawn_local(work);
        let running = Running {
            name: of,
            is_question,
            task: task.clone(),
        };
        self.running.insert(task.id(), running);
    }

    fn end(&mut self, name: &str, outcome: Outcome) {
        let now = now(self.origin);
        let before = self.schedule.saved_state(name, now);
        match outcome {
            Outcome::RenewalInfo(window, ask_after) => {
                self.schedule.on_renewal_info(name, window, ask_after, now);
                return;
            }
            Outcome::Permission(answer) => return self.answered(name, answer),
            Outcome::Step(Step::Pending(open, retry_after)) => {
                if self.schedule.on_pending(name, retry_after, now) {
                    self.orders.insert(name.into(), open);
                } else {
                    self.authority
                        .folder
                        .remove(&self.authority.folder.order(name));
                    self.tell_failure(name, now);
                }
            }
            Outcome::Step(Step::Issued(validity)) => {
                self.schedule.on_issued(name, validity, now);
                self.count(|status| status.issued += 1);
                let name = name.to_owned();
                (self.observer)(&Event::Issued { name, validity });
            }
            Outcome::Failed(failure, open) => {
                if self.schedule.on_failed(name, &failure, now) {
                    self.orders.extend(open.map(|open| (name.to_owned(), open)));
                } else {
                    self.authority
                        .folder
                        .remove(&self.authority.folder.order(name));
                }
                self.tell_failure(name, now);
            }
        }
        if self.schedule.saved_state(name, now) != before {
            self.keep(name, now);
        }
    }

    /// The question whether a name may have a certificate is answered.
    fn answered(&mut self, name: &str, answer: Result<bool, String>) {
        let now = now(self.origin);
        let is_new = self.schedule.saved_state(name, now).is_none();
        let answer = match answer {
            Ok(true) => Answer::Allowed,
            Ok(false) => Answer::Refused,
            Err(error) => {
                self.complain(&format!("nobody says whether {name} may have one: {error}"));
                Answer::Unanswered
            }
        };
        let (held, saved_state) = match is_new && answer == Answer::Allowed {
            true => kept(&self.authority.folder, name),
            false => Default::default(),
        };
        let is_allowed = self
            .schedule
            .on_answered(name, answer, (held, &saved_state), now);
        if !is_allowed && answer == Answer::Allowed {
            self.complain(&format!("none for {name}: there are as many as may be"));
        }
        tracing::debug!(name, ?answer, is_allowed, "a certificate on demand");
        if is_allowed && is_new {
            self.keep(name, now);
            if held.is_some() {
                let forgotten = Vec::new();
                (self.observer)(&Event::OnDemand { forgotten });
            }
        }
    }

    /// Tells the operator what is wrong with names on demand, of which there may be any number, now and then.
    fn complain(&mut self, what: &str) {
        let complained = self.complained_at.map(|at| at.elapsed());
        if complained.is_none_or(|since| since >= WARNING_INTERVAL) {
            self.complained_at = Some(Instant::now());
            tracing::warn!("certificates on demand: {what}");
        }
    }

    fn tell_failure(&mut self, name: &str, now: Now) {
        self.count(|status| status.failed += 1);
        let mut status = self.schedule.status(now).into_iter();
        if let Some(status) = status.find(|it| it.name == name) {
            (self.observer)(&Event::Failed {
                message: status.error.unwrap_or_default(),
                name: status.name,
                retry_in: status.retry_in,
                validity: status.validity,
            });
        }
    }

    /// Keeps what is known of a name over a restart.
    fn keep(&self, name: &str, now: Now) {
        let Some(saved_state) = self.schedule.saved_state(name, now) else {
            return;
        };
        let path = self.authority.folder.state(name);
        let text = serde_json::to_string(&saved_state).unwrap_or_default();
        if let Err(error) = self.authority.folder.write(&path, &text) {
            tracing::warn!("{error}: failures of {name} are forgotten at a restart");
        }
    }

    fn count(&self, count: impl FnOnce(&mut Status)) {
        count(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn publish(&self) {
        let names = self.schedule.status(now(self.origin));
        self.count(|status| status.names = names);
    }
}

/// Aborts the tasks of names that are gone: a name that comes again has its own, and what became of an earlier one is none
/// of its outcomes. An order goes on where its file says.
fn abort_gone(running: &mut HashMap<Id, Running>, schedule: &Schedule, now: Now) {
    running.retain(|_, it| {
        let counts = it.is_question || schedule.saved_state(&it.name, now).is_some();
        if !counts {
            it.task.abort();
        }
        counts
    });
}

/// A schedule for an authority, without names.
fn schedule(authority: &Authority, now: Now) -> Schedule {
    let challenges = authority.settings.challenges.clone();
    Schedule::new(challenges, fastrand::u64(..), now)
}

/// The time on both clocks.
fn now(origin: Instant) -> Now {
    Now {
        elapsed: origin.elapsed(),
        wall: SystemTime::now(),
    }
}
