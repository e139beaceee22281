//! A UDP socket that passes many datagrams with one system call in both directions (GRO, GSO), with
//! ECN.
//!
//! It works with any kind of event loop: [`NonBlocking`] is what it asks of the socket. Nothing here
//! waits.

use altway_quic::{Datagram, Ecn, Transmit};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{ReceiveTimestampns, UdpGroSegment};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsFd;

/// The most messages that a receive call takes in, each of many datagrams of one sender.
const MAX_MESSAGES: usize = 8;

/// The most that a message can hold.
const MESSAGE_BYTES: usize = 65_535;

/// The most that a send call can carry: the largest UDP payload over IPv4.
const MAX_SEND_BYTES: usize = 65_507;

/// Receive calls a turn, and send calls a turn, before others have theirs.
const RECEIVES: usize = 4;
const SENDS: usize = 64;

/// A socket that doesn't block, and the event loop's way to learn that it would have.
pub trait NonBlocking: AsFd {
    /// Makes a call that reads; an error of kind `WouldBlock` means that nothing is there any more.
    ///
    /// # Errors
    /// What the call says; `WouldBlock` as well when the event loop knows that it would be in vain.
    fn try_read<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;

    /// Makes a call that writes; an error of kind `WouldBlock` means that the socket is full.
    ///
    /// # Errors
    /// As [`NonBlocking::try_read`].
    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

/// For loops that ask the kernel themselves, with poll(2) for instance.
impl NonBlocking for std::net::UdpSocket {
    fn try_read<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        call()
    }

    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        call()
    }
}

/// The settings of a socket. The defaults cost the least processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The kernel splits what one call hands it into datagrams (UDP_SEGMENT). Default on.
    pub gso: bool,
    /// The kernel joins datagrams that arrive together (UDP_GRO). Default on.
    pub gro: bool,
    /// Messages that a receive call takes in, from 1 to 8; each has a buffer of 64 KiB. Default 8.
    pub messages: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gso: true,
            gro: true,
            messages: MAX_MESSAGES,
        }
    }
}

/// Why sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing left to send.
    Drained,
    /// The socket's buffer is full.
    Blocked,
    /// There is more, but it is the others' turn.
    More,
}

/// System calls that were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// To receive (recvmmsg), those in vain included.
    pub receive: u64,
    /// To send (sendmsg), those in vain included.
    pub send: u64,
}

/// The socket with its buffers: 64 KiB a message to receive, one batch to send.
///
/// A connected socket has one peer: an error that tells that this peer can't be reached any more is
/// returned. On an unconnected one such an error is a lost datagram, of one peer among many.
#[derive(Debug)]
pub struct Udp<S> {
    socket: S,
    state: UdpSocketState,
    settings: Settings,
    has_one_peer: bool,
    received: Box<[u8]>,
    batch: Vec<u8>,
    /// The batch that is being sent, and how much of it has been.
    sending: Option<(Transmit, usize)>,
    calls: Calls,
}

