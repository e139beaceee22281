//! Sockets that another process has bound for this one, as service managers do.

use crate::Error;
use crate::options::Spread;
use socket2::{SockRef, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A socket that another process has bound, or the program itself: over TCP one that listens, or one of UDP. Clones are
/// the same.
///
/// ```
/// use altway_serve::{Options, PassedSocket};
/// use std::net::TcpListener;
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut options = Options::clear_text().with_address(listener.local_addr()?);
/// options.passed = vec![PassedSocket::new(listener.into())?];
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PassedSocket {
    descriptor: Arc<OwnedFd>,
    address: SocketAddr,
    is_udp: bool,
}

impl PassedSocket {
    /// Looks at what was passed.
    ///
    /// # Errors
    /// The descriptor is no socket of TCP or UDP with an address, or one of TCP that does not listen.
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let socket = SockRef::from(&descriptor);
        let unsuited = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
        let address = socket.local_addr()?.as_socket();
        let address = address.ok_or_else(|| unsuited("it has no IP address"))?;
        let is_udp = match socket.r#type()? {
            Type::STREAM => false,
            Type::DGRAM => true,
            _ => return Err(unsuited("it is neither of TCP nor of UDP")),
        };
        if !is_udp && !rustix::net::sockopt::socket_acceptconn(&descriptor)? {
            return Err(unsuited("it does not listen"));
        }
        socket.set_nonblocking(true)?;
        Ok(Self {
            descriptor: Arc::new(descriptor),
            address,
            is_udp,
        })
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if the socket is one of UDP.
    #[must_use]
    pub fn is_udp(&self) -> bool {
        self.is_udp
    }

    fn duplicate(&self) -> Result<OwnedFd, Error> {
        self.descriptor.try_clone().map_err(Error::Worker)
    }
}

/// The sockets among `all` that are bound to an address.
pub(super) struct Passed<'p> {
    address: SocketAddr,
    tcp: Vec<&'p PassedSocket>,
    udp: Vec<&'p PassedSocket>,
}

