//! The sockets of a proxy: how they are opened and how large their buffers are.

use crate::Error;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

/// Connections that wait to be taken.
const BACKLOG: i32 = 1_024;

/// Buffer that a UDP socket asks for, in bytes: 80 ms at 400 Mbit/s, for a thread that has to wait
/// for its processor.
const UDP_BUFFER: usize = 4 << 20;

/// Time without a sign of a TCP peer after which it is asked for one, …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// … and again as often; the kernel gives up after nine.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Descriptors that the rest of the process may need besides.
const OTHER_FILES: usize = 256;

/// A TCP socket that listens at `address`, and where that is.
pub(super) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let listener = opened(address, Type::STREAM, Protocol::TCP, |socket| {
        // Connections of a proxy before it that have not died yet are no reason not to start.
        socket.set_reuse_address(true)?;
        Ok(())
    });
    let listener = listener.and_then(|socket| {
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        let local = listener.local_addr()?;
        Ok((listener, local))
    });
    listener.map_err(failed("TCP", address))
}

/// A UDP socket at `address`, and where that is.
pub(super) fn bind(address: SocketAddr) -> Result<(UdpSocket, SocketAddr), Error> {
    let socket = opened(address, Type::DGRAM, Protocol::UDP, |_| Ok(()));
    let socket = socket.and_then(|socket| {
        raise_udp_buffers(&socket);
        let socket = UdpSocket::from(socket);
        let local = socket.local_addr()?;
        Ok((socket, local))
    });
    socket.map_err(failed("UDP", address))
}

/// A UDP socket of its own for one client, that speaks with `target` only.
pub(super) fn connect(target: SocketAddr) -> io::Result<tokio::net::UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    raise_udp_buffers(&socket);
    tokio::net::UdpSocket::from_std(socket)
}

/// Switches off delays for joining segments (TCP_NODELAY), and lets a connection end when its peer
/// has vanished.
pub(super) fn prepare(stream: &tokio::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Lets this process open `needed` files more than it otherwise would, as far as it may.
pub(super) fn allow_files(needed: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(needed + OTHER_FILES).unwrap_or(u64::MAX);
    let allowed = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < allowed) {
        let raised = Rlimit {
            current: Some(allowed),
            maximum,
        };
        // It stays as it is where that is refused: what has no descriptor is dropped and counted.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// A socket bound to `address`; all addresses of IPv4 where all of both versions were asked for and
/// the kernel has no IPv6.
fn opened(
    address: SocketAddr,
    kind: Type,
    protocol: Protocol,
    prepare: fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let open = |address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        prepare(&socket)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    match open(address) {
        Err(error) if has_no_ipv6(&error) && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    }
}

/// Returns true if the error means that there is no IPv6: without the module there is no such
/// family, and with the parameter disable_ipv6 no address.
fn has_no_ipv6(error: &io::Error) -> bool {
    let codes = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    codes
        .map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
}

/// Raises the buffers as far as the kernel grants it: with privilege beyond its limit, else up to
/// that.
fn raise_udp_buffers(socket: &impl std::os::fd::AsFd) {
    use rustix::net::sockopt;
    let _ = sockopt::set_socket_recv_buffer_size(socket, UDP_BUFFER);
    let _ = sockopt::set_socket_recv_buffer_size_force(socket, UDP_BUFFER);
    let _ = sockopt::set_socket_send_buffer_size(socket, UDP_BUFFER);
}

fn failed(transport: &'static str, address: SocketAddr) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::ProxyListen {
        transport,
        address,
        source,
    }
}
