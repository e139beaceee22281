//! The engine from outside: whole connections in virtual time, and a scripted peer that misbehaves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod attacks;
mod conformance;
mod exchanges;
mod flow;
mod fuzzed;
mod pair;
mod priorities;
mod properties;
mod scripted;
mod time;
