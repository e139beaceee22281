//! The requests of one connection that are on their way, several at once, over HTTP/2 or HTTP/3:
//! whether there may be more, when each is too late, what has come of it, and its record in the end.
//!
//! Left to `h2` and `quic`: sending them, and what the peer's frames mean.

use crate::error::Failure;
use crate::run::{Answer, Due, InFlightRequest, Run};
use crate::send_permits::SendPermit;
use altway_message::AltSvc;
use std::collections::BTreeMap;
use std::time::Instant;

/// Requests by the engine's name for their streams, which grows from one to the next.
pub(crate) struct Exchanges<'r, 'a, Id> {
    run: &'r Run<'a>,
    /// The connection's ordinal.
    connection: u32,
    /// Requests so far.
    begun: u32,
    /// Requests in flight, at most as many as the job has streams, in the order of their deadlines.
    in_flight: BTreeMap<Id, InFlight>,
    state: State,
    /// The server allows no further stream for now.
    exhausted: bool,
    /// The last request could not be sent.
    unsendable: bool,
}

/// State of a connection that tells whether further requests may be sent.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// No further ones: there are no more permits, or the server wants no more.
    Draining,
    /// No further ones, and none is in flight.
    Closed,
}

struct InFlight {
    due: Due,
    sent: InFlightRequest,
    answer: Answer,
}

impl<'r, 'a, Id: Copy + Ord> Exchanges<'r, 'a, Id> {
    pub(crate) fn new(run: &'r Run<'a>, connection: u32) -> Self {
        Self {
            run,
            connection,
            begun: 0,
            in_flight: BTreeMap::new(),
            state: State::Open,
            exhausted: false,
            unsendable: false,
        }
    }

    /// A request was sent.
    pub(crate) fn on_sent(&mut self, stream: Id, due: Due) {
        let request = InFlight {
            sent: self.sent(&due),
            due,
            answer: Answer::default(),
        };
        self.in_flight.insert(stream, request);
    }

    /// A request could not be sent. The next is for after a turn ([`Self::take_unsendable`]): it may fail
    /// as fast, and nobody else would come to anything.
    pub(crate) fn on_unsendable(&mut self, due: &Due, failure: Failure) {
        self.unsendable = true;
        let sent = self.sent(due);
        self.run
            .record(&sent, &Answer::default(), Instant::now(), Err(failure));
    }

    /// Returns whether a request could not be sent since this was asked last.
    pub(crate) fn take_unsendable(&mut self) -> bool {
        std::mem::take(&mut self.unsendable)
    }

    /// The server allows no further stream; [`Self::on_stream_free`] ends that.
    pub(crate) fn on_exhausted(&mut self) {
        self.exhausted = true;
    }

    pub(crate) fn on_stream_free(&mut self) {
        self.exhausted = false;
    }

    /// No further requests; those in flight go on.
    pub(crate) fn drain(&mut self) {
        if self.state == State::Open {
            self.state = State::Draining;
        }
    }

    /// The final response's head came at `now`.
    pub(crate) fn on_head(&mut self, stream: Id, now: Instant, status: u16, length: Option<u64>) {
        if let Some(request) = self.in_flight.get_mut(&stream) {
            request.answer.on_head(now, status, length);
            self.run.send_permits.on_first_byte(request.sent.item, now);
        }
    }

    /// Returns the permit of the request on the stream.
    pub(crate) fn permit(&self, stream: Id) -> Option<SendPermit> {
        self.in_flight.get(&stream).map(|it| it.due.permit)
    }

    /// The request was sent once more, and its answer comes on the stream `to`; what has come of it on
    /// `from` doesn't count.
    pub(crate) fn go_on_as(&mut self, from: Id, to: Id) {
        if let Some(request) = self.in_flight.remove(&from) {
            let answer = Answer::default();
            self.in_flight.insert(to, InFlight { answer, ..request });
        }
    }

