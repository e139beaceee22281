//! A UDP socket in tokio's event loop that is woken for room to send only while somebody waits for it.
//!
//! The kernel tells of room after each datagram that has left a socket, full or not. tokio's own
//! `UdpSocket` always asks for that, so that its loop is woken in vain after most of what it sends: over
//! loopback at once, over a network card when it has sent.

use crate::NonBlocking;
use crate::sys::{raise_udp_receive_buffer, watch};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Datagrams, and errors that ICMP brought to a connected socket, which come without any.
const INBOUND: Interest = Interest::READABLE.add(Interest::ERROR);

/// A UDP socket in tokio's event loop. Belongs to the runtime it was made in.
#[derive(Debug)]
pub struct WatchedUdp(AsyncFd<OwnedFd>);

impl WatchedUdp {
    /// Takes a socket, and makes it non-blocking.
    ///
    /// # Errors
    /// The event loop doesn't take it.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        watch(socket.into(), INBOUND).map(Self)
    }

    /// A socket at a port of its own, connected to `remote`: datagrams of strangers stay out. `receive_buffer`: bytes of datagrams
    /// that the kernel is to hold, as far as the system lets it.
    ///
    /// # Errors
    /// No descriptors or ports are left, or there is no way to the address.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn connect(remote: SocketAddr, receive_buffer: usize) -> io::Result<Self> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(remote)?;
        // A smaller buffer costs losses at high rates, not correctness.
        let _ = raise_udp_receive_buffer(&socket, receive_buffer);
        Self::new(socket)
    }

    /// Waits for datagrams. Can be dropped and called again.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await?.retain_ready();
        Ok(())
    }

    /// Waits for datagrams, or for an error, which is to be [taken](Self::take_error) then. Can be
    /// dropped and called again.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn inbound(&self) -> io::Result<()> {
        self.0.ready(INBOUND).await?.retain_ready();
        Ok(())
    }

    /// Waits for room to send: after a call that found none, to be made again then. Can be dropped
    /// and called again.
    ///
    /// # Errors
    /// No descriptors are left, or the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        // An event loop knows a socket once for each of its descriptors.
        let second = watch(self.0.get_ref().try_clone()?, Interest::WRITABLE)?;
        second.writable().await?.retain_ready();
        Ok(())
    }

    /// Takes the error that ICMP brought to a connected socket.
    ///
    /// # Errors
    /// The socket can't be asked.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let take = |socket: &OwnedFd| match rustix::net::sockopt::socket_error(socket)? {
            Err(error) => Ok(error.into()),
            Ok(()) => Err(io::ErrorKind::WouldBlock.into()),
        };
        match self.0.try_io(Interest::ERROR, take) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            told => told.map(Some),
        }
    }
}

impl AsFd for WatchedUdp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl NonBlocking for WatchedUdp {
    fn try_read<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.0.try_io(Interest::READABLE, |_| call())
    }

    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        call()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Udp};
    use futures_util::FutureExt as _;
    use std::time::Duration;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(30);

    /// Bound to loopback; connected it isn't.
    fn watched() -> (Udp<WatchedUdp>, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let socket = WatchedUdp::new(socket).unwrap();
        (Udp::new(socket, Settings::default()).unwrap(), address)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn is_woken_for_each_that_comes_and_not_twice() {
        let (mut udp, address) = watched();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        // More than one call takes in, fewer than a turn's.
        for count in [1, 20, 1] {
            for _ in 0..count {
                peer.send_to(b"x", address).unwrap();
            }
            let mut received = 0;
            while received < count {
                timeout(SOON, udp.socket().readable())
                    .await
                    .unwrap()
                    .unwrap();
                udp.receive(|_| received += 1).unwrap();
            }
            assert_eq!(received, count);
            let calls = udp.calls().receive;
            assert!(udp.socket().readable().now_or_never().is_none());
            assert_eq!(udp.calls().receive, calls);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn room_is_told_to_who_waits_for_it() {
        let (udp, _) = watched();
        for _ in 0..2 {
            timeout(SOON, udp.socket().writable())
                .await
                .unwrap()
                .unwrap();
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_peer_that_is_gone_is_told_once() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        drop(peer);
        socket.send(b"x").unwrap();
        let socket = WatchedUdp::new(socket).unwrap();
        timeout(SOON, socket.inbound()).await.unwrap().unwrap();
        let error = socket.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(socket.take_error().unwrap().is_none());
    }
}
