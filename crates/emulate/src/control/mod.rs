//! Talking to a link that runs, from another process: `altway emulate set`, `show` and `reset`.
//!
//! A process with a link listens on a Unix socket ([`Control`]); whoever wants something of the link
//! finds it ([`RunningLink`]), sends one line and gets one line back:
//!
//! ```text
//! altway emulate set ──▶ FOLDER/PID.sock ──▶ control thread ──▶ link thread
//! ```
//!
//! Only the user who started the link may ask: the folder and the socket are that user's alone. The
//! socket goes with its process; one that a killed process left behind is recognised by nobody
//! listening, and removed by the next who looks, or by [`clean`](crate::clean()). Left to others: what is asked (the command line),
//! and what becomes of it (the link thread).

mod client;
mod folder;
mod listener;
mod protocol;
#[cfg(test)]
mod tests;

pub use client::RunningLink;
pub(crate) use client::remove_abandoned;
pub use folder::{folder, name};
pub use listener::{Control, Target};
pub use protocol::{ChangeToCome, LinkState, Settings};

/// The environment variable that tells the commands at the ends of a link which link theirs is: the
/// path of its socket.
pub const VARIABLE: &str = "ALTWAY_LINK";
