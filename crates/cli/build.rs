//! Tells the binary which commit it was built from, whether all of it, and by which compiler, so that every
//! run can say so.

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
    if let Some(changed) = git(&[
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=no",
    ]) {
        println!("cargo:rustc-env=ALTWAY_DIRTY={}", !changed.is_empty());
        // A change of a source makes another build.
        println!("cargo:rerun-if-changed=../../crates");
    }
    if let Some(compiler) = said(&variable("RUSTC"), &["--version"]) {
        println!("cargo:rustc-env=ALTWAY_COMPILER={compiler}");
    }
    for (name, from) in [("ALTWAY_TARGET", "TARGET"), ("ALTWAY_PROFILE", "PROFILE")] {
        println!("cargo:rustc-env={name}={}", variable(from));
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
    said("git", arguments)
}

/// A variable that cargo sets for build scripts.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
