//! What is known of a client's network path: samples in, [`PathStatistics`] out.
//!
//! A server sees the path of every connection (round trips, packets, losses), but a decision is
//! about the *next* connection of a client. So samples are kept for each client (an IPv4 address, an
//! IPv6 /64), together for TCP and QUIC, and fade with age. Paths change: what was measured ten
//! minutes ago says little. Of a client that is not known yet its network is a first guess (IPv4 /24,
//! IPv6 /48): the median of what at least three other clients there measured, each of which counts
//! once, for any of them may lie.
//!
//! [`ConnectionStatistics`] is what one connection tells of its path, in the same terms for TCP and
//! QUIC; what is new in it since the last look is a [`Sample`].
//!
//! Left to others: reading the transports' counters (`serve`), and what to conclude from them
//! (`policy`).
//!
//! ```
//! use altway_path::{MemoryStore, Sample, Store, Transport};
//! use std::net::{IpAddr, Ipv4Addr};
//! use std::time::Duration;
//!
//! let mut store = MemoryStore::default();
//! let client = |host: u8| IpAddr::from(Ipv4Addr::new(192, 0, 2, host));
//! let sample = Sample {
//!     transport: Transport::Tcp,
//!     at: Duration::from_secs(1),
//!     min_rtt: Duration::from_millis(40),
//!     packets_sent: 200,
//!     packets_lost: 1,
//! };
//! for host in [7, 8, 9] {
//!     store.record(client(host), &sample);
//! }
//!
//! let guess = store.neighbours(client(200), Duration::from_secs(2)).expect("same /24");
//! assert_eq!(guess.min_rtt, Duration::from_millis(40));
//! assert_eq!(guess.loss.to_string(), "0.5%");
//! ```
#![warn(clippy::disallowed_methods)]

mod connection;
mod memory;
mod prefix;
mod sample;

pub use connection::{ConnectionStatistics, DeliveryRate, Exchange};
pub use memory::{MemoryStore, MemoryStoreConfig};
pub use sample::{PathStatistics, Sample, Transport};

use std::net::IpAddr;
use std::time::Duration;

/// Where path statistics are kept. The server's own memory ([`MemoryStore`]) is one; a fleet shares
/// one, for the statistics are additive.
///
/// Time is the duration since the server's start, and never runs backwards by more than the
/// reordering of a few threads.
pub trait Store {
    /// Adds one connection's observation to what is known of `client`.
    fn record(&mut self, client: IpAddr, sample: &Sample);

    /// What connections from the address `client` (IPv6: its /64) measured; `None` when nothing is
    /// known at `now`, or nothing recent.
    fn client(&self, client: IpAddr, now: Duration) -> Option<PathStatistics>;

    /// The median of what other clients of the same network measured; `None` when too few of them did
    /// lately for one of them to decide nothing alone.
    fn neighbours(&self, client: IpAddr, now: Duration) -> Option<PathStatistics>;
}
