//! `altway raw serve`: answers all three transports on one port number.
//!
//! Over TCP a connection has a thread to itself, so that its processor time can be told; its first
//! byte says whether it is TLS. All of QUIC runs on one thread.

use crate::costs::{Calls, Meter};
use crate::error::{ConnectionFailure, Error};
use crate::options::{ServerOptions, Tuning};
use crate::payload::Payload;
use crate::protocol::{Responder, ServerAction};
use crate::quic;
use crate::session::Session as _;
use crate::sys::{self, StopHandle, WaitOutcome, WaitSet};
use crate::tcp::{Plain, Pump, Stream, path, set_congestion};
use crate::tls::{self, Tls};
use crate::zero_copy::ZeroCopyTcp;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Time that nothing is accepted after that has failed, for want of descriptors for instance.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// Number of times that a port number is looked for that is free for TCP and UDP.
const PORT_ATTEMPTS: usize = 32;

/// A server that listens and doesn't answer yet.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    udp: UdpSocket,
    address: SocketAddr,
    options: ServerOptions,
    tls: Arc<rustls::ServerConfig>,
    stop: StopHandle,
}

impl Server {
    /// Binds TCP and UDP to one port number, and reads the certificate.
    ///
    /// # Errors
    /// A PEM file can't be used, or the port can't be had.
    pub fn bind(options: &ServerOptions) -> Result<Self, Error> {
        let tls = tls::server_config(&options.certificate, &options.key)?;
        Self::bind_with(options, tls)
    }

    /// The same with TLS settings of the caller's.
    pub(crate) fn bind_with(
        options: &ServerOptions,
        tls: rustls::ServerConfig,
    ) -> Result<Self, Error> {
        let (tcp, udp, address) = listen(options)?;
        // Accepted connections inherit it.
        set_congestion(&SockRef::from(&tcp), options.tuning.congestion)?;
        let stop = StopHandle::new().map_err(|source| Error::Setup {
            what: "a stop signal",
            source,
        })?;
        Ok(Self {
            tcp,
            udp,
            address,
            options: options.clone(),
            tls: Arc::new(tls),
            stop,
        })
    }

    /// The port at which it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the handle that ends [`Server::run`].
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves until it is told to stop; connections that there are then are cut off.
    ///
    /// # Errors
    /// The machine gives no thread, or no memory.
    pub fn run(self) -> Result<(), Error> {
        let payload = Payload::new();
        let stop = self.stop.clone();
        let acceptor = Acceptor {
            listener: self.tcp,
            silence_timeout: self.options.silence_timeout,
            tuning: self.options.tuning,
            tls: Arc::clone(&self.tls),
            payload: payload.clone(),
            stop: stop.clone(),
        };
        let quic =
            quic::server::Server::new(self.udp, self.tls, &self.options, payload, self.stop)?;
        thread::scope(|scope| {
            let spawn = |_| {
                let builder = thread::Builder::new().name("raw-tcp".into());
                builder.spawn_scoped(scope, || acceptor.run())
            };
            let spawned = (0..self.options.tcp_threads.get())
                .map(spawn)
                .try_for_each(|thread| {
                    thread.map(drop).map_err(|source| Error::Setup {
                        what: "a thread",
                        source,
                    })
                });
            let served = spawned.and_then(|()| {
                quic.run().map_err(|source| Error::Setup {
                    what: "a wait for datagrams",
                    source,
                })
            });
            // Whatever has ended it: the threads are waited for.
            stop.stop();
            served
        })
    }
}

/// The listener of TCP connections, and what each of them needs.
#[derive(Debug)]
struct Acceptor {
    listener: TcpListener,
    silence_timeout: Duration,
    tuning: Tuning,
    tls: Arc<rustls::ServerConfig>,
    payload: Payload,
    stop: StopHandle,
}

impl Acceptor {
    /// Serves one connection after the other, until the stop.
    fn run(&self) {
        tls::warm_up(self.tls.crypto_provider());
        loop {
            match self.accept().and_then(|socket| self.answer(socket)) {
                Err(ConnectionFailure::Stopped) => return,
                Ok(()) => {}
                Err(failure) => tracing::debug!(%failure, "a TCP connection has ended"),
            }
        }
    }

