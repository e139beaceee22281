//! The way of datagrams from the process that has the sockets to one that it took them over from.
//!
//! A server that was replaced answers its QUIC connections to their end. It sends through its copies
//! of the sockets; what comes to them is read by its successor, who tells by the connection ID whose
//! it is, and passes it on whole, with addresses and ECN, over a pair of Unix sockets: one message
//! for each datagram.
//!
//! The pair's content is bounded by its send buffer (as the UDP sockets' where the system allows, 208 KiB by Linux's
//! defaults); more is dropped, as by a full socket. The owner of a datagram is found out in
//! [`predecessors`](super::predecessors); the way of the pair to the successor is in [`takeover`](crate::takeover).

use super::predecessors::ProcessIds;
use super::steering::Inboxes;
use crate::sys::UDP_BUFFER_BYTES;
use altway_http3::{Datagram, Ecn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair, sockopt,
};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of the header before a datagram's payload: its ECN mark, the remote's address (16 bytes), port, flow label and
/// scope, the local address (16 bytes), and address (16 bytes) and port that the socket is bound to, each address with its
/// kind.
const HEAD_BYTES: usize = 1 + 1 + 16 + 2 + 4 + 4 + 1 + 16 + 1 + 16 + 2;

/// The largest message: the most that UDP carries, with its head.
pub(super) const MESSAGE_BYTES: usize = HEAD_BYTES + 65_535;

/// Kinds of an address.
const NO_ADDRESS: u8 = 0;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// A process that this one took the sockets over from, and that may still have connections.
#[derive(Debug, Clone)]
pub(crate) struct PredecessorRelay {
    ids: ProcessIds,
    link: Arc<OwnedFd>,
}

/// The process at the other end has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PeerClosed;

impl PredecessorRelay {
    pub(crate) fn new(ids: ProcessIds, link: OwnedFd) -> Self {
        let link = Arc::new(link);
        Self { ids, link }
    }

    pub(crate) fn ids(&self) -> &ProcessIds {
        &self.ids
    }

