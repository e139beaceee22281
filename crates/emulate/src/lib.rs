//! Runs the link model of `altway-link` on real packets of real programs.
//!
//! An [`Emulation`] is two network namespaces (or one and this host) joined by an emulated link:
//!
//! ```text
//!   client namespace           link thread            server namespace, or this host
//!   198.18.0.1 ─ TUN ──▶ up:   loss, queue, rate, delay ──▶ TUN ─ 198.18.0.2
//!                    ◀── down: loss, queue, rate, delay ◀──
//! ```
//!
//! [`Backend`] says what moves the packets: the thread over TUN interfaces, as drawn, or over packet
//! sockets, or the kernel's netem; [`Between`] is a link between interfaces that are there already, whose
//! ends [`attach`] themselves. The stretch between the client and the link is a [`Topology`]: nothing, a
//! router that forwards packets, one whose proxies pass bytes on ([`proxy`]), or nothing, but ends that shape what they send.
//!
//! ```text
//!   direct    client ══ link ══ server
//!   router    client ── veth ── router ══ link ══ server
//!   proxied   client ── veth ── router with proxies ══ link ══ server
//!   egress    client with HTB ══ link ══ HTB with server
//! ```
//!
//! Every packet is one of the wire, so no offload can cheat, and but for netem the same seed loses the
//! same packets. Measured instead is what the model can't see: how late packets leave
//! ([`LinkReport::lateness_us_p99`]) and what was dropped outside of it
//! ([`LinkReport::hidden_drops`]); [`LinkReport::validity`] says whether a measurement counts. Delay
//! is per direction, so a round trip takes twice that; rates count IP bytes.
//!
//! A link can be changed while it runs, without losing a packet in it: by this process
//! ([`control::Target`]), by another over a socket ([`control::Control`]), or by itself at set times
//! ([`Emulation::set_schedule`]). [`Options::packet_log`] writes every packet down.
//!
//! A server that may put itself into the background is held by a [`containment`].
//!
//! [`probe`] tells what each command needs to be able to do; [`enter`] gets it. Nothing is left behind when the process
//! is killed, but for what its commands started, the socket of its control, and what a [`Between`] changed at its
//! interfaces: [`clean()`] takes that away, and puts those back. Unsafe code is in `sys` only. Left to others: the
//! model itself (`altway-link`), and what to run at the ends and how often (the command line and the lab).
//!
//! ```no_run
//! use altway_emulate::{Emulation, Options, enter};
//! use altway_link::{Config, Queue, Rate};
//! use std::time::Duration;
//!
//! enter()?; // first of all, while there is only one thread
//! let rate = Rate::Fixed("20mbit".parse()?);
//! let direction = Config {
//!     queue: Queue::default_for(&rate),
//!     rate,
//!     delay: Duration::from_millis(40),
//!     ..Config::default()
//! };
//! let options = Options { up: direction.clone(), down: direction, ..Options::default() };
//! let emulation = Emulation::start(options)?;
//! let mut server = emulation.server_command("iperf3").arg("-s").spawn()?;
//! emulation.client_command("sh").args(["-c", "iperf3 -c $ALTWAY_SERVER"]).status()?;
//! server.kill()?;
//! emulation.report()?.validity()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same path behind proxies, over IPv6; a plan's `topology` is read by `parse`:
//!
//! ```no_run
//! use altway_emulate::{Emulation, IpVersion, Options};
//!
//! # altway_emulate::enter()?;
//! let options = Options { topology: "proxied".parse()?, ip: IpVersion::V6, ..Options::default() };
//! let emulation = Emulation::start(options)?;
//! // Clients connect to the router, whose proxies pass ports 8443 of TCP and UDP on.
//! println!("https://[{}]:8443/", emulation.server_address());
//! let router = emulation.report()?.router.expect("there is one in this topology");
//! assert_eq!(router.proxy.expect("it has proxies").tcp_connections, 0);
//! # Ok::<(), altway_emulate::Error>(())
//! ```
//!
//! Look at what this machine allows:
//!
//! ```
//! for finding in altway_emulate::probe::findings() {
//!     println!("{:?} {:?}: {}", finding.topic, finding.state, finding.seen);
//! }
//! ```

mod arrivals;
mod attachment;
mod backend;
mod between;
mod busy_poll;
mod changes;
mod checksum;
mod claim;
mod clean;
mod clock;
mod coalescing;
mod congestion;
pub mod containment;
pub mod control;
mod egress;
mod emulation;
mod end;
mod error;
mod ethernet;
mod headers;
mod idle_spinner;
mod idle_spinners;
mod interface_address;
mod ip;
mod lateness;
mod link;
mod link_devices;
mod namespace;
mod netem;
mod netlink;
mod packet;
mod packet_log;
mod pairs;
mod pinning;
mod pool;
mod port;
mod privilege;
pub mod probe;
mod processors;
pub mod proxy;
mod pump;
mod report;
mod router;
mod scratch;
mod subnet;
mod switches;
mod sys;
mod sysctl;
mod thread;
mod timeline;
mod topology;
mod transport;
mod tun;
mod udp_drops;
mod veth;

pub use attachment::attach;
pub use backend::{Backend, UnknownBackend};
pub use between::{Between, BetweenOptions};
pub use clean::{StaleResource, clean};
pub use emulation::{Emulation, FarEnd, Options};
pub use error::Error;
pub use interface_address::InterfaceAddress;
pub use ip::IpVersion;
pub use netem::Unshapable;
pub use packet_log::LogReport;
pub use pinning::Pinning;
pub use privilege::{Privilege, enter};
pub use processors::{Processors, ProcessorsError};
pub use report::{DirectionReport, Invalid, LinkReport, RouterReport};
pub use scratch::Scratch;
pub use switches::children_involuntary_switches;
pub use sysctl::UnsetParameter;
pub use topology::Topology;
