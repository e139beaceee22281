//! Tells the binary which commit it was built from, so that every run can say so.

use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => {
            println!("cargo:rustc-env=ALTWAY_COMMIT={commit}");
            println!("cargo:rustc-env=ALTWAY_LONG_VERSION={version} ({commit})");
        }
        // Outside a repository `option_env!` of the commit is `None`.
        None => println!("cargo:rustc-env=ALTWAY_LONG_VERSION={version}"),
    }
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
