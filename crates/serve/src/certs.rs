//! Certificates for places where no public authority can help: a local authority, and leaves of it.
//!
//! The work of mkcert, built in: [`Store`] keeps the authority and one leaf in a directory, makes what
//! is missing and renews what runs out; [`trust`] tells and does what a system needs to believe the
//! authority. Whoever holds the authority's key can impersonate every site to those who trust it: the
//! key never leaves its directory, is readable by its owner alone, and is never overwritten.

mod names;
mod store;
pub mod trust;

pub use store::{Given, Leaf, Store};
