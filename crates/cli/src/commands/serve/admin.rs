//! The admin socket of `altway serve`.

use crate::hint::mistake;
use altway_admin::{Address, Admin, StartError};
use anyhow::Result;

/// Starts the admin socket, if there is to be one; it ends with what is returned. `takes_over`: another process may
/// have one in its place.
///
/// # Errors
/// The socket can't be bound; the hint says what to do about it.
pub(super) fn start(
    admin: &Admin,
    at: Option<&Address>,
    takes_over: bool,
) -> Result<Option<Box<dyn Send>>> {
    let Some(at) = at else {
        return Ok(None);
    };
    let started = admin.clone().start(at, takes_over).map_err(|error| match &error {
        StartError::InUse(_) => mistake(
            error.to_string(),
            "name another --admin, or have the new server take over with --takeover",
        ),
        StartError::Bind { source, .. } => mistake(
            format!("{error}: {source}"),
            "name a path in a folder that is there and that you may write to, or an IP:PORT of this machine that is free",
        ),
        _ => error.into(),
    })?;
    Ok(Some(Box::new(started)))
}
