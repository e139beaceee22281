//! The one ioctl that turns an open `/dev/net/tun` into an interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes a TUN interface out of an open `/dev/net/tun`, in the network namespace in which that was
/// opened; returns its name. A `%d` in `pattern` (ASCII, below 16 bytes) becomes a free number.
///
/// IFF_NO_PI: reads and writes are IP packets and nothing else. There is no IFF_VNET_HDR either, so
/// the kernel cuts large segments up itself, and each read is one packet of the wire.
pub(crate) fn make_tun(device: BorrowedFd<'_>, pattern: &str) -> io::Result<String> {
    let ifru_flags = libc::c_short::try_from(libc::IFF_TUN | libc::IFF_NO_PI)
        .expect("both flags are below 2^15");
    let mut request = super::interface_request(pattern)?;
    request.ifr_ifru.ifru_flags = ifru_flags;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(name_of(&request))
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().flat_map(|byte| byte.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&name).into_owned()
}