    /// Returns whether the answer on the stream is to say that there is HTTP/3.
    pub(crate) fn learns_from(&self, stream: Id) -> bool {
        let request = self.in_flight.get(&stream);
        request.is_some_and(|request| self.run.job.learns_from(request.due.permit))
    }

    /// Takes in the `Alt-Svc` field of the final response, where the client heeds it.
    pub(crate) fn on_alt_svc_field(&mut self, stream: Id, value: Option<&[u8]>, now: Instant) {
        let (Some(port), Some(value)) = (self.run.job.alt_svc_port, value) else {
            return;
        };
        let field = AltSvc::parse(value, port);
        if let Some(request) = self.in_flight.get_mut(&stream) {
            request.answer.on_field(field);
            self.run.send_permits.on_alt_svc(field, now);
        }
    }

    /// The answer said that there is HTTP/3.
    pub(crate) fn on_alt_svc(&mut self, stream: Id) {
        if let Some(request) = self.in_flight.get_mut(&stream) {
            request.answer.on_alt_svc();
        }
    }

    /// Counts so many bytes of a body that arrived.
    pub(crate) fn on_data(&mut self, stream: Id, bytes: usize) {
        if let Some(request) = self.in_flight.get_mut(&stream) {
            request.answer.on_data(bytes);
        }
    }

    /// The body has ended.
    pub(crate) fn complete(&mut self, stream: Id, now: Instant) {
        if let Some(request) = self.in_flight.get(&stream) {
            let result = request.answer.complete();
            self.end(stream, now, result);
        }
    }

    /// Records a request that ended at `now`, and forgets it.
    pub(crate) fn end(&mut self, stream: Id, now: Instant, result: Result<(), Failure>) {
        if let Some(request) = self.in_flight.remove(&stream) {
            self.run.record(&request.sent, &request.answer, now, result);
        }
    }

    /// Gives back the permit of a request that the server did not look at; false if it is the one
    /// that opened the connection, whose set-up time belongs to it.
    pub(crate) fn give_back(&mut self, stream: Id) -> bool {
        let opened = |request: &InFlight| request.due.connect.is_some();
        if self.in_flight.get(&stream).is_none_or(opened) {
            return false;
        }
        if let Some(request) = self.in_flight.remove(&stream) {
            self.run.send_permits.give_back(request.due.permit);
        }
        // Whoever gives a permit back must ask for the next.
        self.state = State::Open;
        true
    }

    /// Gives up the next request whose time is over, and says which, for it to be reset.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Id> {
        let (&stream, request) = self.in_flight.first_key_value()?;
        if request.due.deadline > now {
            return None;
        }
        self.end(stream, now, Err(Failure::TimedOut(self.run.job.timeout)));
        Some(stream)
    }

    /// The connection is gone.
    pub(crate) fn fail_all(&mut self, failure: impl Fn() -> Failure) {
        self.state = State::Closed;
        let now = Instant::now();
        while let Some((&stream, _)) = self.in_flight.first_key_value() {
            self.end(stream, now, Err(failure()));
        }
    }

    /// Time at which the next request will be too late.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.in_flight
            .first_key_value()
            .map(|(_, next)| next.due.deadline)
    }

    /// Number of requests in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn wants_permit(&self) -> bool {
        let free = self.len() < self.run.job.streams as usize;
        self.state == State::Open && free && !self.exhausted
    }

    /// Returns true if nothing is left to do on this connection.
    pub(crate) fn is_done(&self) -> bool {
        match self.state {
            State::Open => false,
            State::Draining => self.in_flight.is_empty(),
            State::Closed => true,
        }
    }

    /// Returns true if the connection is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    fn sent(&mut self, due: &Due) -> InFlightRequest {
        let stream = self.begun;
        self.begun = stream.saturating_add(1);
        InFlightRequest {
            connection: self.connection,
            stream,
            item: due.permit.item,
            start: due.permit.start,
            connect: due.connect,
            protocol_used: Some(self.run.job.protocol_for(due.permit)),
        }
    }
}
