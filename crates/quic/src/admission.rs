//! The application's word on new connections, before they cost anything.

use std::any::Any;
use std::net::SocketAddr;

use crate::windows::HeldShare;

/// Decides on a new connection, by its address and whether that is validated: one that is not may be
/// forged (RFC 9000 section 8.1).
pub type Admit = Box<dyn FnMut(SocketAddr, bool) -> Admission + Send>;

/// The answer to an attempt at a new connection.
pub enum Admission {
    /// Accepted. The guard is dropped when the endpoint forgets the connection, or at once if the attempt
    /// fails.
    Accept(Guard),
    /// The client first has to show that it receives at its address (Retry, RFC 9000 section 8.1.2). One that
    /// has shown it is refused.
    Retry,
    /// Refused (CONNECTION_REFUSED, RFC 9000 section 20.1).
    Refuse,
}

/// A value that is kept with a connection, for the application. Default: nothing.
#[derive(Default)]
pub struct Guard {
    /// The application's.
    pub value: Option<Box<dyn Any + Send>>,
    /// The share that the connection may hold with others of the same client. Default: no less than all.
    pub share: Option<HeldShare>,
}
