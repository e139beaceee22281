//! The kernel's counters and estimates of a TCP connection.
//!
//! `struct tcp_info` has grown with the kernels, at its end only. It is read field by field, as far as
//! the running kernel says to have filled it: what is younger than that kernel is `None`.

use crate::sys;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::time::Duration;

/// A TCP connection's counters since its beginning, and its path as it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smallest round-trip time of the last minutes; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Smoothed mean deviation of the round-trip time (RFC 6298); `None` before the first sample.
    pub rtt_variation: Option<Duration>,
    /// Segments with payload that were sent, retransmissions included. Pure acknowledgements are not
    /// in it: they are never sent again.
    pub data_segments_sent: u64,
    /// Payload bytes that were sent, retransmissions included; `None` before Linux 4.19.
    pub bytes_sent: Option<u64>,
    /// Payload bytes that wait to be sent for the first time; `None` before Linux 4.6.
    pub bytes_unsent: Option<u64>,
    /// Segments that reached the peer, as far as it has told, by selective acknowledgements too. The
    /// SYN is left out; a FIN counts. `None` before Linux 4.18.
    pub segments_delivered: Option<u64>,
    /// Bytes that were acknowledged in sequence. The SYN of a connection that was opened here, and a
    /// FIN, count as one each.
    pub bytes_acked: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Payload bytes that were sent again; `None` before Linux 4.19.
    pub bytes_retransmitted: Option<u64>,
    /// Segments that the peer reported to have had twice (RFC 2883): they were sent again in vain.
    /// `None` before Linux 4.19.
    pub duplicates: Option<u64>,
    /// The rate at which payload was delivered lately; `None` before the first sample, and before Linux 4.9.
    pub delivery_rate: Option<TcpDeliveryRate>,
    /// Congestion window, in segments of [`segment_bytes`](Self::segment_bytes).
    pub congestion_window: u64,
    /// Payload of the largest segment that is sent, in bytes.
    pub segment_bytes: u64,
    /// Options in the TCP header of each segment, in bytes: 12 with time stamps (RFC 7323), else 0.
    pub option_bytes: u64,
    /// The largest IP packet that the path is known to carry, in bytes.
    pub path_mtu: u64,
    /// Time since a segment with an acknowledgement last arrived; all but the first have one. In whole
    /// milliseconds, and as exact as the kernel's ticks (1 to 10 ms).
    pub since_acknowledgement: Duration,
    /// Segments that were sent again since something was last acknowledged, because a time-out has passed, or that have asked
    /// without an answer whether the peer is there or its window still closed; 255 at most.
    pub unanswered: u64,
}

impl TcpInfo {
    /// Payload bytes that the application has written: all of them are acknowledged when
    /// [`bytes_acked`](Self::bytes_acked) is as many. `None` before Linux 4.19.
    #[must_use]
    pub fn bytes_written(&self) -> Option<u64> {
        let sent_once = self.bytes_sent?.checked_sub(self.bytes_retransmitted?)?;
        sent_once.checked_add(self.bytes_unsent?)
    }
}

/// The kernel's latest sample of the delivery rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpDeliveryRate {
    /// Payload bytes per second.
    pub bytes_per_second: u64,
    /// The application had nothing more to send: the path may carry more.
    pub app_limited: bool,
}

/// Reads them; `None` for a socket that has none (no TCP, or a kernel that fills in less of the
/// structure than this needs: Linux before 4.6).
#[must_use]
pub fn tcp_info(socket: impl AsFd) -> Option<TcpInfo> {
    let mut room = [0; sys::TCP_INFO_ROOM];
    Fields(sys::raw_tcp_info(socket.as_fd(), &mut room)?).read()
}

/// The structure's bytes that the kernel has filled.
struct Fields<'a>(&'a [u8]);

/// One field of `struct tcp_info`, where the C library's declaration has it.
macro_rules! field {
    ($fields:expr, $field:ident: $type:ty) => {
        $fields
            .at(offset_of!(libc::tcp_info, $field))
            .map(|bytes| u64::from(<$type>::from_ne_bytes(bytes)))
    };
}

impl Fields<'_> {
    fn read(&self) -> Option<TcpInfo> {
        let smoothed_rtt = time(field!(self, tcpi_rtt: u32)?);
        let variation = field!(self, tcpi_rttvar: u32)?;
        Some(TcpInfo {
            data_segments_sent: field!(self, tcpi_data_segs_out: u32)?,
            min_rtt: time(field!(self, tcpi_min_rtt: u32)?),
            smoothed_rtt,
            rtt_variation: smoothed_rtt.and(Some(Duration::from_micros(variation))),
            bytes_sent: field!(self, tcpi_bytes_sent: u64),
            bytes_unsent: field!(self, tcpi_notsent_bytes: u32),
            segments_delivered: field!(self, tcpi_delivered: u32).map(|all| all.saturating_sub(1)),
            bytes_acked: field!(self, tcpi_bytes_acked: u64)?,
            retransmissions: field!(self, tcpi_total_retrans: u32)?,
            bytes_retransmitted: field!(self, tcpi_bytes_retrans: u64),
            duplicates: field!(self, tcpi_dsack_dups: u32),
            delivery_rate: self.delivery_rate(),
            congestion_window: field!(self, tcpi_snd_cwnd: u32)?,
            segment_bytes: field!(self, tcpi_snd_mss: u32)?,
            option_bytes: self.option_bytes()?,
            path_mtu: field!(self, tcpi_pmtu: u32)?,
            since_acknowledgement: Duration::from_millis(field!(self, tcpi_last_ack_recv: u32)?),
            unanswered: field!(self, tcpi_retransmits: u8)?.max(field!(self, tcpi_probes: u8)?),
        })
    }

    fn delivery_rate(&self) -> Option<TcpDeliveryRate> {
        /// The byte with `tcpi_delivery_rate_app_limited:1`, which not every C library declares: it
        /// stands before the first field of four bytes.
        const BITS: usize = offset_of!(libc::tcp_info, tcpi_rto) - 1;
        /// A bit field begins at the end of the byte that the number begins at.
        const APP_LIMITED: u8 = if cfg!(target_endian = "big") { 0x80 } else { 1 };
        let rate = field!(self, tcpi_delivery_rate: u64).filter(|rate| *rate > 0)?;
        let [bits] = self.at(BITS)?;
        Some(TcpDeliveryRate {
            bytes_per_second: rate,
            app_limited: bits & APP_LIMITED != 0,
        })
    }

    fn option_bytes(&self) -> Option<u64> {
        /// Ten bytes, padded to a multiple of four (RFC 7323 appendix A).
        const TIME_STAMPS: u64 = 12;
        /// `TCPI_OPT_TIMESTAMPS` of linux/tcp.h.
        const HAS_TIME_STAMPS: u64 = 1;
        let options = field!(self, tcpi_options: u8)?;
        Some((options & HAS_TIME_STAMPS) * TIME_STAMPS)
    }

    fn at<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        let bytes = self.0.get(offset..offset + N)?;
        Some(bytes.try_into().expect("the slice has N bytes"))
    }
}