impl<S: NonBlocking> Udp<S> {
    /// Takes a socket that is bound, and connected if it is to have one peer. Makes it non-blocking
    /// and forbids IP fragmentation.
    ///
    /// # Errors
    /// The socket can't be set up.
    pub fn new(socket: S, settings: Settings) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        // quinn-udp 0.6.3 asks for the time of each datagram, for which its room for control messages
        // is too small: with GRO, the last one would be cut off, which is ECN's.
        setsockopt(&socket, ReceiveTimestampns, &false)?;
        if !settings.gro && state.gro_segments() > 1 {
            setsockopt(&socket, UdpGroSegment, &false)?;
        }
        let messages = settings.messages.clamp(1, MAX_MESSAGES);
        Ok(Self {
            has_one_peer: rustix::net::getpeername(&socket).is_ok(),
            socket,
            state,
            settings: Settings {
                messages,
                ..settings
            },
            received: vec![0; messages * MESSAGE_BYTES].into(),
            batch: Vec::new(),
            sending: None,
            calls: Calls::default(),
        })
    }

    /// Datagrams that may be handed over as one; 1 where the kernel can't split, or mustn't.
    pub fn max_segments(&self) -> usize {
        match self.settings.gso {
            true => self.state.max_gso_segments(),
            false => 1,
        }
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// System calls until now.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// Hands on what has come, as much as is a turn's.
    ///
    /// # Errors
    /// The one peer can't be reached any more.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<()> {
        let most = self.settings.messages;
        for _ in 0..RECEIVES {
            let mut metas = [RecvMeta::default(); MAX_MESSAGES];
            let messages = self.receive_messages(&mut metas[..most])?;
            let buffers = self.received.chunks(MESSAGE_BYTES);
            for (meta, buffer) in metas.iter().take(messages).zip(buffers) {
                hand_over(meta, buffer, &mut take);
            }
            if messages < most {
                break;
            }
        }
        Ok(())
    }

    /// Sends what `next` puts into the buffer, batch after batch, as far as the socket takes it. What
    /// it doesn't take is kept for the next call.
    ///
    /// # Errors
    /// The one peer can't be reached any more.
    pub fn send(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<Transmit>,
    ) -> io::Result<Progress> {
        for _ in 0..SENDS {
            if self.sending.is_none() {
                let Some(transmit) = next(&mut self.batch) else {
                    return Ok(Progress::Drained);
                };
                self.sending = Some((transmit, 0));
            }
            if !self.send_batch()? {
                return Ok(Progress::Blocked);
            }
        }
        Ok(Progress::More)
    }

    /// How many there are; 0: nothing is there. A call that fails counts as that, so that the loop
    /// waits for the next datagram instead of spinning.
    fn receive_messages(&mut self, metas: &mut [RecvMeta]) -> io::Result<usize> {
        let mut chunks = self.received.chunks_mut(MESSAGE_BYTES);
        // Those beyond the setting are empty, and not offered.
        let mut buffers: [IoSliceMut<'_>; MAX_MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let buffers = &mut buffers[..metas.len()];
        let has_one_peer = self.has_one_peer;
        let mut messages = 0;
        let received = self.socket.try_read(|| {
            self.calls.receive += 1;
            match self.state.recv((&self.socket).into(), buffers, metas) {
                Ok(count) => messages = count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                Err(error) if has_one_peer && is_final(&error) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "cannot receive datagrams");
                    return Err(ErrorKind::WouldBlock.into());
                }
            }
            // Less than there was room for: the kernel has no more. Only an error of the one peer's may
            // have stopped it as well, with more behind.
            match messages < metas.len() && !has_one_peer {
                true => Err(ErrorKind::WouldBlock.into()),
                false => Ok(()),
            }
        });
        match received {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(messages),
        }
    }

    /// False when the socket's buffer is full: call it again later.
    fn send_batch(&mut self) -> io::Result<bool> {
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
            let sent = self.socket.try_write(|| {
                self.calls.send += 1;
                self.state.try_send((&self.socket).into(), &datagrams)
            });
            match sent {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if self.has_one_peer && is_final(&error) => return Err(error),
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
        Ok(true)
    }
}

/// As many whole datagrams as one call can carry: one, once the kernel has shown that it can't split.
fn part_size(transmit: &Transmit, state: &UdpSocketState) -> usize {
    match transmit.segment_size {
        Some(size) if state.max_gso_segments() == 1 => size.max(1),
        Some(size) if transmit.size > MAX_SEND_BYTES => MAX_SEND_BYTES / size.max(1) * size.max(1),
        _ => transmit.size,
    }
}

fn hand_over(meta: &RecvMeta, buffer: &[u8], take: &mut impl FnMut(Datagram<'_>)) {
    let ecn = meta.ecn.and_then(|ecn| Ecn::from_bits(ecn as u8));
    for payload in buffer[..meta.len].chunks(meta.stride.max(1)) {
        take(Datagram {
            remote: meta.addr,
            local_ip: meta.dst_ip,
            ecn,
            payload,
        });
    }
}

/// Whether an error of a connected UDP socket means that its peer can't be reached any more, so that
/// trying again is of no use.
#[must_use]
pub fn is_final(error: &io::Error) -> bool {
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
mod tests;
