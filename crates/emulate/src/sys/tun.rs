//! The ioctls that turn an open `/dev/net/tun` into an interface, and say what it can do.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Work that the kernel leaves to whoever reads from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunOffloads {
    /// Checksums; and to cut up segments of TCP and datagrams of UDP, which come in one piece, and may be
    /// handed over in one piece (from Linux 6.2).
    All,
    /// The same without UDP's.
    TcpOnly,
    /// Nothing.
    None,
}

/// Makes a TUN interface out of an open `/dev/net/tun`, in the network namespace in which that was
/// opened; returns its name. A `%d` in `pattern` (ASCII, below 16 bytes) becomes a free number.
///
/// IFF_NO_PI, IFF_VNET_HDR: what is read and written is a `virtio_net_hdr` and then an IP packet.
pub(crate) fn make_tun(device: BorrowedFd<'_>, pattern: &str) -> io::Result<String> {
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let ifru_flags = libc::c_short::try_from(flags).expect("all three are below 2^15");
    let mut request = super::interface_request(pattern)?;
    request.ifr_ifru.ifru_flags = ifru_flags;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(name_of(&request))
}

/// Asks the kernel to leave as much as it can to the reader; returns what that is.
pub(crate) fn set_tun_offloads(tun: BorrowedFd<'_>) -> TunOffloads {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
    let wanted = [(tcp | udp, TunOffloads::All), (tcp, TunOffloads::TcpOnly)];
    let accepted = wanted.into_iter().find(|(flags, _)| {
        // SAFETY: TUNSETOFFLOAD takes a number and touches no memory.
        let result = unsafe {
            libc::ioctl(
                tun.as_raw_fd(),
                libc::TUNSETOFFLOAD,
                libc::c_ulong::from(*flags),
            )
        };
        result == 0
    });
    accepted.map_or(TunOffloads::None, |(_, offloads)| offloads)
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().flat_map(|byte| byte.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}
