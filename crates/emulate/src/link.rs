//! The interface of every backend: a link that runs, is restarted and reports what it did.

use crate::Error;
use crate::pump::{Parameters, Snapshot};
use altway_link::{Change, Schedule};
use std::fmt;

/// A link between two interfaces that shapes what passes. Dropping it ends it, and takes away what
/// was made for it.
pub(crate) trait Link: fmt::Debug + Send + Sync {
    /// Begins anew with these parameters; when it returns they hold, the link is empty and the
    /// counters are zero.
    fn restart(&self, parameters: Parameters) -> Result<(), Error>;

    /// Goes on in another way, without losing a packet; when it returns the change holds.
    ///
    /// # Errors
    /// [`Error::Unshapable`] where that can't be.
    fn change(&self, change: Change) -> Result<(), Error>;

    /// Goes on without shaping, and forgets the schedule; when it returns there is none.
    ///
    /// # Errors
    /// [`Error::Unshapable`] where that can't be.
    fn reset(&self) -> Result<(), Error>;

    /// Goes through these changes, whose times count from now, instead of those still to come.
    ///
    /// # Errors
    /// [`Error::Unshapable`] where one of them can't be.
    fn set_schedule(&self, schedule: Schedule) -> Result<(), Error>;

    /// Returns what happened since the last restart.
    fn snapshot(&self) -> Result<Snapshot, Error>;

    /// Packets that interfaces between the ends dropped since they were made; those at the ends are
    /// counted by whoever has them.
    fn dropped_between(&self) -> Result<u64, Error>;

    /// Returns whether what moves the packets has real-time priority; `None` where no thread of ours does.
    fn is_realtime(&self) -> Option<bool>;

    /// Returns whether a packet's delay begins when the kernel got it, and not when it was read; `None` where
    /// no thread of ours reads it.
    fn knows_arrivals(&self) -> Option<bool>;
}
