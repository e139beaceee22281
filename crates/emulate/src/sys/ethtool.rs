//! Offloads of an interface, by the ioctl of ethtool(8): the newer netlink face of it is in kernels
//! from 5.6 on only, and takes a library for six switches.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsRawFd;

/// SIOCETHTOOL of linux/sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// An offload: work that the interface does in the kernel's stead, or that the kernel does for
/// several packets at once. The numbers are the commands of linux/ethtool.h that read and set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Offload {
    /// Segmentation of TCP.
    TcpSegmentation,
    /// Segmentation of anything, by the kernel, just before the interface.
    GenericSegmentation,
    /// Joining what came in.
    GenericReceive,
    /// Packets in several pieces of memory.
    ScatterGather,
    /// Checksums of what goes out.
    SendChecksum,
    /// Checksums of what comes in.
    ReceiveChecksum,
}

impl Offload {
    /// All, in an order in which each may be switched off.
    pub(crate) const ALL: [Self; 6] = [
        Self::TcpSegmentation,
        Self::GenericSegmentation,
        Self::GenericReceive,
        Self::ScatterGather,
        Self::SendChecksum,
        Self::ReceiveChecksum,
    ];

    /// ETHTOOL_G… and ETHTOOL_S….
    fn commands(self) -> (u32, u32) {
        match self {
            Self::ReceiveChecksum => (0x14, 0x15),
            Self::SendChecksum => (0x16, 0x17),
            Self::ScatterGather => (0x18, 0x19),
            Self::TcpSegmentation => (0x1e, 0x1f),
            Self::GenericSegmentation => (0x23, 0x24),
            Self::GenericReceive => (0x2b, 0x2c),
        }
    }
}

/// Returns whether an interface of the calling thread's namespace does this.
pub(crate) fn offload(interface: &str, offload: Offload) -> io::Result<bool> {
    let (get, _) = offload.commands();
    Ok(command(interface, get, 0)? != 0)
}

/// Switches it on or off. What an interface can't do at all counts as switched off.
pub(crate) fn set_offload(interface: &str, offload: Offload, on: bool) -> io::Result<()> {
    let (_, set) = offload.commands();
    match command(interface, set, u32::from(on)) {
        Err(error) if !on && error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        done => done.map(drop),
    }
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

fn command(interface: &str, command: u32, data: u32) -> io::Result<u32> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut value = Value { command, data };
    let mut request = super::interface_request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads an `ifreq` whose data points to what the command wants: for those
    // above, one `ethtool_value`. Both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data)
}
