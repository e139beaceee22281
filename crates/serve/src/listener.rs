//! Further addresses that a server listens at, beside that of its options.

use crate::{Bind, Protocols};
use altway_message::Scheme;
use std::fmt;

/// A further address that a server listens at.
///
/// ```
/// use altway_serve::{Bind, Listener, ListenerKind, Options};
///
/// # fn options(identity: altway_serve::Identity) -> Options {
/// let mut options = Options::tls(identity);
/// options.port = 443;
/// // Clients of http:// are led to https://.
/// options.listeners = vec![Listener::new(ListenerKind::Redirect, Bind::All, 80)];
/// # options
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listener {
    /// The address.
    pub bind: Bind,
    /// The port number; 0 picks a free one.
    pub port: u16,
    /// The kind of connections at this address.
    pub kind: ListenerKind,
    /// The protocols that its clients may use; HTTP/3 only with TLS, over UDP at the same address.
    pub protocols: Protocols,
    /// The port number that clients see, where a NAT or a container changes it: what `Alt-Svc` names. Default `None`:
    /// as [`Options::alt_svc_port`](crate::Options::alt_svc_port) says.
    pub alt_svc_port: Option<u16>,
}

/// The kind of a listener's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListenerKind {
    /// TLS, with the certificates of [`Security::Tls`](crate::Security::Tls), which the options must have.
    Tls,
    /// Clear text, over which the site is served.
    ClearText,
    /// The same from a proxy that terminates TLS: [`Security::BehindTlsProxy`](crate::Security::BehindTlsProxy).
    BehindTlsProxy,
    /// Clear text, from which clients are redirected to the same host and path under `https` at the port of
    /// [`Options::alt_svc_port`](crate::Options::alt_svc_port): 301 for GET and HEAD, 308 for other methods. A site
    /// that has a route for `/.well-known/acme-challenge/` (RFC 8555 section 8.3) answers there itself.
    Redirect,
}

impl Listener {
    /// Makes a listener for all protocols that its kind has.
    #[must_use]
    pub fn new(kind: ListenerKind, bind: Bind, port: u16) -> Self {
        Self {
            bind,
            port,
            kind,
            protocols: Protocols::default(),
            alt_svc_port: None,
        }
    }

    /// Returns true if the listener's clients are given HTTP/3.
    pub(crate) fn has_http3(&self) -> bool {
        self.kind == ListenerKind::Tls && self.protocols.http3
    }
}

impl ListenerKind {
    /// The scheme of its requests.
    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Self::Tls | Self::BehindTlsProxy => Scheme::Https,
            Self::ClearText | Self::Redirect => Scheme::Http,
        }
    }
}

/// Writes its name, as the processes of a takeover compare it.
impl fmt::Display for ListenerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tls => "TLS",
            Self::ClearText => "clear text",
            Self::BehindTlsProxy => "clear text behind a TLS proxy",
            Self::Redirect => "redirect to https",
        })
    }
}
