//! The tests of `it` on connections and workers once more, over one acceptor that hands connections to the workers in turn.
//! Requests are left out: a worker answers those of a connection in the same way however it came by it.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

mod it {
    #[allow(dead_code, unused_imports, reason = "some are for the other tests")]
    pub(crate) mod common;
    mod containment;
    mod ends;
    mod gate;
    mod gone;
    mod listeners;
    mod protocols;
    mod quic;
    mod restarts;
    mod shares;
    mod takeover;
    mod turns;
}

// Where the tests look for it.
use it::common;
