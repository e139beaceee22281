//! What the kernel knows and the standard library doesn't tell. Holds every unsafe line of the
//! crate.
#![allow(
    unsafe_code,
    reason = "the one module of the crate that may call the kernel directly"
)]

use crate::path_meter::Counters;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// What the UDP buffers should hold: fewer bytes lose the Initials of a connection ramp.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// The counters of a TCP connection; `None` for a socket that has none (no TCP, or no Linux from
/// 4.6 on).
pub(crate) fn tcp_counters(socket: impl AsFd) -> Option<Counters> {
    // SAFETY: the structure consists of integers, for which all zeroes is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("a small structure");
    // SAFETY: the descriptor is borrowed and so open; pointer and length describe `info`, and the
    // kernel writes at most `length` bytes of it.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    let known = usize::try_from(length).expect("at most the structure's size");
    let needed = std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_out) + size_of::<u32>();
    (status == 0 && known >= needed).then(|| counters(&info))
}

/// Raises the process's limit of open files to what it may have, and says what it is now.
///
/// # Errors
/// The system refuses.
pub(crate) fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    Ok(maximum)
}

/// Raises a UDP socket's buffers past `net.core.rmem_max` where we are privileged, up to it where
/// not. Returns the receive buffer that came of it, in bytes.
///
/// # Errors
/// The buffer can't even be read.
pub(crate) fn raise_udp_buffers(socket: impl AsFd) -> io::Result<usize> {
    use rustix::net::sockopt;
    let socket = socket.as_fd();
    if sockopt::set_socket_recv_buffer_size_force(socket, UDP_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, UDP_BUFFER_BYTES)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, UDP_BUFFER_BYTES).is_err() {
        sockopt::set_socket_send_buffer_size(socket, UDP_BUFFER_BYTES)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// Registers a descriptor with the current event loop.
///
/// # Errors
/// The event loop doesn't take it.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor, and keeps it open until the `AsyncFd`,
    // which owns it, has deregistered it.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

fn counters(info: &libc::tcp_info) -> Counters {
    /// What the kernel says when there was no sample yet.
    const UNKNOWN: [u32; 2] = [0, u32::MAX];
    let min_rtt = Duration::from_micros(info.tcpi_min_rtt.into());
    Counters {
        min_rtt: (!UNKNOWN.contains(&info.tcpi_min_rtt)).then_some(min_rtt),
        // Segments with data, not all: pure acknowledgements are never retransmitted.
        packets_sent: info.tcpi_data_segs_out.into(),
        packets_lost: info.tcpi_total_retrans.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_tcp_connection_has_counters() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let counters = tcp_counters(&server).unwrap();
        assert!(counters.min_rtt.unwrap() < Duration::from_secs(1));
        assert_eq!((counters.packets_sent, counters.packets_lost), (1, 0));
    }

    #[test]
    fn a_udp_socket_has_no_tcp_counters_but_grows_its_buffers() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(tcp_counters(&socket), None);
        let before = rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap();
        assert!(raise_udp_buffers(&socket).unwrap() >= before);
    }
}
