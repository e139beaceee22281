//! Binds the sockets of all workers to one port number.
//!
//! Each worker has its own UDP socket and, unless one listener serves all, its own TCP listener on
//! the same port (SO_REUSEPORT); the kernel spreads connections over them by a hash of both ends'
//! addresses. With that option alone a second server of the same user would silently take a share of
//! the first one's clients, so the port is claimed without it first.

mod fit;
mod passed;
mod share;

pub(crate) use fit::fit;
use passed::Passed;
pub use passed::PassedSocket;
pub(crate) use share::{Listeners, Sockets, WorkerUdp};

use crate::options::{Bind, Congestion, Spread};
use crate::{Error, sys};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Connections that wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Attempts to find a free port number.
const PORT_ATTEMPTS: usize = 32;

/// A request for sockets to bind.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) bind: Bind,
    pub(crate) port: u16,
    pub(crate) workers: usize,
    pub(crate) spread: Spread,
    pub(crate) with_udp: bool,
    pub(crate) congestion: Option<Congestion>,
    /// Sockets that are bound already: an address of theirs is not bound again.
    pub(crate) passed: Vec<PassedSocket>,
    /// Further addresses.
    pub(crate) further: Vec<ListenerRequest>,
}

/// A further address to bind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerRequest {
    pub(crate) bind: Bind,
    pub(crate) port: u16,
    pub(crate) with_udp: bool,
}

impl Request {
    /// The number of TCP listeners at each address.
    pub(crate) fn listeners(&self) -> usize {
        match self.spread {
            Spread::PerWorker => self.workers,
            Spread::RoundRobin => 1,
        }
    }
}

/// The sockets of a server, as they are bound and as they pass from one process to the next: those at its main address,
/// then those at further ones, in the order of the request.
#[derive(Debug)]
pub(crate) struct Bound(pub(crate) Vec<BoundAddress>);

/// The sockets at an address.
#[derive(Debug)]
pub(crate) struct BoundAddress {
    pub(crate) address: SocketAddr,
    /// TCP listeners, one for each worker, or one for all; more after a process with more workers.
    pub(crate) tcp: Vec<TcpListener>,
    /// UDP sockets, one for each worker, in the order in which they were bound, and behind them those of a process with
    /// more workers; none without HTTP/3.
    pub(crate) udp: Vec<UdpSocket>,
}

/// Binds to the first address of the request that this system has.
///
/// # Errors
/// The port is taken or forbidden, no address can be had, or the congestion control is unknown.
pub(crate) fn listen(request: &Request) -> Result<Bound, Error> {
    let main = ListenerRequest {
        bind: request.bind,
        port: request.port,
        with_udp: request.with_udp,
    };
    let all = std::iter::once(&main).chain(&request.further);
    let all = all.map(|wanted| listen_at(wanted, request));
    all.collect::<Result<_, _>>().map(Bound)
}

/// Binds to one address of the request.
///
/// # Errors
/// The errors of [`listen`].
pub(crate) fn listen_at(
    wanted: &ListenerRequest,
    request: &Request,
) -> Result<BoundAddress, Error> {
    let (bind, port, with_udp) = (wanted.bind, wanted.port, wanted.with_udp);
    let addresses = bind.candidates().into_iter();
    let mut addresses = addresses.map(|ip| SocketAddr::new(ip, port));
    if let Some(passed) = addresses.find_map(|it| Passed::at(it, &request.passed)) {
        return take_passed(&passed, with_udp, request);
    }
    first_of((bind, port), |wanted| {
        claim_and_bind(wanted, with_udp, request)
    })
}

/// A UDP socket for each worker, at an address whose port no other program has.
///
/// # Errors
/// Another program has the port, or there are no sockets to be had.
pub(crate) fn udp_sockets(address: SocketAddr, workers: usize) -> Result<Vec<UdpSocket>, Error> {
    bind(address, Kind::Udp, Sharing::Alone)?;
    (0..workers).map(|_| udp(address)).collect()
}

/// Applies `bind` to the first of the addresses that this system has.
fn first_of<T>(
    (bind, port): (Bind, u16),
    mut try_bind: impl FnMut(SocketAddr) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut result = Err(Error::NoFreePort);
    for ip in bind.candidates() {
        result = listen_on(SocketAddr::new(ip, port), &mut try_bind);
        if !matches!(&result, Err(Error::Listen { source, .. }) if is_absent(source)) {
            break;
        }
    }
    result
}

