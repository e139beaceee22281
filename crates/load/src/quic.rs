//! HTTP/3: a connection over QUIC, driven by altway's own engine.

use crate::error::Failure;
use crate::run::{Answer, Job, Run, Sent};
use crate::slot::Opening;
use crate::tickets::Ticket;
use crate::udp::Driver;
use altway_http3::{ClientConfig, Code, Error as Http3Error, Event, Received, StreamId};
use altway_record::Protocol;
use http::{HeaderValue, Request, Response, header};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Opens a connection for the request of `opening` and keeps its streams busy until it closes or
/// the tickets run out.
///
/// # Errors
/// The connection could not be opened; nothing has been recorded.
pub(crate) async fn serve(run: &Run<'_>, opening: Opening) -> Result<(), Failure> {
    let job = run.job;
    let deadline = opening.begun + job.timeout;
    let opened = tokio::time::timeout_at(deadline.into(), open(job)).await;
    let driver = opened.map_err(|_| Failure::TimedOut(job.timeout))??;
    let connect = opening.begun.elapsed();
    run.on_connected();
    let mut connection = Connection {
        run,
        ordinal: opening.connection,
        head: head(job),
        driver,
        streams: 0,
        in_flight: BTreeMap::new(),
        state: State::Open,
        exhausted: false,
    };
    connection.first(opening.ticket, connect, deadline);
    connection.work().await;
    connection.close();
    Ok(())
}

/// The first of the addresses that completes a handshake.
async fn open(job: &Job) -> Result<Driver, Failure> {
    let (last, others) = job.addresses.split_last().expect("a job has an address");
    for address in others {
        if let Ok(driver) = handshake(job, *address).await {
            return Ok(driver);
        }
    }
    handshake(job, *last).await
}

async fn handshake(job: &Job, remote: SocketAddr) -> Result<Driver, Failure> {
    let tls = job.tls.clone().expect("options refuse HTTP/3 without TLS");
    let seed = seed(&tls)?;
    let mut config = ClientConfig::new(tls);
    config.limits.max_concurrent_requests = job.streams;
    // A server that thinks for long must run into the request's time-out, not into this one.
    config.transport.idle_timeout = config.transport.idle_timeout.max(job.timeout);
    let mut driver = Driver::connect(config, seed, remote, &job.host)?;
    loop {
        match driver.poll_event() {
            Some(Event::Connected) => return Ok(driver),
            Some(Event::Closed { reason }) => return Err(Failure::Handshake(reason)),
            Some(_) => {}
            None => driver.turn(None).await.map_err(Failure::Connect)?,
        }
    }
}

/// Connection IDs come from it, so it must not be guessed.
fn seed(tls: &rustls::ClientConfig) -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    let filled = tls.crypto_provider().secure_random.fill(&mut seed);
    filled.map_err(|error| Failure::Tls(io::Error::other(rustls::Error::from(error))))?;
    Ok(seed)
}

/// A GET for the job's URI.
fn head(job: &Job) -> Request<()> {
    let mut head = Request::new(());
    *head.uri_mut() = job.uri.clone();
    let headers = head.headers_mut();
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(crate::USER_AGENT),
    );
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    head
}

struct Connection<'r, 'a> {
    run: &'r Run<'a>,
    ordinal: u32,
    head: Request<()>,
    driver: Driver,
    /// Requests sent so far.
    streams: u32,
    /// At most as many as the job has streams, in the order of their deadlines.
    in_flight: BTreeMap<StreamId, InFlight>,
    state: State,
    /// The server allows no further stream for now.
    exhausted: bool,
}

/// Whether further requests may be sent.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    /// No further ones: there are no more tickets, or the server wants no more.
    Draining,
    /// No further ones, and none is in flight.
    Closed,
}

struct InFlight {
    sent: Sent,
    answer: Answer,
    deadline: Instant,
}

impl Connection<'_, '_> {
    /// Sends the request that opened the connection.
    fn first(&mut self, ticket: Ticket, connect: Duration, deadline: Instant) {
        match self.driver.request(&self.head) {
            Ok(stream) => self.on_sent(stream, ticket, Some(connect), deadline),
            Err(error) => self.on_unsendable(ticket, Some(connect), error),
        }
    }

    /// The driver's loop: events, tickets, datagrams; until there is nothing left to do.
    async fn work(&mut self) {
        loop {
            while let Some(event) = self.driver.poll_event() {
                self.on_event(event);
            }
            self.expire(Instant::now());
            if self.is_done() {
                return;
            }
            let until = self
                .in_flight
                .first_key_value()
                .map(|(_, next)| next.deadline);
            tokio::select! {
                biased;
                // Tickets first: what is due now leaves in one batch of datagrams.
                ticket = self.run.tickets.next(), if self.wants_ticket() => self.on_ticket(ticket),
                turn = self.driver.turn(until) => if let Err(error) = turn {
                    self.fail_all(|| Failure::Connection(error.to_string()));
                },
            }
        }
    }

