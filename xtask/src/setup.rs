//! Installs the programs that altway is tested against and did not write. Servers among them are
//! neither started nor left to start by themselves: the tests start their own.
//!
//! The tests skip loudly what is not there, so a machine without Debian's packages or without the
//! right to install them still runs all that needs only Rust.

mod haproxy;
mod promtool;
mod services;

use crate::{go, image, shell};
use anyhow::{Context as _, Result};
use std::path::PathBuf;

/// Debian package, and the program that shows that it is there.
const PACKAGES: [(&str, &str); 19] = [
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("nghttp2-client", "nghttp"),
    ("nghttp2-server", "nghttpd"),
    ("nghttp2-proxy", "nghttpx"),
    ("h2o", "h2o"),
    ("nginx", "nginx"),
    ("chromium", "chromium"),
    ("firefox-esr", "firefox-esr"),
    ("libnss3-tools", "certutil"),
    ("python3-venv", "python3"),
    ("user-mode-linux", "linux.uml"),
    ("iproute2", "tc"),
    ("docker.io", "dockerd"),
    ("docker-compose", "docker-compose"),
    ("musl-tools", "musl-gcc"),
    ("tshark", "tshark"),
    ("varnish", "varnishtest"),
    ("valgrind", "valgrind"),
];

const AUTOBAHN: &str = "autobahntestsuite==25.10.1";
const AIOQUIC: &str = "aioquic==1.7.2";
const REDBOT: &str = "redbot==2.7.1";
/// Packages with which the notebook of `examples/` reads and draws.
const NOTEBOOK: &str = "pandas==3.1.1 pyarrow==26.0.1 matplotlib==3.11.2";

/// The HTTP/2 conformance suite. Its later tags can't be installed: they have a `go.mod` that lacks
/// the `/v2`, so that Go's proxy refuses them. This one has 145 cases.
const H2SPEC: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

/// The authority for tests of Let's Encrypt. Its version stands in its folder's name, so that another one is built anew;
/// Debian's knows nothing of renewal information.
const PEBBLE: &str = "v2.10.1";

const NONINTERACTIVE: [(&str, &str); 1] = [("DEBIAN_FRONTEND", "noninteractive")];

/// A variable that tells the tests where a program is which is on no path; empty: nowhere.
pub(crate) type Variable = (&'static str, String);

/// Installs what is missing, and tells the tests where it is.
pub(crate) fn run() -> Result<Vec<Variable>> {
    install_packages()?;
    let place = |path: Option<PathBuf>| path.unwrap_or_default().to_string_lossy().into_owned();
    Ok(vec![
        ("ALTWAY_TEST_PYTHON", place(install_python())),
        ("ALTWAY_TEST_REDBOT", place(install_redbot())),
        ("ALTWAY_TEST_PROMTOOL", place(install_promtool())),
        ("ALTWAY_TEST_H2SPEC", place(install_h2spec())),
        ("ALTWAY_TEST_PEBBLE", place(install_pebble())),
        ("ALTWAY_TEST_HAPROXY", place(install_haproxy_tests())),
        ("ALTWAY_TEST_AUTOBAHN", place(install_autobahn())),
        ("ALTWAY_TEST_QUIC_GO", place(install_quic_go())),
        ("ALTWAY_TEST_CADDY", place(install_caddy())),
        (
            "ALTWAY_TEST_GRPC",
            place(there("gRPC's tests", go::install_grpc())),
        ),
        (
            "ALTWAY_TEST_TOXIPROXY",
            place(there("toxiproxy", go::install_toxiproxy())),
        ),
        (
            "ALTWAY_TEST_DOCKER_PLUGINS",
            place(install_docker_plugins()),
        ),
        ("ALTWAY_TEST_STATIC", place(build_static())),
    ])
}

fn install_packages() -> Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, program)| shell::find(program).is_none())
        .map(|(name, _)| *name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let is_root = shell::output("id -u")?.trim() == "0";
    if !is_root || shell::find("apt-get").is_none() {
        shell::say(&format!(
            "not installed, tests that need them are skipped: {names}"
        ));
        return Ok(());
    }
    let _idle = services::forbid_starts()?;
    shell::run_with("apt-get update -qq", &NONINTERACTIVE)?;
    let install = format!("apt-get install -y -qq --no-install-recommends {names}");
    shell::run_with(&install, &NONINTERACTIVE)?;
    services::disable(&missing);
    Ok(())
}

/// Gives the Python that has aioquic, if there is one. What the notebook needs comes into it too, but is
/// not needed by anything else.
fn install_python() -> Option<PathBuf> {
    let python = install_aioquic()?;
    let there = format!(
        "{} -m pip show -q pandas pyarrow matplotlib",
        python.display()
    );
    if !shell::succeeds(&there) {
        let install = format!("{} -m pip install -q {NOTEBOOK}", python.display());
        or_skip("pandas", &shell::run(&install));
    }
    Some(python)
}

/// Gives the Python that has aioquic, if there is one.
fn install_aioquic() -> Option<PathBuf> {
    let python = target("peers")?.join("bin/python");
    let installed = install_from_pypi("peers", "aioquic", AIOQUIC);
    or_skip("aioquic", &installed).then_some(python)
}

/// Gives REDbot, if it is there or pip can install it.
fn install_redbot() -> Option<PathBuf> {
    let installed = install_from_pypi("redbot", "redbot", REDBOT);
    let program = target("redbot")?.join("bin/redbot");
    or_skip("REDbot", &installed).then_some(program)
}

