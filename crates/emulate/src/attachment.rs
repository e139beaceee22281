//! The attachment of this host as an end of a link that another host is: a container beside the one
//! that is the link.

use crate::netlink::Netlink;
use crate::sys::{self, Offload};
use crate::{Error, InterfaceAddress};

/// Makes this host an end of a link that another host is ([`Between`](crate::Between)): switches the
/// offloads of the interface off, so that what it sends are packets of the wire, and then gives it
/// `address`, by which both ends are neighbours. Returns the interface's name.
///
/// `interface` is a name, or a block of addresses of which the interface has one (`198.19.1.0/24`).
/// Meant for a container, whose network goes with it: nothing is put back. Needs CAP_NET_ADMIN.
///
/// # Errors
/// There is no such interface; it has that address already; or the privilege is missing.
pub fn attach(interface: &str, address: InterfaceAddress) -> Result<String, Error> {
    let netlink = Netlink::open()?;
    let interface = netlink.find_interface(interface)?;
    for offload in Offload::ALL {
        let switched = sys::set_offload(&interface.name, offload, false);
        switched.map_err(|source| Error::Network {
            attempted: "switch offloads off",
            source,
        })?;
    }
    netlink.add_address(interface.index, address.address(), address.block())?;
    Ok(interface.name)
}
