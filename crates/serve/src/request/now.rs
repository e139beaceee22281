//! The time of a turn, which its requests and their log lines share.

use crate::selection::unix_time;
use altway_select::UnixTime;
use std::time::{Instant, SystemTime};

/// The time on both clocks, read once a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    /// The time of day, for dates.
    pub(crate) system: SystemTime,
    /// The second of `system`, which each response asks for several times.
    pub(crate) unix: UnixTime,
}

impl Now {
    pub(crate) fn read() -> Self {
        Self::at(Instant::now())
    }

    /// The time of a turn whose `instant` is known.
    pub(crate) fn at(instant: Instant) -> Self {
        let system = SystemTime::now();
        Self {
            instant,
            system,
            unix: unix_time(system),
        }
    }
}
