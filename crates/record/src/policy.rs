//! The policies by which a server may choose its clients' protocol, as arms of a plan.

use crate::Protocol;
use crate::words::words;

words! {
    /// A policy of `altway serve`, as an arm of a plan.
    Policy, "a policy" {
        /// HTTP/2 for everybody.
        H2 = "h2",
        /// HTTP/3 for everybody.
        H3 = "h3",
        /// A line over delay and loss decides, with offers that live for a session.
        Study = "study",
        /// Predicted times decide, and what was learnt of clients.
        Learned = "learned",
    }
}

impl Policy {
    /// The protocol that it offers everybody; `None` where it chooses.
    #[must_use]
    pub fn fixed(self) -> Option<Protocol> {
        match self {
            Self::H2 => Some(Protocol::H2),
            Self::H3 => Some(Protocol::H3),
            Self::Study | Self::Learned => None,
        }
    }
}
