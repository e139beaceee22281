//! The servers behind a proxy: which of them has a request, what it is sent, and what follows when it fails.
//!
//! The rules are pure: [`balance`] chooses a server, [`health`] knows which of them may be chosen, [`retry`] decides
//! what becomes of a request that failed, [`heads`] rewrites the fields that pass between client and server. Time,
//! random numbers and what happened are their arguments.

pub mod balance;
pub mod heads;
pub mod health;
pub mod retry;