    pub(crate) fn link(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Returns true if the process has ended.
    pub(crate) fn is_gone(&self) -> bool {
        let mut link = [PollFd::new(&self.link, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let polled = poll(&mut link, Some(&now));
        polled.is_ok() && link[0].revents().contains(PollFlags::HUP)
    }

    /// Passes a datagram on that came to a socket which is bound to `listener`; drops it when too many wait.
    pub(super) fn pass(
        &self,
        listener: SocketAddr,
        datagram: &Datagram<'_>,
    ) -> Result<(), PeerClosed> {
        let head = head(listener, datagram);
        let parts = [IoSlice::new(&head), IoSlice::new(datagram.payload)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut nothing = SendAncillaryBuffer::default();
        match sendmsg(&self.link, &parts, &mut nothing, flags) {
            Err(Errno::PIPE | Errno::CONNRESET) => Err(PeerClosed),
            Err(error) => {
                tracing::trace!(%error, "dropped a datagram of a former process");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Both ends of a way: that of the process which reads, and that of its successor.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn datagram_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    if sockopt::set_socket_send_buffer_size_force(&theirs, UDP_BUFFER_BYTES).is_err() {
        sockopt::set_socket_send_buffer_size(&theirs, UDP_BUFFER_BYTES)?;
    }
    Ok((ours, theirs))
}

/// Hands what the successor passes on to the workers, until it has ended. Can be dropped and called
/// again. `inboxes`: those of each address; what came to another one is not for this process.
pub(crate) async fn carry(datagram_channel: &AsyncFd<OwnedFd>, inboxes: &[Inboxes]) {
    let mut message = vec![0; MESSAGE_BYTES];
    loop {
        let next = |datagram_channel: &OwnedFd| {
            Ok(recv(datagram_channel, &mut message[..], RecvFlags::empty())?.0)
        };
        match datagram_channel.async_io(Interest::READABLE, next).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if let Some((listener, datagram)) = read(&message[..length])
                    && let Some(inboxes) = inboxes.iter().find(|it| it.is_at(listener))
                {
                    inboxes.deliver(&datagram);
                }
            }
        }
    }
}

pub(super) fn head(listener: SocketAddr, datagram: &Datagram<'_>) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (flow, scope) = match datagram.remote {
        SocketAddr::V4(_) => (0, 0),
        SocketAddr::V6(remote) => (remote.flowinfo(), remote.scope_id()),
    };
    head[0] = datagram.ecn.map_or(0, Ecn::bits);
    write_ip(&mut head[1..18], Some(datagram.remote.ip()));
    head[18..20].copy_from_slice(&datagram.remote.port().to_ne_bytes());
    head[20..24].copy_from_slice(&flow.to_ne_bytes());
    head[24..28].copy_from_slice(&scope.to_ne_bytes());
    write_ip(&mut head[28..45], datagram.local_ip);
    write_ip(&mut head[45..62], Some(listener.ip()));
    head[62..64].copy_from_slice(&listener.port().to_ne_bytes());
    head
}

/// `None`: no successor of ours says this.
pub(super) fn read(message: &[u8]) -> Option<(SocketAddr, Datagram<'_>)> {
    let (head, payload) = message.split_first_chunk::<HEAD_BYTES>()?;
    let number = |at: usize| Some(u32::from_ne_bytes(*head[at..].first_chunk()?));
    let port = u16::from_ne_bytes(*head[18..].first_chunk()?);
    let remote = match read_ip(&head[1..18])?? {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, number(20)?, number(24)?).into(),
    };
    let datagram = Datagram {
        remote,
        local_ip: read_ip(&head[28..45])?,
        ecn: Ecn::from_bits(head[0]),
        payload,
    };
    let port = u16::from_ne_bytes(*head[62..].first_chunk()?);
    Some(((read_ip(&head[45..62])??, port).into(), datagram))
}

fn write_ip(place: &mut [u8], ip: Option<IpAddr>) {
    match ip {
        None => place[0] = NO_ADDRESS,
        Some(IpAddr::V4(ip)) => {
            place[0] = IPV4;
            place[1..5].copy_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            place[0] = IPV6;
            place[1..].copy_from_slice(&ip.octets());
        }
    }
}

/// `Some(None)`: there is none.
fn read_ip(place: &[u8]) -> Option<Option<IpAddr>> {
    let (what, bytes) = place.split_first()?;
    Some(match *what {
        NO_ADDRESS => None,
        IPV4 => Some(Ipv4Addr::from(*bytes.first_chunk()?).into()),
        IPV6 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use altway_http3::{Generation, ServerId};

    fn datagrams() -> Vec<Datagram<'static>> {
        let datagram = |remote: &str, local_ip: Option<&str>, ecn, payload| Datagram {
            remote: remote.parse().unwrap(),
            local_ip: local_ip.map(|ip| ip.parse().unwrap()),
            ecn,
            payload,
        };
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0x1_2345, 9);
        vec![
            datagram("192.0.2.1:65535", Some("192.0.2.2"), Some(Ecn::Ce), b"x"),
            datagram(
                "[2001:db8::1]:1",
                Some("2001:db8::2"),
                Some(Ecn::Ect0),
                &[0xff; 65_507],
            ),
            datagram("[::ffff:192.0.2.1]:443", None, None, b""),
            Datagram {
                remote: scoped.into(),
                ..datagram("[::]:1", None, Some(Ecn::Ect1), b"link-local")
            },
        ]
    }

    fn fields<'a>(datagram: &Datagram<'a>) -> (SocketAddr, Option<IpAddr>, Option<Ecn>, &'a [u8]) {
        let Datagram {
            remote,
            local_ip,
            ecn,
            payload,
        } = *datagram;
        (remote, local_ip, ecn, payload)
    }

    const LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 443);

    fn predecessor() -> (OwnedFd, PredecessorRelay) {
        let (ours, theirs) = datagram_channel().unwrap();
        let ids = ProcessIds {
            server: ServerId::default(),
            generation: Generation::default(),
            workers: 1,
        };
        (ours, PredecessorRelay::new(ids, theirs))
    }

    #[test]
    fn a_datagram_arrives_as_it_came() {
        let (ours, predecessor) = predecessor();
        let mut message = vec![0; MESSAGE_BYTES];
        for (port, datagram) in (1..).zip(datagrams()) {
            let ip = datagram.local_ip.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
            let listener = SocketAddr::new(ip, port);
            predecessor.pass(listener, &datagram).unwrap();
            let (length, _) = recv(&ours, &mut message[..], RecvFlags::empty()).unwrap();
            let (place, arrived) = read(&message[..length]).unwrap();
            assert_eq!(fields(&arrived), fields(&datagram));
            assert_eq!(place, listener);
        }
    }

    #[test]
    fn what_a_full_way_does_not_take_is_dropped() {
        let (_ours, predecessor) = predecessor();
        let [_, large, ..] = &datagrams()[..] else {
            panic!("there are more");
        };
        for _ in 0..1000 {
            assert_eq!(predecessor.pass(LISTENER, large), Ok(()));
        }
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let (ours, predecessor) = predecessor();
        assert!(!predecessor.is_gone());
        drop(ours);
        assert!(predecessor.is_gone());
        assert_eq!(predecessor.pass(LISTENER, &datagrams()[0]), Err(PeerClosed));
    }

    #[test]
    fn what_is_no_message_of_ours_is_none() {
        let mut message = head(LISTENER, &datagrams()[0]);
        assert!(read(&message).is_some());
        assert!(read(&message[..HEAD_BYTES - 1]).is_none());
        for (at, value) in [(1, NO_ADDRESS), (1, 5), (28, 5), (45, NO_ADDRESS), (45, 5)] {
            let good = std::mem::replace(&mut message[at], value);
            assert!(read(&message).is_none(), "{value} at {at}");
            message[at] = good;
        }
    }
}
