//! The future of a request over all its attempts.

use super::direct::Direct;
use super::{Answer, Exchange, InterimHandler};
use crate::error::Refusal;
use crate::retry;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A request on its way to a server: gives the response when its head is there.
///
/// A request is sent when it is polled for the second time, for which it wakes its task: what a client asks for in one
/// go is read and answered for as far as that goes, and then leaves together. So a server that was woken for the first
/// of these requests is at work when the others come, and is not put to sleep and woken again for each.
///
/// There is one for each request in progress, so it is small: it holds what nearly all of them need. What needs more
/// is carried on by a future of its own, in memory of its own.
#[must_use = "nothing is sent before it is polled"]
pub struct Sending {
    /// `None`: it is with the state.
    exchange: Option<Exchange>,
    state: State,
}

enum State {
    New,
    /// An attempt over a connection of HTTP/1.1 that was there.
    Direct(Direct),
    Else(Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>),
    Over,
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}

impl Sending {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            exchange: Some(exchange),
            state: State::New,
        }
    }

    /// Goes on with attempts that wait for more than one response.
    fn go_on(&mut self, attempts: Attempts, interims: &dyn InterimHandler) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.interim = exchange.interim.or_else(|| interims.callback());
            let running = async move { exchange.run(attempts).await };
            self.state = State::Else(Box::pin(running));
        }
    }

    /// Polls it, with somebody who hears of interim responses where the request has no callback: most have none to hear
    /// of, and a callback is memory of its own.
    ///
    /// # Errors
    /// As those of [`Group::send`](crate::Group::send).
    pub fn poll_telling(
        &mut self,
        cx: &mut Context<'_>,
        interims: &dyn InterimHandler,
    ) -> Poll<Result<Answer, Refusal>> {
        let this = self;
        loop {
            match (&mut this.state, &this.exchange) {
                (State::New, Some(exchange)) => {
                    let chosen = exchange.check_content().and_then(|()| exchange.choose(&[]));
                    let member = match chosen {
                        Ok(member) => member,
                        Err(refusal) => return Poll::Ready(Err(refusal)),
                    };
                    match exchange.begin_direct(member) {
                        Some(direct) => {
                            this.state = State::Direct(direct);
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        None => {
                            let attempts = Attempts::beginning_at(member, exchange);
                            this.go_on(attempts, interims);
                        }
                    }
                }
                (State::Direct(direct), Some(exchange)) => {
                    let failed = match ready!(exchange.poll_direct(direct, cx, interims)) {
                        Ok(answer) => return Poll::Ready(Ok(answer)),
                        Err(failed) => failed,
                    };
                    let member = direct.member;
                    // Its place at the server is given back before another attempt.
                    this.state = State::Over;
                    let mut attempts = Attempts::new(exchange);
                    match exchange.judge(member, &failed, &mut attempts) {
                        Ok(()) => this.go_on(attempts, interims),
                        Err(refusal) => return Poll::Ready(Err(refusal)),
                    }
                }
                (State::Else(running), _) => return running.as_mut().poll(cx),
                // Nobody asks again.
                _ => return Poll::Pending,
            }
        }
    }
}

impl Future for Sending {
    type Output = Result<Answer, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_telling(cx, &())
    }
}

/// The attempts of a request: those that were made, and what comes next.
#[derive(Debug)]
pub(super) struct Attempts {
    /// Attempts that may follow the next one.
    pub(super) left: u32,
    /// Times that it may be sent again after these where a server has not begun.
    pub(super) resends_left: u32,
    /// Servers that have failed.
    pub(super) tried: Vec<usize>,
    /// The next server, where it is known, and whether it is to be sent a new connection.
    pub(super) next: Option<(usize, bool)>,
}

impl Attempts {
    fn new(exchange: &Exchange) -> Self {
        Self {
            left: exchange.group.options.attempts.saturating_sub(1),
            resends_left: retry::MAX_RESENDS,
            tried: Vec::new(),
            next: None,
        }
    }

    fn beginning_at(member: usize, exchange: &Exchange) -> Self {
        Self {
            next: Some((member, false)),
            ..Self::new(exchange)
        }
    }
}
