//! Messages and datagrams between the two processes of a takeover, without a second process: what fuzz
//! targets need beside the interface.
//!
//! Under the feature `fuzzing` alone, and no promise to anyone.

pub use crate::h3::fuzzing::{Relay, Relayed, relayed};
pub use crate::takeover::fuzzing::{MAX_PREDECESSORS, Taken, offer, take_over, understood};
