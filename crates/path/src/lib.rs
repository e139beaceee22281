//! What is known of a client's network path: samples in, [`PathStatistics`] out.
//!
//! A server sees the path of every connection (round trips, packets, losses), but a decision is
//! about the *next* connection of a client, perhaps from its neighbour's address. So samples are
//! kept by network [`Prefix`], together for TCP and QUIC, and fade with age. Paths change: what was
//! measured ten minutes ago says little.
//!
//! [`ConnectionStatistics`] is what one connection tells of its path, in the same terms for TCP and
//! QUIC; what is new in it since the last look is a [`Sample`].
//!
//! Left to others: reading the transports' counters (`serve`), and what to conclude from them
//! (`policy`).
//!
//! ```
//! use altway_path::{MemoryStore, Prefix, Sample, Store, Transport};
//! use std::net::{IpAddr, Ipv4Addr};
//! use std::time::Duration;
//!
//! let mut store = MemoryStore::default();
//! let client = Prefix::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, 7)));
//! let sample = Sample {
//!     transport: Transport::Tcp,
//!     at: Duration::from_secs(1),
//!     min_rtt: Duration::from_millis(40),
//!     packets_sent: 200,
//!     packets_lost: 1,
//! };
//! store.record(client, &sample);
//!
//! let neighbour = Prefix::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, 200)));
//! let path = store.get(neighbour, Duration::from_secs(2)).expect("same /24");
//! assert_eq!(path.min_rtt, Duration::from_millis(40));
//! assert_eq!(path.loss.to_string(), "0.5%");
//! ```
#![warn(clippy::disallowed_methods)]

mod connection;
mod memory;
mod prefix;
mod sample;

pub use connection::{ConnectionStatistics, DeliveryRate, Exchange};
pub use memory::{MemoryStore, MemoryStoreConfig};
pub use prefix::Prefix;
pub use sample::{PathStatistics, Sample, Transport};

use std::time::Duration;

/// Where path statistics are kept. The server's own memory ([`MemoryStore`]) is one; a fleet shares
/// one, for the statistics are additive.
///
/// Time is the duration since the server's start, and never runs backwards by more than the
/// reordering of a few threads.
pub trait Store {
    /// Adds one connection's observation to what is known of `prefix`.
    fn record(&mut self, prefix: Prefix, sample: &Sample);

    /// What is known of `prefix` at `now`; `None` when nothing is, or nothing recent.
    fn get(&self, prefix: Prefix, now: Duration) -> Option<PathStatistics>;
}
