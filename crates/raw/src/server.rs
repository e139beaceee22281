//! `altway raw serve`: answers all three transports on one port number.
//!
//! Over TCP each connection has a thread of its own, so that its processor time can be told; its
//! first byte says whether it is TLS. All of QUIC runs on one thread.

use crate::costs::Meter;
use crate::error::{Error, Trouble};
use crate::options::ServerOptions;
use crate::payload::Payload;
use crate::quic;
use crate::session::Session;
use crate::sys::{self, StopHandle, Watch, Woken};
use crate::talk::{Duty, Responder};
use crate::tcp::{Plain, Pump, Stream, path};
use crate::tls::{self, Tls};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// TCP connections at a time, each with its thread; more are closed at once.
const MAX_CONNECTIONS: usize = 64;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// How often a port number is looked for that is free for TCP and UDP.
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

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What ends [`Server::run`].
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
        let quic = quic::server::Server::new(
            self.udp,
            Arc::clone(&self.tls),
            &self.options,
            payload.clone(),
            self.stop.clone(),
        )?;
        let quic = spawn("raw-quic", move || quic.run())?;
        let acceptor = Acceptor {
            options: self.options,
            tls: self.tls,
            payload,
            stop: self.stop.clone(),
        };
        let accepted = acceptor.run(&self.tcp);
        self.stop.stop();
        let served = quic.join().unwrap_or(Ok(()));
        accepted.and(served.map_err(|source| Error::Setup {
            what: "a wait for datagrams",
            source,
        }))
    }
}

/// What accepts TCP connections, and what each of them needs.
#[derive(Debug, Clone)]
struct Acceptor {
    options: ServerOptions,
    tls: Arc<rustls::ServerConfig>,
    payload: Payload,
    stop: StopHandle,
}

impl Acceptor {
    fn run(&self, listener: &TcpListener) -> Result<(), Error> {
        let setup = |source| Error::Setup {
            what: "a wait for connections",
            source,
        };
        let mut connections: Vec<JoinHandle<()>> = Vec::new();
        let watch = Watch {
            socket: listener.as_fd(),
            write: false,
            stop: Some(&self.stop),
            limit: None,
        };
        while sys::wait(watch, &mut crate::Calls::default()).map_err(setup)? != Woken::Stopped {
            connections.retain(|connection| !connection.is_finished());
            match listener.accept() {
                Ok(_) if connections.len() == MAX_CONNECTIONS => {
                    tracing::warn!("{MAX_CONNECTIONS} connections are open: one more is closed");
                }
                Ok((socket, _)) => {
                    let answering = self.clone();
                    let answer = move || answering.answer(socket);
                    connections.push(spawn("raw-tcp", answer)?);
                }
                Err(error) => tracing::debug!(%error, "cannot accept a connection"),
            }
        }
        for connection in connections {
            // A thread that panicked has said so.
            let _ = connection.join();
        }
        Ok(())
    }

    fn answer(&self, socket: TcpStream) {
        match self.try_to_answer(socket) {
            Ok(()) | Err(Trouble::Stopped) => {}
            Err(trouble) => tracing::debug!(%trouble, "a TCP connection has ended"),
        }
    }

    fn try_to_answer(&self, socket: TcpStream) -> Result<(), Trouble> {
        socket.set_nonblocking(true)?;
        // A request is one small write: waiting for more to send with it would only delay it.
        socket.set_nodelay(true)?;
        let Some(first) = self.first_byte(&socket)? else {
            return Ok(());
        };
        if first == tls::FIRST_BYTE {
            return self.converse(Tls::server(&self.tls, socket)?);
        }
        self.converse(Plain::new(socket))
    }

    /// `None`: the client went without a word.
    fn first_byte(&self, socket: &TcpStream) -> Result<Option<u8>, Trouble> {
        let watch = Watch {
            socket: socket.as_fd(),
            write: false,
            stop: Some(&self.stop),
            limit: Some(self.options.patience),
        };
        loop {
            match sys::wait(watch, &mut crate::Calls::default())? {
                Woken::Late => return Err(Trouble::Silent),
                Woken::Stopped => return Err(Trouble::Stopped),
                Woken::Readable | Woken::Otherwise => {}
            }
            let mut first = [0];
            match socket.peek(&mut first) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                peeked => return Ok((peeked? > 0).then_some(first[0])),
            }
        }
    }

    fn converse(&self, stream: impl Stream) -> Result<(), Trouble> {
        let mut pump = Pump::new(stream, self.options.patience, Some(self.stop.clone()));
        let mut responder = Responder::new(&self.payload);
        let mut meter = Meter::begin(pump.calls());
        loop {
            match pump.turn(&mut responder, |_| false) {
                Err(Trouble::Closed) if responder.is_idle() => return Ok(()),
                turned => turned?,
            };
            match responder.take_duty() {
                Some(Duty::Begin) => meter = Meter::begin(pump.calls()),
                Some(Duty::Report) => {
                    let path = path(pump.socket());
                    let costs = meter.costs(pump.calls(), responder.moved(), path);
                    responder.report(&costs.to_text());
                }
                None => {}
            }
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Error> {
    let thread = Builder::new().name(name.into()).spawn(run);
    thread.map_err(|source| Error::Setup {
        what: "a thread",
        source,
    })
}

const TCP: &str = "TCP";
const UDP: &str = "UDP";

/// On the address that is wanted, or on all that this system has.
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

/// Both on one port number; where any will do, one that is free for both.
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