fn listen_on<T>(
    wanted: SocketAddr,
    try_bind: &mut impl FnMut(SocketAddr) -> Result<T, Error>,
) -> Result<T, Error> {
    let attempts = if wanted.port() == 0 { PORT_ATTEMPTS } else { 1 };
    for _ in 0..attempts {
        match try_bind(wanted) {
            Err(Error::PortInUse { .. }) if wanted.port() == 0 => {}
            result => return result,
        }
    }
    Err(Error::NoFreePort)
}

/// The TCP listeners at an address: one for each worker, or one for all.
fn listeners(address: SocketAddr, request: &Request) -> Result<Vec<TcpListener>, Error> {
    let sharing = match request.spread {
        Spread::PerWorker => Sharing::AmongWorkers,
        Spread::RoundRobin => Sharing::Alone,
    };
    let tcp = (0..request.listeners()).map(|_| tcp(address, sharing, request.congestion));
    tcp.collect()
}

fn claim_and_bind(
    wanted: SocketAddr,
    with_udp: bool,
    request: &Request,
) -> Result<BoundAddress, Error> {
    let address = claim(wanted, with_udp)?;
    let udp = (0..request.workers).map(|_| udp(address));
    Ok(BoundAddress {
        address,
        tcp: listeners(address, request)?,
        udp: match with_udp {
            true => udp.collect::<Result<_, _>>()?,
            false => Vec::new(),
        },
    })
}

/// The sockets at an address at which some were passed; the others are bound.
fn take_passed(
    passed: &Passed<'_>,
    with_udp: bool,
    request: &Request,
) -> Result<BoundAddress, Error> {
    let (address, workers) = (passed.address(), request.workers);
    let tcp = match passed.tcp(workers, request.spread)? {
        Some(tcp) => {
            let mut sockets = tcp.iter().map(SockRef::from);
            sockets.try_for_each(|it| set_congestion(&it, request.congestion))?;
            tcp
        }
        None => {
            bind(address, Kind::Tcp, Sharing::Alone)?;
            listeners(address, request)?
        }
    };
    let udp = match passed.udp(workers)?.filter(|_| with_udp) {
        Some(udp) => {
            udp.iter().for_each(raise_buffers);
            udp
        }
        None if with_udp => udp_sockets(address, workers)?,
        None => Vec::new(),
    };
    Ok(BoundAddress { address, tcp, udp })
}

impl Bound {
    /// The sockets at the main address.
    pub(crate) fn main(&self) -> &BoundAddress {
        &self.0[0]
    }

    /// The same sockets once more.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let copy = |it: &BoundAddress| {
            let tcp = it.tcp.iter().map(TcpListener::try_clone);
            let udp = it.udp.iter().map(UdpSocket::try_clone);
            Ok(BoundAddress {
                address: it.address,
                tcp: tcp.collect::<Result<_, _>>()?,
                udp: udp.collect::<Result<_, _>>()?,
            })
        };
        self.0.iter().map(copy).collect::<Result<_, _>>().map(Self)
    }

    /// Gives what the listeners accept from now on this congestion control.
    ///
    /// # Errors
    /// The kernel lacks it.
    pub(crate) fn set_congestion(&self, name: &[u8]) -> io::Result<()> {
        let mut listeners = self.0.iter().flat_map(|it| &it.tcp);
        listeners.try_for_each(|tcp| SockRef::from(tcp).set_tcp_congestion(name))
    }
}

/// Finds out whether the port is ours to have, and which one it is.
fn claim(wanted: SocketAddr, with_udp: bool) -> Result<SocketAddr, Error> {
    let tcp = bind(wanted, Kind::Tcp, Sharing::Alone)?;
    let bound = tcp.local_addr().and_then(|address| {
        address
            .as_socket()
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    });
    let address = bound.map_err(|source| listen_error(wanted, Kind::Tcp, source))?;
    if with_udp {
        bind(address, Kind::Udp, Sharing::Alone)?;
    }
    Ok(address)
}

