//! The crate from outside: two endpoints joined by an emulated path, in virtual time.
#![allow(
    clippy::disallowed_methods,
    reason = "virtual time begins at some instant"
)]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod acknowledgements;
mod amplification;
mod bbr;
mod bottleneck;
mod congestion;
mod connection_ids;
mod connections;
mod early;
mod ecn;
mod engine;
mod flood;
mod keys;
mod migration;
mod pair;
mod paths;
mod qlog;
mod statistics;
mod streams;
mod tls;
mod validation;
mod version_2;
mod versions;
mod windows;
mod wire;
