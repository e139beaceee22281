//! One end of the link: a TUN interface, whose packets are read from and written to a file.

use crate::{Error, sys};
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
}

impl Tun {
    /// How many packets the kernel keeps for the link thread to read, before it drops them. The
    /// usual 500 are gone in 5 ms at 1 Gbit/s; these last for 240 ms.
    pub(crate) const QUEUE: u32 = 20_000;

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
        Ok(Self { file, name })
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

    /// Reads one packet; `None` when there is none at the moment.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Hands one packet to the kernel as if it had come over the wire.
    pub(crate) fn write(&self, packet: &[u8]) -> Result<(), Errno> {
        rustix::io::write(&self.file, packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
