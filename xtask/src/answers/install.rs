//! static-web-server, from its crate: with the parts that the comparison needs, and optional, for it takes minutes to
//! build.

use crate::shell;
use anyhow::Result;
use std::path::PathBuf;

/// Version of static-web-server; the folder is named by it, so that another one is built anew.
pub(super) const VERSION: &str = "2.44.1";

/// Features that have to do with files; without TLS, metrics and passwords. Of a gzip form nothing is read but that it
/// is there.
const FEATURES: &str = "compression,directory-listing,fallback-page";

/// Gives static-web-server, built unless it is there.
///
/// # Errors
/// The server can't be built.
pub(super) fn static_web_server() -> Result<PathBuf> {
    let root = shell::target_folder().join(format!("peers/static-web-server-{VERSION}"));
    let root = std::path::absolute(root)?;
    let program = root.join("bin/static-web-server");
    if !program.is_file() {
        // How fast it is, is not asked.
        let install = format!(
            "cargo install static-web-server@{VERSION} --locked --debug --no-default-features \
             --features {FEATURES} --root {}",
            root.display()
        );
        let target = root.join("target");
        let target = target.to_string_lossy();
        shell::run_with(&install, &[("CARGO_TARGET_DIR", &target)])?;
        std::fs::remove_dir_all(root.join("target"))?;
    }
    Ok(program)
}
