//! Which protocol to offer a client, why, and the `Alt-Svc` field that says so.
//!
//! A client comes over TCP and moves to HTTP/3 only when a response tells it to (`Alt-Svc`,
//! RFC 7838), so this field is the steering wheel: sent with a short life it leads to HTTP/3 for
//! about a session, left out it runs out by itself, `clear` is the brake. Every [`Decision`] carries
//! its [`Reason`], so that a log line can be read a year later.
//!
//! Left to others: measuring paths (`path`), and putting the field on responses (`serve`).
//!
//! ```
//! use altway_policy::{Offer, Policy};
//!
//! let policy: Policy = "threshold:rtt=50ms,loss=1%".parse()?;
//! let decision = policy.decide(None);
//! assert_eq!(decision.offer, Offer::Http3);
//! assert_eq!(decision.reason.to_string(), "path unknown, to be measured over HTTP/3");
//! assert_eq!(decision.alt_svc.field_value(8443).as_deref(), Some(r#"h3=":8443"; ma=60"#));
//! # Ok::<(), altway_policy::ParseError>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod decision;
mod error;
mod policy;
mod threshold;

pub use decision::{AltSvc, Decision, FIXED_MAX_AGE, MAX_AGE, Offer, Reason};
pub use error::ParseError;
pub use policy::Policy;
pub use threshold::Threshold;
