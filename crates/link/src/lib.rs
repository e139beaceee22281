//! One direction of an emulated network link, as a pure function of time, packets and a seed.
//!
//! A packet passes four stages, always in this order:
//!
//! 1. **Loss**: each packet that enters is lost with probability [`Config::loss`]. The generator is
//!    drawn once for every packet and before the queue, so the same seed loses the same ordinals
//!    whatever the queue, the rate or the timing do.
//! 2. **Queue**: a drop-tail queue of [`Config::queue`] IP bytes, waiting for or in serialisation.
//! 3. **Serialisation** at [`Config::rate`], which counts IP bytes, like every number here. Times are
//!    integer nanoseconds, and the part of a nanosecond that a packet leaves over is carried to the
//!    next, so a busy link passes its rate exactly in the long run. Worked number: at 7 Mbit/s a
//!    packet of 1,500 bytes takes 12,000 bit / 7 Mbit/s = 1,714,285.714… ns, so packets sent back to
//!    back leave after 1,714,286, 3,428,572 and 5,142,858 ns, and the seventh after exactly
//!    12,000,000 ns.
//! 4. **Delay**: a fixed one-way [`Config::delay`]. Packets never overtake each other.
//!
//! The contract of [`Direction`] is that of a sans-IO protocol: [`enqueue`](Direction::enqueue) what
//! arrives, arm a timer for [`poll_timeout`](Direction::poll_timeout), and when it fires
//! [`dequeue`](Direction::dequeue) until there is nothing left that is due. There are no sockets and
//! clocks in here: `altway-emulate` runs this model on real packets.
//!
//! ```
//! use altway_link::{Config, Direction, Rate};
//! use altway_units::{DataSize, Timestamp};
//! use std::time::Duration;
//!
//! let config = Config {
//!     rate: Rate::Fixed("20mbit".parse()?),
//!     delay: Duration::from_millis(40),
//!     ..Config::default()
//! };
//! let mut up = Direction::new(config, altway_link::seed_for(1, true));
//! let start = Timestamp::ZERO;
//! up.enqueue(start, DataSize::from_bytes(1_500), "a packet").expect("an empty link has room");
//!
//! // 12,000 bits take 600 µs at 20 Mbit/s, then 40 ms to the other end.
//! let due = start + Duration::from_micros(40_600);
//! assert_eq!(up.poll_timeout(), Some(due));
//! assert_eq!(up.dequeue(due).map(|delivery| delivery.packet), Some("a packet"));
//! # Ok::<(), altway_units::ParseError>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod bit_flip;
mod bottleneck;
mod codel;
mod config;
mod counters;
mod direction;
mod error;
mod jitter;
mod line;
mod loss;
mod normal;
mod queue;
mod rate;
mod reordering;
mod serializer;
mod streams;
mod text;
mod trace;

pub use bit_flip::BitFlip;
pub use config::Config;
pub use counters::Counters;
pub use direction::{Delivery, Direction, DropReason, Dropped};
pub use error::Error;
pub use jitter::{Distribution, Jitter};
pub use loss::{GilbertElliott, LossModel, PacketList};
pub use queue::{Discipline, Queue};
pub use rate::Rate;
pub use reordering::{Reordering, Shift};
pub use streams::seed_for;
pub use trace::{Step, Trace};
