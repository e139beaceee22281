//! Every test of `it` once more, over one acceptor that hands connections to the workers in turn.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

#[path = "it/main.rs"]
mod it;

// Where the tests look for it.
use it::common;
