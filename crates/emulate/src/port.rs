//! The interface of an end of the link to the link thread, whatever kind of interface it is.

use altway_units::{DataSize, Timestamp};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::AsFd;

/// An end of the link as the link thread sees it. Its file becomes readable when a packet has come.
pub(crate) trait Port: AsFd + fmt::Debug + Send + 'static {
    /// The bytes before the IP packet in what is read and written.
    const HEADER: usize;

    /// Takes the next packet that has come; `None` when there is none at the moment.
    ///
    /// # Errors
    /// The interface is gone.
    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<Arrival>, Errno>;

    /// Hands one packet, as it was read at the other end, to the kernel as if it had come over the
    /// wire; at the latest when [`flush`](Self::flush) is called.
    ///
    /// # Errors
    /// The kernel did not take this packet, or those that waited.
    fn write(&mut self, packet: &[u8]) -> Result<(), Lost>;

    /// Hands over the packets that wait to be handed over together.
    ///
    /// # Errors
    /// The kernel did not take them.
    fn flush(&mut self) -> Result<(), Lost>;

    /// Throws away what has come, up to `most` packets; returns how many there were.
    ///
    /// # Errors
    /// The interface is gone.
    fn drain(&mut self, most: usize) -> Result<usize, Errno>;

    /// Returns whether [`Arrival::at`] is when the kernel got the packet, and not when it was read.
    fn knows_arrivals(&self) -> bool;

    /// The packets that were lost before [`read`](Self::read) could see them since this was called
    /// last, as far as the interface's own counters don't tell.
    fn take_hidden_drops(&mut self) -> u64;
}

/// Number of packets that are lost because the kernel did not take them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) u64);

/// A packet that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The bytes read.
    pub(crate) length: usize,
    /// The size in IP bytes; `None` for what is no traffic of the ends but keeps their connection
    /// up, and so passes the link unshaped.
    pub(crate) size: Option<DataSize>,
    /// Time at which it came, as far as that is known: never after it was read.
    pub(crate) at: Timestamp,
}
