//! Tests of what threads share without a lock, in every order that the memory model permits, by loom.

use crate::shell;
use anyhow::Result;

/// Runs them: under the feature `loom`, unit tests have its atomics in place of the standard library's.
/// Not under `--cfg loom`, which Tokio reads as well, and has no sockets then.
///
/// # Errors
/// In one of the orders something does not hold.
pub(crate) fn run() -> Result<()> {
    for package in ["altway-quic", "altway-emulate"] {
        shell::run(&format!(
            "cargo test --locked --lib --features loom -p {package} interleavings"
        ))?;
    }
    Ok(())
}
