//! HTTP/3: a connection over QUIC, driven by altway's own engine.

use crate::error::Failure;
use crate::exchanges::Exchanges;
use crate::returning::TCP_DELAY;
use crate::run::{Due, Run, content_length};
use crate::send_permits::SendPermit;
use crate::slot::Opening;
use crate::tcp;
use crate::udp::Driver;
use altway_http3::{ClientConfig, Error as Http3Error, Event, Received, Sessions, StreamId};
use altway_record::Protocol;
use http::{HeaderValue, Response, StatusCode, header};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::yield_now;

/// Time that a connection stays for a session ticket. Servers send one after the handshake, thus about a
/// round trip after an answer to early data.
const TICKET_WAIT: Duration = Duration::from_secs(1);

/// The largest UDP payload that connections take which end after a request each: what a network carries. On
/// the same machine servers may have larger packets to send (64 KB); to find out whether they arrive
/// would cost more than such a connection.
const SHORT_LIVED_PAYLOAD: u16 = 1452;

/// Opens a connection for the request of `opening` and keeps its streams busy until it closes or
/// the permits run out.
///
/// # Errors
/// The connection could not be opened; nothing has been recorded.
pub(crate) async fn serve(run: &Run<'_>, opening: Opening) -> Result<(), Failure> {
    let job = run.job;
    let deadline = opening.begun + job.timeout;
    let opened = match opening.permit.route {
        Some(_) => race(run, &opening, deadline).await?,
        None => open_until(run, deadline).await?,
    };
    let connect = opening.begun.elapsed();
    let mut connection = Connection {
        run,
        driver: opened.driver,
        exchanges: Exchanges::new(run, opening.connection),
        early: None,
    };
    let stream = connection.send(Due {
        permit: opening.permit,
        connect: Some(connect),
        deadline,
    });
    connection.early = stream.filter(|_| opened.early);
    if job.new_connections {
        connection.exchanges.drain();
    }
    connection.work().await;
    if let Some(sessions) = &job.sessions {
        connection.wait_for_ticket(sessions).await;
    }
    Ok(())
}

/// A connection that requests can be sent on.
struct OpenConnection {
    driver: Driver,
    /// The handshake goes on.
    early: bool,
}

/// The connection over QUIC, unless one over TCP is there first: then that one is kept for the request.
async fn race(
    run: &Run<'_>,
    opening: &Opening,
    deadline: Instant,
) -> Result<OpenConnection, Failure> {
    tokio::select! {
        biased;
        quic = open_until(run, deadline) => {
            quic.inspect(|_| run.send_permits.on_quic())
        }
        Ok(()) = tcp::open_after(run, opening, TCP_DELAY) => {
            Err(Failure::TimedOut(opening.begun.elapsed()))
        }
    }
}

async fn open_until(run: &Run<'_>, deadline: Instant) -> Result<OpenConnection, Failure> {
    let opened = tokio::time::timeout_at(deadline.into(), open(run)).await;
    opened.map_err(|_| Failure::TimedOut(run.job.timeout))?
}

/// The first of the addresses that completes a handshake; or that did before, where a request can
/// leave with the first packets.
async fn open(run: &Run<'_>) -> Result<OpenConnection, Failure> {
    let job = run.job;
    let (last, others) = job.addresses.split_last().expect("a job has an address");
    if let Some(reached) = run.reached().filter(|_| job.sessions.is_some()) {
        return handshake(run, reached).await;
    }
    for address in others {
        if let Ok(opened) = handshake(run, *address).await {
            return Ok(opened);
        }
    }
    handshake(run, *last).await
}

async fn handshake(run: &Run<'_>, remote: SocketAddr) -> Result<OpenConnection, Failure> {
    let job = run.job;
    let tls = job.tls.clone().expect("options refuse HTTP/3 without TLS");
    let seed = seed(&tls)?;
    let mut config = ClientConfig::new(tls);
    config.quic.version = job.quic_version;
    config.early_data = job.sessions.clone();
    config.quic.qlog = job.qlog.clone();
    config.limits.max_concurrent_requests = job.streams;
    // A server that thinks for long must run into the request's time-out, not into this one.
    config.quic.transport.idle_timeout = config.quic.transport.idle_timeout.max(job.timeout);
    // It sends requests and acknowledgements: larger packets than the smallest would carry nothing,
    // and the probes for them would take their share of the path.
    config.quic.transport.mtu_upper_bound = 1200;
    // Each connection has a socket of its own, by which it is known, as a browser's has.
    config.quic.empty_connection_ids = true;
    if job.one_each {
        config.quic.transport.max_udp_payload = SHORT_LIVED_PAYLOAD;
    }
    let mut driver = Driver::connect(config, seed, remote, &job.host)?;
    let mut connected = false;
    loop {
        match driver.poll_event() {
            Some(Event::EarlyData) => {
                return Ok(OpenConnection {
                    driver,
                    early: true,
                });
            }
            Some(Event::Connected) => connected = true,
            // A server may refuse a connection by closing it as soon as it has begun.
            Some(Event::Closed { reason }) => return Err(Failure::Handshake(reason)),
            Some(_) => {}
            None if connected => break,
            None => driver.turn(None).await.map_err(Failure::Connect)?,
        }
    }
    run.on_connected();
    run.on_reached(remote);
    Ok(OpenConnection {
        driver,
        early: false,
    })
}

/// Connection IDs come from it, so it must not be guessed.
fn seed(tls: &rustls::ClientConfig) -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    let filled = tls.crypto_provider().secure_random.fill(&mut seed);
    filled.map_err(|error| Failure::Tls(io::Error::other(rustls::Error::from(error))))?;
    Ok(seed)
}

