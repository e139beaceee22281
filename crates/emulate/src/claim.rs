//! Claims of interfaces that were given: one link has each at a time.

use crate::Error;
use crate::link_devices::Interface;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Keeps other links of altway from an interface for as long as it lives, and no longer, whatever ends
/// the process.
#[derive(Debug)]
pub(crate) struct Claim {
    _listener: UnixListener,
}

/// Claims an interface of the network namespace of the calling thread.
///
/// # Errors
/// [`Error::InterfaceInUse`] when another link has it.
pub(crate) fn claim(interface: &Interface) -> Result<Claim, Error> {
    // Names of this kind belong to the network namespace, as the interface does.
    let name = format!("altway-link-{}", interface.index);
    let address = SocketAddr::from_abstract_name(name);
    let listener = address.and_then(|address| UnixListener::bind_addr(&address));
    match listener {
        Ok(listener) => Ok(Claim {
            _listener: listener,
        }),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(Error::InterfaceInUse {
            name: interface.name.clone(),
            by: "another link of altway",
        }),
        Err(source) => Err(Error::Network {
            attempted: "claim the interface",
            source,
        }),
    }
}
