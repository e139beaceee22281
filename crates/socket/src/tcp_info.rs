//! What the kernel knows of a TCP connection.

use crate::sys;
use std::os::fd::AsFd;
use std::time::Duration;

/// A TCP connection's counters since its beginning, and its path as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smallest round-trip time of the last minutes; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Segments with payload that were sent, retransmissions included. Pure acknowledgements are not
    /// in it: they are never sent again.
    pub data_segments_sent: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Payload of the largest segment that is sent, in bytes.
    pub segment_bytes: u64,
}

/// Reads them; `None` for a socket that has none (no TCP, or a kernel that fills in less of the
/// structure than this needs: Linux before 4.6).
#[must_use]
pub fn tcp_info(socket: impl AsFd) -> Option<TcpInfo> {
    let (info, known) = sys::raw_tcp_info(socket.as_fd())?;
    let needed = std::mem::offset_of!(libc::tcp_info, tcpi_data_segs_out) + size_of::<u32>();
    (known >= needed).then(|| of(&info))
}

fn of(info: &libc::tcp_info) -> TcpInfo {
    /// What the kernel says when there was no sample yet.
    const UNKNOWN: [u32; 2] = [0, u32::MAX];
    let time = |us: u32| (!UNKNOWN.contains(&us)).then(|| Duration::from_micros(us.into()));
    TcpInfo {
        min_rtt: time(info.tcpi_min_rtt),
        smoothed_rtt: time(info.tcpi_rtt),
        data_segments_sent: info.tcpi_data_segs_out.into(),
        retransmissions: info.tcpi_total_retrans.into(),
        segment_bytes: info.tcpi_snd_mss.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn a_tcp_connection_has_counters() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let info = tcp_info(&server).unwrap();
        assert!(info.min_rtt.unwrap() < Duration::from_secs(1));
        assert!(info.smoothed_rtt.unwrap() < Duration::from_secs(1));
        assert!(info.segment_bytes >= 536, "{info:?}");
        assert_eq!((info.data_segments_sent, info.retransmissions), (1, 0));
    }

    #[test]
    fn a_udp_socket_has_none() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(tcp_info(&socket), None);
    }

    #[test]
    fn no_sample_is_no_time() {
        let mut info = sys::no_tcp_info();
        info.tcpi_min_rtt = u32::MAX;
        assert_eq!((of(&info).min_rtt, of(&info).smoothed_rtt), (None, None));
    }
}
