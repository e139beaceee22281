//! Every line of this crate that the compiler can't check, each behind a safe function.
//!
//! What the standard library, `rustix` and `nix` offer as safe functions is used from there; these
//! are the three calls that they don't have.
#![allow(
    unsafe_code,
    reason = "the system calls below have no safe wrapper in the libraries we use"
)]

mod child;
mod realtime;
mod tun;

pub(crate) use child::{join_before_exec, try_in_child};
pub(crate) use realtime::{request_idle_class, request_realtime};
pub(crate) use tun::make_tun;
