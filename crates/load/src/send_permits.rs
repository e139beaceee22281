//! Permits: who may send the next request, and when.
//!
//! Every stream draws a permit for each request, so `-n` is exact however many streams there are,
//! and an open-loop run spreads over whichever stream is free. In a visit a permit also says which
//! of its requests is sent, and there is none until what that waits for has happened (`script`).

use crate::options::Stop;
use crate::returning::Returning;
use crate::script::Script;
use altway_message::AltSvc;
use altway_record::Protocol;
use altway_socket::Timer;
use std::cell::RefCell;
use std::io;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};

/// The right to send one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendPermit {
    /// Time at which the request is due: times count from here.
    pub(crate) start: Instant,
    /// Number of the request in its visit; 0 outside of visits.
    pub(crate) item: u32,
    /// The protocol that it is sent over, where a client that comes back has chosen.
    pub(crate) route: Option<Protocol>,
}

/// Hands out permits to the streams of one thread.
pub(crate) struct SendPermits {
    schedule: RefCell<Schedule>,
    /// Held by the one stream that waits for the next permit of an open loop; the others queue
    /// for it in order, so that a due permit wakes one stream and not all. A closed loop needs no turns,
    /// and they would cost it dearly: each permit would wait until its stream's task has run, and the
    /// requests of a connection would leave one by one.
    turns: [Mutex<Option<Timer>>; WAIT_QUEUES],
    /// A request of a visit may have become due, or may go over another protocol.
    changed: [Notify; WAIT_QUEUES],
}

/// Places where streams wait: a client that comes back has one over TCP and one over QUIC; all others have
/// the first alone.
const WAIT_QUEUES: usize = 2;

impl SendPermits {
    pub(crate) fn new(schedule: Schedule) -> io::Result<Self> {
        let timer = schedule.rate.map(|_| Timer::new()).transpose()?;
        Ok(Self {
            schedule: RefCell::new(schedule),
            turns: [Mutex::new(timer), Mutex::new(None)],
            changed: [Notify::new(), Notify::new()],
        })
    }

    /// The next permit for a connection that speaks `over`, when it is due; `None` when there are no more.
    /// Dropping the wait loses no permit.
    pub(crate) async fn next(&self, over: Protocol) -> Option<SendPermit> {
        if self.schedule.borrow().is_closed_loop() {
            return self.schedule.borrow_mut().draw(Instant::now());
        }
        let wait_queue = self.schedule.borrow().wait_queue(over);
        let mut turn = self.turns[wait_queue].lock().await;
        loop {
            let next = self.schedule.borrow_mut().next(Instant::now(), over);
            match (next, turn.as_mut()) {
                (Next::Now(permit), _) => return Some(permit),
                (Next::Done, _) => return None,
                // Waiting fails only when the runtime shuts down, and then nothing is sent any more.
                (Next::At(due), Some(timer)) => timer.wait_until(due).await.ok()?,
                (Next::At(_), None) => unreachable!("only a rate says when"),
                (Next::Later, _) => self.changed[wait_queue].notified().await,
            }
        }
    }

    /// Takes back a permit whose connection closed before its request was sent. Whoever gives one
    /// back must ask for the next, else it is lost.
    pub(crate) fn give_back(&self, permit: SendPermit) {
        self.schedule.borrow_mut().returned.push(permit);
        self.wake();
    }

    /// The answer to a visit's request has begun.
    pub(crate) fn on_first_byte(&self, item: u32, now: Instant) {
        match &mut *self.schedule.borrow_mut() {
            Schedule {
                script: Some(script),
                ..
            } => script.on_first_byte(item, now),
            Schedule {
                returning: Some(client),
                ..
            } => client.on_first_byte(item, now),
            _ => return,
        }
        self.wake();
    }

    /// A visit's request has ended, well or not.
    pub(crate) fn on_end(&self, item: u32, now: Instant) {
        match &mut *self.schedule.borrow_mut() {
            Schedule {
                script: Some(script),
                ..
            } => script.on_end(item, now),
            Schedule {
                returning: Some(client),
                ..
            } => client.on_end(item, now),
            _ => return,
        }
        self.wake();
    }

