//! HTTP/1.1 and HTTP/2 over TCP: accepts, does the TLS hand-shake, and hands the connection to
//! [`h2`] or, for HTTP/1.1, to hyper, which no other module knows.
//!
//! Answers hyper gives by itself carry none of our fields: 400 for what is no HTTP/1.1. Heads that are too large or too slow
//! are answered without it ([`rejected_head`]).

mod acceptor;
mod answer;
mod clear_text;
mod delivery;
mod drain;
mod gate;
mod h2;
mod kernel;
mod measured;
mod preface;
mod proxy_protocol;
mod rejected_head;
mod socket;
mod tunnel;
mod turn_budget;
mod turns;
mod write_ahead;

use crate::RequestBody;
use crate::challenges;
use crate::client_auth::{Presented, begin_handshake};
use crate::client_prefix::canonical;
use crate::clients::{AdmittedConnection, Clients, Transport};
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::log::Protocol;
use crate::request::requests::{ConnectionFacts, Now, Requests, Responder};
use crate::selection::HostIndex;
use crate::setup::{ListenerConfig, Setup};
use crate::stop::StopSignal;
pub(crate) use acceptor::{Acceptor, acceptors};
use answer::{answer, finished};
use bytes::Bytes;
use gate::{Gate, Gated};
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use measured::{MeasuredBody, TcpPathSampler};
use proxy_protocol::ConnectionAddresses;
use socket::{Activity, Socket};
use std::cell::{Cell, OnceCell, RefCell};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tunnel::Relay;
use turn_budget::TurnBudget;
use turns::Turns;
use write_ahead::{Buffering, Counting, KERNEL_UNSENT_BYTES, TLS_BUFFER_BYTES, WriteAhead};

/// The most bytes of a request's head that hyper takes; twice what the service answers.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Time that a connection that was asked to end may stay silent before it is dropped.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a connection may stay silent that has to make room for others.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(500);

/// State that every connection of a worker uses.
struct Context {
    setup: Arc<Setup>,
    listener: ListenerConfig,
    tls: Option<TlsAcceptor>,
    http1: http1::Builder,
    http2: Arc<altway_http2::Config>,
    responder: Rc<Responder>,
    buffers: Rc<RefCell<h2::WorkerBuffers>>,
    clients: Clients,
    /// Turns of handshakes and of the ends of connections.
    turns: Rc<Turns>,
    /// Turns of parts of files over HTTP/1.1.
    file_turns: Rc<Turns>,
}

/// The client at the other end.
struct Client {
    address: SocketAddr,
    /// The address of this server that it has come to.
    local: Option<SocketAddr>,
    stream: Rc<TcpStream>,
    admitted: Rc<AdmittedConnection>,
    probe: Rc<TcpPathSampler>,
    /// Name and certificates that it has shown in its handshake, where clients are asked for certificates.
    presented: OnceCell<Rc<Presented>>,
}

/// A connection whose beginning is over, by its protocol.
enum Begun {
    Http1(Socket, Activity),
    Http1OverTls(Box<TlsStream<Socket>>, Activity),
    Http2(Box<h2::Driver>),
}

