//! The worker's UDP socket: many datagrams a system call in both directions (GRO, GSO), with ECN.

use altway_http3::{Datagram, Ecn, Endpoint, Transmit};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::time::Instant;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Messages a receive call takes in, each of many datagrams of one sender.
const MESSAGES: usize = 8;

/// The most that a message can hold.
const MESSAGE_BYTES: usize = 65_535;

/// Receive calls a turn, and send calls a turn, before others have theirs.
const RECEIVES: usize = 4;
const SENDS: usize = 64;

/// Why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is nothing left to send.
    Drained,
    /// The socket's buffer is full.
    Blocked,
    /// There is more, but it is the others' turn.
    More,
}

/// The socket with its buffers: 512 KiB to receive, one batch to send.
pub(super) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    received: Box<[u8]>,
    batch: Vec<u8>,
    /// The batch that is being sent, and how much of it has been.
    sending: Option<(Transmit, usize)>,
}

impl Udp {
    /// # Errors
    /// The socket can't be set up.
    pub(super) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            state,
            received: vec![0; MESSAGES * MESSAGE_BYTES].into(),
            batch: Vec::new(),
            sending: None,
        })
    }

    /// Datagrams that the kernel takes as one; 1 where it can't split.
    pub(super) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Hands what has come to the engine.
    pub(super) fn receive(&mut self, now: Instant, endpoint: &mut Endpoint) {
        for _ in 0..RECEIVES {
            let mut metas = [RecvMeta::default(); MESSAGES];
            let Some(messages) = self.receive_messages(&mut metas) else {
                return;
            };
            let buffers = self.received.chunks(MESSAGE_BYTES);
            for (meta, buffer) in metas.iter().take(messages).zip(buffers) {
                hand_over(meta, buffer, now, endpoint);
            }
            if messages < MESSAGES {
                return;
            }
        }
    }

    /// Sends what the engine has, as far as the socket takes it.
    pub(super) fn send(&mut self, now: Instant, endpoint: &mut Endpoint) -> Progress {
        for _ in 0..SENDS {
            if self.sending.is_none() {
                let Some(transmit) = endpoint.poll_transmit(now, &mut self.batch) else {
                    return Progress::Drained;
                };
                self.sending = Some((transmit, 0));
            }
            if self.send_batch().is_err() {
                return Progress::Blocked;
            }
        }
        Progress::More
    }

    pub(super) async fn readable(&self) {
        // An error shows at the next call.
        let _ = self.socket.readable().await;
    }

    pub(super) async fn writable(&self) {
        let _ = self.socket.writable().await;
    }

    /// `None`: nothing is there. A failed call counts as that, so that the loop waits for the next
    /// datagram instead of spinning.
    fn receive_messages(&mut self, metas: &mut [RecvMeta; MESSAGES]) -> Option<usize> {
        let mut chunks = self.received.chunks_mut(MESSAGE_BYTES);
        let mut buffers: [IoSliceMut<'_>; MESSAGES] = std::array::from_fn(|_| {
            IoSliceMut::new(chunks.next().expect("the buffer holds MESSAGES of them"))
        });
        let received = self.socket.try_io(Interest::READABLE, || {
            let received = self.state.recv((&self.socket).into(), &mut buffers, metas);
            received.map_err(|error| {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::debug!(%error, "cannot receive datagrams");
                }
                io::ErrorKind::WouldBlock.into()
            })
        });
        received.ok()
    }

    /// # Errors
    /// The socket's buffer is full; call it again later.
    fn send_batch(&mut self) -> io::Result<()> {
        while let Some((transmit, done)) = &mut self.sending {
            let rest = &self.batch[*done..transmit.size];
            let part = rest.len().min(part_size(transmit, &self.state));
            let datagrams = quinn_udp::Transmit {
                destination: transmit.destination,
                ecn: transmit
                    .ecn
                    .and_then(|ecn| EcnCodepoint::from_bits(ecn.bits())),
                contents: &rest[..part],
                segment_size: transmit.segment_size,
                src_ip: transmit.local_ip,
            };
            let sent = self.socket.try_io(Interest::WRITABLE, || {
                self.state.try_send((&self.socket).into(), &datagrams)
            });
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // A datagram that doesn't leave is a lost one, which the engine knows how to treat:
                // probes for a larger MTU end like this every day.
                Err(error) => tracing::trace!(%error, "cannot send a datagram"),
                Ok(()) => {}
            }
            *done += part;
            if *done == transmit.size {
                self.sending = None;
            }
        }
        Ok(())
    }
}

/// The whole batch, or one datagram of it once the kernel has shown that it can't split.
fn part_size(transmit: &Transmit, state: &UdpSocketState) -> usize {
    match transmit.segment_size {
        Some(size) if state.max_gso_segments() == 1 => size.max(1),
        _ => transmit.size,
    }
}

fn hand_over(meta: &RecvMeta, buffer: &[u8], now: Instant, endpoint: &mut Endpoint) {
    let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
    for payload in buffer[..meta.len].chunks(meta.stride.max(1)) {
        let datagram = Datagram {
            remote: meta.addr,
            local_ip: meta.dst_ip,
            ecn,
            payload,
        };
        endpoint.handle_datagram(now, datagram);
    }
}
