//! qlog: what happens on connections, written down for tools such as qvis (draft-ietf-quic-qlog).
//!
//! The engine writes it: packets sent, received and lost, round-trip times and the congestion window, as
//! a sequence of JSON texts (RFC 7464). Where to is the shell's business. It names a connection by the
//! destination ID of the client's first packet, which both ends know; so their logs can be matched.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Writer of the log of one connection. It is called at every packet: see to it that this is quick. It
/// is dropped with the connection.
pub type QlogWriter = Box<dyn io::Write + Send + Sync>;

type Open = dyn Fn(&str) -> Option<QlogWriter> + Send + Sync;

/// Decides which connections are logged, and where to. Clones are the same.
#[derive(Clone)]
pub struct Qlog(Arc<Open>);

impl Qlog {
    /// `open` is asked at the beginning of each connection, with its name: 16 to 40 hexadecimal digits,
    /// the destination ID of the client's first packet. A client chooses its own, so names may
    /// repeat. `None`: this one is not logged, and costs nothing.
    #[must_use]
    pub fn new(open: impl Fn(&str) -> Option<QlogWriter> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// Asks for the log of a connection that begins.
    #[must_use]
    pub fn open(&self, name: &str) -> Option<QlogWriter> {
        (self.0)(name)
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qlog").finish_non_exhaustive()
    }
}