/// Why a connection ended.
type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Context {
    /// One connection from its beginning to its end. What its client does wrong ends it, and
    /// nothing else.
    async fn serve(
        self: Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: Rc<AdmittedConnection>,
        stop: StopSignal,
    ) {
        // In boxes what comes before the conversation: a task has room for all of its future as long as it lives.
        let arriving = Box::pin(self.arrived(stream, peer, admitted, stop.clone()));
        let Some(known) = arriving.await else {
            return;
        };
        let (client, probe) = (known.address.ip(), Rc::clone(&known.probe));
        if let Err(error) = self.serve_stream(known, stop).await {
            // What is no HTTP/1.1, or too large, hyper answers by itself.
            let refused = error.downcast_ref::<hyper::Error>();
            if let Some(refused) = refused.filter(|error| error.is_parse()) {
                let status = match refused.is_parse_too_large() {
                    true => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    false => StatusCode::BAD_REQUEST,
                };
                let incidents = &self.setup.service.incidents;
                incidents.record(client, Incident::of_refusal(status));
                let counters = &self.responder.counters;
                counters.responded(Protocol::Http1, status, HostIndex::OTHERS, None);
            }
            tracing::debug!(%client, %error, "connection failed");
        }
        tracing::debug!(%client, counters = ?probe.counters(), "connection ended");
    }

    /// The client of a connection that was accepted; `None` ends the connection.
    async fn arrived(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: Rc<AdmittedConnection>,
        stop: StopSignal,
    ) -> Option<Box<Client>> {
        let peer = canonical(peer);
        let client = peer.ip();
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%client, %error, "connection ended before it began");
            return None;
        }
        let is_relayed = self.setup.proxies.iter().any(|it| it.contains(client));
        let local = stream.local_addr().ok().map(canonical);
        let ends = ConnectionAddresses { peer, local };
        let (ConnectionAddresses { peer, local }, admitted) = match is_relayed {
            true => self.proxy_protocol(&stream, ends, admitted, stop).await?,
            false => (ends, admitted),
        };
        let stream = Rc::new(stream);
        let probe = TcpPathSampler::new(peer.ip(), Rc::clone(&stream), is_relayed);
        Some(Box::new(Client {
            address: peer,
            local,
            stream,
            admitted,
            probe: Rc::new(probe),
            presented: OnceCell::new(),
        }))
    }

    /// The ends of the connection that a proxy names, and the client's place in the table of clients; `None` ends the
    /// connection.
    async fn proxy_protocol(
        &self,
        stream: &TcpStream,
        proxy: ConnectionAddresses,
        admitted: Rc<AdmittedConnection>,
        mut stop: StopSignal,
    ) -> Option<(ConnectionAddresses, Rc<AdmittedConnection>)> {
        let limit = self.setup.limits.handshake_timeout;
        let read = tokio::select! {
            biased;
            read = timeout(limit, proxy_protocol::read(stream)) => read,
            () = admitted.evicted() => return None,
            () = stop.requested() => return None,
        };
        match read {
            Ok(Ok(Some(client))) => {
                // It counts as the client's, and no longer as the proxy's.
                drop(admitted);
                let now = Instant::now();
                let admitted = self.clients.admit(client.peer.ip(), Transport::Tcp, now)?;
                Some((client, admitted))
            }
            Ok(Ok(None)) => Some((proxy, admitted)),
            failed => {
                let incidents = &self.setup.service.incidents;
                let proxy = proxy.peer.ip();
                incidents.record(proxy, Incident::ProxyHeader);
                tracing::debug!(%proxy, ?failed, "no PROXY header");
                None
            }
        }
    }

    async fn serve_stream(&self, client: Box<Client>, stop: StopSignal) -> Result<(), Failure> {
        let begun = match &self.tls {
            Some(tls) => Box::pin(self.tls_handshake(tls, &client)).await?,
            None => Box::pin(self.begin_in_clear(&client)).await?,
        };
        match begun {
            None => Ok(()),
            Some(Begun::Http2(mut driver)) => {
                // It has of the client what it needs.
                drop(client);
                // Unconstrained: a driver yields by itself, after so many bytes.
                let driven = Box::pin(driver.run(stop, &self.turns));
                Ok(unconstrained(driven).await?)
            }
            Some(Begun::Http1(socket, activity)) => {
                Box::pin(self.http1(socket, &client, &activity, stop)).await
            }
            Some(Begun::Http1OverTls(session, activity)) => {
                Box::pin(self.http1(*session, &client, &activity, stop)).await
            }
        }
    }

    /// The beginning of a connection in clear text, by which HTTP/2 is known; `None` where there is nothing to converse
    /// about.
    async fn begin_in_clear(&self, client: &Client) -> Result<Option<Begun>, Failure> {
        client.admitted.handshake_done();
        let limit = self.setup.limits.header_timeout;
        let beginning = timeout(limit, preface::read(&client.stream));
        let Some(beginning) = unless_evicted(client, beginning).await else {
            return Ok(None);
        };
        let beginning = beginning??;
        if !self.speaks(beginning.is_http2) {
            return Ok(None);
        }
        if beginning.is_http2 {
            let driver = self.http2(client, None, beginning.bytes);
            return Ok(Some(Begun::Http2(driver)));
        }
        let activity = self.activity();
        let stream = Rc::clone(&client.stream);
        let socket = Socket::new(stream, beginning.bytes, activity.clone());
        Ok(Some(Begun::Http1(socket, activity)))
    }

    /// A handshake of TLS, and what the client has shown in it; `None` where there is nothing to converse about.
    async fn tls_handshake(
        &self,
        tls: &TlsAcceptor,
        client: &Client,
    ) -> Result<Option<Begun>, Failure> {
        let activity = self.activity();
        let socket = Socket::new(Rc::clone(&client.stream), Vec::new(), activity.clone());
        begin_handshake();
        let handshake = async {
            match clear_text::begins(&client.stream).await? {
                true => Ok(None),
                false => tls.accept(socket).await.map(Some),
            }
        };
        let handshake = pin!(timeout(self.setup.limits.handshake_timeout, handshake));
        let handshake = self.turns.steps(handshake);
        let Some(session) = unless_evicted(client, handshake).await else {
            return Ok(None);
        };
        let Some(session) = session?? else {
            return self.refuse_clear_text(client).await;
        };
        let mut session = Box::new(session);
        client.admitted.handshake_done();
        let protocol = session.get_ref().1.alpn_protocol();
        if protocol == Some(challenges::ALPN) {
            // The handshake was all of it (RFC 8737 section 3).
            session.shutdown().await?;
            return Ok(None);
        }
        let is_http2 = protocol == Some(b"h2");
        if self.setup.service.current.get().asked_names.is_some() {
            let presented = Presented::of(session.get_ref().1);
            let _ = client.presented.set(Rc::new(presented));
        }
        if !self.speaks(is_http2) {
            return Ok(None);
        }
        if is_http2 {
            let (_, tls) = session.into_inner();
            let driver = self.http2(client, Some(tls), Vec::new());
            return Ok(Some(Begun::Http2(driver)));
        }
        session.get_mut().1.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        Ok(Some(Begun::Http1OverTls(session, activity)))
    }

    /// The activity of an HTTP/1.1 connection, which begins now.
    fn activity(&self) -> Activity {
        let (_, least) = self.setup.limits.least_progress();
        Activity::new(least)
    }

    /// Returns true if clients are given HTTP/2 (`http2`), or HTTP/1.1.
    fn speaks(&self, http2: bool) -> bool {
        let protocols = self.listener.protocols;
        if http2 {
            protocols.http2
        } else {
            protocols.http1
        }
    }

    fn record(&self, client: &Client, incident: Incident) {
        let incidents = &self.setup.service.incidents;
        incidents.record(client.address.ip(), incident);
    }

    fn http2(
        &self,
        client: &Client,
        tls: Option<rustls::ServerConnection>,
        head: Vec<u8>,
    ) -> Box<h2::Driver> {
        Box::new(h2::Driver::new(h2::Parts {
            buffers: Rc::clone(&self.buffers),
            config: Arc::clone(&self.http2),
            connection: self.facts(client),
            probe: Rc::clone(&client.probe),
            stream: Rc::clone(&client.stream),
            tls,
            head,
        }))
    }

    async fn http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Buffering + Unpin + 'static,
        client: &Client,
        activity: &Activity,
        stop: StopSignal,
    ) -> Result<(), Failure> {
        let unread = Arc::default();
        let requests = Rc::new(RefCell::new(self.requests(client)));
        let served = self.serve_http1(stream, client, activity, &unread, &requests, stop);
        let served = served.await;
        requests.borrow_mut().ended(|| client.probe.counters());
        // Whatever hyper refuses to read on in, a request's body or what is no HTTP, lies there unread.
        match served {
            Ok(()) if !unread.load(Ordering::Relaxed) => Ok(()),
            Ok(()) => Ok(drain::drain(&client.stream).await?),
            Err(failure) => {
                let _ = drain::drain(&client.stream).await;
                Err(failure)
            }
        }
    }

    fn requests(&self, client: &Client) -> Requests<Infallible> {
        let responder = Rc::clone(&self.responder);
        Requests::new(responder, Protocol::Http1, self.facts(client))
    }

    fn facts(&self, client: &Client) -> ConnectionFacts {
        ConnectionFacts {
            peer: client.address,
            local: client.local,
            admitted: Rc::clone(&client.admitted),
            began: client.probe.began,
            listener_policy: self.listener.listener_policy,
            presented: client.presented.get().cloned(),
        }
    }

    async fn serve_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Buffering + Unpin + 'static,
        client: &Client,
        activity: &Activity,
        unread: &Arc<AtomicBool>,
        requests: &Rc<RefCell<Requests<Infallible>>>,
        stop: StopSignal,
    ) -> Result<(), Failure> {
        let turn_budget = &TurnBudget::default();
        kernel::limit_unsent(&client.stream, KERNEL_UNSENT_BYTES);
        let ahead = WriteAhead::new(&client.admitted.held());
        let gate = Gate::new(self.listener.scheme, &client.admitted.held());
        let stream = Gated::new(Counting::new(stream, ahead.clone()), gate.clone());
        // Set once the next response is to be the connection's last.
        let last = &Cell::new(false);
        // Set once the response that opens a tunnel is there, which is the last.
        let opened = &Cell::new(None);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            if let Some(refusal) = gate.next_refusal() {
                request.extensions_mut().insert(refusal);
                last.set(true);
            }
            activity.engaged(true);
            let now = Now::read();
            let read = || client.probe.counters();
            let mut incoming = tunnel::Incoming::of(&mut request);
            let answer = answer(&mut requests.borrow_mut(), request, now, read, |body| {
                let body = RequestBody::http1(body, activity.reading(), Arc::clone(unread));
                incoming.as_mut().map_or(body, tunnel::Incoming::body)
            });
            let requests = Rc::clone(requests);
            let admitted = Rc::clone(&client.admitted);
            let (activity, probe) = (activity.clone(), Rc::clone(&client.probe));
            let (ahead, gate) = (ahead.clone(), gate.clone());
            let turns = Rc::clone(&self.file_turns);
            async move {
                turn_budget.keep().await;
                let queue_interim = |status, fields: &HeaderMap| gate.queue_interim(status, fields);
                let mut response = finished(answer, &requests, queue_interim).await;
                gate.discard_interim();
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    let outgoing = std::mem::replace(response.body_mut(), Body::empty());
                    opened.set(incoming.map(|incoming| (incoming, outgoing)));
                } else if last.get() || unread.load(Ordering::Relaxed) {
                    // With a body that nobody has read the connection can't go on.
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                ahead.begin();
                let measured = |body| {
                    MeasuredBody::new(body, activity, admitted, ahead, turns, probe, requests)
                };
                Ok::<_, Infallible>(response.map(measured))
            }
        });
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
        let driven = self.drive_http1(&mut connection, (turn_budget, last), client, activity, stop);
        let driven = driven.await;
        self.turns.step().await;
        if let Err(failure) = driven {
            let failed = failure.downcast_ref::<hyper::Error>();
            let is_late = failed.is_some_and(hyper::Error::is_timeout);
            // What is being answered ends as it is: nothing may look like a part of it.
            let rejected = gate.rejection(is_late).filter(|_| !activity.is_engaged());
            if let Some(rejected) = rejected {
                let response = requests.borrow_mut().reject_head(rejected, Now::read());
                let stream = connection.into_parts().io.into_inner();
                // In boxes what few connections come to: each would have room for it all its life.
                let _ = Box::pin(rejected_head::send(stream, response)).await;
            }
            return Err(failure);
        }
        let Some(tunnel) = opened.take() else {
            return Ok(());
        };
        // hyper ends when it has written everything, the response included.
        let parts = connection.into_parts();
        let stream = parts.io.into_inner().into_inner();
        let tunnel = self.tunnel(stream, parts.read_buf, tunnel, client, activity, requests);
        Box::pin(tunnel).await
    }

    /// Runs an HTTP/1.1 connection to its end, or to that of its last request.
    async fn drive_http1<I, S>(
        &self,
        connection: &mut http1::Connection<I, S>,
        (turn_budget, last): (&TurnBudget, &Cell<bool>),
        client: &Client,
        activity: &Activity,
        mut stop: StopSignal,
    ) -> Result<(), Failure>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
        S: HttpService<Incoming, ResBody = MeasuredBody> + Unpin,
        S::Error: Into<Failure>,
    {
        let mut connection = Pin::new(connection);
        let mut evicted = false;
        let limits = &self.setup.limits;
        let (idle, (stalled, _)) = (limits.idle_timeout, limits.least_progress());
        tokio::select! {
            biased; // What was asked before the stop is answered.
            end = turn_budget.turns(connection.as_mut()) => return Ok(end?),
            () = activity.until_idle(idle, stalled) => {
                if activity.is_engaged() {
                    self.record(client, Incident::SlowClient);
                    // The kernel would keep for minutes what the client doesn't read.
                    kernel::abort_on_close(&client.stream);
                    return Ok(());
                }
            }
            () = client.admitted.evicted() => evicted = true,
            () = stop.requested() => {}
        }
        if stop.is_handed_over() && !evicted {
            // Closed now, it would lose the request that may be on its way to us.
            last.set(true);
            tokio::select! {
                end = turn_budget.turns(connection.as_mut()) => return Ok(end?),
                () = activity.until_idle(DRAIN_IDLE_TIMEOUT, stalled) => {}
            }
        }
        connection.as_mut().graceful_shutdown();
        let linger = if evicted {
            EVICTION_TIMEOUT
        } else {
            DRAIN_IDLE_TIMEOUT
        };
        tokio::select! {
            end = turn_budget.turns(connection) => Ok(end?),
            () = activity.silence(linger) => Ok(()),
        }
    }

    /// Carries the bytes of a tunnel to its end. At a stop it has the server's grace, as running requests have.
    async fn tunnel(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        read: Bytes,
        (incoming, outgoing): (tunnel::Incoming, Body),
        client: &Client,
        activity: &Activity,
        requests: &RefCell<Requests<Infallible>>,
    ) -> Result<(), Failure> {
        activity.engaged(true);
        client.admitted.set_requests(1);
        let sent = |bytes: usize| {
            let now = Instant::now();
            let counters = || client.probe.counters();
            requests.borrow_mut().sent(bytes as u64, now, counters);
        };
        let held = client.admitted.held().holder();
        let relay = Relay::new(stream, read, incoming, outgoing, activity.clone(), held);
        let end = tokio::select! {
            biased;
            end = relay.run(sent) => end,
            () = activity.silence(self.setup.limits.idle_timeout) => {
                self.record(client, Incident::SlowClient);
                kernel::abort_on_close(&client.stream);
                Ok(())
            }
            () = tunnel::vanished(&client.stream) => {
                kernel::abort_on_close(&client.stream);
                Ok(())
            }
            () = client.admitted.evicted() => Ok(()),
        };
        client.admitted.set_requests(0);
        end
    }
}

/// Awaits `beginning`; gives `None` when the connection has to make room for others meanwhile.
async fn unless_evicted<T>(client: &Client, beginning: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = beginning => Some(done),
        () = client.admitted.evicted() => None,
    }
}

fn http1(setup: &Setup) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(setup.limits.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    http
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of the future of a connection, which its task has room for as long as it lives.
    const MOST_BYTES: usize = 512;

    fn size_of_future<A, B, C, D, E, F>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_task_of_a_connection_is_small() {
        let bytes = size_of_future(Context::serve);
        assert!(bytes <= MOST_BYTES, "{bytes}");
    }
}