fn tcp(
    address: SocketAddr,
    sharing: Sharing,
    congestion: Option<Congestion>,
) -> Result<TcpListener, Error> {
    let socket = bind(address, Kind::Tcp, sharing)?;
    set_congestion(&SockRef::from(&socket), congestion)?;
    socket
        .listen(BACKLOG)
        .map_err(|source| listen_error(address, Kind::Tcp, source))?;
    Ok(socket.into())
}

/// The kernel's name of the congestion control that a listener of the request has.
///
/// # Errors
/// The kernel lacks it.
pub(crate) fn congestion_of(request: &Request) -> Result<Vec<u8>, Error> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
    let socket = socket.map_err(Error::Worker)?;
    set_congestion(&SockRef::from(&socket), request.congestion)?;
    let mut name = socket.tcp_congestion().map_err(Error::Worker)?;
    name.retain(|byte| *byte != 0);
    Ok(name)
}

/// Connections that a listener accepts inherit it.
fn set_congestion(socket: &SockRef<'_>, congestion: Option<Congestion>) -> Result<(), Error> {
    let Some(congestion) = congestion else {
        return Ok(());
    };
    let name = congestion.kernel_name();
    let set = socket.set_tcp_congestion(name.as_bytes());
    set.map_err(|source| Error::Congestion { name, source })
}

fn udp(address: SocketAddr) -> Result<UdpSocket, Error> {
    let socket = bind(address, Kind::Udp, Sharing::AmongWorkers)?;
    let socket = socket.into();
    raise_buffers(&socket);
    Ok(socket)
}

