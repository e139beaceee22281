//! The application's word on new connections, before they cost anything.

use crate::windows::HeldShare;

/// The answer to an attempt at a new connection.
pub enum Admission<S> {
    /// Accepted.
    Accept {
        /// State that the endpoint keeps with the connection
        /// ([`QuicEndpoint::State`](crate::QuicEndpoint::State)). It is dropped when the endpoint forgets the
        /// connection, or at once if the attempt fails.
        state: S,
        /// The share that the connection may hold with others of the same client. `None`: no less than all.
        share: Option<HeldShare>,
    },
    /// The client first has to show that it receives at its address (Retry, RFC 9000 section 8.1.2). One that
    /// has shown it is refused.
    Retry,
    /// Refused (CONNECTION_REFUSED, RFC 9000 section 20.1).
    Refuse,
}

impl<S> Admission<S> {
    /// The same answer with another state.
    pub fn map<T>(self, make: impl FnOnce(S) -> T) -> Admission<T> {
        match self {
            Self::Accept { state, share } => Admission::Accept {
                state: make(state),
                share,
            },
            Self::Retry => Admission::Retry,
            Self::Refuse => Admission::Refuse,
        }
    }
}

impl<S: Default> Default for Admission<S> {
    fn default() -> Self {
        Self::Accept {
            state: S::default(),
            share: None,
        }
    }
}