impl<'p> Passed<'p> {
    /// `None` where there are none. Port 0 is none that was asked for. The zone of a link-local address (RFC 4007 section 6) is
    /// that of the sockets: no [`Bind`](crate::Bind) has one.
    pub(super) fn at(wanted: SocketAddr, all: &'p [PassedSocket]) -> Option<Self> {
        let place = |it: SocketAddr| (it.ip(), it.port());
        let first = all.iter().find(|it| place(it.address) == place(wanted))?;
        let address = first.address;
        let here = all.iter().filter(|it| it.address == address);
        let (udp, tcp) = here.partition(|it| it.is_udp);
        Some(Self { address, tcp, udp })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listeners: one for each worker, or one for all; `None` where none were passed. Workers without one of their
    /// own share another's.
    ///
    /// # Errors
    /// There are more than anybody accepts from, or no descriptors are left.
    pub(super) fn tcp(
        &self,
        workers: usize,
        spread: Spread,
    ) -> Result<Option<Vec<TcpListener>>, Error> {
        let (found, most) = match spread {
            Spread::PerWorker => (self.tcp.len(), workers),
            Spread::RoundRobin => (self.tcp.len(), 1),
        };
        if found == 0 {
            return Ok(None);
        }
        if found > most {
            return Err(self.count("TCP", found, format!("1 to {most}")));
        }
        let each = self.tcp.iter().cycle().take(most);
        let each = each.map(|it| Ok(it.duplicate()?.into()));
        each.collect::<Result<_, _>>().map(Some)
    }

    /// The sockets of QUIC: one for each worker, or one of which one worker has all; `None` where none were passed.
    ///
    /// # Errors
    /// There is another number of them, or no descriptors are left.
    pub(super) fn udp(&self, workers: usize) -> Result<Option<Vec<UdpSocket>>, Error> {
        let found = self.udp.len();
        if found == 0 {
            return Ok(None);
        }
        if found != 1 && found != workers {
            return Err(self.count("UDP", found, format!("1 or {workers}")));
        }
        if found < workers {
            tracing::warn!(
                address = %self.address,
                "one UDP socket was passed: one of {workers} workers has all of HTTP/3"
            );
        }
        let each = self.udp.iter().map(|it| Ok(it.duplicate()?.into()));
        each.collect::<Result<_, _>>().map(Some)
    }

    fn count(&self, transport: &'static str, found: usize, expected: String) -> Error {
        Error::PassedSockets {
            address: self.address,
            transport,
            found,
            expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    fn passed(sockets: usize) -> Vec<PassedSocket> {
        let bind = |kind: Type| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket
        };
        let first = bind(Type::STREAM);
        let local: SocketAddr = ([127, 0, 0, 1], 0).into();
        first.bind(&local.into()).unwrap();
        let address = first.local_addr().unwrap();
        let mut all = vec![first];
        for _ in 1..sockets {
            all.push(bind(Type::STREAM));
            all.last().unwrap().bind(&address).unwrap();
        }
        for _ in 0..sockets {
            all.push(bind(Type::DGRAM));
            all.last().unwrap().bind(&address).unwrap();
        }
        let tcp = all.iter().take(sockets);
        tcp.for_each(|it| it.listen(1).unwrap());
        let all = all.into_iter().map(|it| PassedSocket::new(it.into()));
        all.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn sockets_are_shared_out_or_refused() {
        let two = passed(2);
        let address = two[0].address();
        assert!(Passed::at(([127, 0, 0, 1], 1).into(), &two).is_none());
        let here = Passed::at(address, &two).unwrap();
        for workers in [2, 5] {
            let tcp = here.tcp(workers, Spread::PerWorker).unwrap().unwrap();
            assert_eq!(tcp.len(), workers);
        }
        assert_eq!(here.udp(2).unwrap().unwrap().len(), 2);
        let error = here.udp(5).unwrap_err().to_string();
        assert!(
            error.contains("2 UDP sockets") && error.contains("1 or 5"),
            "{error}"
        );
        assert!(here.tcp(1, Spread::PerWorker).is_err());
        assert!(here.tcp(5, Spread::RoundRobin).is_err());
        let one = passed(1);
        let here = Passed::at(one[0].address(), &one[..1]).unwrap();
        assert_eq!(here.tcp(3, Spread::RoundRobin).unwrap().unwrap().len(), 1);
        assert!(here.udp(3).unwrap().is_none());
        let here = Passed::at(one[0].address(), &one[1..]).unwrap();
        assert_eq!(here.udp(3).unwrap().unwrap().len(), 1);
        assert!(here.tcp(3, Spread::PerWorker).unwrap().is_none());
    }

    /// A link-local address of this machine.
    fn link_local() -> Option<SocketAddr> {
        let addresses = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
        addresses.lines().find_map(|line| {
            let mut columns = line.split_whitespace();
            let ip = u128::from_str_radix(columns.next()?, 16).ok()?.into();
            let zone = u32::from_str_radix(columns.next()?, 16).ok()?;
            let address = SocketAddrV6::new(ip, 0, 0, zone);
            ip.is_unicast_link_local().then_some(address.into())
        })
    }

    #[test]
    fn a_socket_at_a_link_local_address_is_found_without_its_zone() {
        let Some(address) = link_local() else {
            return;
        };
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let passed = [PassedSocket::new(listener.into()).unwrap()];
        let wanted = SocketAddr::new(address.ip(), address.port());
        let here = Passed::at(wanted, &passed).unwrap();
        assert_eq!(here.address(), address);
        assert_eq!(here.tcp(2, Spread::PerWorker).unwrap().unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_socket_to_serve_at_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(PassedSocket::new(file.into()).is_err());
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(PassedSocket::new(unix.into()).is_err());
        let silent = socket2::Socket::new(socket2::Domain::IPV4, Type::STREAM, None).unwrap();
        let error = PassedSocket::new(silent.into()).unwrap_err().to_string();
        assert!(error.contains("does not listen"), "{error}");
    }
}
