//! An end of the link: an Ethernet interface, whose frames are read and written by packet sockets.
//!
//! Frames for the interface itself do not pass; all others do, and those that are no IP traffic of
//! the ends (ARP, neighbour discovery) passes at once. Frames that are no packets of the wire,
//! because the sender leaves cutting them up to hardware, don't pass and are counted.

use crate::clock::{WallClock, now};
use crate::ethernet::{self, ip_size};
use crate::namespace::Namespace;
use crate::port::{Arrival, Lost, Port};
use crate::sys::{Frame, PacketSocket, packet_sender};
use crate::{Error, checksum};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size_force, socket_error};
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of frames that the kernel keeps for the link thread to read, before it drops them: 196 ms of full
/// packets at 1 Gbit/s. With frames of the usual MTU they are 32 MiB.
const FRAMES: usize = 16_384;

/// The most memory of a ring, which jumbo frames reach.
const RING_MAX: usize = 64 << 20;

/// Bytes that the kernel puts in front of a frame in the ring, and more.
const FRAME_OVERHEAD: usize = 128;

/// Bytes that may wait in the kernel to be sent; the default is gone in 2 ms at 1 Gbit/s.
const SEND_BUFFER: usize = 16 << 20;

/// An Ethernet interface.
#[derive(Debug)]
pub(crate) struct PacketPort {
    receiver: PacketSocket,
    sender: OwnedFd,
    clock: WallClock,
    /// Frames that came and can't pass: longer than the MTU, or with a VLAN tag.
    unfit: u64,
}

impl PacketPort {
    /// Opens the interface `index` of the calling thread's namespace.
    pub(crate) fn open(index: u32, mtu: u16) -> Result<Self, Error> {
        let failed = |source| Error::Network {
            attempted: "open packet sockets",
            source,
        };
        let frame_size = frame_size(mtu);
        let frames = FRAMES.min(RING_MAX / frame_size);
        let sender = packet_sender(index).map_err(failed)?;
        // Best effort: without privilege over the machine the default has to do.
        let _ = set_socket_send_buffer_size_force(&sender, SEND_BUFFER);
        Ok(Self {
            receiver: PacketSocket::receiver(index, frame_size, frames).map_err(failed)?,
            sender,
            clock: WallClock::new(),
            unfit: 0,
        })
    }

    /// Takes the next frame, copied to `buffer`; the outer `None` when there is none, the inner when
    /// it does not pass.
    fn take(&mut self, buffer: &mut [u8]) -> Option<Option<Arrival>> {
        let (clock, unfit) = (&mut self.clock, &mut self.unfit);
        self.receiver.next(|frame| {
            if frame.is_for_us {
                return None;
            }
            let arrival = copy(&frame, buffer, clock);
            *unfit += u64::from(arrival.is_none());
            arrival
        })
    }

    /// An error when the interface is gone; asked when nothing comes.
    fn is_alive(&self) -> Result<(), Errno> {
        socket_error(&self.receiver)?
    }
}

impl Port for PacketPort {
    const HEADER: usize = ethernet::HEADER;

    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<Arrival>, Errno> {
        while let Some(came) = self.take(buffer) {
            if came.is_some() {
                return Ok(came);
            }
        }
        self.is_alive()?;
        Ok(None)
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), Lost> {
        let sent = send(&self.sender, packet, SendFlags::DONTWAIT);
        sent.map(drop).map_err(|_| Lost(1))
    }

    fn flush(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    fn drain(&mut self, most: usize) -> Result<usize, Errno> {
        for drained in 0..most {
            if self.receiver.next(|_| ()).is_none() {
                self.is_alive()?;
                return Ok(drained);
            }
        }
        Ok(most)
    }

    fn knows_arrivals(&self) -> bool {
        true
    }

    fn take_hidden_drops(&mut self) -> u64 {
        let dropped = self.receiver.take_drops().unwrap_or(0);
        u64::from(dropped) + std::mem::take(&mut self.unfit)
    }
}

impl AsFd for PacketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

/// Checks that packet sockets can be made in the namespace of the calling thread.
pub(crate) fn try_here() -> io::Result<()> {
    /// The loopback interface, in every namespace.
    const LOOPBACK: u32 = 1;
    PacketSocket::receiver(LOOPBACK, 2_048, 32).map(drop)
}

/// Checks that packet sockets can be made, tried in a scratch namespace.
pub(crate) fn try_out() -> io::Result<()> {
    let tried = Namespace::create().and_then(|scratch| {
        scratch.run(|| {
            try_here().map_err(|source| Error::Network {
                attempted: "open a packet socket",
                source,
            })
        })
    });
    tried.map_err(|error| match error {
        Error::Network { source, .. } | Error::Namespace { source, .. } => source,
        other => io::Error::other(other),
    })
}

fn frame_size(mtu: u16) -> usize {
    (usize::from(mtu) + ethernet::HEADER + FRAME_OVERHEAD).next_power_of_two()
}

/// `None` when the frame is no packet of the wire, or of another wire.
fn copy(frame: &Frame<'_>, buffer: &mut [u8], clock: &mut WallClock) -> Option<Arrival> {
    let length = frame.length;
    let copied = buffer.get_mut(..length)?;
    if frame.is_tagged || frame.bytes.len() != length {
        return None;
    }
    copied.copy_from_slice(frame.bytes);
    if frame.lacks_checksum {
        checksum::complete(&mut copied[ethernet::HEADER..]);
    }
    Some(Arrival {
        length,
        size: ip_size(copied),
        at: clock.monotonic(frame.received, now()),
    })
}
