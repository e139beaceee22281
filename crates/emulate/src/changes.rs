//! Changes of a link to interfaces that were given: undone when the link ends, and written down
//! before, so that [`clean`](crate::clean()) can undo it when the link's process was killed.
//!
//! The record lies in a [`Scratch`] folder, which tells whether its owner lives. Left to others: what
//! passes through the interfaces, and that nobody else has them meanwhile (`claim`).

use crate::claim::claim;
use crate::clean::StaleResource;
use crate::link_devices::Interface;
use crate::netlink::Netlink;
use crate::scratch::Scratch;
use crate::sys::{self, Offload};
use crate::{Error, netem};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of a record in its folder.
pub(crate) const FILE: &str = "interfaces.json";

/// Changes of the interfaces on both sides of a link. Dropping it undoes what is not the link's own to
/// undo.
#[derive(Debug)]
pub(crate) struct Changes {
    record: Record,
    /// Gone after the changes are.
    _folder: Option<Scratch>,
}

/// The record of one link's changes, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Numbers mean something until the machine starts anew.
    boot: String,
    /// The number of the network namespace.
    network: u64,
    interfaces: Vec<InterfaceChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InterfaceChange {
    name: String,
    index: u32,
    /// Offloads that were on, in the order in which they are switched off.
    offloads: Vec<Offload>,
    /// True if the kernel shapes what leaves it.
    netem: bool,
}

impl Changes {
    /// Switches the offloads of both interfaces off, in the network namespace of the calling thread;
    /// `netem` says whether the link will shape what leaves them.
    ///
    /// # Errors
    /// The kernel refuses, or somebody else shapes there. Nothing is changed then.
    pub(crate) fn make(interfaces: &[Interface; 2], netem: bool) -> Result<Self, Error> {
        let record = Record::of(interfaces, netem)?;
        // Written before anything is changed: a change without a record would stay, a record without
        // a change does no harm.
        let folder = record.keep();
        if let Err(error) = &folder {
            tracing::warn!(
                "`altway emulate clean` will not know of this link, should it be killed: {error}"
            );
        }
        let changes = Self {
            record,
            _folder: folder.ok(),
        };
        for changed in &changes.record.interfaces {
            changed.switch(false).map_err(|source| Error::Network {
                attempted: "switch offloads off",
                source,
            })?;
        }
        Ok(changes)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        for changed in &self.record.interfaces {
            // An interface that is gone needs nothing put back.
            if let Err(error) = changed.switch(true) {
                tracing::debug!(%error, interface = changed.name, "an offload stays off");
            }
        }
    }
}

/// Returns true if a folder has a record of what is to be undone.
pub(crate) fn are_recorded(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Undoes what the record in a folder tells of, if there is one; returns what that was.
///
/// # Errors
/// Says why it can't be done here and now: it is to be tried again, so the record must stay.
pub(crate) fn undo(folder: &Path) -> Result<Vec<StaleResource>, Error> {
    let Some(record) = Record::read(folder) else {
        return Ok(Vec::new());
    };
    if boot().is_ok_and(|boot| boot != record.boot) {
        return Ok(Vec::new());
    }
    if !network().is_ok_and(|network| network == record.network) {
        let names: Vec<_> = record.interfaces.into_iter().map(|it| it.name).collect();
        return Err(Error::OtherNetwork {
            interfaces: names.join(", "),
        });
    }
    let netlink = Netlink::open()?;
    let is_there = |changed: &InterfaceChange| {
        let found = netlink.interface_properties(&changed.name);
        found.is_ok_and(|found| found.index == changed.index)
    };
    let left: Vec<_> = record.interfaces.into_iter().filter(is_there).collect();
    // Nobody may begin to use them meanwhile, and who does already needs them as they are.
    let claims = left.iter().map(|changed| claim(&changed.interface()));
    let _claims = claims.collect::<Result<Vec<_>, _>>()?;
    left.iter().try_for_each(InterfaceChange::undo)?;
    let remnant = |changed: InterfaceChange| StaleResource::Interface { name: changed.name };
    Ok(left.into_iter().map(remnant).collect())
}

impl Record {
    fn of(interfaces: &[Interface; 2], netem: bool) -> Result<Self, Error> {
        let read = |source| Error::Network {
            attempted: "find out where an interface is",
            source,
        };
        let changed = |interface: &Interface| InterfaceChange::of(interface, netem);
        Ok(Self {
            boot: boot().map_err(read)?,
            network: network().map_err(read)?,
            interfaces: interfaces.iter().map(changed).collect::<Result<_, _>>()?,
        })
    }

    fn keep(&self) -> io::Result<Scratch> {
        let folder = Scratch::create()?;
        fs::write(folder.path().join(FILE), serde_json::to_string(self)?)?;
        Ok(folder)
    }

    /// Reads the changes in a folder. A file that can't be understood was not complete when its
    /// owner was killed, so that nothing was changed yet.
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }
}

