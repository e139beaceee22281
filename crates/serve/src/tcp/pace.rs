//! Turns of an HTTP/1.1 connection: a client that pipelines requests must not keep the worker's other
//! connections waiting until all are answered.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use tokio::task::yield_now;

/// Requests that a connection may begin to answer before the others have their turn.
const TURN_REQUESTS: usize = 16;

/// How many requests of a connection were begun in its turn.
#[derive(Debug, Default)]
pub(super) struct Pace(Cell<usize>);

impl Pace {
    /// Polls `connection`; each poll is a turn.
    pub(super) async fn turns<F: Future>(&self, mut connection: Pin<&mut F>) -> F::Output {
        poll_fn(|cx| {
            self.0.set(0);
            connection.as_mut().poll(cx)
        })
        .await
    }

    /// Begins a request: at once, or in the next turn.
    pub(super) async fn keep(&self) {
        if self.0.get() >= TURN_REQUESTS {
            // By way of the event loop, so that it sees what has come for others.
            yield_now().await;
        }
        self.0.set(self.0.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_turn_has_so_many_requests() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (pace, begun) = (Pace::default(), Cell::new(0));
            let mut connection = pin!(async {
                loop {
                    pace.keep().await;
                    begun.set(begun.get() + 1);
                }
            });
            let mut turns = pin!(pace.turns(connection.as_mut()));
            let mut context = Context::from_waker(Waker::noop());
            for turn in 1..4 {
                let polled: Poll<()> = turns.as_mut().poll(&mut context);
                assert!(polled.is_pending());
                assert_eq!(begun.get(), turn * TURN_REQUESTS);
            }
        });
    }
}
