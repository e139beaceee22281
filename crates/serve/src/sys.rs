//! What the kernel knows and the standard library doesn't tell.

use crate::path_meter::Counters;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::AsFd;

/// What the UDP buffers should hold: fewer bytes lose the Initials of a connection ramp.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// The counters of a TCP connection; `None` for a socket that has none (no TCP, or no Linux from
/// 4.6 on).
pub(crate) fn tcp_counters(socket: impl AsFd) -> Option<Counters> {
    let info = altway_socket::tcp_info(socket)?;
    Some(Counters {
        min_rtt: info.min_rtt,
        packets_sent: info.data_segments_sent,
        packets_lost: info.retransmissions,
    })
}

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

/// Raises a UDP socket's buffers as far as the process may. Returns the receive buffer that came of
/// it, in bytes.
///
/// # Errors
/// The buffer can't even be read.
pub(crate) fn raise_udp_buffers(socket: impl AsFd) -> io::Result<usize> {
    altway_socket::raise_udp_buffers(socket, UDP_BUFFER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    #[test]
    fn a_tcp_connection_has_counters() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let counters = tcp_counters(&server).unwrap();
        assert!(counters.min_rtt.unwrap() < Duration::from_secs(1));
        assert_eq!((counters.packets_sent, counters.packets_lost), (1, 0));
    }

    #[test]
    fn a_udp_socket_has_no_tcp_counters() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(tcp_counters(&socket), None);
    }
}
