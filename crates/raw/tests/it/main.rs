//! A server and a client of ours over loopback: the right bytes in both directions over all three
//! transports, figures that add up, and clear errors for what goes wrong.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;
mod faults;
mod transfers;
