//! HTTP/1.1 and HTTP/2 over TCP: accepts, does the TLS hand-shake, and leaves HTTP to hyper.
//!
//! The one module that knows hyper, until the project's own HTTP/2 engine takes its place.
//!
//! Answers hyper gives by itself carry none of our fields: 400 for what is no HTTP/1.1, 431 for a
//! head over [`MAX_HEAD_BYTES`].

mod measured;
mod socket;

use crate::stop::StopSignal;
use crate::worker::Setup;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use measured::{Measured, Probe};
use socket::{Activity, Socket};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The most bytes of a request's head that hyper takes; twice what the service answers.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Accept fails when the process is out of descriptors; trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a connection that was asked to end may stay silent before it is dropped.
const LINGER: Duration = Duration::from_secs(5);

/// Accepts connections and serves each in a task of its own.
pub(crate) struct Acceptor {
    listener: TcpListener,
    context: Rc<Context>,
}

/// What every connection of a worker uses.
struct Context {
    setup: Arc<Setup>,
    tls: Option<TlsAcceptor>,
    http: auto::Builder<LocalExecutor>,
}

impl Acceptor {
    /// # Errors
    /// The event loop doesn't take the socket.
    pub(crate) fn new(setup: &Arc<Setup>, listener: std::net::TcpListener) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
            context: Rc::new(Context {
                setup: Arc::clone(setup),
                tls: setup.tls.clone().map(TlsAcceptor::from),
                http: http(setup),
            }),
        })
    }

    /// Serves until the stop; then accepts nothing more, and waits for the connections that are
    /// there as long as the grace allows.
    pub(crate) async fn run(self, mut stop: StopSignal) {
        let mut connections = JoinSet::new();
        let signal = stop.clone();
        let accepting = accept_all(&self.listener, &self.context, &mut connections, &signal);
        tokio::select! {
            () = accepting => {}
            () = stop.requested() => {}
        }
        drop(self.listener);
        let grace = self.context.setup.grace;
        let ends = async { while connections.join_next().await.is_some() {} };
        if timeout(grace, ends).await.is_err() {
            tracing::warn!("the grace is over: connections are cut off");
        }
    }
}

async fn accept_all(
    listener: &TcpListener,
    context: &Rc<Context>,
    connections: &mut JoinSet<()>,
    stop: &StopSignal,
) {
    loop {
        while connections.len() >= context.setup.limits.max_connections {
            connections.join_next().await;
        }
        // Ended ones leave, so that the set holds the open ones.
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let connection = Rc::clone(context).serve(stream, peer, stop.clone());
                connections.spawn_local(connection);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether only the connection that was about to be accepted is concerned.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

impl Context {
    /// One connection from its beginning to its end. What its client does wrong ends it, and
    /// nothing else.
    async fn serve(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, stop: StopSignal) {
        let client = peer.ip().to_canonical();
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%client, %error, "connection ended before it began");
            return;
        }
        let activity = Activity::default();
        let stream = Rc::new(stream);
        let probe = Rc::new(Probe::new(client, Rc::clone(&stream)));
        let socket = Socket::new(stream, activity.clone());
        if let Err(error) = self.converse(socket, client, &probe, &activity, stop).await {
            tracing::debug!(%client, %error, "connection failed");
        }
        probe.observe(&self.setup.service.paths);
    }

    async fn converse(
        &self,
        socket: Socket,
        client: IpAddr,
        probe: &Rc<Probe>,
        activity: &Activity,
        stop: StopSignal,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let Some(tls) = &self.tls else {
            return self
                .http(socket, self.http.clone(), client, probe, activity, stop)
                .await;
        };
        let handshake = timeout(self.setup.limits.handshake_timeout, tls.accept(socket));
        let stream = handshake.await??;
        let http = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.http.clone().http2_only(),
            _ => self.http.clone().http1_only(),
        };
        self.http(stream, http, client, probe, activity, stop).await
    }

    async fn http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        http: auto::Builder<LocalExecutor>,
        client: IpAddr,
        probe: &Rc<Probe>,
        activity: &Activity,
        mut stop: StopSignal,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let response = self.setup.service.respond(client, &request);
            let measured =
                response.map(|body| Measured::new(body, Rc::clone(probe), Arc::clone(&self.setup)));
            std::future::ready(Ok::<_, Infallible>(measured))
        });
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            end = connection.as_mut() => return end,
            () = activity.silence(self.setup.limits.idle_timeout) => {}
            () = stop.requested() => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            end = connection => end,
            () = activity.silence(LINGER) => Ok(()),
        }
    }
}

/// HTTP/2's floods (resets, empty frames, CONTINUATION) are bounded by hyper's defaults.
fn http(setup: &Setup) -> auto::Builder<LocalExecutor> {
    let limits = &setup.limits;
    let mut http = auto::Builder::new(LocalExecutor);
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_concurrent_requests)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).expect("a small constant"));
    http
}

/// Runs hyper's tasks on the worker's own thread.
#[derive(Debug, Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}
