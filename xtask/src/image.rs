//! `cargo xtask image`: a static binary, and a container image of nothing but that.
//!
//! The binary is linked against musl where Rust's library for it is to be had, elsewhere against
//! glibc (decisions 0035 and 0051). Left to others: what is in the image and how its containers are wired up,
//! which stand in `docker/`.

use crate::musl::{self, Library};
use crate::shell;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder in which `docker build` finds what belongs into the image.
const CONTEXT: &str = "docker";

/// The objects of the image's site, and their sizes in bytes. They hold zeros: altway doesn't compress.
const OBJECTS: [(&str, u64); 3] = [("100kB", 100_000), ("1MB", 1_000_000), ("10MB", 10_000_000)];

/// Builds a static binary, puts it into docker/, and has Docker, if its engine answers, make the image.
pub(crate) fn run() -> Result<()> {
    let context = Path::new(CONTEXT);
    let binary = context.join("altway");
    build(Profile::Release, &binary)?;
    for (name, size) in OBJECTS {
        write_object(&context.join("site").join(name), size)?;
    }
    // `docker build` fails without an engine that answers, which a client alone is not.
    if !shell::succeeds("docker version") {
        shell::say(&format!(
            "no Docker engine answers here; `docker build -t altway {CONTEXT}` makes the image of {}",
            binary.display()
        ));
        return Ok(());
    }
    shell::run(&format!("docker build -t altway {CONTEXT}"))
}

/// Builds a static binary for the tests and gives its place.
pub(crate) fn for_tests() -> Result<PathBuf> {
    let binary = std::path::absolute(shell::target_folder().join("static/altway"))?;
    build(Profile::Dev, &binary)?;
    Ok(binary)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Dev,
    Release,
}

fn build(profile: Profile, to: &Path) -> Result<()> {
    if let Err(error) = musl::install() {
        shell::say(&format!(
            "altway is linked against glibc, for musl is not to be had: {error:#}"
        ));
    }
    let musl = musl::library()?;
    let variables = musl.as_ref().map(Library::variables).unwrap_or_default();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    shell::run_with(&line(profile, musl.as_ref()), &variables)?;
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => "release",
    };
    let target = musl.map(|_| musl::target()).unwrap_or_default();
    let built = shell::target_folder().join(target);
    let built = built.join(folder).join("altway");
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let copied = fs::copy(&built, to);
    copied.with_context(|| format!("cannot copy {} to {}", built.display(), to.display()))?;
    must_be_static(to)
}

/// The command line of a build. Only the program itself is told to be static: against glibc, everything
/// that it depends on is what any other build of this profile has made.
fn line(profile: Profile, musl: Option<&Library>) -> String {
    let profile = match profile {
        Profile::Dev => "",
        Profile::Release => " --release",
    };
    let target = musl.map_or_else(String::new, |library| {
        format!(" --target {}{}", musl::target(), library.options())
    });
    format!(
        "cargo rustc --locked -p altway --bin altway{profile}{target} -- \
         -C target-feature=+crt-static -C strip=symbols"
    )
}

/// A binary that names an interpreter (PT_INTERP) needs it, and libraries, beside it.
fn must_be_static(binary: &Path) -> Result<()> {
    let image = fs::read(binary)?;
    ensure!(
        interpreter(&image).is_none(),
        "{} is linked dynamically",
        binary.display()
    );
    Ok(())
}

/// The program that the kernel is to load this ELF file of 64 bits by, if there is one.
fn interpreter(image: &[u8]) -> Option<&[u8]> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, size: usize| {
        let bytes = image.get(at..at + size)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte)),
        )
    };
    let table = usize::try_from(number(32, 8)?).ok()?;
    let (size, count) = (number(54, 2)? as usize, number(56, 2)? as usize);
    let headers = (0..count).map(|header| table + header * size);
    let header = headers
        .into_iter()
        .find(|at| number(*at, 4) == Some(PT_INTERP))?;
    let (at, length) = (
        number(header + 8, 8)? as usize,
        number(header + 32, 8)? as usize,
    );
    image.get(at..at + length)
}

fn write_object(path: &Path, size: u64) -> Result<()> {
    let file =
        fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.set_len(size)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

    use super::*;

    #[test]
    fn a_program_that_needs_libraries_is_known() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = String::from_utf8_lossy(interpreter(&own).unwrap()).into_owned();
        assert!(found.contains("/ld-"), "{found}");
        assert_eq!(interpreter(b""), None);
        assert_eq!(interpreter(&own[..64]), None);
    }
}
