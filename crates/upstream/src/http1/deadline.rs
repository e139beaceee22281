//! The time by which a server is to respond, on a timer that its connection keeps.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that nearly always is put off before it comes. The timer stays set for an earlier one and rings once for
/// nothing, so that a request sets none.
#[derive(Debug, Default)]
pub(super) struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Ready once it is `at`.
    pub(super) fn poll(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= at {
                return Poll::Ready(());
            }
            timer.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Waker;
    use std::time::Duration;

    #[tokio::test]
    async fn a_deadline_that_is_put_off_does_not_come_at_the_former_time() {
        let (mut deadline, now) = (Deadline::default(), Instant::now());
        let mut context = Context::from_waker(Waker::noop());
        let soon = now + Duration::from_millis(200);
        assert!(deadline.poll(soon, &mut context).is_pending());
        let later = now + Duration::from_millis(400);
        poll_fn(|cx| deadline.poll(later, cx)).await;
        assert!(Instant::now() >= later);
    }

    #[tokio::test]
    async fn a_nearer_deadline_comes_first() {
        let (mut deadline, now) = (Deadline::default(), Instant::now());
        let mut context = Context::from_waker(Waker::noop());
        let far = now + Duration::from_secs(3_600);
        assert!(deadline.poll(far, &mut context).is_pending());
        let soon = now + Duration::from_millis(20);
        poll_fn(|cx| deadline.poll(soon, cx)).await;
        assert!(Instant::now() >= soon);
    }
}