    /// An answer said this of HTTP/3 to a client that comes back.
    pub(crate) fn on_alt_svc(&self, field: AltSvc, now: Instant) {
        if let Some(client) = &mut self.schedule.borrow_mut().returning {
            client.on_alt_svc(field, now);
        }
        self.wake();
    }

    /// A connection over QUIC is open.
    pub(crate) fn on_quic(&self) {
        if let Some(client) = &mut self.schedule.borrow_mut().returning {
            client.on_quic();
        }
    }

    /// The permit's connection over QUIC did not come about: whether its request is to go over TCP instead,
    /// as it does where a client that comes back has chosen.
    pub(crate) fn falls_back(&self, permit: SendPermit) -> bool {
        if permit.route != Some(Protocol::H3) {
            return false;
        }
        if let Some(client) = &mut self.schedule.borrow_mut().returning {
            client.on_failure(Instant::now());
        }
        self.give_back(permit);
        true
    }

    /// Begins the next session of a client that comes back; false when there is none.
    pub(crate) fn begin_session(&self) -> bool {
        let client = &mut self.schedule.borrow_mut().returning;
        client.as_mut().is_some_and(Returning::begin_session)
    }

    fn wake(&self) {
        self.changed.iter().for_each(Notify::notify_one);
    }

    /// Requests that were due in an open loop but never sent, for the run was over.
    pub(crate) fn unsent(&self) -> u64 {
        self.schedule.borrow().unsent()
    }
}

