//! An end of the link: a TUN interface, whose packets are read from and written to a file.
//!
//! As an interface of hardware does, it takes several packets of a flow from its kernel in one piece and
//! cuts them up ([`inbox`]), and hands over in one piece what came out of the link together ([`train`]).
//! Between the two each packet is one of the wire.

mod inbox;
mod tcp;
#[cfg(test)]
mod tests;
mod train;
mod virtio;

use self::inbox::Inbox;
use self::train::{Joins, Train};

use crate::arrivals::Arrivals;
use crate::clock::now;
use crate::port::{Arrival, Lost, Port};
use crate::sys::TunOffloads;
use crate::{Error, sys};
use altway_units::{DataSize, Timestamp};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel fills in the first free number.
const NAME_PATTERN: &str = "altway%d";

/// A TUN interface. It lives as long as its file is open.
#[derive(Debug)]
pub(crate) struct Tun {
    file: OwnedFd,
    name: String,
    /// `None` where the kernel takes no note of when packets came.
    arrivals: Option<Arrivals>,
    inbox: Inbox,
    /// Time at which what is in the inbox came.
    came: Timestamp,
    train: Train,
}

impl Tun {
    /// Opens the device that makes TUN interfaces.
    pub(crate) fn open_device() -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::open("/dev/net/tun", flags, Mode::empty())?)
    }

    /// Makes an interface in the network namespace of the calling thread.
    pub(crate) fn create() -> Result<Self, Error> {
        let failed = |attempted| move |source| Error::Tun { attempted, source };
        let file = Self::open_device().map_err(failed("open /dev/net/tun"))?;
        let name =
            sys::make_tun(file.as_fd(), NAME_PATTERN).map_err(failed("create a TUN interface"))?;
        let arrivals = Arrivals::at(&file)
            .inspect_err(|error| tracing::debug!(%error, "packets come when they are read"))
            .ok();
        let offloads = sys::set_tun_offloads(file.as_fd());
        if offloads != TunOffloads::All {
            tracing::debug!(?offloads, "the kernel cuts up what the link could");
        }
        let joins = match offloads {
            TunOffloads::All => Joins::TcpAndUdp,
            TunOffloads::TcpOnly | TunOffloads::None => Joins::Tcp,
        };
        Ok(Self {
            file,
            name,
            arrivals,
            inbox: Inbox::new(),
            came: Timestamp::ZERO,
            train: Train::new(joins),
        })
    }

    /// Makes the kernel get each packet by itself from now on: it passes them on to where they are
    /// counted as packets of the wire.
    pub(crate) fn keep_packets_apart(&mut self) {
        self.train = Train::new(Joins::Nothing);
    }

    /// The name of the interface in its namespace.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The index of the interface; to be asked on a thread in its namespace.
    pub(crate) fn index(&self) -> Result<u32, Error> {
        nix::net::if_::if_nametoindex(self.name.as_str()).map_err(|errno| Error::Tun {
            attempted: "find the TUN interface",
            source: errno.into(),
        })
    }

    fn none_left(&mut self) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.none_left();
        }
    }

    /// Fills the inbox; returns whether something had come.
    fn receive(&mut self) -> Result<bool, Errno> {
        let room = self.inbox.room();
        let Some(length) = read_some(&self.file, room)? else {
            self.none_left();
            return Ok(false);
        };
        // Before its checksum is completed: the note is of what the kernel handed over.
        let packet = room.get(virtio::LENGTH..length).unwrap_or_default();
        let noted = self.arrivals.as_mut().and_then(|notes| notes.of(packet));
        self.inbox.filled(length);
        self.came = noted.unwrap_or_else(now);
        Ok(true)
    }
}

impl Port for Tun {
    const HEADER: usize = 0;

    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<Arrival>, Errno> {
        loop {
            if let Some(length) = self.inbox.take(buffer) {
                return Ok(Some(Arrival {
                    length,
                    size: Some(DataSize::from_bytes(length as u64)),
                    at: self.came,
                }));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), Lost> {
        if self.train.join(packet) {
            return Ok(());
        }
        let flushed = self.flush();
        self.train.begin(packet);
        flushed
    }

    fn flush(&mut self) -> Result<(), Lost> {
        let packets = self.train.packets();
        if packets == 0 {
            return Ok(());
        }
        let written = rustix::io::write(&self.file, self.train.seal());
        self.train.clear();
        written.map(drop).map_err(|_| Lost(packets as u64))
    }

    fn drain(&mut self, most: usize) -> Result<usize, Errno> {
        for drained in 0..most {
            if read_some(&self.file, self.inbox.room())?.is_none() {
                self.none_left();
                return Ok(drained);
            }
        }
        Ok(most)
    }

    fn knows_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Takes the count of packets unfit for the link; what the kernel drops stands in the
    /// interface's own counters.
    fn take_hidden_drops(&mut self) -> u64 {
        self.inbox.take_unfit()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn read_some(file: &OwnedFd, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
    match rustix::io::read(file, buffer) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}
