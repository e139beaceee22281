//! Turns for what costs a connection over TCP much: of a crowd that begins, reads or ends at the same time few go on
//! before connections that are there already.
//!
//! A step of a TLS handshake takes up to half a millisecond of processor time, for a key exchange and a signature, and the
//! end of a connection, as the kernel forgets its socket, or a part of a file, as it copies it twice, some tens of
//! microseconds. The event loop polls tasks in the order in which they were woken: without turns a response would wait
//! for all of a crowd that was woken before it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::task::yield_now;

/// Steps of handshakes and ends in a turn: after so many the event loop polls what else is ready, and looks for what has
/// come.
pub(super) const HANDSHAKE_STEPS: usize = 4;

/// Parts of files that are read over HTTP/1.1 in a turn: 256 KiB. The engine of HTTP/2 has turns of its own, of a
/// connection's bytes, and QUIC those of its congestion control.
pub(super) const FILE_STEPS: usize = 8;

/// The turns of a listener. As many tasks wait for one at most as there are connections.
pub(super) struct Turns {
    /// Steps that are taken in a turn.
    steps: usize,
    /// Steps that are left in this turn.
    left: Cell<usize>,
    waiting: RefCell<VecDeque<(Waker, StepPermit)>>,
    /// The task that begins turns, while it waits for a step to be taken.
    idle: Cell<Option<Waker>>,
}

/// A place in the queue: true once its holder may take a step.
pub(super) type StepPermit = Rc<Cell<bool>>;

impl Turns {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            steps,
            left: Cell::new(steps),
            waiting: RefCell::default(),
            idle: Cell::new(None),
        }
    }

    /// Polls `work` in turns: each poll is a step. What is large comes in a box, which is gone when it is done: the future
    /// of a connection keeps room for all that it ever held.
    pub(super) async fn steps<F: Future + Unpin>(&self, mut work: F) -> F::Output {
        let mut permit = None;
        poll_fn(|cx| match self.may_go_on(&mut permit, cx) {
            true => Pin::new(&mut work).poll(cx),
            false => Poll::Pending,
        })
        .await
    }

    /// Returns when the caller may take a step.
    pub(super) async fn step(&self) {
        self.steps(ready(())).await;
    }

    /// Begins turns, for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            poll_fn(|cx| match self.left.get() == self.steps {
                true => {
                    self.idle.set(Some(cx.waker().clone()));
                    Poll::Pending
                }
                false => Poll::Ready(()),
            })
            .await;
            yield_now().await;
            self.begin();
        }
    }

    fn begin(&self) {
        let mut left = self.steps;
        let mut waiting = self.waiting.borrow_mut();
        while left > 0
            && let Some((waker, permit)) = waiting.pop_front()
        {
            // Else nobody waits there any more.
            if Rc::strong_count(&permit) > 1 {
                permit.set(true);
                waker.wake();
                left -= 1;
            }
        }
        self.left.set(left);
    }

    /// Returns true if a step may be taken now; if not, the task is woken when it may. `permit`: the caller's place in
    /// the queue, if it has one.
    pub(super) fn may_go_on(&self, permit: &mut Option<StepPermit>, cx: &Context<'_>) -> bool {
        if let Some(waits) = permit {
            let may = waits.get();
            if may {
                *permit = None;
            }
            return may;
        }
        let mut waiting = self.waiting.borrow_mut();
        let left = self.left.get();
        if left == 0 || !waiting.is_empty() {
            let own = permit.insert(Rc::default());
            waiting.push_back((cx.waker().clone(), Rc::clone(own)));
            return false;
        }
        self.left.set(left - 1);
        if let Some(turns) = self.idle.take() {
            turns.wake();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::task::{JoinSet, LocalSet, spawn_local};

    const STEPS: usize = HANDSHAKE_STEPS;

    /// Returns the number of steps that had been taken at each turn of another task.
    async fn steps_by_turn(tasks: usize, steps: usize) -> Vec<usize> {
        let (all, taken) = (Rc::new(Turns::new(STEPS)), Rc::new(Cell::new(0)));
        let turns = Rc::clone(&all);
        let turns = spawn_local(async move { turns.run().await });
        let mut crowd = JoinSet::new();
        for _ in 0..tasks {
            let (all, taken) = (Rc::clone(&all), Rc::clone(&taken));
            crowd.spawn_local(async move {
                let mut left = steps;
                let work = poll_fn(|cx| {
                    taken.set(taken.get() + 1);
                    left -= 1;
                    cx.waker().wake_by_ref();
                    match left {
                        0 => Poll::Ready(()),
                        _ => Poll::Pending,
                    }
                });
                all.steps(work).await;
            });
        }
        let mut seen = Vec::new();
        while taken.get() < tasks * steps {
            yield_now().await;
            seen.push(taken.get());
        }
        while crowd.join_next().await.is_some() {}
        turns.abort();
        seen
    }

    #[tokio::test]
    async fn between_turns_of_others_few_steps_of_a_crowd_are_taken() {
        let seen = LocalSet::new().run_until(steps_by_turn(50, 3)).await;
        let each = seen.windows(2).map(|pair| pair[1] - pair[0]);
        let most = each.max().unwrap();
        assert!(most <= 2 * STEPS, "{most}: {seen:?}");
    }

    #[tokio::test]
    async fn one_that_waits_no_longer_takes_nobody_s_step() {
        let turns = Turns::new(STEPS);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..STEPS {
            assert!(turns.may_go_on(&mut None, &cx));
        }
        let (mut gone, mut here) = (None, None);
        assert!(!turns.may_go_on(&mut gone, &cx));
        assert!(!turns.may_go_on(&mut here, &cx));
        drop(gone);
        turns.begin();
        assert_eq!(turns.left.get(), STEPS - 1);
        assert!(turns.may_go_on(&mut here, &cx));
        let mut further = Box::pin(turns.steps(pending::<()>()));
        assert!(further.as_mut().poll(&mut cx).is_pending());
        assert_eq!(turns.left.get(), STEPS - 2);
    }
}
