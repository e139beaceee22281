//! The end of a worker's turn, at which the responses that were handed over whole in it are timed.
//!
//! Responses of a turn leave at its end, many of them by one call of the kernel, so they end together: one look at
//! the clock after that call serves them all, over every protocol alike. Without it a response that is ready at once
//! would take no time, for a turn has one time for all that it does.

use crate::metrics::WorkerCounters;
use crate::request::log::{AccessLog, LineText, Protocol};
use crate::request::record::OpenRecord;
use http::StatusCode;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

thread_local! {
    static ENDED: RefCell<EndedResponses> = const {
        RefCell::new(EndedResponses {
            in_turn: false,
            ended: Vec::new(),
            files: None,
            unlogged_files: 0,
        })
    };
}

/// A turn of this thread in which responses are answered and sent: those that end in it do so when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// True unless it is inside another.
    is_outermost: bool,
    /// Keeps it on its thread.
    _thread: PhantomData<*const ()>,
}

/// The responses that ended in a turn; as many as it answers.
#[derive(Debug)]
struct EndedResponses {
    in_turn: bool,
    ended: Vec<Ended>,
    /// Facts of all the files in `ended`, and of those without a line.
    files: Option<FileFacts>,
    /// Number of files that no log has a line for.
    unlogged_files: u64,
}

#[derive(Debug)]
enum Ended {
    Record(OpenRecord),
    /// A whole file of the cache, with its line in the log.
    File(Rc<LineText>),
}

/// Facts that the files have in common that one connection, or one endpoint, sent in a turn.
#[derive(Debug, Clone)]
pub(super) struct FileFacts {
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) protocol: Protocol,
    pub(super) log: Option<AccessLog>,
    pub(super) began: Instant,
    pub(super) system: SystemTime,
}

impl Turn {
    pub(crate) fn begin() -> Self {
        let was_in_turn = ENDED.with_borrow_mut(|it| std::mem::replace(&mut it.in_turn, true));
        Self {
            is_outermost: !was_in_turn,
            _thread: PhantomData,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_outermost {
            ENDED.with_borrow_mut(|it| it.in_turn = false);
            close_all();
        }
    }
}

/// Closes a record at the end of the turn, or at once where there is none.
pub(super) fn add_record(record: OpenRecord) {
    let mut record = Some(record);
    // A thread that ends has no turns.
    let _ = ENDED.try_with(|it| {
        let mut it = it.borrow_mut();
        if it.in_turn {
            it.ended.extend(record.take().map(Ended::Record));
        }
    });
    if let Some(record) = record {
        record.close(Instant::now());
    }
}

/// Counts and logs a file that was sent whole, at the end of the turn, or at once where there is none.
pub(super) fn add_file(
    (counters, protocol, began): (&Arc<WorkerCounters>, Protocol, Instant),
    line: Option<Rc<LineText>>,
    facts: impl FnOnce() -> FileFacts,
) {
    let is_another = ENDED.with_borrow(|it| {
        let is_of = |it: &FileFacts| {
            Arc::ptr_eq(&it.counters, counters) && it.protocol == protocol && it.began == began
        };
        it.files.as_ref().is_some_and(|it| !is_of(it))
    });
    if is_another {
        close_all();
    }
    let in_turn = ENDED.with_borrow_mut(|it| {
        it.files.get_or_insert_with(facts);
        match line {
            Some(line) => it.ended.push(Ended::File(line)),
            None => it.unlogged_files += 1,
        }
        it.in_turn
    });
    if !in_turn {
        close_all();
    }
}

/// Closes what has ended, with one look at the clock.
fn close_all() {
    let (mut ended, files, unlogged) = ENDED.with_borrow_mut(|it| {
        let unlogged = std::mem::take(&mut it.unlogged_files);
        (std::mem::take(&mut it.ended), it.files.take(), unlogged)
    });
    if ended.is_empty() && unlogged == 0 {
        return;
    }
    let now = Instant::now();
    if let Some(files) = files.as_ref().filter(|_| unlogged > 0) {
        files.count(unlogged, now);
    }
    for response in ended.drain(..) {
        match response {
            Ended::Record(record) => record.close(now),
            Ended::File(line) => {
                if let Some(files) = &files {
                    files.log(&line, now);
                }
            }
        }
    }
    // Its room serves the next turn.
    ENDED.with_borrow_mut(|it| it.ended = ended);
}

impl FileFacts {
    fn duration(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    fn count(&self, files: u64, now: Instant) {
        let (ok, duration) = (StatusCode::OK, self.duration(now));
        self.counters.timed(self.protocol, ok, duration, files);
    }

    fn log(&self, line: &LineText, now: Instant) {
        self.count(1, now);
        if let Some(log) = &self.log {
            log.add(self.system, line, self.duration(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ServerCounters;

    #[test]
    fn files_of_a_turn_take_until_its_end_and_one_outside_of_turns_until_now() {
        let all = ServerCounters::default();
        let counters = all.worker();
        let began = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let facts = || FileFacts {
            counters: Arc::clone(&counters),
            protocol: Protocol::Http2,
            log: None,
            began,
            system: SystemTime::now(),
        };
        let add = || add_file((&counters, Protocol::Http2, began), None, facts);
        let timed = || {
            let of_2xx = all.sum().protocols[Protocol::Http2 as usize].durations[1];
            (of_2xx.count(), of_2xx.sum)
        };
        let turn = Turn::begin();
        add();
        add();
        assert_eq!(timed().0, 0);
        drop(turn);
        assert_eq!(timed().0, 2);
        add();
        let (count, sum) = timed();
        assert_eq!(count, 3);
        assert!(sum >= Duration::from_secs(9), "{sum:?}");
    }
}