fn raise_buffers(socket: &UdpSocket) {
    match sys::raise_udp_buffers(socket) {
        // The kernel doubles what is asked for, for its own book-keeping.
        Ok(got) if got < sys::UDP_BUFFER_BYTES => tracing::debug!(
            got,
            "small UDP receive buffer: raise net.core.rmem_max to 4 MiB"
        ),
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "the UDP buffers stay as they are"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    AmongWorkers,
}

fn bind(address: SocketAddr, kind: Kind, sharing: Sharing) -> Result<Socket, Error> {
    try_bind(address, kind, sharing).map_err(|source| listen_error(address, kind, source))
}

fn try_bind(address: SocketAddr, kind: Kind, sharing: Sharing) -> io::Result<Socket> {
    let (form, protocol) = match kind {
        Kind::Tcp => (Type::STREAM, Protocol::TCP),
        Kind::Udp => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(address), form, Some(protocol))?;
    if address.is_ipv6() {
        // `::` takes IPv4 too, whatever the system's default.
        socket.set_only_v6(false)?;
    }
    if kind == Kind::Tcp {
        // Old connections in TIME_WAIT don't hinder a restart.
        socket.set_reuse_address(true)?;
    }
    socket.set_reuse_port(sharing == Sharing::AmongWorkers)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listen_error(address: SocketAddr, kind: Kind, source: io::Error) -> Error {
    let transport = kind.name();
    if source.kind() == io::ErrorKind::AddrInUse {
        return Error::PortInUse { address, transport };
    }
    Error::Listen {
        address,
        transport,
        source,
    }
}

/// Returns true if the error means that this system doesn't have the address (IPv6 is off).
fn is_absent(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept::Accepting;
    use std::net::Ipv4Addr;

    pub(super) fn request(port: u16) -> Request {
        Request {
            bind: Bind::Address(Ipv4Addr::LOCALHOST.into()),
            port,
            workers: 2,
            spread: Spread::PerWorker,
            with_udp: true,
            congestion: None,
            passed: Vec::new(),
            further: Vec::new(),
        }
    }

    #[test]
    fn all_workers_share_one_port_number_on_both_transports() {
        let bound = listen(&request(0)).unwrap();
        let port = bound.main().address.port();
        assert_ne!(port, 0);
        let listeners = bound.share_out(&request(0)).unwrap();
        assert_eq!(listeners.workers.len(), 2);
        assert!(listeners.dispatchers.is_empty());
        for sockets in &listeners.workers {
            let Accepting::Own(tcp) = &sockets.tcp[0] else {
                panic!("no listener of its own");
            };
            let [tcp] = &tcp[..] else {
                panic!("one listener: {tcp:?}");
            };
            assert_eq!(tcp.local_addr().unwrap().port(), port);
            let udp = sockets.udp[0].own.as_ref().unwrap();
            assert_eq!(udp.local_addr().unwrap().port(), port);
            assert!(sockets.udp[0].surplus.is_empty());
        }
    }

    #[test]
    fn one_listener_may_serve_all_workers_with_a_udp_socket_each() {
        let request = Request {
            spread: Spread::RoundRobin,
            ..request(0)
        };
        let bound = listen(&request).unwrap();
        let address = bound.main().address;
        let listeners = bound.share_out(&request).unwrap();
        assert!(listeners.dispatchers.len() == 1);
        assert_eq!(listeners.workers.len(), 2);
        for sockets in &listeners.workers {
            assert!(matches!(sockets.tcp[0], Accepting::FromDispatcher(_)));
            let udp = sockets.udp[0].own.as_ref().unwrap();
            assert_eq!(udp.local_addr().unwrap(), address);
        }
        std::net::TcpStream::connect(address).unwrap();
    }

    #[test]
    fn sockets_of_more_workers_are_shared_out_evenly_and_none_is_closed() {
        let four = Request {
            workers: 4,
            ..request(0)
        };
        for (workers, listeners, surplus) in [
            (1, vec![4], vec![3]),
            (2, vec![2, 2], vec![1, 1]),
            (3, vec![2, 2, 2], vec![1, 0, 0]),
        ] {
            let fewer = Request {
                workers,
                ..request(0)
            };
            let shared = listen(&four).unwrap().share_out(&fewer).unwrap();
            let tcp = shared.workers.iter().map(|it| match &it.tcp[0] {
                Accepting::Own(own) => own.len(),
                Accepting::FromDispatcher(_) => panic!("they accept by themselves"),
            });
            assert_eq!(tcp.collect::<Vec<_>>(), listeners);
            let udp = shared.workers.iter().map(|it| it.udp[0].surplus.len());
            assert_eq!(udp.collect::<Vec<_>>(), surplus);
        }
    }

    #[test]
    fn a_second_server_does_not_get_a_share_of_the_port() {
        let first = listen(&request(0)).unwrap();
        let port = first.main().address.port();
        let error = listen(&request(port)).unwrap_err();
        let expected = format!("TCP port {port} of 127.0.0.1 is in use by another program");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_port_that_is_taken_on_udp_alone_is_in_use() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen(&request(port)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::PortInUse {
                    transport: "UDP",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn an_address_of_another_machine_cannot_be_bound() {
        let bind = Bind::Address(Ipv4Addr::new(192, 0, 2, 1).into());
        let error = listen(&Request { bind, ..request(0) }).unwrap_err();
        assert!(matches!(error, Error::Listen { .. }), "{error}");
    }

    #[test]
    fn all_addresses_include_ipv4() {
        let bind = Bind::All;
        let listeners = listen(&Request { bind, ..request(0) }).unwrap();
        let port = listeners.main().address.port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }

    #[test]
    fn further_addresses_have_sockets_of_their_own() {
        for spread in [Spread::PerWorker, Spread::RoundRobin] {
            let wanted = |with_udp| ListenerRequest {
                bind: Bind::Address(Ipv4Addr::LOCALHOST.into()),
                port: 0,
                with_udp,
            };
            let request = Request {
                spread,
                further: vec![wanted(false), wanted(true)],
                ..request(0)
            };
            let bound = listen(&request).unwrap();
            let copies = bound.try_clone().unwrap();
            let addresses: Vec<_> = copies.0.iter().map(|it| it.address).collect();
            assert_ne!(addresses[1], addresses[2]);
            let of = |bound: &Bound| bound.0.iter().map(|it| it.udp.len()).collect::<Vec<_>>();
            assert_eq!((of(&bound), of(&copies)), (vec![2, 0, 2], vec![2, 0, 2]));
            for udp in &copies.0[2].udp {
                assert_eq!(udp.local_addr().unwrap(), addresses[2]);
            }
            let listeners = bound.share_out(&request).unwrap();
            for worker in &listeners.workers {
                let udp: Vec<_> = worker.udp.iter().map(|it| it.own.is_some()).collect();
                assert_eq!((worker.tcp.len(), udp), (3, vec![true, false, true]));
            }
            for address in addresses {
                std::net::TcpStream::connect(address).unwrap();
            }
        }
    }
}
