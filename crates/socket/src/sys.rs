//! Calls without a safe face. Holds every unsafe line of the crate.
#![allow(
    unsafe_code,
    reason = "the one module of the crate that may call the kernel directly"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
pub fn raise_udp_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    use rustix::net::sockopt;
    let socket = socket.as_fd();
    if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

/// Registers a descriptor with the current event loop.
///
/// # Errors
/// The event loop doesn't take it.
pub fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor, and keeps it open until the `AsyncFd`,
    // which owns it, has deregistered it.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// The structure that the kernel fills, and how many bytes of it this kernel knows.
pub(crate) fn raw_tcp_info(socket: BorrowedFd<'_>) -> Option<(libc::tcp_info, usize)> {
    let mut info = no_tcp_info();
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("a small structure");
    // SAFETY: the descriptor is borrowed and so open; pointer and length describe `info`, and the
    // kernel writes at most `length` bytes of it.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    let known = usize::try_from(length).expect("at most the structure's size");
    (status == 0).then_some((info, known))
}

/// The structure before the kernel has filled it.
pub(crate) fn no_tcp_info() -> libc::tcp_info {
    // SAFETY: the structure consists of integers, for which all zeroes is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn buffers_grow() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let before = rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap();
        assert!(raise_udp_buffers(&socket, 4 << 20).unwrap() >= before);
    }
}