/// Installs `what`, which `package` is the name of, in an environment of Python's of its own, unless it is there.
fn install_from_pypi(environment: &str, package: &str, what: &str) -> Result<()> {
    let environment = target(environment).context("no target folder")?;
    let python = environment.join("bin/python");
    if shell::succeeds(&format!("{} -m pip show -q {package}", python.display())) {
        return Ok(());
    }
    shell::run(&format!("python3 -m venv {}", environment.display()))?;
    shell::run(&format!("{} -m pip install -q {what}", python.display()))
}

/// Gives promtool, if it is there or Debian's tools can fetch it.
fn install_promtool() -> Option<PathBuf> {
    shell::find("apt-get")?;
    there("promtool", promtool::program(&target("promtool")?))
}

/// Gives h2spec, if it is there or Go can build it.
fn install_h2spec() -> Option<PathBuf> {
    let folder = target("tools")?;
    let h2spec = folder.join("h2spec");
    if h2spec.is_file() {
        return Some(h2spec);
    }
    let install = format!("go install {H2SPEC}");
    let folder = folder.to_string_lossy();
    let installed = shell::run_with(&install, &[("GOBIN", &folder), ("GOFLAGS", "")]);
    or_skip("h2spec", &installed).then_some(h2spec)
}

/// Gives pebble, if it is there or Go can build it.
fn install_pebble() -> Option<PathBuf> {
    let folder = target("tools")?.join(format!("pebble-{PEBBLE}"));
    let pebble = folder.join("pebble");
    if pebble.is_file() {
        return Some(pebble);
    }
    let install = format!("go install github.com/letsencrypt/pebble/v2/cmd/pebble@{PEBBLE}");
    let folder = folder.to_string_lossy();
    let installed = shell::run_with(&install, &[("GOBIN", &folder), ("GOFLAGS", "")]);
    or_skip("pebble", &installed).then_some(pebble)
}

/// Gives HAProxy's regression tests for HTTP messages, if Debian's tools can fetch them.
fn install_haproxy_tests() -> Option<PathBuf> {
    shell::find("varnishtest")?;
    let mut tests = None;
    let fetched = haproxy::tests(&target("haproxy")?).map(|folder| tests = Some(folder));
    or_skip("HAProxy's test suite", &fetched);
    tests
}

/// Gives the folder of Autobahn's test suite for WebSockets, if there is a Python 2.7, which it needs.
fn install_autobahn() -> Option<PathBuf> {
    let folder = target("autobahn")?;
    if folder.join("bin/wstest").is_file() {
        return Some(folder);
    }
    let place = folder.display();
    let install = |version: &str| {
        let install = format!("python2.7 -m pip install -q --target {place} {AUTOBAHN}");
        shell::run_with(&install, &[("PYENV_VERSION", version)])?;
        // pip leaves this file out of a package that several others share.
        std::fs::write(folder.join("zope/__init__.py"), "").context("cannot complete zope")
    };
    let installed = python_2_7().and_then(|version| install(&version));
    or_skip("Autobahn's test suite", &installed).then_some(folder)
}

/// The version by which pyenv has Python 2.7; "system" where it is on the path without.
fn python_2_7() -> Result<String> {
    let versions = shell::output("pyenv versions --bare").unwrap_or_default();
    let version = versions.lines().find(|version| version.starts_with("2.7"));
    if let Some(version) = version {
        return Ok(version.trim().to_owned());
    }
    let there = shell::succeeds("python2.7 --version");
    there
        .then(|| "system".to_owned())
        .context("there is no Python 2.7")
}

/// Gives the client and server around quic-go, if Go can build them.
fn install_quic_go() -> Option<PathBuf> {
    let built = go::build_quic_go();
    or_skip("quic-go", &built).then(go::interop_quic_go)?
}

/// Gives Caddy, if it is there or Go can build it.
fn install_caddy() -> Option<PathBuf> {
    let built = go::install_caddy();
    or_skip("Caddy", &built).then(go::caddy)?
}

/// Returns the place of what was installed; says so where it could not be.
fn there(name: &str, installed: Result<PathBuf>) -> Option<PathBuf> {
    let mut place = None;
    let installed = installed.map(|path| place = Some(path));
    or_skip(name, &installed);
    place
}

/// Gives the folder of `docker compose` and `docker buildx`, if there is a Docker and Go can build them.
/// Debian has what was before them.
fn install_docker_plugins() -> Option<PathBuf> {
    shell::find("dockerd")?;
    let built = go::build_docker_plugins();
    or_skip("docker compose", &built).then(go::docker_plugins)?
}

/// Gives altway as one static binary, for containers.
fn build_static() -> Option<PathBuf> {
    shell::find("dockerd")?;
    let built = image::for_tests();
    built
        .inspect_err(|error| {
            shell::say(&format!(
                "no static altway, its tests are skipped: {error:#}"
            ));
        })
        .ok()
}

/// A folder below cargo's target folder, absolute.
fn target(folder: &str) -> Option<PathBuf> {
    std::path::absolute(shell::target_folder().join(folder)).ok()
}

/// Returns true if it is installed; says what the tests lose when it is not.
fn or_skip(name: &str, installed: &Result<()>) -> bool {
    if let Err(error) = installed {
        shell::say(&format!(
            "{name} is not installed, its tests are skipped: {error:#}"
        ));
    }
    installed.is_ok()
}
