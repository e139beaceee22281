//! sendmmsg(2): datagrams to many addresses by one call, each message with control messages of its own.
//!
//! quinn-udp sends one message a call, and nix the same control messages with all.

use altway_quic::Ecn;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that one call carries at most; Linux takes 1,024.
pub(crate) const MAX_MESSAGES: usize = 64;

/// One datagram, or several of one size that the kernel splits (UDP_SEGMENT).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) destination: SocketAddr,
    /// The address to send from; `None`: the kernel's choice.
    pub(crate) local_ip: Option<IpAddr>,
    pub(crate) ecn: Option<Ecn>,
    /// Bytes of each datagram but the last, which may have fewer; `None`: it is one.
    pub(crate) segment_size: Option<u16>,
    pub(crate) contents: &'a [u8],
}

/// Sends the first [`MAX_MESSAGES`] of these, as far as the socket takes them; how many it took. Why it took no
/// more is reported by a call that begins with the next one.
///
/// # Errors
/// The first one is not sent, and why.
pub(crate) fn send_messages<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Message<'a>>,
) -> io::Result<usize> {
    let mut prepared = [const { MaybeUninit::<Prepared>::uninit() }; MAX_MESSAGES];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_MESSAGES];
    let mut count = 0;
    for ((prepared, header), message) in prepared.iter_mut().zip(&mut headers).zip(messages) {
        header.write(prepared.write(Prepared::new(&message)).header());
        count += 1;
    }
    loop {
        // SAFETY: the first `count` headers are written. Each points to a name, a buffer and control messages
        // in `prepared`, which stays where it is until the end of this function, and the buffer to contents that
        // are borrowed for longer than that. The kernel reads these, and writes `msg_len` of the headers alone.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr().cast(), count, 0) };
        match usize::try_from(sent) {
            Ok(sent) => return Ok(sent),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// A message's name, buffer and control messages, to which its header points.
struct Prepared {
    name: SockaddrStorage,
    buffer: libc::iovec,
    control: Control,
}

impl Prepared {
    fn new(message: &Message<'_>) -> Self {
        Self {
            name: message.destination.into(),
            buffer: libc::iovec {
                // The kernel doesn't write into what it sends.
                iov_base: message.contents.as_ptr().cast_mut().cast(),
                iov_len: message.contents.len(),
            },
            control: Control::of(message),
        }
    }

    /// Points to `self`.
    fn header(&mut self) -> libc::mmsghdr {
        // SAFETY: for a structure of pointers and lengths, zeros are null pointers and nothing to point to.
        let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let message = &mut header.msg_hdr;
        message.msg_name = self.name.as_ptr().cast_mut().cast();
        message.msg_namelen = self.name.len();
        message.msg_iov = &raw mut self.buffer;
        message.msg_iovlen = 1;
        message.msg_control = self.control.bytes.as_mut_ptr().cast();
        // musl's lengths are shorter than glibc's.
        message.msg_controllen = self.control.length as _;
        header
    }
}

/// Bytes of the three control messages that a message has at most: its ECN bits, the size of its segments,
/// and the address that it is sent from.
const CONTROL_BYTES: usize = 24 + 24 + 40;

/// Control messages as Linux reads them, `struct cmsghdr` by `struct cmsghdr` (include/linux/socket.h).
#[repr(align(8))]
struct Control {
    bytes: [u8; CONTROL_BYTES],
    length: usize,
}

impl Control {
    fn of(message: &Message<'_>) -> Self {
        let mut control = Self {
            bytes: [0; CONTROL_BYTES],
            length: 0,
        };
        let to = message.destination.ip();
        let (level, kind) = match to.to_canonical().is_ipv4() {
            true => (libc::IPPROTO_IP, libc::IP_TOS),
            false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        let ecn = message.ecn.map_or(0, Ecn::bits);
        control.push(level, kind, &libc::c_int::from(ecn).to_ne_bytes());
        if let Some(size) = message.segment_size {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
        }
        match message.local_ip {
            // `struct in_pktinfo`: interface, address to send from, address of the header.
            Some(IpAddr::V4(ip)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // `struct in6_pktinfo`: address, interface.
            Some(IpAddr::V6(ip)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        control
    }

    fn push(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        let length = size_of::<usize>() + 2 * size_of::<libc::c_int>() + data.len();
        let fields: [&[u8]; 4] = [
            &length.to_ne_bytes(),
            &level.to_ne_bytes(),
            &kind.to_ne_bytes(),
            data,
        ];
        let mut at = self.length;
        for field in fields {
            self.bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        self.length += length.next_multiple_of(size_of::<usize>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn socket() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    fn message(destination: SocketAddr, contents: &[u8]) -> Message<'_> {
        Message {
            destination,
            local_ip: Some([127, 0, 0, 1].into()),
            ecn: Some(Ecn::Ce),
            segment_size: None,
            contents,
        }
    }

    fn received(socket: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 100];
        let bytes = socket.recv(&mut buffer).unwrap();
        buffer[..bytes].to_vec()
    }

    #[test]
    fn one_call_sends_to_many_addresses_whole_and_in_segments() {
        let (sender, _) = socket();
        let peers: Vec<_> = (0..3).map(|_| socket()).collect();
        let messages = peers.iter().map(|(_, address)| Message {
            segment_size: Some(3),
            ..message(*address, b"abcdefg")
        });
        let whole = message(peers[0].1, b"whole");
        let sent = send_messages(sender.as_fd(), messages.chain([whole])).unwrap();
        assert_eq!(sent, 4);
        for (peer, _) in &peers {
            let segments: Vec<_> = (0..3).map(|_| received(peer)).collect();
            assert_eq!(segments, [&b"abc"[..], b"def", b"g"]);
        }
        assert_eq!(received(&peers[0].0), b"whole");
    }

    #[test]
    fn no_more_than_a_call_carries_are_sent_and_nothing_is_no_error() {
        let ((sender, _), (peer, address)) = (socket(), socket());
        let one = message(address, b"x");
        let messages = std::iter::repeat_n(one, MAX_MESSAGES + 1);
        let sent = send_messages(sender.as_fd(), messages).unwrap();
        assert_eq!(sent, MAX_MESSAGES);
        assert_eq!(received(&peer), b"x");
        let none = send_messages(sender.as_fd(), std::iter::empty()).unwrap();
        assert_eq!(none, 0);
    }

    #[test]
    fn what_is_behind_one_that_fails_is_not_sent_and_the_next_call_says_why() {
        let ((sender, _), (peer, address)) = (socket(), socket());
        // Nobody listens at port 0.
        let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
        let messages = [
            message(address, b"1"),
            message(nobody, b"2"),
            message(address, b"3"),
        ];
        let sent = send_messages(sender.as_fd(), messages.into_iter()).unwrap();
        assert_eq!(sent, 1);
        let rest = messages.into_iter().skip(1);
        let error = send_messages(sender.as_fd(), rest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let rest = messages.into_iter().skip(2);
        assert_eq!(send_messages(sender.as_fd(), rest).unwrap(), 1);
        assert_eq!([received(&peer), received(&peer)], [b"1", b"3"]);
    }
}
