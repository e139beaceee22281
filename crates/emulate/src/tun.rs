//! One end of the link: a TUN interface, whose packets are read from and written to a file.

use crate::arrivals::Arrivals;
use crate::clock::now;
use crate::port::{Arrival, Port};
use crate::{Error, sys};
use altway_units::DataSize;
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
        Ok(Self {
            file,
            name,
            arrivals,
        })
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

    fn read_some(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Port for Tun {
    const HEADER: usize = 0;

    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<Arrival>, Errno> {
        let Some(length) = self.read_some(buffer)? else {
            self.none_left();
            return Ok(None);
        };
        let noted = self
            .arrivals
            .as_mut()
            .and_then(|arrivals| arrivals.of(&buffer[..length]));
        Ok(Some(Arrival {
            length,
            size: Some(DataSize::from_bytes(length as u64)),
            at: noted.unwrap_or_else(now),
        }))
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), Errno> {
        rustix::io::write(&self.file, packet).map(|_| ())
    }

    fn drain(&mut self, most: usize) -> Result<usize, Errno> {
        // The kernel cuts off what doesn't fit.
        let mut scratch = [0; 64];
        for drained in 0..most {
            if self.read_some(&mut scratch)?.is_none() {
                self.none_left();
                return Ok(drained);
            }
        }
        Ok(most)
    }

    fn knows_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    /// None: what the kernel drops here stands in the interface's own counters.
    fn take_hidden_drops(&mut self) -> u64 {
        0
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
