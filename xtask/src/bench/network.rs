//! The network between server and client: loopback, or a pair of virtual Ethernet devices, each end
//! in a network namespace of its own.
//!
//! The namespaces have no name: they live as long as the bench holds them or a program runs in them,
//! so that nothing is left behind, even when the bench is killed.

use super::placement::Placement;
use super::process::{self, Stop};
use super::workload::Workload;
use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns, unshare};
use serde::Serialize;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

/// Addresses of networks that measure (RFC 2544 appendix C.2.2).
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const NETWORK: &str = "198.18.0.0/30";

/// Settings of the pair of devices.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct VethSettings {
    /// MTU of an Ethernet, as these devices have it by default, in bytes.
    pub(crate) mtu: u32,
    /// Congestion control of TCP: that of altway's QUIC, whatever this machine has as its default.
    tcp_congestion_control: &'static str,
}

pub(crate) const VETH: VethSettings = VethSettings {
    mtu: 1500,
    tcp_congestion_control: "cubic",
};

/// The time that a change of a device may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The network between server and client.
#[derive(Debug)]
pub(crate) enum Network {
    Loopback,
    Veth(Veth),
}

/// The namespaces of both ends.
#[derive(Debug)]
pub(crate) struct Veth {
    server: Namespace,
    client: Namespace,
}

impl Network {
    /// Sets up what `workload` is measured over.
    ///
    /// # Errors
    /// It takes root and `ip` to make namespaces and devices.
    pub(crate) fn of(workload: Workload) -> Result<Self> {
        if workload.is_over_veth() {
            return Ok(Self::Veth(Veth::make()?));
        }
        Ok(Self::Loopback)
    }

    /// The address at which the server listens.
    pub(crate) fn server_address(&self) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            Self::Veth(_) => SERVER_ADDRESS,
        }
    }

    /// The namespace of the server; `None`: that of the bench.
    pub(crate) fn server(&self) -> Option<&Namespace> {
        match self {
            Self::Loopback => None,
            Self::Veth(veth) => Some(&veth.server),
        }
    }

    /// The namespace of the client; `None`: that of the bench.
    pub(crate) fn client(&self) -> Option<&Namespace> {
        match self {
            Self::Loopback => None,
            Self::Veth(veth) => Some(&veth.client),
        }
    }
}

impl Veth {
    fn make() -> Result<Self> {
        let veth = Self {
            server: Namespace::create()?,
            client: Namespace::create()?,
        };
        let client = veth.client.path();
        let VethSettings {
            mtu,
            tcp_congestion_control,
        } = VETH;
        veth.server.ip(&format!(
            "link add veth mtu {mtu} type veth peer name veth mtu {mtu} netns {client}"
        ))?;
        for (namespace, address) in [
            (&veth.server, SERVER_ADDRESS),
            (&veth.client, CLIENT_ADDRESS),
        ] {
            namespace.ip(&format!("address add {address}/30 dev veth"))?;
            namespace.ip("link set veth up")?;
            namespace.ip("link set lo up")?;
            // By its route: a namespace may have another default only if root allows it to all.
            namespace.ip(&format!(
                "route replace {NETWORK} dev veth scope link src {address} \
                 congctl {tcp_congestion_control}"
            ))?;
        }
        Ok(veth)
    }
}

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace(OwnedFd);

impl Namespace {
    fn create() -> Result<Self> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
            let file = File::open("/proc/thread-self/ns/net")?;
            Ok(Self(file.into()))
        })
    }

    /// Moves the calling thread into it, and with it what the thread starts.
    ///
    /// # Errors
    /// The right to do so is gone.
    pub(crate) fn join(&self) -> Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")
    }

    /// The path of its file, for other programs.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn ip(&self, arguments: &str) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(arguments.split(' '));
        let placement = Placement {
            cores: &[],
            namespace: Some(self),
        };
        process::output(&mut command, placement, COMMAND_TIMEOUT, &Stop::default())
            .map(drop)
            .with_context(|| format!("`ip {arguments}` failed"))
    }
}

/// Runs `task` on a thread that ends with it: this process stays where it is.
fn on_thread<T: Send>(task: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| scope.spawn(task).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::tcp_congestion;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn inside<T: Send>(namespace: &Namespace, task: impl FnOnce() -> T + Send) -> T {
        let run = || {
            namespace.join()?;
            Ok(task())
        };
        on_thread(run).unwrap()
    }

    #[test]
    fn small_workloads_go_through_loopback() {
        let network = Network::of(Workload::Hq1).unwrap();
        assert_eq!(network.server_address(), Ipv4Addr::LOCALHOST);
        assert!(network.server().is_none() && network.client().is_none());
    }

    #[test]
    fn both_ends_of_a_pair_reach_each_other() {
        let veth = match Veth::make() {
            Ok(veth) => veth,
            Err(error) => return crate::shell::say(&format!("SKIPPED, needs root: {error:#}")),
        };
        let listener = inside(&veth.server, || TcpListener::bind((SERVER_ADDRESS, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = inside(&veth.client, || TcpStream::connect(address)).unwrap();
        client.write_all(b"hello").unwrap();
        drop(client);
        let (mut server, peer) = listener.accept().unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), peer.ip()), ("hello", CLIENT_ADDRESS.into()));
        assert_eq!(
            tcp_congestion(&server).unwrap(),
            VETH.tcp_congestion_control
        );
    }
}
