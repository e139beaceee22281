//! Who may send the next request, and when.
//!
//! Every stream draws a ticket for each request, so `-n` is exact however many streams there are,
//! and an open-loop run spreads over whichever stream is free. In a visit a ticket also says which
//! of its requests is sent, and there is none until what that waits for has happened (`script`).

use crate::options::Stop;
use crate::script::Script;
use altway_socket::Timer;
use std::cell::RefCell;
use std::io;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};

/// The right to send one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// When the request is due: times count from here.
    pub(crate) start: Instant,
    /// Which request of a visit it is; 0 outside of visits.
    pub(crate) item: u32,
}

/// Hands out tickets to the streams of one thread.
pub(crate) struct Tickets {
    schedule: RefCell<Schedule>,
    /// Held by the one stream that waits for the next ticket of an open loop; the others queue
    /// for it in order, so that a due ticket wakes one stream and not all. A closed loop needs no turns,
    /// and they would cost it dearly: each ticket would wait until its stream's task has run, and the
    /// requests of a connection would leave one by one.
    turn: Mutex<Option<Timer>>,
    /// A request of a visit may have become due.
    changed: Notify,
}

impl Tickets {
    pub(crate) fn new(schedule: Schedule) -> io::Result<Self> {
        let timer = schedule.rate.map(|_| Timer::new()).transpose()?;
        Ok(Self {
            schedule: RefCell::new(schedule),
            turn: Mutex::new(timer),
            changed: Notify::new(),
        })
    }

    /// The next ticket, when it is due; `None` when there are no more. Dropping the wait loses no
    /// ticket.
    pub(crate) async fn next(&self) -> Option<Ticket> {
        if self.schedule.borrow().is_closed_loop() {
            return self.schedule.borrow_mut().draw(Instant::now());
        }
        let mut turn = self.turn.lock().await;
        loop {
            let next = self.schedule.borrow_mut().next(Instant::now());
            match (next, turn.as_mut()) {
                (Next::Now(ticket), _) => return Some(ticket),
                (Next::Done, _) => return None,
                // Waiting fails only when the runtime shuts down, and then nothing is sent any more.
                (Next::At(due), Some(timer)) => timer.wait_until(due).await.ok()?,
                (Next::At(_), None) => unreachable!("only a rate says when"),
                (Next::Later, _) => self.changed.notified().await,
            }
        }
    }

    /// Takes back a ticket whose connection closed before its request was sent. Whoever gives one
    /// back must ask for the next, else it is lost.
    pub(crate) fn give_back(&self, ticket: Ticket) {
        self.schedule.borrow_mut().returned.push(ticket);
        self.changed.notify_one();
    }

    /// The answer to a visit's request has begun.
    pub(crate) fn on_first_byte(&self, item: u32, now: Instant) {
        self.tell(|script| script.on_first_byte(item, now));
    }

    /// A visit's request has ended, well or not.
    pub(crate) fn on_end(&self, item: u32, now: Instant) {
        self.tell(|script| script.on_end(item, now));
    }

    fn tell(&self, what: impl FnOnce(&mut Script)) {
        if let Some(script) = &mut self.schedule.borrow_mut().script {
            what(script);
            self.changed.notify_one();
        }
    }

    /// Requests that were due in an open loop but never sent, for the run was over.
    pub(crate) fn unsent(&self) -> u64 {
        self.schedule.borrow().unsent()
    }
}

/// When tickets fall due: a pure function of time.
pub(crate) struct Schedule {
    begun: Instant,
    stop: Stop,
    rate: Option<NonZeroU32>,
    issued: u64,
    /// At most one a stream.
    returned: Vec<Ticket>,
    /// In a visit: which request is next.
    script: Option<Script>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Now(Ticket),
    At(Instant),
    /// When something else has happened.
    Later,
    Done,
}

impl Schedule {
    pub(crate) fn new(begun: Instant, stop: Stop, rate: Option<NonZeroU32>) -> Self {
        Self {
            begun,
            stop,
            rate,
            issued: 0,
            returned: Vec::new(),
            script: None,
        }
    }

    /// That of a visit: its requests, each when it is due.
    pub(crate) fn of_visit(begun: Instant, stop: Stop, script: Script) -> Self {
        Self {
            script: Some(script),
            ..Self::new(begun, stop, None)
        }
    }

    /// Whether there is a ticket at any time until the run is over.
    fn is_closed_loop(&self) -> bool {
        self.rate.is_none() && self.script.is_none()
    }

