//! One QUIC connection on its own UDP socket: datagrams and time into the endpoint, datagrams out.
//!
//! The socket is connected, so datagrams of strangers stay out, and a port where nobody listens
//! is told at once by ICMP. Batches pass the kernel in one call (GRO, GSO). What the datagrams
//! mean is left to the endpoint, and what its events mean to `quic`.

use crate::timer::Timer;
use altway_http3::{
    ClientConfig, ConnectionHandle, Datagram, Ecn, Endpoint, Event, StreamId, Transmit,
};
use http::Request;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// What the kernel holds of datagrams that this process has not yet come to read: 8 MiB are 67 ms
/// at 1 Gbit/s. Without privilege the system's `net.core.rmem_max` limits it.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Datagram batches taken with one call, each up to what UDP can carry.
const BATCHES: usize = 4;
const BATCH_SIZE: usize = 1 << 16;

/// What to wake for: datagrams, and errors that ICMP brought, which come without any.
const INBOUND: Interest = Interest::READABLE.add(Interest::ERROR);

/// Datagrams sent with one call. A client sends requests and acknowledgements: few and small.
const MAX_SEGMENTS: usize = 8;

/// A client's connection and the socket under it.
pub(crate) struct Driver {
    socket: Socket,
    timer: Timer,
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: ConnectionHandle,
    inbound: Box<[u8]>,
    outbound: Vec<u8>,
    /// In `outbound`, waiting for room in the socket.
    waiting: Option<Transmit>,
}

impl Driver {
    /// Makes the socket and begins the handshake; [`Driver::turn`] carries it on.
    pub(crate) fn connect(
        mut config: ClientConfig,
        seed: [u8; 32],
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Self, ConnectError> {
        let socket = Socket::connect(remote)?;
        config.transport.max_segments = socket.state.max_gso_segments().clamp(1, MAX_SEGMENTS);
        let mut endpoint = Endpoint::client(config, seed)?;
        let connection = endpoint.connect(Instant::now(), remote, server_name)?;
        Ok(Self {
            socket,
            timer: Timer::new()?,
            endpoint,
            connection,
            inbound: vec![0; BATCHES * BATCH_SIZE].into(),
            outbound: Vec::new(),
            waiting: None,
        })
    }

    /// The connection's next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event().map(|(_, event)| event)
    }

    /// Sends a request without a body.
    pub(crate) fn request(&mut self, head: &Request<()>) -> Result<StreamId, altway_http3::Error> {
        self.endpoint.send_request(self.connection, head, true)
    }

    /// Sends what there is to send, then waits for datagrams, for the endpoint's next time-out or
    /// for `until`, whichever comes first, and tells the endpoint. Drain the events afterwards.
    /// May be dropped while it waits.
    ///
    /// # Errors
    /// The kernel says that there is nobody, or no way, at the other end.
    pub(crate) async fn turn(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.flush()?;
        let wake = [until, self.endpoint.poll_timeout()];
        let wake = wake.into_iter().flatten().min();
        let readable = tokio::select! {
            biased;
            ready = self.socket.io.ready(INBOUND) => ready.map(|_| true)?,
            ready = self.socket.io.writable(), if self.waiting.is_some() => ready.map(|()| false)?,
            due = alarm(&self.timer, wake) => due.map(|()| false)?,
        };
        if readable {
            self.socket.check()?;
            self.receive()?;
        }
        self.handle_timeout();
        Ok(())
    }

    /// Sends what there is to send, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        loop {
            let transmit = match self.waiting.take() {
                Some(transmit) => transmit,
                None => {
                    let now = Instant::now();
                    let Some(next) = self.endpoint.poll_transmit(now, &mut self.outbound) else {
                        return Ok(());
                    };
                    next
                }
            };
            if !self.socket.send(&transmit, &self.outbound)? {
                self.waiting = Some(transmit);
                return Ok(());
            }
        }
    }

    /// Takes what has arrived, up to one call's worth.
    fn receive(&mut self) -> io::Result<()> {
        let mut meta = [RecvMeta::default(); BATCHES];
        let batches = self.socket.receive(&mut self.inbound, &mut meta)?;
        let now = Instant::now();
        for (batch, meta) in self.inbound.chunks(BATCH_SIZE).zip(&meta[..batches]) {
            for payload in batch[..meta.len].chunks(meta.stride.max(1)) {
                let datagram = Datagram {
                    remote: meta.addr,
                    local_ip: meta.dst_ip,
                    ecn: meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8)),
                    payload,
                };
                self.endpoint.handle_datagram(now, datagram);
            }
        }
        Ok(())
    }

    fn handle_timeout(&mut self) {
        let now = Instant::now();
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
    }
}

