//! Calls without a safe face. Holds every unsafe line of the crate.
#![allow(
    unsafe_code,
    reason = "the one module of the crate that may call the kernel directly"
)]

mod messages;

pub(crate) use messages::{MAX_MESSAGES, Message, send_messages};

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Raises a UDP socket's buffers to `bytes`: past `net.core.rmem_max` and `wmem_max` where the
/// process is privileged, up to them where not. Returns the receive buffer that came of it, in
/// bytes as the kernel counts, which is twice what was asked for.
///
/// # Errors
/// The buffer can't even be read.
pub fn raise_udp_buffers(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    use rustix::net::sockopt;
    let socket = socket.as_fd();
    if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    raise_udp_receive_buffer(socket, bytes)
}

/// The same for the receive buffer alone.
///
/// # Errors
/// As [`raise_udp_buffers`].
pub(crate) fn raise_udp_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    use rustix::net::sockopt;
    let socket = socket.as_fd();
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// Registers a descriptor with the current event loop, which is woken for what is of interest alone.
///
/// # Errors
/// The event loop doesn't take it.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor, and keeps it open until the `AsyncFd`,
    // which owns it, has deregistered it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}

/// The largest UDP payload that the route of a connected UDP socket carries, by what the kernel knows
/// of it; `None` when it doesn't tell. Path MTU discovery may find less further on.
#[must_use]
pub fn route_udp_payload(socket: &std::net::UdpSocket) -> Option<u16> {
    /// IP header and UDP header.
    const HEADERS_V4: u32 = 20 + 8;
    const HEADERS_V6: u32 = 40 + 8;
    /// The most over IPv4, whose length field counts the headers.
    const MOST: u32 = 65_507;
    let (level, option, headers) = match socket.peer_addr().ok()?.is_ipv4() {
        true => (libc::IPPROTO_IP, libc::IP_MTU, HEADERS_V4),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU, HEADERS_V6),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&mtu)).expect("a small number");
    // SAFETY: the descriptor is borrowed and so open; pointer and length describe `mtu`, and the
    // kernel writes at most `length` bytes of it.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw mut mtu).cast(),
            &raw mut length,
        )
    };
    let payload = u32::try_from(mtu).ok()?.checked_sub(headers)?.min(MOST);
    (status == 0).then_some(u16::try_from(payload).expect("at most 65,507"))
}

/// The bytes of `struct tcp_info` (linux/tcp.h) as this kernel fills them: as many as it knows, and
/// `TCP_INFO_ROOM` of them at most. `None` for a socket that has none.
pub(crate) fn raw_tcp_info<'a>(
    socket: BorrowedFd<'_>,
    room: &'a mut [u8; TCP_INFO_ROOM],
) -> Option<&'a [u8]> {
    let mut length = libc::socklen_t::try_from(room.len()).expect("a small structure");
    // SAFETY: the descriptor is borrowed and so open; pointer and length describe `room`, and the
    // kernel writes at most `length` bytes of it.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            room.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let known = usize::try_from(length).expect("at most what was offered");
    (status == 0).then(|| room.get(..known))?
}

/// Bytes read of `struct tcp_info`; fields that newer kernels add behind them need not be copied.
pub(crate) const TCP_INFO_ROOM: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn loopback_carries_the_largest_datagrams() {
        for (address, payload) in [("127.0.0.1:9", 65_507), ("[::1]:9", 65_488)] {
            let any = if payload == 65_507 {
                "127.0.0.1:0"
            } else {
                "[::1]:0"
            };
            // A system may lack IPv6.
            let Ok(socket) = UdpSocket::bind(any) else {
                continue;
            };
            assert_eq!(route_udp_payload(&socket), None);
            socket.connect(address).unwrap();
            assert_eq!(route_udp_payload(&socket), Some(payload));
        }
    }

    #[test]
    fn buffers_grow() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let before = rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap();
        assert!(raise_udp_buffers(&socket, 4 << 20).unwrap() >= before);
    }
}
