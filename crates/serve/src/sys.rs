//! Limits and sizes that the kernel knows and the standard library doesn't report.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::AsFd;

/// Size of the UDP buffers, in bytes: with less, the Initials of many new connections are lost.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// Raises the process's limit of open files to what it may have, and says what it is now.
///
/// # Errors
/// The system refuses.
pub(crate) fn raise_open_files() -> io::Result<Option<u64>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    Ok(maximum)
}

/// Returns the number of files that a worker's cache may have open: no large part of what the process
/// may have, and no more than a cache has use for.
pub(crate) fn open_files_of_a_cache() -> usize {
    const MOST: u64 = 256;
    const PART: u64 = 32;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((limit / PART).clamp(1, MOST)).unwrap_or(1)
}

/// Raises a UDP socket's buffers as far as the process may. Returns the receive buffer that came of
/// it, in bytes.
///
/// # Errors
/// The buffer can't even be read.
pub(crate) fn raise_udp_buffers(socket: impl AsFd) -> io::Result<usize> {
    altway_socket::raise_udp_buffers(socket, UDP_BUFFER_BYTES)
}
