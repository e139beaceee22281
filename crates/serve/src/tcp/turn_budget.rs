//! Turns of an HTTP/1.1 connection: a client that pipelines requests must not keep the worker's other
//! connections waiting until all are answered.

use crate::request::turn_end::Turn;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, ready};
use tokio::task::{JoinHandle, spawn_local, yield_now};

/// Requests that a connection may begin to answer before the others have their turn.
const TURN_REQUESTS: usize = 16;

/// The number of requests of a connection that were begun in its turn.
#[derive(Debug, Default)]
pub(super) struct TurnBudget(Cell<usize>);

impl TurnBudget {
    /// Polls `connection` in turns. After one that was used up the event loop looks for what has come for
    /// others first; hyper, which wakes its own task while it has input, would not let it.
    pub(super) async fn turns<F: Future>(&self, mut connection: Pin<&mut F>) -> F::Output {
        let mut pause: Option<JoinHandle<()>> = None;
        poll_fn(|cx| {
            loop {
                if let Some(others) = &mut pause {
                    let _ = ready!(Pin::new(others).poll(cx));
                    pause = None;
                    self.0.set(0);
                }
                let turn = Turn::begin();
                let polled = connection.as_mut().poll(cx);
                drop(turn);
                if polled.is_ready() || self.0.get() < TURN_REQUESTS {
                    return polled;
                }
                pause = Some(spawn_local(yield_now()));
            }
        })
        .await
    }

    /// Begins a request: at once, or in a later turn.
    pub(super) async fn keep(&self) {
        if self.0.get() >= TURN_REQUESTS {
            // Whoever polls in turns polls again.
            poll_fn(|_| match self.0.get() {
                TURN_REQUESTS.. => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
        }
        self.0.set(self.0.get() + 1);
    }
}
