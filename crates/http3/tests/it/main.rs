//! The crate from outside, in virtual time: two endpoints joined in memory, and an endpoint against
//! a scripted QUIC peer that breaks the rules.
#![allow(
    clippy::disallowed_methods,
    reason = "virtual time begins at some instant"
)]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod apps;
mod attacks;
mod deliveries;
mod early;
mod flights;
mod lifecycle;
mod misbehaviour;
mod pair;
mod paths;
mod priorities;
mod qpack;
mod raw;
mod repeats;
mod tls;
mod transfers;
mod unwanted;
