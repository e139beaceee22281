//! AddressSanitizer over the `unsafe` code that a server links.
//!
//! The pinned toolchain has the sanitizer's runtime, and takes the flag when it is told that it may. Miri
//! is of no use here: every such block is a call to the kernel, which it does not carry out.

use crate::shell;
use anyhow::Result;
use std::env::consts::ARCH;

/// The packages, which have `unsafe` and are linked by a server.
const PACKAGES: &str = "-p altway-socket";

/// Runs their tests.
///
/// # Errors
/// One fails, or touches memory that is not its own.
pub(crate) fn run() -> Result<()> {
    // With `--target`, the flags stay away from build scripts and macros. Documentation's examples get
    // no flags, and can't be linked.
    let line = format!(
        "cargo test --locked --lib --target {ARCH}-unknown-linux-gnu --target-dir {} {PACKAGES}",
        shell::target_folder().join("sanitize").display()
    );
    let variables = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", "-Zsanitizer=address"),
    ];
    shell::run_with(&line, &variables)
}
