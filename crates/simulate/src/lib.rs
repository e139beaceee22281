//! A population of clients, their browsers' `Alt-Svc` caches and a policy, in virtual time.
//!
//! The worth of a way to choose protocols shows over weeks and thousands of clients: offers outlive
//! visits, networks differ, browsers change. So its bars are held here: [`run`] lets a [`Population`] load
//! pages from a server with a [`Policy`], and the [`Outcome`] says what that cost beside the better protocol
//! of each page. All policies meet the same world: same seed, same visits, same noise.
//!
//! The population is invented (shares of browsers, of networks that throttle or block UDP, of offices); the
//! times of pages follow a model that was fitted to transfers over emulated networks.
//!
//! ```
//! use altway_simulate::{AlwaysH2, AlwaysH3, MONTH, Mix, Population, Region, run};
//!
//! let mut population = Population::new(Region::Global, Mix::WEB, 1);
//! population.clients = 300;
//! let h2 = run(&population, &mut AlwaysH2);
//! let h3 = run(&population, &mut AlwaysH3 { max_age: MONTH });
//! assert!(h3.mean < h2.mean, "far from the server HTTP/3 saves round trips");
//! ```
#![warn(clippy::disallowed_methods)]

mod browser;
mod outcome;
mod policy;
mod population;
mod random;
mod run;
mod selected;
mod truth;
mod visit;

pub use altway_message::AltSvc;
pub use browser::Browser;
pub use outcome::Outcome;
pub use policy::{AlwaysH2, AlwaysH3, Ask, Clairvoyant, MONTH, ObservedPage, Policy};
pub use population::{Hostility, Mix, Population, Region};
pub use run::run;
pub use selected::SelectorPolicy;
pub use truth::{Page, Path, Setup, mixed, times};
