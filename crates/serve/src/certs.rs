//! Certificates where no public authority can issue any: a local authority, and certificates signed by it.
//!
//! The work of mkcert, built in: [`Store`] keeps the authority and one leaf in a directory, makes what is
//! missing and renews what expires; [`trust`] explains and does what makes a system trust the authority.
//! The authority's key can impersonate every site to those who trust it: it never leaves its directory, is readable by
//! its owner only, and is never overwritten.

mod names;
mod store;
pub mod trust;

pub use store::{Leaf, Store, SuppliedChain};

use crate::{Error, Identity};
use std::io;
use std::path::Path;

/// Returns a certificate for localhost, 127.0.0.1 and ::1 by the authority of the user's own [`Store`], for development.
///
/// # Errors
/// As [`Store::open_default`] and [`Store::leaf`].
pub fn localhost() -> Result<Identity, Error> {
    Store::open_default()?.leaf::<&str>(&[])?.identity()
}

/// Checks that one certificate of the local authority can have these names.
///
/// # Errors
/// One of them is no name; there are too many.
pub fn check_names<S: AsRef<str>>(names: &[S]) -> Result<(), Error> {
    names::Names::new(names).map(drop)
}

/// Says what could not be done to a file of the store, or of the system's.
fn file_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::CertificateStore {
        action,
        path,
        source,
    }
}
