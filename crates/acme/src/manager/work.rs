//! The loop of the thread that orders certificates.

use super::{Event, Names, Observer, Status, kept};
use crate::authority::{Authority, own_fault};
use crate::certificate::Issued;
use crate::client::{HEARD, Heard};
use crate::folder;
use crate::order::{OpenOrder, Step};
use crate::responder::Responder;
use crate::schedule::{Failure, Now, Schedule, Task, Window};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

/// The state of the loop.
pub(super) struct Work {
    authority: Arc<Authority>,
    responder: Arc<dyn Responder>,
    observer: Observer,
    status: Arc<Mutex<Status>>,
    schedule: Schedule,
    origin: Instant,
    /// Orders between two steps.
    orders: HashMap<String, Box<OpenOrder>>,
    tasks: JoinSet<Outcome>,
    /// The names of the tasks.
    names: HashMap<Id, String>,
}

/// The outcome of a task.
enum Outcome {
    Step(Step),
    Failed(Failure, Option<Box<OpenOrder>>),
    RenewalInfo(Option<Window>, Duration),
}

impl Work {
    pub(super) fn new(
        authority: Authority,
        responder: Arc<dyn Responder>,
        observer: Observer,
        status: Arc<Mutex<Status>>,
    ) -> Self {
        let origin = Instant::now();
        let now = now(origin);
        let challenges = authority.settings.challenges.clone();
        Self {
            schedule: Schedule::new(challenges, fastrand::u64(..), now),
            authority: Arc::new(authority),
            responder,
            observer,
            status,
            origin,
            orders: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// Runs until nobody can change the names any more.
    pub(super) async fn run(mut self, mut names: watch::Receiver<Names>) {
        self.rename(&names.borrow_and_update().clone());
        loop {
            while let Some(task) = self.schedule.next_task(now(self.origin)) {
                self.begin(task);
            }
            self.publish();
            let now = now(self.origin);
            let wait = self.schedule.next_wakeup(now).saturating_sub(now.elapsed);
            tokio::select! {
                Some(done) = self.tasks.join_next_with_id() => {
                    let (id, outcome) = match done {
                        Ok((id, outcome)) => (id, outcome),
                        Err(error) => (error.id(), Outcome::Failed(own_fault(&error), None)),
                    };
                    if let Some(name) = self.names.remove(&id) {
                        self.end(&name, outcome);
                    }
                }
                changed = names.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.rename(&names.borrow_and_update().clone());
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn rename(&mut self, names: &Names) {
        let now = now(self.origin);
        self.schedule
            .retain(|name| names.iter().any(|it| it == name));
        self.orders
            .retain(|name, _| names.iter().any(|it| it == name));
        for name in names.iter() {
            let (held, memory) = kept(&self.authority.folder, name);
            self.schedule.add(name, held, &memory, now);
        }
        self.schedule.retry(now);
    }

    /// Carries a task out beside others.
    fn begin(&mut self, task: Task) {
        let name = task.name().to_owned();
        let of = name.clone();
        let authority = Arc::clone(&self.authority);
        let responder = Arc::clone(&self.responder);
        let open = match task {
            Task::Poll { .. } => self.orders.remove(&name),
            _ => None,
        };
        let work = async move {
            let outcome = match task {
                Task::RenewalInfo { .. } => {
                    let path = authority.folder.certificate(&name);
                    match Issued::of_file(&path, &name) {
                        Some(held) => {
                            let (window, ask_after) = authority.renewal_info(&held).await;
                            Outcome::RenewalInfo(window, ask_after)
                        }
                        None => Outcome::RenewalInfo(None, Duration::MAX),
                    }
                }
                Task::Order {
                    challenge,
                    replaces,
                    ..
                } => {
                    let path = authority.folder.certificate(&name);
                    let held = replaces.then(|| Issued::of_file(&path, &name)).flatten();
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
        let work = HEARD.scope(Cell::new(Heard::default()), work);
        let id = self.tasks.spawn_local(work).id();
        self.names.insert(id, of);
    }

    fn end(&mut self, name: &str, outcome: Outcome) {
        let now = now(self.origin);
        let before = self.schedule.memory(name, now);
        match outcome {
            Outcome::RenewalInfo(window, ask_after) => {
                self.schedule.on_renewal_info(name, window, ask_after, now);
                return;
            }
            Outcome::Step(Step::Pending(open, retry_after)) => {
                if self.schedule.on_pending(name, retry_after, now) {
                    self.orders.insert(name.into(), open);
                } else {
                    folder::remove(&self.authority.folder.order(name));
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
                    folder::remove(&self.authority.folder.order(name));
                }
                self.tell_failure(name, now);
            }
        }
        if self.schedule.memory(name, now) != before {
            self.keep(name, now);
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
        let Some(memory) = self.schedule.memory(name, now) else {
            return;
        };
        let path = self.authority.folder.state(name);
        let text = serde_json::to_string(&memory).unwrap_or_default();
        if let Err(error) = folder::write(&path, &text) {
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

/// The time on both clocks.
fn now(origin: Instant) -> Now {
    Now {
        elapsed: origin.elapsed(),
        wall: SystemTime::now(),
    }
}
