//! The worker's UDP socket, joined to the engine: what comes goes in, what it has goes out.

use super::responses::Endpoint;
use altway_http3::Datagram;
use altway_socket::{SendOutcome, Settings, WatchedUdp};
use std::io;
use std::time::Instant;

/// A socket of many peers.
pub(super) struct Udp(altway_socket::Udp<WatchedUdp>);

impl Udp {
    /// # Errors
    /// The socket can't be set up.
    pub(super) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        let socket = WatchedUdp::new(socket)?;
        altway_socket::Udp::new(socket, Settings::default()).map(Self)
    }

    /// Datagrams that the kernel takes as one; 1 where it can't split.
    pub(super) fn max_segments(&self) -> usize {
        self.0.max_segments()
    }

    /// Hands on what has come.
    ///
    /// # Errors
    /// None: the socket has no peer of its own.
    pub(super) fn receive(&mut self, take: impl FnMut(Datagram<'_>)) -> io::Result<()> {
        self.0.receive(take)
    }

    /// Sends what the engine has, as far as the socket takes it.
    ///
    /// # Errors
    /// None: the socket has no peer of its own.
    pub(super) fn send(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint,
    ) -> io::Result<SendOutcome> {
        self.0.send(|batch| endpoint.poll_transmit(now, batch))
    }

    pub(super) async fn readable(&self) {
        // An error shows at the next call.
        let _ = self.0.socket().readable().await;
    }

    pub(super) async fn writable(&self) {
        let _ = self.0.socket().writable().await;
    }
}
