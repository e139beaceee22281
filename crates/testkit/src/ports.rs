//! Ports for servers under test.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports below the range from which the kernel takes those that nobody names.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port of the loopback that is free over TCP and UDP, for a server that can't pick one and tell. It stays so until it
/// is bound: the kernel gives nobody one below its range of ephemeral ports, and no two callers get the same.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(101);
    loop {
        let next =
            own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let Ok(port) = u16::try_from(PORTS.start + next) else {
            continue;
        };
        let address = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
}
