//! Errors while an emulated link is set up or used.

use crate::ip::IpVersion;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An emulation that could not be set up, or no longer runs.
///
/// No variant is worth a retry: either a privilege is missing, which [`probe`](crate::probe)
/// explains, or the caller asked for something that this machine doesn't have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// [`enter`](crate::enter) was called when the process already had other threads, and the
    /// kernel moves a process into a user namespace only before that.
    #[error("cannot enter a user namespace from a process with {threads} threads")]
    ManyThreads {
        /// Number of threads.
        threads: usize,
    },
    /// The kernel refused a user namespace, and the process has no privilege to do without.
    #[error("cannot create a user namespace: {reason}")]
    UserNamespace {
        /// Meaning of the refusal, in words.
        reason: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The user namespace was made, but it gives no privilege.
    #[error("the user namespace gives no privilege: cannot {attempted}")]
    NoPrivilegeInside {
        /// The attempt made in it, as a verb with its object.
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
    /// No process namespace could be made around a server, or nothing could be run in it.
    #[error("cannot {attempted} a process namespace")]
    Containment {
        /// The attempt, as a verb that takes the namespace for its object.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A TUN interface could not be made.
    #[error("cannot {attempted}")]
    Tun {
        /// The attempt, as a verb with its object.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An interface, an address or a route could not be set or read.
    #[error("cannot {attempted}")]
    Network {
        /// The attempt, as a verb with its object.
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
        /// The congestion controls that the kernel has at the moment, separated by blanks.
        available: String,
        /// The ones that it allows namespaces to use: net.ipv4.tcp_allowed_congestion_control.
        allowed: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// This machine is the far end only for a process with privileges in its own network namespace.
    #[error("this host can be the far end for root only, not from within a user namespace")]
    HostNeedsRoot,
    /// The MTU is below what the version of IP needs.
    #[error("an MTU of {mtu} bytes is too small: {ip} needs at least {least}")]
    Mtu {
        /// The one asked for.
        mtu: u16,
        /// The version of IP.
        ip: IpVersion,
        /// The smallest that works.
        least: u16,
    },
    /// Every subnet of the benchmarking ranges is in use on this host.
    #[error("no free subnet in 198.18.0.0/15 or 2001:2::/48 on this host")]
    NoFreeSubnet,
    /// Nothing on this machine can move the packets of a link.
    #[error("nothing here can move the packets of a link: {obstacles}")]
    NoBackend {
        /// The obstacle to each backend.
        obstacles: String,
    },
    /// The kernel's netem can't do what a link was to be like.
    #[error("the link can't be had from netem ({direction})")]
    Unshapable {
        /// `up` or `down`.
        direction: &'static str,
        /// The part that netem can't do.
        source: crate::Unshapable,
    },
    /// The program `tc`, which tells the kernel how to shape, could not be run.
    #[error("cannot run `tc`")]
    NoTc {
        /// The system's answer.
        source: io::Error,
    },
    /// This kernel has no netem.
    #[error("this kernel has no netem")]
    NoNetem,
    /// `tc` was told something that it did not do.
    #[error("`tc` could not shape the link: {answer}")]
    Tc {
        /// Message of `tc`.
        answer: String,
    },
    /// This host passes no packets from interface to interface, so that there is nothing to shape.
    #[error("this host does not forward packets between its interfaces")]
    NoForwarding,
    /// No interface here has that name.
    #[error("there is no interface `{name}`")]
    NoInterface {
        /// The one that was asked for.
        name: String,
    },
    /// No interface here has such an address.
    #[error("no interface here has an address in {block}")]
    NoInterfaceIn {
        /// The block of addresses that was asked for.
        block: String,
    },
    /// The text is no [`InterfaceAddress`](crate::InterfaceAddress).
    #[error("`{text}` is no address with its length: expected one like 198.18.0.1/24")]
    UnknownAddress {
        /// The text that was given.
        text: String,
    },
    /// An interface that was given can't be one side of a link.
    #[error("interface `{name}` {reason}")]
    UnfitInterface {
        /// Name of the interface.
        name: String,
        /// Reason why it is unfit.
        reason: &'static str,
    },
    /// An interface that was given has another user.
    #[error("interface `{name}` is in use by {by}")]
    InterfaceInUse {
        /// Name of the interface.
        name: String,
        /// The user of it.
        by: &'static str,
    },
    /// Changes of a killed link are in another network namespace than the caller's.
    #[error("what it left at {interfaces} is in another network namespace")]
    OtherNetwork {
        /// The interfaces, separated by commas.
        interfaces: String,
    },
    /// The backend can't do something else that was asked for.
    #[error("the backend {backend} can't do {what}")]
    BeyondBackend {
        /// The backend.
        backend: crate::Backend,
        /// The thing that it can't do.
        what: &'static str,
    },
    /// Ends that shape what they send can't be asked for that.
    #[error("where the ends shape what they send (topology egress) there is nothing for {what}")]
    BeyondEgress {
        /// The thing that can't be done.
        what: &'static str,
    },
    /// This kernel has no HTB.
    #[error("this kernel has no HTB")]
    NoHtb,
    /// The text names no topology.
    #[error("`{text}` is no topology: expected direct, router, proxied, egress or egress-packets")]
    UnknownTopology {
        /// The text that was given.
        text: String,
    },
    /// The text is no [`Forward`](crate::proxy::Forward).
    #[error("`{text}` is no forwarding: expected [ADDRESS:]PORT:HOST:PORT")]
    UnknownForward {
        /// The text that was given.
        text: String,
    },
    /// The host that a proxy is to pass on to has no address.
    #[error("cannot look up `{host}`, the target of a proxy")]
    ProxyTarget {
        /// The name.
        host: String,
        /// The answer.
        source: io::Error,
    },
    /// A proxy can't listen on a port.
    #[error("the proxy cannot listen on {transport} {address}")]
    ProxyListen {
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address and port.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The thread of a proxy could not be started.
    #[error("cannot start the proxy")]
    ProxyStart {
        /// The kernel's answer.
        source: io::Error,
    },
    /// Stale resources of an emulation could not be looked for.
    #[error("cannot look for what was left behind in `{}`", path.display())]
    Clean {
        /// The place.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The link thread could not be started.
    #[error("cannot start the link thread: cannot {attempted}")]
    StartLink {
        /// The attempt, as a verb with its object.
        attempted: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The link thread ended before its time, because one of its interfaces went away.
    #[error("the link no longer runs: one of its interfaces went away")]
    LinkStopped,
    /// The kernel does not say which processors there are.
    #[error("cannot read which processors may be used")]
    ReadProcessors {
        /// The kernel's answer.
        source: io::Error,
    },
    /// Processors were asked for that this process may not use, or that there are not.
    #[error("cannot pin to processor {asked}: this process may use {allowed}")]
    Processors {
        /// The ones asked for.
        asked: String,
        /// The ones that there are for this process.
        allowed: String,
    },
    /// The priority that was asked for is refused.
    #[error("cannot give the programs at the ends a nice value of {nice}")]
    Priority {
        /// The nice value asked for.
        nice: i8,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file of the packet log can't be made.
    #[error("cannot write the packet log `{}`", path.display())]
    PacketLog {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The folder in which links listen can't be made, or is not this user's alone.
    #[error("cannot use the folder `{}` for controlling links", folder.display())]
    ControlFolder {
        /// The folder.
        folder: PathBuf,
        /// The problem with it.
        source: io::Error,
    },
    /// The socket on which a link listens can't be made.
    #[error("cannot make the socket `{}` for controlling the link", path.display())]
    ControlSocket {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A link can't be called that.
    #[error(
        "`{name}` is no name for a link: at most 32 letters, digits, `-` and `_`, not digits alone"
    )]
    LinkName {
        /// The one asked for.
        name: String,
    },
    /// No link of this user's runs.
    #[error("no emulated link runs")]
    NoLink,
    /// No link that runs is called that.
    #[error("no emulated link is called `{wanted}`: there is {running}")]
    UnknownLink {
        /// The name or process asked for.
        wanted: String,
        /// The links that run, separated by commas.
        running: String,
    },
    /// Several links run, and it wasn't said which is meant.
    #[error("several emulated links run: {running}")]
    SeveralLinks {
        /// The links that could be meant, separated by commas.
        running: String,
    },
    /// A link was found and does not answer.
    #[error("the link of {link} does not answer")]
    LinkSilent {
        /// The link.
        link: String,
        /// Result in place of an answer.
        source: io::Error,
    },
    /// A link answered that it won't, or something that can't be understood.
    #[error("the link of {link} refuses: {reason}")]
    LinkRefused {
        /// The link.
        link: String,
        /// The words.
        reason: String,
    },
}