impl InterfaceChange {
    fn of(interface: &Interface, netem: bool) -> Result<Self, Error> {
        if netem && netem::is_shaped(interface)? {
            return Err(Error::InterfaceInUse {
                name: interface.name.clone(),
                by: "a queueing discipline",
            });
        }
        // What can't be asked can't be on.
        let is_on = |offload: &Offload| sys::offload(&interface.name, *offload).unwrap_or(false);
        Ok(Self {
            name: interface.name.clone(),
            index: interface.index,
            offloads: Offload::ALL.into_iter().filter(is_on).collect(),
            netem,
        })
    }

    fn interface(&self) -> Interface {
        Interface {
            name: self.name.clone(),
            index: self.index,
        }
    }

    /// Switches the offloads on in the order in which the kernel lets them be, or off.
    fn switch(&self, on: bool) -> io::Result<()> {
        let set = |offload: &Offload| sys::set_offload(&self.name, *offload, on);
        if on {
            return self.offloads.iter().rev().try_for_each(set);
        }
        self.offloads.iter().try_for_each(set)
    }

    /// Puts back what a killed link left. What its owner had not come to is as it was.
    fn undo(&self) -> Result<(), Error> {
        let interface = self.interface();
        if self.netem && netem::is_shaped(&interface)? {
            netem::unshape(&interface)?;
        }
        self.switch(true).map_err(|source| Error::Network {
            attempted: "switch offloads on again",
            source,
        })
    }
}

/// Returns the kernel's name of the time since the machine was started.
fn boot() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

/// The network namespace of the calling thread.
fn network() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            boot: boot().unwrap(),
            network: network().unwrap(),
            interfaces: vec![InterfaceChange {
                name: "altway-none".into(),
                index: 1_000_000,
                offloads: vec![Offload::TcpSegmentation, Offload::SendChecksum],
                netem: true,
            }],
        }
    }

    fn folder_with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        folder
    }

    #[test]
    fn a_record_survives_being_written_down() {
        let kept = record().keep().unwrap();
        assert_eq!(Record::read(kept.path()), Some(record()));
    }

    #[test]
    fn a_folder_without_a_record_or_with_half_a_one_has_nothing_to_undo() {
        assert_eq!(undo(tempfile::tempdir().unwrap().path()).unwrap(), []);
        let text = serde_json::to_string(&record()).unwrap();
        let half = folder_with(&text[..text.len() / 2]);
        assert_eq!(undo(half.path()).unwrap(), []);
    }

    #[test]
    fn an_interface_that_is_gone_needs_nothing_put_back() {
        let kept = record().keep().unwrap();
        assert_eq!(undo(kept.path()).unwrap(), []);
    }

    #[test]
    fn what_was_before_the_machine_started_is_void() {
        let old = Record {
            boot: "another".into(),
            network: 1,
            ..record()
        };
        let kept = old.keep().unwrap();
        assert_eq!(undo(kept.path()).unwrap(), []);
    }

    #[test]
    fn what_is_in_another_namespace_is_left_to_who_is_there() {
        let elsewhere = Record {
            network: 1,
            ..record()
        };
        let kept = elsewhere.keep().unwrap();
        let error = undo(kept.path()).unwrap_err();
        assert!(matches!(error, Error::OtherNetwork { .. }));
        assert!(error.to_string().contains("altway-none"), "{error}");
    }
}
