//! HAProxy's regression tests, from Debian's source package of HAProxy. They are scripts of varnishtest.
//!
//! The package comes by a list of sources in a folder of its own, so that the system's lists stay as they
//! are.

use crate::shell;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// HAProxy 2.6, whose tests have the names that `cli/tests/it/haproxy.rs` knows.
const SOURCES: &str = "deb-src http://deb.debian.org/debian bookworm main\n";

/// The folder of the tests within the source.
const TESTS: &str = "reg-tests/http-messaging";

/// Gives the folder of the tests, below `folder`; downloads them if they are not there.
pub(super) fn tests(folder: &Path) -> Result<PathBuf> {
    let tests = folder.join(TESTS);
    if tests.is_dir() {
        return Ok(tests);
    }
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::write(folder.join("sources.list"), SOURCES)?;
    let folder = folder.display();
    // A source package goes to the working folder.
    let apt = format!(
        "env -C {folder} apt-get -qq -o Dir::Etc::SourceList={folder}/sources.list \
         -o Dir::Etc::SourceParts=- -o Dir::State::Lists={folder}/lists -o Dir::Cache={folder}/cache"
    );
    shell::run(&format!("{apt} update"))?;
    shell::run(&format!("{apt} source --download-only haproxy"))?;
    let source = shell::output(&format!("find {folder} -maxdepth 1 -name *.orig.tar.gz"))?;
    let source = source.lines().next().context("no source came")?;
    shell::run(&format!(
        "tar -xzf {source} -C {folder} --strip-components=1 --wildcards */{TESTS}"
    ))?;
    Ok(tests)
}
