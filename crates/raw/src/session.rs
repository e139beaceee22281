//! A client's connection, whatever it runs over.

use crate::costs::{Calls, Path};
use crate::error::ConnectionFailure;
use crate::protocol::Exchange;

/// A connection to a server, for one exchange after the other.
pub(crate) trait Session {
    /// Completes the handshake.
    ///
    /// # Errors
    /// The handshake fails.
    fn open(&mut self) -> Result<(), ConnectionFailure>;

    /// Carries an exchange to its end.
    ///
    /// # Errors
    /// The connection is lost, the peer silent or not ours.
    fn exchange(&mut self, exchange: &mut Exchange) -> Result<(), ConnectionFailure>;

    /// System calls until now.
    fn calls(&self) -> Calls;

    /// Returns what is known of the path now.
    fn path(&mut self) -> Option<Path>;
}
