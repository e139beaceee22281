//! The choice of the protocol that a client is offered: observation, state, model, decision, `Alt-Svc`, explanation.
//!
//! A client's first connection is over TCP, and it moves to HTTP/3 when a response offers it (`Alt-Svc`, RFC 7838).
//! HTTP/3 is not better for every client: some receive more slowly over QUIC than their path allows, some networks throttle
//! or block UDP, and the new connection costs round trips that only later visits gain back. A [`Selector`] is given
//! observations of a server's connections. For each response it predicts how long the client's loads from this host take
//! over HTTP/2 and over HTTP/3, and returns the value of `Alt-Svc`, with a reason.
//!
//! Other crates read the transports' counters, clocks, keys and files, and add the field to responses (`altway-serve`), and
//! measure the transfers to which a surface, the model's predicted times, is [fitted](fit) (`altway-lab`).
//!
//! ```
//! use altway_select::{
//!     AltSvc, Bulk, Config, Hints, Host, ModelKind, DecisionRequest, Observation, Offer, Secret, Selector,
//!     Transport, UnixTime,
//! };
//! use altway_units::DataSize;
//! use std::time::Duration;
//!
//! // Once: a selector for all workers, and a host for each name that is served.
//! let selector = Selector::new(Config::new(Secret::new([7; 16]), &ModelKind::Learned(None)));
//! let host = Host::new("example.org");
//!
//! // A connection begins. The fields of its first request tell the client's class: its program and system.
//! let now = UnixTime::from_secs(1_795_392_000);
//! let agent: &[u8] = b"Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
//! let hints = Hints { user_agent: Some(agent), ..Hints::default() };
//! let client = selector.client("192.0.2.7".parse()?, &hints);
//! selector.connected(&client, &host, Transport::Tcp, now);
//!
//! // Before a response, at most once a second: the field to send.
//! let moment = DecisionRequest { min_rtt: Some(Duration::from_millis(40)), ..DecisionRequest::new(now, Transport::Tcp) };
//! let decision = selector.decide(&client, &host, &moment);
//! assert_eq!(decision.offer, Offer::Http3);
//! assert_eq!(decision.alt_svc.field_value(443).as_deref(), Some(r#"h3=":443"; ma=2592000"#));
//!
//! // After a response, or when the connection ends: what is new on it.
//! let large = Bulk {
//!     size: DataSize::from_bytes(50_000_000),
//!     rate: "900mbit".parse()?,
//!     app_limited: false,
//! };
//! selector.observe(&client, &host, &Observation {
//!     min_rtt: Some(Duration::from_millis(1)),
//!     packets_sent: 34_000,
//!     bulk: Some(large),
//!     ..Observation::new(Transport::Tcp)
//! }, now);
//!
//! // A short and fast path, of which Firefox uses less than half over QUIC.
//! let moment = DecisionRequest { min_rtt: Some(Duration::from_millis(1)), ..moment };
//! let decision = selector.decide(&client, &host, &moment);
//! assert_eq!((decision.offer, decision.alt_svc), (Offer::Http2, AltSvc::Clear));
//! assert!(decision.reason.to_string().starts_with("HTTP/3 predicted +"));
//!
//! // The state outlives the process.
//! let kept = selector.snapshot([&host], now);
//! let successor = Selector::new(Config::new(Secret::new([7; 16]), &ModelKind::Learned(None)));
//! successor.restore(&kept, now)?;
//! successor.recall(&host);
//! assert_eq!(successor.decide(&client, &host, &moment).offer, Offer::Http2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod address;
mod alt_svc;
mod beacon;
mod class;
mod classes;
mod client_state;
mod cusum;
mod decision;
mod entry;
mod evidence;
mod explain;
mod export;
pub mod fit;
mod holdout;
mod limit;
mod loss;
mod mix;
pub mod model;
mod network;
mod observation;
mod pages;
pub mod replay;
mod residuals;
mod secret;
mod selector;
mod snapshot;
mod store;
mod surface;
mod time;
mod visits;

pub use address::{Client, ClientKey, ParseKeyError};
pub use alt_svc::AltSvc;
pub use beacon::{
    BeaconCounts, BeaconProtocol, BeaconReport, ClassTiming, InvalidBeacon, MAX_BEACON_BYTES,
    TimingBias, TooManyBeacons,
};
pub use class::{ClientClass, Family, Hints, ParseClassError, Platform, Stack};
pub use classes::Alarm;
pub use decision::{Decision, Offer, Prediction, Reason};
pub use entry::{
    ENTRY_VERSION, LoggedBeacon, LoggedPage, LoggedProtocol, LoggedStart, SelectionEntry,
};
pub use evidence::Evidence;
pub use explain::{ClassSummary, Explanation};
pub use export::ClientRecord;
pub use limit::limited_rate;
pub use model::{Model, ModelKind, ParseModelError};
pub use network::Neighbours;
pub use observation::{Bulk, Observation, Page, Start, Transport};
pub use pages::Pages;
pub use secret::Secret;
pub use selector::{Config, DecisionRequest, Host, Selector};
pub use snapshot::{SnapshotError, snapshot_congestion};
pub use surface::{
    Congestion, Exchange, PathProperties, Source, Sources, Surface, SurfaceError, Times,
};
pub use time::UnixTime;