    /// A ticket that is due now.
    fn draw(&mut self, now: Instant) -> Option<Ticket> {
        match self.next(now) {
            Next::Now(ticket) => Some(ticket),
            Next::At(_) | Next::Later | Next::Done => None,
        }
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.is_over(now) {
            return Next::Done;
        }
        if let Some(ticket) = self.returned.pop() {
            return Next::Now(ticket);
        }
        if let Some(script) = &mut self.script {
            return match script.next(now) {
                Some((item, start)) => Next::Now(Ticket { start, item }),
                None if script.is_drawn_out() => Next::Done,
                None => Next::Later,
            };
        }
        let due = self.rate.map_or(now, |rate| self.due(rate));
        if self.is_drawn_out(due) {
            return Next::Done;
        }
        if due > now {
            return Next::At(due);
        }
        self.issued += 1;
        Next::Now(Ticket {
            start: due,
            item: 0,
        })
    }

    /// Nothing is sent any more, due or not.
    fn is_over(&self, now: Instant) -> bool {
        matches!(self.stop, Stop::Time(time) if now.saturating_duration_since(self.begun) >= time)
    }

    /// There is no further ticket.
    fn is_drawn_out(&self, due: Instant) -> bool {
        match self.stop {
            Stop::Requests(n) => self.issued >= n.get(),
            Stop::Time(time) => due.saturating_duration_since(self.begun) >= time,
        }
    }

    fn due(&self, rate: NonZeroU32) -> Instant {
        let nanos = u128::from(self.issued) * 1_000_000_000 / u128::from(rate.get());
        let since = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.begun + since
    }

    fn unsent(&self) -> u64 {
        let (Stop::Time(time), Some(rate)) = (self.stop, self.rate) else {
            return 0;
        };
        let due = (time.as_nanos() * u128::from(rate.get())).div_ceil(1_000_000_000);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let given_back = self.returned.len() as u64;
        due.saturating_sub(self.issued).saturating_add(given_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::num::NonZeroU64;

    const MS: Duration = Duration::from_millis(1);

    fn at(start: Instant) -> Ticket {
        Ticket { start, item: 0 }
    }

    fn requests(n: u64) -> Stop {
        Stop::Requests(NonZeroU64::new(n).unwrap())
    }

    #[test]
    fn a_closed_loop_gives_exactly_n_tickets_at_once() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now, requests(3), None);
        for _ in 0..3 {
            assert_eq!(schedule.next(now), Next::Now(at(now)));
        }
        assert_eq!(schedule.next(now), Next::Done);
    }

    #[tokio::test]
    async fn a_closed_loop_waits_for_no_turn() {
        let tickets = Tickets::new(Schedule::new(Instant::now(), requests(3), None)).unwrap();
        let _another = tickets.turn.lock().await;
        for _ in 0..3 {
            assert!(tickets.next().now_or_never().unwrap().is_some());
        }
        assert_eq!(tickets.next().now_or_never(), Some(None));
    }

    #[test]
    fn a_ticket_that_comes_back_is_drawn_again() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now, requests(1), None);
        let Next::Now(ticket) = schedule.next(now) else {
            panic!("the first ticket is due at once");
        };
        schedule.returned.push(ticket);
        assert_eq!(schedule.next(now + MS), Next::Now(ticket));
        assert_eq!(schedule.next(now + MS), Next::Done);
    }

    #[test]
    fn an_open_loop_counts_from_the_due_time_even_when_drawn_late() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, requests(3), NonZeroU32::new(100));
        assert_eq!(schedule.next(begun), Next::Now(at(begun)));
        assert_eq!(schedule.next(begun + MS), Next::At(begun + 10 * MS));
        let late = schedule.next(begun + 35 * MS);
        assert_eq!(late, Next::Now(at(begun + 10 * MS)));
    }

    #[test]
    fn a_timed_run_ends_at_its_end_and_not_before() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, Stop::Time(10 * MS), None);
        let last = begun + 10 * MS - Duration::from_nanos(1);
        assert_eq!(schedule.next(last), Next::Now(at(last)));
        assert_eq!(schedule.next(begun + 10 * MS), Next::Done);
    }

    #[test]
    fn an_overloaded_open_loop_says_what_it_never_sent() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, Stop::Time(10 * MS), NonZeroU32::new(1_000));
        assert!(matches!(schedule.next(begun), Next::Now(_)));
        assert!(matches!(schedule.next(begun + 9 * MS), Next::Now(_)));
        assert_eq!(schedule.next(begun + 10 * MS), Next::Done);
        assert_eq!(schedule.unsent(), 8);
    }
}