/// A time in µs; `None` for what the kernel says when there was no sample yet.
fn time(us: u64) -> Option<Duration> {
    const UNKNOWN: [u64; 2] = [0, u32::MAX as u64];
    (!UNKNOWN.contains(&us)).then(|| Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server)
    }

    #[test]
    fn a_tcp_connection_has_counters() {
        let (mut client, mut server) = pair();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        let info = tcp_info(&server).unwrap();
        assert!(info.min_rtt.unwrap() < Duration::from_secs(1));
        assert!(info.smoothed_rtt.unwrap() < Duration::from_secs(1));
        assert!(info.rtt_variation.unwrap() < Duration::from_secs(1));
        assert!(info.segment_bytes >= 536, "{info:?}");
        assert!(info.path_mtu > info.segment_bytes, "{info:?}");
        assert!(info.congestion_window >= 1, "{info:?}");
        assert_eq!((info.data_segments_sent, info.retransmissions), (1, 0));
    }

    #[test]
    fn what_arrived_is_acknowledged() {
        let (mut client, mut server) = pair();
        server.write_all(b"12345").unwrap();
        client.read_exact(&mut [0; 5]).unwrap();
        // The answer carries the acknowledgement.
        client.write_all(b"!").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
        let info = tcp_info(&server).unwrap();
        assert_eq!(info.bytes_acked, 5);
        let known = (info.bytes_sent, info.segments_delivered, info.duplicates);
        assert_eq!(known, (Some(5), Some(1), Some(0)));
        assert_eq!(info.bytes_retransmitted, Some(0));
        assert!(info.delivery_rate.unwrap().app_limited, "{info:?}");
    }

    #[test]
    fn a_udp_socket_has_none() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        assert_eq!(tcp_info(&socket), None);
    }

    /// The structure as a kernel would fill it that knows `known` bytes of it.
    fn filled(known: usize, fields: &[(usize, u32)]) -> Option<TcpInfo> {
        let mut bytes = [0; sys::TCP_INFO_ROOM];
        for (offset, value) in fields {
            bytes[*offset..][..4].copy_from_slice(&value.to_ne_bytes());
        }
        Fields(&bytes[..known]).read()
    }

    #[test]
    fn no_sample_is_no_time() {
        let info = filled(240, &[(offset_of!(libc::tcp_info, tcpi_min_rtt), u32::MAX)]).unwrap();
        let times = (info.min_rtt, info.smoothed_rtt, info.rtt_variation);
        assert_eq!((times, info.delivery_rate), ((None, None, None), None));
    }

    #[test]
    fn a_round_trip_without_variation_has_one_of_nothing() {
        let info = filled(240, &[(offset_of!(libc::tcp_info, tcpi_rtt), 5_000)]).unwrap();
        let known = (info.smoothed_rtt, info.rtt_variation);
        assert_eq!(
            known,
            (Some(Duration::from_millis(5)), Some(Duration::ZERO))
        );
    }

    #[test]
    fn what_an_older_kernel_does_not_fill_is_unknown() {
        // Lengths of the structure: Linux 4.5, 4.6, 4.9, 4.18, 4.19.
        assert_eq!(filled(152, &[]), None);
        let rate = (offset_of!(libc::tcp_info, tcpi_delivery_rate), 1_000);
        let known = |length| {
            let info = filled(length, &[rate]).unwrap();
            let rate = info.delivery_rate.map(|rate| rate.bytes_per_second);
            (
                rate,
                info.segments_delivered,
                info.bytes_sent,
                info.duplicates,
            )
        };
        assert_eq!(known(160), (None, None, None, None));
        assert_eq!(known(168), (Some(1_000), None, None, None));
        assert_eq!(known(200), (Some(1_000), Some(0), None, None));
        assert_eq!(known(224), (Some(1_000), Some(0), Some(0), Some(0)));
    }

    #[test]
    fn a_length_that_cuts_a_field_does_not_tell_it() {
        let rate = (offset_of!(libc::tcp_info, tcpi_delivery_rate), 1_000);
        assert_eq!(filled(167, &[rate]).unwrap().delivery_rate, None);
        assert_eq!(filled(159, &[]), None);
    }
}
