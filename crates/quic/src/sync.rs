//! Types that threads share memory by: the standard library's, or those of loom, which tries every order
//! of what threads do (`cargo xtask loom`).

#[cfg(not(all(test, feature = "loom")))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[cfg(all(test, feature = "loom"))]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