/// Times at which permits fall due: a pure function of time.
pub(crate) struct Schedule {
    begun: Instant,
    stop: Stop,
    rate: Option<NonZeroU32>,
    issued: u64,
    /// Permits that were given back, at most one a stream.
    returned: Vec<SendPermit>,
    /// Script of a visit, which tells which request is next.
    script: Option<Script>,
    /// The same in a visit of several sessions.
    returning: Option<Returning>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Now(SendPermit),
    At(Instant),
    /// Later, once something else has happened.
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
            returning: None,
        }
    }

    /// Returns the permits of a visit: its requests, each when it is due.
    pub(crate) fn of_visit(begun: Instant, stop: Stop, script: Script) -> Self {
        Self {
            script: Some(script),
            ..Self::new(begun, stop, None)
        }
    }

    /// Makes the requests of a client that comes back in sessions.
    pub(crate) fn of_sessions(begun: Instant, stop: Stop, client: Returning) -> Self {
        Self {
            returning: Some(client),
            ..Self::new(begun, stop, None)
        }
    }

    /// Place where streams over this protocol wait.
    fn wait_queue(&self, over: Protocol) -> usize {
        usize::from(self.returning.is_some() && over == Protocol::H3)
    }

    /// Returns whether there is a permit at any time until the run is over.
    fn is_closed_loop(&self) -> bool {
        self.rate.is_none() && self.script.is_none() && self.returning.is_none()
    }

    /// A permit that is due now.
    fn draw(&mut self, now: Instant) -> Option<SendPermit> {
        // A closed loop has no routes.
        match self.next(now, Protocol::H2) {
            Next::Now(permit) => Some(permit),
            Next::At(_) | Next::Later | Next::Done => None,
        }
    }

    fn next(&mut self, now: Instant, over: Protocol) -> Next {
        if self.is_over(now) {
            return Next::Done;
        }
        if let Some(client) = &mut self.returning {
            return next_of_session(client, &mut self.returned, now, over);
        }
        if let Some(permit) = self.returned.pop() {
            return Next::Now(permit);
        }
        if let Some(script) = &mut self.script {
            return match script.next(now) {
                Some((item, start)) => Next::Now(SendPermit {
                    start,
                    item,
                    route: None,
                }),
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
        Next::Now(SendPermit {
            start: due,
            item: 0,
            route: None,
        })
    }

    /// Returns true if nothing is sent any more, due or not.
    fn is_over(&self, now: Instant) -> bool {
        matches!(self.stop, Stop::Time(time) if now.saturating_duration_since(self.begun) >= time)
    }

    /// Returns true if there is no further permit.
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

/// The next request of a session for a connection that speaks `over`. Connections stay until all requests have
/// ended, for one that fails over QUIC goes over TCP.
fn next_of_session(
    client: &mut Returning,
    returned: &mut Vec<SendPermit>,
    now: Instant,
    over: Protocol,
) -> Next {
    if client.has_ended() {
        return Next::Done;
    }
    if client.protocol(now) != over {
        return Next::Later;
    }
    let route = Some(over);
    if let Some(permit) = returned.pop() {
        return Next::Now(SendPermit { route, ..permit });
    }
    client.next(now).map_or(Next::Later, |(item, start)| {
        Next::Now(SendPermit { start, item, route })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::num::NonZeroU64;

    const MS: Duration = Duration::from_millis(1);

    fn at(start: Instant) -> SendPermit {
        SendPermit {
            start,
            item: 0,
            route: None,
        }
    }

    fn requests(n: u64) -> Stop {
        Stop::Requests(NonZeroU64::new(n).unwrap())
    }

    #[test]
    fn a_closed_loop_gives_exactly_n_permits_at_once() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now, requests(3), None);
        for _ in 0..3 {
            assert_eq!(schedule.next(now, Protocol::H2), Next::Now(at(now)));
        }
        assert_eq!(schedule.next(now, Protocol::H2), Next::Done);
    }

    #[tokio::test]
    async fn a_closed_loop_waits_for_no_turn() {
        let send_permits =
            SendPermits::new(Schedule::new(Instant::now(), requests(3), None)).unwrap();
        let _another = send_permits.turns[0].lock().await;
        for _ in 0..3 {
            assert!(
                send_permits
                    .next(Protocol::H2)
                    .now_or_never()
                    .unwrap()
                    .is_some()
            );
        }
        assert_eq!(send_permits.next(Protocol::H2).now_or_never(), Some(None));
    }

    #[test]
    fn a_permit_that_comes_back_is_drawn_again() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now, requests(1), None);
        let Next::Now(permit) = schedule.next(now, Protocol::H2) else {
            panic!("the first ticket is due at once");
        };
        schedule.returned.push(permit);
        assert_eq!(schedule.next(now + MS, Protocol::H2), Next::Now(permit));
        assert_eq!(schedule.next(now + MS, Protocol::H2), Next::Done);
    }

    #[test]
    fn an_open_loop_counts_from_the_due_time_even_when_drawn_late() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, requests(3), NonZeroU32::new(100));
        assert_eq!(schedule.next(begun, Protocol::H2), Next::Now(at(begun)));
        assert_eq!(
            schedule.next(begun + MS, Protocol::H2),
            Next::At(begun + 10 * MS)
        );
        let late = schedule.next(begun + 35 * MS, Protocol::H2);
        assert_eq!(late, Next::Now(at(begun + 10 * MS)));
    }

    #[test]
    fn a_timed_run_ends_at_its_end_and_not_before() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, Stop::Time(10 * MS), None);
        let last = begun + 10 * MS - Duration::from_nanos(1);
        assert_eq!(schedule.next(last, Protocol::H2), Next::Now(at(last)));
        assert_eq!(schedule.next(begun + 10 * MS, Protocol::H2), Next::Done);
    }

    #[test]
    fn an_overloaded_open_loop_says_what_it_never_sent() {
        let begun = Instant::now();
        let mut schedule = Schedule::new(begun, Stop::Time(10 * MS), NonZeroU32::new(1_000));
        assert!(matches!(schedule.next(begun, Protocol::H2), Next::Now(_)));
        assert!(matches!(
            schedule.next(begun + 9 * MS, Protocol::H2),
            Next::Now(_)
        ));
        assert_eq!(schedule.next(begun + 10 * MS, Protocol::H2), Next::Done);
        assert_eq!(schedule.unsent(), 8);
    }
}