struct Connection<'r, 'a> {
    run: &'r Run<'a>,
    driver: Driver,
    exchanges: Exchanges<'r, 'a, StreamId>,
    /// The stream of the request that left with the first packets, unless the server has taken nothing of
    /// them but the handshake.
    early: Option<StreamId>,
}

impl Connection<'_, '_> {
    /// The driver's loop: events, permits, datagrams; until there is nothing left to do.
    async fn work(&mut self) {
        loop {
            while let Some(event) = self.driver.poll_event() {
                self.on_event(event);
            }
            self.expire(Instant::now());
            if self.exchanges.is_done() {
                return;
            }
            let until = self.exchanges.deadline();
            let unsendable = self.exchanges.take_unsendable();
            let wants_permit = !unsendable && self.exchanges.wants_permit();
            tokio::select! {
                biased;
                // Permits first: what is due now leaves in one batch of datagrams.
                permit = self.run.send_permits.next(Protocol::H3), if wants_permit => self.on_permit(permit),
                turn = self.driver.turn(until) => if let Err(error) = turn {
                    self.exchanges.fail_all(|| Failure::Connection(error.to_string()));
                },
                () = yield_now(), if unsendable => {}
            }
        }
    }

    /// Stays until there is a session ticket for the next connection, but not for long.
    async fn wait_for_ticket(&mut self, sessions: &Sessions) {
        let give_up = Instant::now() + TICKET_WAIT;
        while !sessions.has_ticket(&self.run.job.host) && Instant::now() < give_up {
            while let Some(event) = self.driver.poll_event() {
                let over = matches!(event, Event::Closed { .. });
                self.on_event(event);
                if over {
                    return;
                }
            }
            if self.driver.turn(Some(give_up)).await.is_err() {
                return;
            }
        }
    }

    fn on_permit(&mut self, permit: Option<SendPermit>) {
        match permit {
            Some(permit) => {
                self.send(Due::now(permit, self.run.job));
            }
            None => self.exchanges.drain(),
        }
    }

    /// The stream, if it could be sent.
    fn send(&mut self, due: Due) -> Option<StreamId> {
        match self.driver.request(self.run.job.head(due.permit)) {
            Ok(stream) => {
                self.exchanges.on_sent(stream, due);
                return Some(stream);
            }
            Err(Http3Error::StreamsExhausted) if due.connect.is_none() => {
                self.exchanges.on_exhausted();
                self.run.send_permits.give_back(due.permit);
            }
            // The server went while the permit was awaited: the next connection takes it.
            Err(Http3Error::GoingAway | Http3Error::UnknownConnection) if due.connect.is_none() => {
                self.exchanges.drain();
                self.run.send_permits.give_back(due.permit);
            }
            Err(error) => self.exchanges.on_unsendable(&due, Failure::Http3(error)),
        }
        None
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Response { stream, head, end } => self.on_head(stream, &head, end),
            Event::Readable { stream } => self.on_readable(stream),
            Event::StreamReset { stream, code } => {
                let failure = Failure::Reset(code.to_string());
                self.exchanges.end(stream, Instant::now(), Err(failure));
            }
            Event::EarlyDataRefused => self.early = None,
            // Only where a request is on its way already.
            Event::Connected => {
                self.run.on_connected();
                self.run.on_early_data(self.early.is_some());
            }
            Event::StreamsAvailable => self.exchanges.on_stream_free(),
            Event::GoAway => self.exchanges.drain(),
            Event::Closed { reason } => {
                self.exchanges
                    .fail_all(|| Failure::Connection(reason.to_string()));
            }
            _ => {}
        }
    }

    fn on_head(&mut self, stream: StreamId, head: &Response<()>, end: bool) {
        if head.status() == StatusCode::TOO_EARLY && self.early == Some(stream) {
            return self.send_again(stream);
        }
        let (now, length) = (Instant::now(), content_length(head.headers()));
        let alt_svc = head.headers().get(header::ALT_SVC);
        let alt_svc = alt_svc.map(HeaderValue::as_bytes);
        self.exchanges.on_alt_svc_field(stream, alt_svc, now);
        self.exchanges
            .on_head(stream, now, head.status().as_u16(), length);
        if end {
            self.exchanges.complete(stream, now);
        }
    }

    /// Asks once more, in the same exchange, for what the server would not answer in early data (RFC 8470
    /// section 5.2). Whoever has its answer has done the handshake.
    fn send_again(&mut self, early: StreamId) {
        self.early = None;
        let Some(permit) = self.exchanges.permit(early) else {
            return;
        };
        // There may be one stream at a time.
        self.driver.cancel(early);
        match self.driver.request(self.run.job.head(permit)) {
            Ok(stream) => {
                self.exchanges.go_on_as(early, stream);
                self.run.on_too_early();
            }
            Err(error) => {
                let failure = Err(Failure::Http3(error));
                self.exchanges.end(early, Instant::now(), failure);
            }
        }
    }

    fn on_readable(&mut self, stream: StreamId) {
        loop {
            match self.driver.read(stream) {
                Ok(Received::Data(data)) => self.exchanges.on_data(stream, data.len()),
                Ok(Received::Trailers(_)) => {}
                Ok(Received::Pending) => return,
                Ok(Received::End) => return self.exchanges.complete(stream, Instant::now()),
                Err(error) => {
                    let failure = Err(Failure::Http3(error));
                    return self.exchanges.end(stream, Instant::now(), failure);
                }
            }
        }
    }

    /// Resets the requests whose time is over.
    fn expire(&mut self, now: Instant) {
        while let Some(stream) = self.exchanges.expire(now) {
            self.driver.cancel(stream);
        }
    }
}
