//! HTTP/1.1 and HTTP/2 over TCP: accepts, does the TLS hand-shake, and hands the connection to
//! [`h2`] or [`http1`].

mod acceptor;
mod answer;
mod clear_text;
mod delivery;
mod drain;
mod gate;
mod h2;
mod http1;
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

use crate::challenges;
use crate::client_auth::{Presented, begin_handshake};
use crate::client_prefix::canonical;
use crate::clients::{AdmittedConnection, Clients, Transport};
use crate::incidents::Incident;
use crate::request::requests::{ConnectionFacts, Responder};
use crate::setup::{ListenerConfig, Setup};
use crate::stop::StopSignal;
pub(crate) use acceptor::{Acceptor, acceptors};
use measured::TcpPathSampler;
use proxy_protocol::ConnectionAddresses;
use socket::{Activity, Socket};
use std::cell::{OnceCell, RefCell};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::unconstrained;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use turns::Turns;
use write_ahead::TLS_BUFFER_BYTES;

/// State that every connection of a worker uses.
struct Context {
    setup: Arc<Setup>,
    listener: ListenerConfig,
    tls: Option<TlsAcceptor>,
    http1: hyper::server::conn::http1::Builder,
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
                // It stays in its box: a future has room for what it is given and, once more, for where that goes.
                Box::pin(self.http1(session, &client, &activity, stop)).await
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
}

/// Awaits `beginning`; gives `None` when the connection has to make room for others meanwhile.
async fn unless_evicted<T>(client: &Client, beginning: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = beginning => Some(done),
        () = client.admitted.evicted() => None,
    }
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
