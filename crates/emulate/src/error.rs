//! What can go wrong while an emulated link is set up or used.

use std::io;

/// An emulation that could not be set up, or no longer runs.
///
/// Nothing here is worth a retry: either a privilege is missing, which [`probe`](crate::probe)
/// explains, or the caller asked for something that this machine doesn't have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// [`enter`](crate::enter) was called when the process already had other threads, and the
    /// kernel moves a process into a user namespace only before that.
    #[error("cannot enter a user namespace from a process with {threads} threads")]
    ManyThreads {
        /// How many there are.
        threads: usize,
    },
    /// The kernel refused a user namespace, and the process has no privilege to do without.
    #[error("cannot create a user namespace: {reason}")]
    UserNamespace {
        /// What the refusal means, in words.
        reason: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The user namespace was made, but it gives no privilege.
    #[error("the user namespace gives no privilege: cannot {attempted}")]
    NoPrivilegeInside {
        /// What was tried in it.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No network namespace could be made or entered.
    #[error("cannot {attempted} a network namespace")]
    Namespace {
        /// `create`, `open` or `enter`.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A TUN interface could not be made.
    #[error("cannot {attempted}")]
    Tun {
        /// What was tried.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface, an address or a route could not be set or read.
    #[error("cannot {attempted}")]
    Network {
        /// What was tried.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The congestion control asked for can't be used in the namespaces.
    #[error(
        "cannot use congestion control `{name}` in a namespace (this kernel has: {available}; \
         allowed in namespaces: {allowed})"
    )]
    CongestionControl {
        /// The one asked for.
        name: String,
        /// What the kernel has at the moment, separated by blanks.
        available: String,
        /// What it allows namespaces to use: net.ipv4.tcp_allowed_congestion_control.
        allowed: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This machine is the far end only for a process with privileges in its own network namespace.
    #[error("this host can be the far end for root only, not from within a user namespace")]
    HostNeedsRoot,
    /// The MTU is outside of what IPv4 allows.
    #[error("an MTU of {mtu} bytes is too small: IPv4 needs at least {least}")]
    Mtu {
        /// The one asked for.
        mtu: u16,
        /// The smallest that works.
        least: u16,
    },
    /// Every subnet of the benchmarking range is in use on this host.
    #[error("no free subnet in 198.18.0.0/15 on this host")]
    NoFreeSubnet,
    /// The link thread could not be started.
    #[error("cannot start the link thread: cannot {attempted}")]
    StartLink {
        /// What was tried.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The link thread ended before its time, because one of its interfaces went away.
    #[error("the link no longer runs: one of its interfaces went away")]
    LinkStopped,
}
