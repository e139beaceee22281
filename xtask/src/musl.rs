//! Linking of a binary against musl.
//!
//! `rustup target add` installs Rust's library for it, built. Where there is no rustup, Debian has what it
//! takes to build that library: a compiler for its browsers together with the library's source, and LLVM's
//! unwinder as an archive. They're unpacked below the target folder, not installed: nothing else shall be
//! compiled by them.

use crate::shell;
use anyhow::{Context, Result, ensure};
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

/// Packages of Debian: the compiler, its library's source, the unwinder.
const PACKAGES: &str = "rustc-web rust-web-src libunwind-14-dev";

/// Folder of the unwinder in its package.
const UNWINDER: &str = "usr/lib/llvm-14/lib";

/// The linker: GCC with musl's own start files and archive, from Debian's `musl-tools`.
const LINKER: &str = "musl-gcc";

/// Source of Rust's library for musl.
#[derive(Debug)]
pub(crate) enum Library {
    Installed,
    /// The library's source, for the compiler that is unpacked in this folder.
    Source(PathBuf),
}

/// The target's name in Rust.
pub(crate) fn target() -> String {
    format!("{ARCH}-unknown-linux-musl")
}

/// Rust's library, if something can be linked against musl here.
///
/// # Errors
/// The compiler does not say where its libraries are.
pub(crate) fn library() -> Result<Option<Library>> {
    if shell::find(LINKER).is_none() {
        return Ok(None);
    }
    let root = shell::output("rustc --print sysroot")?;
    let libraries = Path::new(root.trim()).join("lib/rustlib");
    if libraries.join(target()).exists() {
        return Ok(Some(Library::Installed));
    }
    let folder = folder()?;
    let is_there = folder.exists();
    Ok(is_there.then_some(Library::Source(folder)))
}

impl Library {
    /// Returns what cargo is told beside the target.
    pub(crate) fn options(&self) -> &'static str {
        match self {
            Self::Installed => "",
            Self::Source(_) => " -Z build-std=std,panic_unwind",
        }
    }

    /// The environment variables that cargo is run with.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Self::Source(folder) = self else {
            return Vec::new();
        };
        let path = |below: &str| folder.join(below).to_string_lossy().into_owned();
        let mut variables = compiler(folder);
        let flags = [
            format!("-Clinker={LINKER}"),
            // Start files are the linker's, and it has none for position-independent programs that are static.
            "-Clink-self-contained=no".into(),
            "-Crelocation-model=static".into(),
            format!("-Lnative={}", path(UNWINDER)),
            // The unwinder was compiled for glibc, whose checked printing it calls before it gives up.
            "-Clink-arg=-Wl,--defsym=__fprintf_chk=abort".into(),
            // What GCC calls from code of C for processors without an instruction for it.
            "-Clink-arg=-lgcc".into(),
        ];
        variables.push(("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")));
        variables
    }
}

/// The environment variables by which cargo builds Rust's library along, with the compiler that is
/// unpacked in `folder`.
fn compiler(folder: &Path) -> Vec<(&'static str, String)> {
    let path = |below: &str| folder.join(below).to_string_lossy().into_owned();
    vec![
        ("RUSTC", path("usr/bin/rustc")),
        ("LD_LIBRARY_PATH", path(&system_libraries())),
        // A library can be built along only by what else is a nightly compiler.
        ("RUSTC_BOOTSTRAP", "1".into()),
    ]
}

/// The environment variables of cargo with Debian's compiler, if that is unpacked.
///
/// # Errors
/// The working directory is gone.
pub(crate) fn unpacked_compiler() -> Result<Option<Vec<(&'static str, String)>>> {
    let folder = folder()?;
    Ok(folder.exists().then(|| compiler(&folder)))
}

/// Unpacks Debian's compiler below the target folder, unless something can be linked already.
///
/// # Errors
/// There are no such packages, or the compiler is too old.
pub(crate) fn install() -> Result<()> {
    if library()?.is_some() {
        return Ok(());
    }
    for program in [LINKER, "apt-get", "dpkg-deb"] {
        ensure!(shell::find(program).is_some(), "there is no {program}");
    }
    let folder = folder()?;
    // Complete when it has its name, whenever this is ended.
    let unpacked = folder.with_extension("new");
    let archives = folder.with_extension("archives");
    for old in [&unpacked, &archives] {
        remove(old)?;
    }
    fs::create_dir_all(archives.join("partial"))?;
    shell::run(&format!(
        "apt-get install -y -qq --reinstall --download-only --no-install-recommends \
         -o Dir::Cache::archives={} {PACKAGES}",
        archives.display()
    ))?;
    for entry in fs::read_dir(&archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|kind| kind == "deb") {
            let unpack = format!("dpkg-deb -x {} {}", archive.display(), unpacked.display());
            shell::run(&unpack)?;
        }
    }
    remove(&archives)?;
    must_be_new_enough(&unpacked)?;
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot rename {}", unpacked.display()))
}

fn must_be_new_enough(folder: &Path) -> Result<()> {
    let compiler = folder.join("usr/bin/rustc");
    let libraries = folder.join(system_libraries());
    // env: what follows is a variable.
    let line = format!(
        "env LD_LIBRARY_PATH={} {} --version",
        libraries.display(),
        compiler.display()
    );
    let said = shell::output(&line)?;
    let needed = env!("CARGO_PKG_RUST_VERSION");
    ensure!(
        version(&said) >= version(&format!("rustc {needed}")),
        "Debian's compiler is {}, and altway needs {needed}",
        said.trim()
    );
    Ok(())
}

/// The first two numbers of what a compiler says of itself.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("rustc ")?.split(['.', ' ', '-']);
    let mut number = || numbers.next()?.trim().parse().ok();
    Some((number()?, number()?))
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Returns the folder in which Debian has a processor's shared libraries.
fn system_libraries() -> String {
    format!("usr/lib/{ARCH}-linux-gnu")
}

/// Returns the folder in which Debian's compiler is unpacked; absolute, for compilers are started
/// in other folders.
fn folder() -> Result<PathBuf> {
    let folder = shell::target_folder().join("peers/rust-for-musl");
    std::path::absolute(&folder).with_context(|| format!("no {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let debian = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\n";
        assert_eq!(version(debian), Some((1, 96)));
        assert_eq!(version("rustc 1.95"), Some((1, 95)));
        assert!(version("rustc 1.100.0-nightly") > version("rustc 1.95"));
        assert!(version("gcc 12") < version("rustc 1.95"));
    }

    #[test]
    fn what_is_installed_takes_no_more_than_its_target() {
        assert!(Library::Installed.variables().is_empty());
        let source = Library::Source("/folder".into());
        let variables = source.variables();
        assert!(variables.contains(&("RUSTC", "/folder/usr/bin/rustc".into())));
    }
}
