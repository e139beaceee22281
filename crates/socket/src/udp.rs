//! A UDP socket that passes many datagrams with one system call in both directions (GRO and recvmmsg, GSO and
//! sendmmsg), with ECN.
//!
//! The datagrams that a turn has to send leave together: a train of datagrams of one connection as one message that
//! the kernel splits, small ones of many connections as messages of one call.
//!
//! The socket works with any kind of event loop: [`NonBlocking`] is what it asks of the loop's socket. Nothing here
//! waits.

mod outbox;

use crate::sys::{MAX_MESSAGES as MAX_SENT_MESSAGES, send_messages};
use altway_quic::{Datagram, Ecn, Transmit};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{ReceiveTimestampns, UdpGroSegment};
use outbox::Outbox;
use quinn_udp::{RecvMeta, UdpSocketState};
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The most messages that a receive call takes in, each of many datagrams of one sender.
const MAX_MESSAGES: usize = 8;

/// The most that a message can hold.
const MESSAGE_BYTES: usize = 65_535;

/// Receive calls a turn, and batches sent in a turn, before others have theirs.
const RECEIVES: usize = 4;
const BATCHES: usize = 64;

/// After so long, each way, a turn begins no further call: what comes may be handshakes of half a millisecond each,
/// and what goes 4 MiB.
const TURN: Duration = Duration::from_millis(1);

/// A socket that doesn't block, and the event loop's way to learn that it would have.
pub trait NonBlocking: AsFd {
    /// Makes a call that reads; an error of kind `WouldBlock` means that nothing is there any more.
    ///
    /// # Errors
    /// The call's error; `WouldBlock` as well when the event loop knows that it would be in vain.
    fn try_read<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;

    /// Makes a call that writes; an error of kind `WouldBlock` means that the socket is full.
    ///
    /// # Errors
    /// As [`NonBlocking::try_read`].
    fn try_write<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

/// Sockets for loops that ask the kernel themselves, with poll(2) for instance.
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
    /// Messages that a send call hands over, from 1 to 64. Default 64.
    pub sent_messages: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            gso: true,
            gro: true,
            messages: MAX_MESSAGES,
            sent_messages: MAX_SENT_MESSAGES,
        }
    }
}

/// Reason for which sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// Nothing is left to send.
    Drained,
    /// The socket's buffer is full.
    Blocked,
    /// More is left to send, but it is the others' turn.
    More,
}

/// The time of a turn, which begins when a first call is over.
#[derive(Default)]
struct Turn(Option<Instant>);

impl Turn {
    fn is_over(&mut self) -> bool {
        self.0.get_or_insert_with(Instant::now).elapsed() >= TURN
    }
}

/// System calls that were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls to receive (recvmmsg), those in vain included.
    pub receive: u64,
    /// Calls to send (sendmmsg), those in vain included.
    pub send: u64,
}

/// The socket with its buffers: 64 KiB a message to receive, and up to twice as much to send.
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
    outbox: Outbox,
    /// The kernel splits what one message hands it into datagrams.
    splits: bool,
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
            splits: settings.gso && state.max_gso_segments() > 1,
            socket,
            state,
            settings: Settings {
                messages,
                sent_messages: settings.sent_messages.clamp(1, MAX_SENT_MESSAGES),
                ..settings
            },
            received: vec![0; messages * MESSAGE_BYTES].into(),
            outbox: Outbox::default(),
            calls: Calls::default(),
        })
    }

    /// Datagrams that may be handed over as one; 1 where the kernel can't split, or mustn't.
    pub fn max_segments(&self) -> usize {
        match self.splits {
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

    /// Hands on what has come, as much as is a turn's: some hundred datagrams, or what takes a millisecond.
    ///
    /// # Errors
    /// The one peer can't be reached any more.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<()> {
        let most = self.settings.messages;
        let mut turn = Turn::default();
        for _ in 0..RECEIVES {
            let mut metas = [RecvMeta::default(); MAX_MESSAGES];
            let messages = self.receive_messages(&mut metas[..most])?;
            let buffers = self.received.chunks(MESSAGE_BYTES);
            for (meta, buffer) in metas.iter().take(messages).zip(buffers) {
                hand_over(meta, buffer, &mut take);
            }
            if messages < most || turn.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Sends what `next` puts into the buffer, batch after batch, as far as the socket takes it. What
    /// it doesn't take is kept for the next call.
    ///
    /// Batches of up to 4 KiB wait for the next ones, up to 64 of them with 64 KiB together, and leave by one system
    /// call. They wait no longer than until `next` has no more, or this returns: after 64 batches, or after a
    /// millisecond of large ones.
    ///
    /// # Errors
    /// The one peer can't be reached any more.
    pub fn send(
        &mut self,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<Transmit>,
    ) -> io::Result<SendOutcome> {
        if !self.flush()? {
            return Ok(SendOutcome::Blocked);
        }
        let mut progress = SendOutcome::More;
        let mut turn = Turn::default();
        for _ in 0..BATCHES {
            if !self.outbox.has_room() {
                if !self.flush()? {
                    return Ok(SendOutcome::Blocked);
                }
                if turn.is_over() {
                    break;
                }
            }
            if !self.outbox.add(&mut next) {
                progress = SendOutcome::Drained;
                break;
            }
        }
        match self.flush()? {
            true => Ok(progress),
            false => Ok(SendOutcome::Blocked),
        }
    }

    /// Returns the number of messages received; 0: nothing is there. A call that fails counts as that, so that the
    /// loop waits for the next datagram instead of spinning.
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

    /// Sends what has gathered. False when the socket's buffer is full: call it again later.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.outbox.is_empty() {
            let mut sent = self.send_gathered(self.splits, self.settings.sent_messages);
            if let Err(error) = &sent
                && self.may_be_of_splitting(error)
            {
                let error = error.to_string();
                sent = self.send_gathered(false, 1);
                if sent.is_ok() {
                    tracing::info!(%error, "datagrams leave one by one: they can't be split on the way");
                    self.splits = false;
                }
            }
            match sent {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if self.has_one_peer && is_final(&error) => return Err(error),
                // A datagram that doesn't leave is a lost one, which the engine knows how to treat:
                // probes for a larger MTU end like this every day.
                Err(error) => {
                    tracing::trace!(%error, "cannot send datagrams");
                    self.outbox.on_left(1, self.splits);
                }
            }
        }
        Ok(true)
    }

    /// Makes one call for so many messages at most.
    fn send_gathered(&mut self, splits: bool, most: usize) -> io::Result<()> {
        let messages = self.outbox.messages(splits).take(most);
        let sent = self.socket.try_write(|| {
            self.calls.send += 1;
            send_messages(self.socket.as_fd(), messages)
        })?;
        self.outbox.on_left(sent, splits);
        Ok(())
    }

    /// Returns true if an error of the first message may be that of a device which can't split: Linux reports EIO,
    /// and in some cases EINVAL, which a route that has gone, or a smaller MTU, brings as well. Sending the first
    /// datagram alone shows which it was.
    fn may_be_of_splitting(&self, error: &io::Error) -> bool {
        let first = self.outbox.messages(self.splits).next();
        first.is_some_and(|first| first.segment_size.is_some())
            && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
    }
}

fn hand_over(meta: &RecvMeta, buffer: &[u8], take: &mut impl FnMut(Datagram<'_>)) {
    if meta.addr.port() == 0 {
        // Nobody can be answered there (RFC 768): the attempt is an error.
        return;
    }
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

/// Returns true if an error of a connected UDP socket means that its peer can't be reached any more, so that trying
/// again is of no use.
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
