//! The two interfaces of a link, one in each namespace, and what moves packets between them, which each backend
//! makes in its own way.

use crate::Error;
use crate::backend::Backend;
use crate::ip::IpVersion;
use crate::link::Link;
use crate::namespace::Namespace;
use crate::netem::{NetemLink, Router};
use crate::packet::PacketPort;
use crate::packet_log::Recorder;
use crate::pairs::{Mac, Pairs};
use crate::pump::Parameters;
use crate::subnet::{Prefix, Subnet};
use crate::thread::LinkThread;
use crate::tun::Tun;

/// Two interfaces that belong together, and through which nothing passes yet.
#[derive(Debug)]
pub(crate) struct LinkDevices {
    /// The interface in the client's namespace.
    pub(crate) client: Interface,
    /// The interface in the server's namespace.
    pub(crate) server: Interface,
    path: Path,
}

/// An interface as the namespace that it is in knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
}

/// The mover of packets between the two interfaces.
#[derive(Debug)]
enum Path {
    Tun(Box<[Tun; 2]>),
    /// A thread between two pairs.
    Packet(Pairs),
    /// A router between two pairs.
    Netem(Pairs),
}

/// Settings with which the link begins.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) parameters: Parameters,
    /// The MTU of both interfaces.
    pub(crate) mtu: u16,
    /// The log of every packet, if there is one; netem does not.
    pub(crate) recorder: Option<Recorder>,
    /// The processor of the link thread, where there is one.
    pub(crate) pin: Option<usize>,
    /// The addresses of the two ends.
    pub(crate) subnet: Subnet,
    /// The subnet that the client's end passes packets on to, if it does.
    pub(crate) beyond: Option<Prefix>,
}

impl Interface {
    /// Number of packets that the kernel keeps for the link thread to read, before it drops them. The
    /// usual 500 are gone in 5 ms at 1 Gbit/s; these last for 240 ms. Pieces of several packets, which
    /// [`Tun`] reads, count as one and have 64 KiB at most: 1.3 GB, if a sender waits for nobody.
    pub(crate) const QUEUE: u32 = 20_000;
}

impl LinkDevices {
    /// Makes the two interfaces, and what moves packets between them.
    pub(crate) fn create(
        backend: Backend,
        client: &Namespace,
        server: &Namespace,
        mtu: u16,
        ip: IpVersion,
    ) -> Result<Self, Error> {
        if backend == Backend::Tun {
            return Self::create_tun_pair(client, server);
        }
        let forward = (backend == Backend::Netem).then_some(ip);
        let pairs = Pairs::create(client, server, mtu, forward)?;
        Ok(Self {
            client: pairs.client.end.clone(),
            server: pairs.server.end.clone(),
            path: match backend {
                Backend::Netem => Path::Netem(pairs),
                _ => Path::Packet(pairs),
            },
        })
    }

    fn create_tun_pair(client: &Namespace, server: &Namespace) -> Result<Self, Error> {
        let (server_tun, server) = server.run(create_tun)?;
        let (client_tun, client) = client.run(create_tun)?;
        Ok(Self {
            client,
            server,
            path: Path::Tun(Box::new([client_tun, server_tun])),
        })
    }

    /// The hardware addresses at which the client finds the server, and the server the client; `None`
    /// where there are none.
    pub(crate) fn neighbours(&self) -> Option<[Mac; 2]> {
        match &self.path {
            Path::Tun(_) => None,
            Path::Packet(pairs) => Some([pairs.server.end_mac, pairs.client.end_mac]),
            Path::Netem(pairs) => Some([pairs.client.peer_mac, pairs.server.peer_mac]),
        }
    }

    /// Lets packets pass; the interfaces have their addresses by now.
    pub(crate) fn connect(self, start: Start) -> Result<Box<dyn Link>, Error> {
        match self.path {
            Path::Tun(mut ends) => {
                if start.beyond.is_some() {
                    ends[0].keep_packets_apart();
                }
                Ok(Box::new(LinkThread::start(*ends, None, start)?))
            }
            Path::Packet(pairs) => {
                let open = |index| PacketPort::open(index, start.mtu);
                let (client, server) = (pairs.client.peer.index, pairs.server.peer.index);
                let ends = pairs.middle.run(|| Ok([open(client)?, open(server)?]))?;
                Ok(Box::new(LinkThread::start(ends, Some(pairs), start)?))
            }
            Path::Netem(pairs) => {
                let router = Router::between(pairs, start.subnet, start.beyond)?;
                let link = NetemLink::start(router, start.parameters, start.mtu)?;
                Ok(Box::new(link))
            }
        }
    }
}

fn create_tun() -> Result<(Tun, Interface), Error> {
    let tun = Tun::create()?;
    let interface = Interface {
        name: tun.name().to_owned(),
        index: tun.index()?,
    };
    Ok((tun, interface))
}