/// Why a connection could not even begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Endpoint(#[from] altway_http3::Error),
}

/// Never, when there is nothing to wait for.
async fn alarm(timer: &Timer, at: Option<Instant>) -> io::Result<()> {
    match at {
        Some(at) => timer.wait_until(at).await,
        None => std::future::pending().await,
    }
}

struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    fn connect(remote: SocketAddr) -> io::Result<Self> {
        let any = match remote {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect(remote)?;
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new((&socket).into())?;
        enlarge_receive_buffer(&socket, &state);
        let io = UdpSocket::from_std(socket)?;
        Ok(Self { io, state })
    }

    /// False when the socket has no room; a datagram that can't pass for reasons of its own (its
    /// size, say: path MTU discovery tries) is lost, as datagrams may be.
    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> io::Result<bool> {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| EcnCodepoint::from_bits(ecn.bits())),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.local_ip,
        };
        let send = || self.state.try_send((&self.io).into(), &transmit);
        match self.io.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if is_final(&error) => Err(error),
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// What ICMP told, if it is final; else forgets it.
    fn check(&self) -> io::Result<()> {
        let take = || match self.io.take_error()? {
            Some(error) if is_final(&error) => Err(error),
            _ => Err(ErrorKind::WouldBlock.into()),
        };
        match self.io.try_io(Interest::ERROR, take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            told => told,
        }
    }

    /// Number of batches received: 0 when there was nothing.
    fn receive(&self, buffer: &mut [u8], meta: &mut [RecvMeta; BATCHES]) -> io::Result<usize> {
        let mut chunks = buffer.chunks_mut(BATCH_SIZE);
        let mut slices: [_; BATCHES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let receive = || self.state.recv((&self.io).into(), &mut slices, meta);
        match self.io.try_io(Interest::READABLE, receive) {
            Err(error) if is_final(&error) => Err(error),
            Err(_) => Ok(0),
            Ok(batches) => Ok(batches),
        }
    }
}

/// Best effort: a smaller buffer costs losses at high rates, not correctness.
fn enlarge_receive_buffer(socket: &std::net::UdpSocket, state: &UdpSocketState) {
    let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER);
    if forced.is_err() {
        let _ = state.set_recv_buffer_size(socket.into(), RECEIVE_BUFFER);
    }
}

/// Whether trying again is of no use.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> (Socket, std::net::UdpSocket) {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = std::time::Duration::from_secs(5);
        peer.set_read_timeout(Some(patience)).unwrap();
        (Socket::connect(peer.local_addr().unwrap()).unwrap(), peer)
    }

    fn transmit(socket: &Socket, size: usize, segment_size: Option<usize>) -> Transmit {
        Transmit {
            destination: socket.io.peer_addr().unwrap(),
            local_ip: None,
            ecn: Some(Ecn::Ect0),
            segment_size,
            size,
        }
    }

    #[tokio::test]
    async fn segments_arrive_as_datagrams_of_their_own() {
        let (socket, peer) = socket();
        socket.io.writable().await.unwrap();
        let transmit = transmit(&socket, 250, Some(100));
        assert!(socket.send(&transmit, &[7; 250]).unwrap());
        let mut buffer = [0; 500];
        let sizes: Vec<_> = (0..3).map(|_| peer.recv(&mut buffer).unwrap()).collect();
        assert_eq!(sizes, [100, 100, 50]);
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_told() {
        let (socket, peer) = socket();
        drop(peer);
        socket.io.writable().await.unwrap();
        let transmit = transmit(&socket, 1, None);
        assert!(socket.send(&transmit, &[7]).unwrap());
        socket.io.ready(INBOUND).await.unwrap();
        let error = socket.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(socket.check().is_ok());
    }
}
