//! One direction of an emulated network link, as a pure function of time, packets and a seed.
//!
//! A packet passes these stages, always in this order; [`Config`] switches each on.
//!
//! 1. **UDP** ([`UdpTreatment`]) apart from all else: passed, blocked, or policed to a rate by a token
//!    bucket ([`Policer`]). Worked number: 5 Mbit/s with a burst of 64 KiB pass 43 full packets at once, then
//!    one each 2.4 ms.
//! 2. **Loss** ([`LossModel`]): at random, in bursts (Gilbert–Elliott), or exactly the packets of a list.
//!    Worked number: 1 % in bursts of 4 is a link that turns bad with a probability of 0.2525 % per
//!    packet and good again with 25 %.
//! 3. **Duplication** ([`Config::duplication`]): a copy goes through all that follows on its own.
//! 4. **Queue** ([`Queue`], [`Discipline`]): limited in IP bytes, packets or time, what is in
//!    serialisation included; drop-tail, or CoDel beside it. Worked number: 100 ms at 20 Mbit/s are
//!    250,000 bytes, 166 full packets.
//! 5. **Serialisation** ([`Rate`]), which counts IP bytes, like every number here: one rate, or a trace
//!    of steps or delivery opportunities ([`Trace`]). Times are integer nanoseconds, and the part of a
//!    nanosecond that a packet leaves over is carried to the next, so a busy link passes its rate
//!    exactly in the long run. Worked number: at 7 Mbit/s a packet of 1,500 bytes takes 12,000 bit /
//!    7 Mbit/s = 1,714,285.714… ns, so packets sent back to back leave after 1,714,286, 3,428,572 and
//!    5,142,858 ns, and the seventh after exactly 12,000,000 ns.
//! 6. **Delay** ([`Config::delay`]) with **jitter** ([`Jitter`]). Packets keep their order unless they
//!    may overtake. Worked number: 25 ms with ±5 ms and a packet a millisecond are 26.87 ms in the mean
//!    where the order is kept, 25.00 ms where it is not.
//! 7. **Reordering** ([`Reordering`]): single packets come earlier or later than that.
//! 8. **Corruption** ([`BitFlip`]): the model says which bit of which packet is wrong, and who owns the
//!    bytes flips it when the packet comes out.
//!
//! Each feature draws from a stream of random numbers of its own, and each packet takes its draws when
//! it enters, whatever becomes of it. So the same seed gives the same run, the n-th packet is lost (or
//! not) whatever the queue, the rate and the timing do, and no feature changes what another one does. No
//! floating point is involved: the same run on every platform.
//!
//! Parameters may change while packets are inside: [`Direction::reconfigure`]. In words, as plans and the
//! command line have them, all of them are read and printed: `5ms normal`, `gilbert 1% burst 4`,
//! `50packets`, `1% late 5ms`, `rate 5mbit burst 64KiB`.
//!
//! The contract of [`Direction`] is that of a sans-IO protocol: [`enqueue`](Direction::enqueue) what
//! arrives, arm a timer for [`poll_timeout`](Direction::poll_timeout), and when it fires
//! [`dequeue`](Direction::dequeue) until there is nothing left that is due; whose packets are places in
//! a pool asks [`poll_dropped`](Direction::poll_dropped) too. There are no sockets and clocks in here: `altway-emulate` runs this model on real packets.
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
mod change;
mod codel;
mod config;
mod counters;
mod delay_line;
mod direction;
mod error;
mod jitter;
mod loss;
mod normal;
mod queue;
mod rate;
mod reordering;
mod schedule;
mod serializer;
mod setting;
mod streams;
mod text;
mod trace;
mod udp;

pub use bit_flip::BitFlip;
pub use change::{Change, ChangeError};
pub use config::Config;
pub use counters::Counters;
pub use direction::{Delivery, Direction, DropReason, Dropped};
pub use error::Error;
pub use jitter::{Distribution, Jitter};
pub use loss::{GilbertElliott, LossModel, PacketList};
pub use queue::{Discipline, Queue};
pub use rate::Rate;
pub use reordering::{Reordering, Shift};
pub use schedule::{Schedule, ScheduledChange};
pub use setting::{DirectionSet, Setting};
pub use streams::seed_for;
pub use trace::{Step, Trace};
pub use udp::{Policer, Transport, UdpTreatment};
