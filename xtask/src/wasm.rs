//! The pure crates, checked for a target without an operating system.
//!
//! `rustup target add` installs Rust's library for it. Where only the compiler of `musl` is unpacked
//! (`cargo xtask setup`), its library is built along from source.

use crate::{musl, shell};
use anyhow::{Context, Result};
use std::path::Path;

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds `crates` as far as the linker for the target.
///
/// # Errors
/// One does not build, or this machine has no library for the target.
pub(crate) fn check(crates: &[&str]) -> Result<()> {
    let packages: String = crates
        .iter()
        .map(|name| format!(" -p altway-{name}"))
        .collect();
    let line = format!("cargo check --locked --target {TARGET}{packages}");
    let root = shell::output("rustc --print sysroot")?;
    if Path::new(root.trim())
        .join("lib/rustlib")
        .join(TARGET)
        .exists()
    {
        return shell::run(&line);
    }
    let variables = musl::unpacked_compiler()?.with_context(|| {
        format!(
            "the pure crates can't be checked for {TARGET}: run `rustup target add {TARGET}`, \
             or `cargo xtask setup` on Debian"
        )
    })?;
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    // Another compiler's products stay apart.
    let folder = shell::target_folder().join("wasm");
    let options = format!(
        " -Z build-std=std,panic_abort --target-dir {}",
        folder.display()
    );
    shell::run_with(&(line + &options), &variables)
}
