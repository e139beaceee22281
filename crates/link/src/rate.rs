//! Rate at which a direction passes packets: not limited, fixed, or as a trace says.

use crate::Trace;
use altway_units::Bandwidth;
use std::sync::Arc;

/// The rate of one direction. It counts IP bytes: the headers of IP and all that stands in them, but
/// nothing of the layer below.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Rate {
    /// No limit: nothing ever waits, and the queue is without effect.
    #[default]
    Unlimited,
    /// A rate that does not change.
    Fixed(Bandwidth),
    /// A rate that changes. Time 0 of the trace is the moment at which the first packet enters, or
    /// that of the [`reconfigure`](crate::Direction::reconfigure) that brought the trace.
    Trace(Arc<Trace>),
}

impl Rate {
    /// The rate in the long run; `None` for no limit. See [`Trace::mean`].
    #[must_use]
    pub fn mean(&self) -> Option<Bandwidth> {
        match self {
            Self::Unlimited => None,
            Self::Fixed(rate) => Some(*rate),
            Self::Trace(trace) => Some(trace.mean()),
        }
    }
}

impl From<Bandwidth> for Rate {
    fn from(rate: Bandwidth) -> Self {
        Self::Fixed(rate)
    }
}

/// `None` is no limit.
impl From<Option<Bandwidth>> for Rate {
    fn from(rate: Option<Bandwidth>) -> Self {
        rate.map_or(Self::Unlimited, Self::Fixed)
    }
}

impl From<Trace> for Rate {
    fn from(trace: Trace) -> Self {
        Self::Trace(Arc::new(trace))
    }
}
