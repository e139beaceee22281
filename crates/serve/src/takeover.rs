//! A new process takes the sockets over from a running one, and no client notices.
//!
//! The running server listens at a path of its operator's choice, on a Unix socket that only its own
//! user may connect to. A new one that is started with the same path
//!
//! 1. says hello, and gets an offer: all sockets (that at the path included), which process of how
//!    many in a row it would be, and the [`Secrets`] that clients have to find again;
//! 2. compares it with its own options, and says that it is ready once nothing can fail any more;
//! 3. is told that the sockets are its own, when no thread of its predecessor takes anything in.
//!
//! Connections that came meanwhile wait in the sockets' queues, so that none is refused, and each
//! belongs to one process. The predecessor goes on with those that it has, as if nothing had happened,
//! for [`HANDOVER_GRACE`]; then it stops as always, and lets requests end for its grace. Datagrams of its QUIC
//! connections are passed to it by the new one (`h3::relay`).
//!
//! Whatever fails up to the third step, the predecessor notices it by the end of the connection,
//! and serves on. The same when the new process ends in the time of [`HANDOVER_GRACE`]: a new version that
//! falls over its first requests is no outage.
//!
//! - [`successor`]: the new process's side; [`predecessor`]: the running one's.
//! - [`message`] and [`channel`]: what they say, and how it travels, with descriptors.
//! - [`handover_socket`]: the socket at the path.

mod channel;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handover_socket;
mod message;
mod predecessor;
mod successor;

pub(crate) use predecessor::Handover;
pub(crate) use successor::{Start, StartRequest, begin};

use handover_socket::HandoverSocket;

use crate::Error;
use crate::random::random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Time for which a server that was replaced goes on as before: connections that had just begun have
/// made their first request by then, over round trips of half a second and a lost packet.
const HANDOVER_GRACE: Duration = Duration::from_secs(2);

/// Processes before this one that may still end their connections. One more, and a takeover is
/// refused until one of them has ended: each holds memory, and a number in connection IDs.
const MAX_PREDECESSORS: usize = 3;

/// Keys on which a server's clients rely, whichever process answers. Passed from one process to the next
/// over the owner's socket, and nowhere else.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Secrets {
    /// The key of stateless resets (RFC 9000 section 10.3.2): with it the process that comes next can
    /// tell clients that their connection has ended with the one before.
    pub(crate) reset_key: [u8; 32],
    /// The key of the tokens by which clients show their address (RFC 9000 section 8.1): a token of one
    /// process is valid at the next.
    pub(crate) token_key: [u8; 32],
}

impl Secrets {
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn random() -> Result<Self, Error> {
        Ok(Self {
            reset_key: random()?,
            token_key: random()?,
        })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print_themselves() {
        assert_eq!(format!("{:?}", Secrets::random().unwrap()), "Secrets(..)");
    }
}
