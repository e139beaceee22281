//! The interface that is meant: in a container, names are given out in an order that nobody
//! promised.

use super::Netlink;
use crate::link_devices::Interface;
use crate::subnet::Prefix;
use crate::{Error, InterfaceAddress};
use futures_util::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};

impl Netlink {
    /// The interface of that name, or the first that has an address in that block (`198.19.1.0/24`).
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::NoInterfaceIn`] when there is none.
    pub(crate) fn find_interface(&self, text: &str) -> Result<Interface, Error> {
        // No name has a `/`.
        match text.parse::<InterfaceAddress>() {
            Ok(block) => self.interface_in(block),
            Err(_) => Ok(Interface {
                name: text.to_owned(),
                index: self.interface_properties(text)?.index,
            }),
        }
    }

    fn interface_in(&self, block: InterfaceAddress) -> Result<Interface, Error> {
        let addresses = self.handle().address().get().execute();
        let read = self.run("read the addresses of this host", addresses.try_collect());
        let found = Vec::into_iter(read?).find(|address| is_in(address, block.block()));
        match found {
            Some(address) => self.interface(address.header.index),
            None => Err(Error::NoInterfaceIn {
                block: block.to_string(),
            }),
        }
    }
}

fn is_in(message: &AddressMessage, block: Prefix) -> bool {
    message.attributes.iter().any(|attribute| match attribute {
        AddressAttribute::Address(address) => block.has(*address),
        _ => false,
    })
}