    fn accept(&self) -> Result<TcpStream, ConnectionFailure> {
        loop {
            let watch = self.watch(self.listener.as_fd(), None);
            if sys::wait(watch, &mut Calls::default())? == WaitOutcome::Stopped {
                return Err(ConnectionFailure::Stopped);
            }
            match self.listener.accept() {
                Ok((socket, _)) => return Ok(socket),
                // Another thread was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    thread::sleep(AFTER_FAILURE);
                }
            }
        }
    }

    fn watch<'a>(&'a self, socket: BorrowedFd<'a>, limit: Option<Duration>) -> WaitSet<'a> {
        WaitSet {
            socket,
            write: false,
            stop: Some(&self.stop),
            limit,
        }
    }

    fn answer(&self, socket: TcpStream) -> Result<(), ConnectionFailure> {
        socket.set_nonblocking(true)?;
        // A request is one small write: waiting for more to send with it would only delay it.
        socket.set_nodelay(true)?;
        let Some(first) = self.first_byte(&socket)? else {
            return Ok(());
        };
        if first == tls::FIRST_BYTE {
            return self.serve_connection(Tls::server(&self.tls, socket)?);
        }
        match self.tuning.copies {
            true => self.serve_connection(Plain::new(socket)),
            false => self.serve_connection(ZeroCopyTcp::new(socket, &self.payload)?),
        }
    }

    /// `None`: the client went without a word.
    fn first_byte(&self, socket: &TcpStream) -> Result<Option<u8>, ConnectionFailure> {
        let watch = self.watch(socket.as_fd(), Some(self.silence_timeout));
        loop {
            match sys::wait(watch, &mut Calls::default())? {
                WaitOutcome::Late => return Err(ConnectionFailure::Silent),
                WaitOutcome::Stopped => return Err(ConnectionFailure::Stopped),
                WaitOutcome::Readable | WaitOutcome::Otherwise => {}
            }
            let mut first = [0];
            match socket.peek(&mut first) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                peeked => return Ok((peeked? > 0).then_some(first[0])),
            }
        }
    }

    fn serve_connection(&self, stream: impl Stream) -> Result<(), ConnectionFailure> {
        let mut pump = Pump::new(stream, self.silence_timeout, Some(self.stop.clone()));
        let mut responder = Responder::new(&self.payload);
        let mut meter = Meter::begin(pump.calls());
        loop {
            match pump.turn(&mut responder, |_| false) {
                Err(ConnectionFailure::Closed) if responder.is_idle() => return Ok(()),
                turned => turned?,
            };
            match responder.take_action() {
                Some(ServerAction::Begin) => meter = Meter::begin(pump.calls()),
                Some(ServerAction::Report) => {
                    let path = path(pump.socket());
                    let costs = meter.costs(pump.calls(), responder.moved(), path);
                    responder.report(&costs.to_text());
                }
                None => {}
            }
        }
    }
}

const TCP: &str = "TCP";
const UDP: &str = "UDP";

/// Listens on the address that is wanted, or on all that this system has.
fn listen(options: &ServerOptions) -> Result<(TcpListener, UdpSocket, SocketAddr), Error> {
    let all = Ipv6Addr::UNSPECIFIED.into();
    let wanted = |ip| SocketAddr::new(ip, options.port);
    match bind(wanted(options.ip.unwrap_or(all))) {
        // IPv6 is off.
        Err(Error::Listen { .. }) if options.ip.is_none() => {
            bind(wanted(Ipv4Addr::UNSPECIFIED.into()))
        }
        bound => bound,
    }
}

/// Binds both to one port number; where any will do, to one that is free for both.
fn bind(wanted: SocketAddr) -> Result<(TcpListener, UdpSocket, SocketAddr), Error> {
    let mut attempts = if wanted.port() == 0 { PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let tcp = socket(wanted, Type::STREAM).map_err(listen_error(wanted, TCP))?;
        let address = tcp.local_addr().map_err(listen_error(wanted, TCP))?;
        let address = address.as_socket().unwrap_or(wanted);
        match socket(address, Type::DGRAM).map_err(listen_error(address, UDP)) {
            Err(Error::PortInUse { .. }) if attempts > 0 => {}
            udp => return Ok((tcp.into(), udp?.into(), address)),
        }
    }
}

fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        // `::` takes IPv4 too, whatever the system's default.
        socket.set_only_v6(false)?;
    }
    if kind == Type::STREAM {
        // Old connections in TIME_WAIT don't hinder a restart.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    if kind == Type::STREAM {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

fn listen_error(address: SocketAddr, transport: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| match source.kind() {
        ErrorKind::AddrInUse => Error::PortInUse { address, transport },
        _ => Error::Listen {
            address,
            transport,
            source,
        },
    }
}