    /// Says goodbye, as far as the socket takes it.
    fn close(mut self) {
        let (now, connection) = (Instant::now(), self.driver.connection);
        self.driver
            .endpoint
            .close(now, connection, Code::H3_NO_ERROR, b"");
        let _ = self.driver.flush();
    }

    fn on_ticket(&mut self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else {
            self.state = State::Draining;
            return;
        };
        let deadline = Instant::now() + self.run.job.timeout;
        match self.driver.request(&self.head) {
            Ok(stream) => self.on_sent(stream, ticket, None, deadline),
            Err(Http3Error::StreamsExhausted) => {
                self.exhausted = true;
                self.run.tickets.give_back(ticket);
            }
            // The server went while the ticket was awaited: the next connection takes it.
            Err(Http3Error::GoingAway | Http3Error::UnknownConnection) => {
                self.state = State::Draining;
                self.run.tickets.give_back(ticket);
            }
            Err(error) => self.on_unsendable(ticket, None, error),
        }
    }

    fn on_sent(
        &mut self,
        stream: StreamId,
        ticket: Ticket,
        connect: Option<Duration>,
        deadline: Instant,
    ) {
        let request = InFlight {
            sent: self.sent(ticket, connect),
            answer: Answer::default(),
            deadline,
        };
        self.in_flight.insert(stream, request);
    }

    fn on_unsendable(&mut self, ticket: Ticket, connect: Option<Duration>, error: Http3Error) {
        let sent = self.sent(ticket, connect);
        let failure = Err(Failure::Http3(error));
        self.run
            .record(&sent, &Answer::default(), Instant::now(), failure);
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Response { stream, head, end } => self.on_head(stream, &head, end),
            Event::Readable { stream } => self.on_readable(stream),
            Event::StreamReset { stream, code } => self.end(stream, Err(Failure::Reset(code))),
            Event::StreamsAvailable => self.exhausted = false,
            Event::GoAway => self.state = State::Draining,
            Event::Closed { reason } => {
                self.fail_all(|| Failure::Connection(reason.to_string()));
            }
            _ => {}
        }
    }

    fn on_head(&mut self, stream: StreamId, head: &Response<()>, end: bool) {
        if let Some(request) = self.in_flight.get_mut(&stream) {
            request.answer.on_head(Instant::now(), head);
        }
        if end {
            self.complete(stream);
        }
    }

    fn on_readable(&mut self, stream: StreamId) {
        let connection = self.driver.connection;
        while let Some(request) = self.in_flight.get_mut(&stream) {
            match self.driver.endpoint.recv_data(connection, stream) {
                Ok(Received::Data(data)) => request.answer.on_data(data.len()),
                Ok(Received::Pending) => return,
                Ok(Received::End) => self.complete(stream),
                Err(error) => self.end(stream, Err(Failure::Http3(error))),
            }
        }
    }

    /// The body has ended.
    fn complete(&mut self, stream: StreamId) {
        if let Some(request) = self.in_flight.get(&stream) {
            let result = request.answer.complete();
            self.end(stream, result);
        }
    }

    /// Records a request and forgets it.
    fn end(&mut self, stream: StreamId, result: Result<(), Failure>) {
        if let Some(request) = self.in_flight.remove(&stream) {
            self.run
                .record(&request.sent, &request.answer, Instant::now(), result);
        }
    }

    /// Gives up the requests whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some((&stream, request)) = self.in_flight.first_key_value() {
            if request.deadline > now {
                return;
            }
            let connection = self.driver.connection;
            let code = Code::H3_REQUEST_CANCELLED;
            self.driver.endpoint.reset_stream(connection, stream, code);
            self.end(stream, Err(Failure::TimedOut(self.run.job.timeout)));
        }
    }

    fn fail_all(&mut self, failure: impl Fn() -> Failure) {
        self.state = State::Closed;
        while let Some((&stream, _)) = self.in_flight.first_key_value() {
            self.end(stream, Err(failure()));
        }
    }

    fn sent(&mut self, ticket: Ticket, connect: Option<Duration>) -> Sent {
        let stream = self.streams;
        self.streams = stream.saturating_add(1);
        Sent {
            connection: self.ordinal,
            stream,
            start: ticket.start,
            connect,
            protocol_used: Some(Protocol::H3),
        }
    }

    fn wants_ticket(&self) -> bool {
        let free = self.in_flight.len() < self.run.job.streams as usize;
        self.state == State::Open && free && !self.exhausted
    }

    fn is_done(&self) -> bool {
        match self.state {
            State::Open => false,
            State::Draining => self.in_flight.is_empty(),
            State::Closed => true,
        }
    }
}
