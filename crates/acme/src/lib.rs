//! Certificates that a server gets and renews by itself, by ACME (RFC 8555).
//!
//! [`Schedule`] decides: when a certificate is ordered, when it is renewed (by the authority's word, RFC 9773, else after two
//! thirds of its lifetime), how long is waited after which failure. It is pure: time comes as an argument. [`Manager`] is the
//! shell that carries its tasks out, with instant-acme and a client of its own, on a thread of its own. [`Folder`] keeps
//! account, certificates and what is under way over restarts. Left to others: answering challenges, which are handed to a
//! [`Responder`], and showing certificates, whose files [`Folder::certificate`] names. Names may also come at run time: a server
//! says by [`OnDemand`] which handshakes ask for, and a program of the operator's is asked which of them are ordered for.
//!
//! ```
//! use altway_acme::{Challenge, SavedState, Now, Schedule, Task};
//! use std::time::{Duration, SystemTime};
//!
//! let now = Now { elapsed: Duration::ZERO, wall: SystemTime::UNIX_EPOCH };
//! let mut schedule = Schedule::new(vec![Challenge::Http01], 7, now);
//! schedule.add("example.org", None, &SavedState::default(), now);
//! let task = schedule.next_task(now).ok_or("there is no certificate yet")?;
//! assert!(matches!(task, Task::Order { name, replaces: false, .. } if name == "example.org"));
//! # Ok::<(), &str>(())
//! ```

mod ask;
mod authority;
mod certificate;
mod client;
mod error;
mod folder;
mod manager;
mod on_demand;
mod order;
mod responder;
mod schedule;
mod settings;

pub use error::Error;
pub use folder::{Folder, Lock};
pub use manager::{Event, Manager, Observer, OpenedFolder, PreparedSettings, Status};
pub use on_demand::{NameFilter, OnDemand};
pub use responder::{BoxError, Responder};
pub use schedule::{
    Answer, Cause, Challenge, Failure, NameStatus, Now, SavedState, Schedule, Task, Validity,
    Window,
};
pub use settings::{ExternalAccount, OnDemandSettings, Settings};
