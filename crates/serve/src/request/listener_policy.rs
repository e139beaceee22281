//! The policy of a listener's requests.

/// The policy on which the requests of a listener are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerPolicy {
    /// True if clients come over TLS, to this server or to a proxy before it.
    pub(crate) is_secure: bool,
    /// The port that clients are listened to at.
    pub(crate) port: u16,
    /// The port at which they are offered HTTP/3; `None`: they are offered none.
    pub(crate) http3: Option<u16>,
    /// The port of `https` to which requests are led; `None`: they are answered.
    pub(crate) redirect: Option<u16>,
}
