//! A proxy between clients of HTTP/1.1 and HTTP/2 and servers that behave, and that do not.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests leaves out their helpers"
)]

mod common;
mod faults;
mod hostile;
mod messages;
mod multiplexed;
mod places;
mod retries;
mod streams;
mod tls;
mod websockets;
