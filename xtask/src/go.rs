//! The peers that are written in Go: built from the Go module proxy, in fixed versions.
//!
//! `xtask/peers/go` holds programs around the library quic-go: a server for benches, both ends of a
//! transfer without HTTP, a client and a server for tests, a client of gRPC over HTTP/3, one of
//! requests over every protocol. Caddy, Docker's plugins, gRPC's tests and
//! toxiproxy are taken as they are. A machine without Go, or without a way to the proxy, does without them.

use crate::shell;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Caddy's version. It stands in its folder's name, so that another one is built anew.
pub(crate) const CADDY: &str = "v2.11.9";

const CADDY_PACKAGE: &str = "github.com/caddyserver/caddy/v2/cmd/caddy";

/// The interoperability tests of gRPC: a client and a server.
const GRPC: &str = "google.golang.org/grpc/interop";
const GRPC_VERSION: &str = "v1.85.0";

/// The program that stands between a proxy and its servers and makes faults.
const TOXIPROXY: &str = "github.com/Shopify/toxiproxy/v2/cmd/server";
const TOXIPROXY_VERSION: &str = "v2.12.0";

/// A server for benches around quic-go, if it is there.
pub(crate) fn quic_go() -> Option<PathBuf> {
    program(&folder().ok()?, "bench-quic-go")
}

/// A client and server for tests around quic-go, if it is there.
pub(crate) fn interop_quic_go() -> Option<PathBuf> {
    program(&folder().ok()?, "interop-quic-go")
}

/// The program with both ends of a transfer with quic-go, if it is there.
pub(crate) fn quic_go_raw() -> Option<PathBuf> {
    program(&folder().ok()?, "bench-quic-go-raw")
}

/// Caddy, if it is there.
pub(crate) fn caddy() -> Option<PathBuf> {
    program(&caddy_folder().ok()?, "caddy")
}

/// The folder of `docker compose` and `docker buildx`, if they are there.
pub(crate) fn docker_plugins() -> Option<PathBuf> {
    let folder = docker_plugins_folder().ok()?;
    program(&folder, "cmd").and(program(&folder, "buildx"))?;
    Some(folder)
}

/// Builds what is around quic-go; always, for Go itself sees whether something changed.
///
/// # Errors
/// There is no Go, or it fails.
pub(crate) fn build_quic_go() -> Result<()> {
    install("go -C xtask/peers/go install ./...", &folder()?)
}

/// Builds Caddy, unless it is there.
///
/// # Errors
/// As of [`build_quic_go`].
pub(crate) fn install_caddy() -> Result<()> {
    if caddy().is_some() {
        return Ok(());
    }
    let line = format!("go install {CADDY_PACKAGE}@{CADDY}");
    install(&line, &caddy_folder()?)
}

/// The folder of gRPC's client and server, which are called so; built unless they are there.
///
/// # Errors
/// As of [`build_quic_go`].
pub(crate) fn install_grpc() -> Result<PathBuf> {
    let folder = folder()?.join(format!("grpc-{GRPC_VERSION}"));
    if program(&folder, "client")
        .and(program(&folder, "server"))
        .is_none()
    {
        let packages = ["client", "server"].map(|it| format!("{GRPC}/{it}@{GRPC_VERSION}"));
        install(&format!("go install {}", packages.join(" ")), &folder)?;
    }
    Ok(folder)
}

/// Toxiproxy, built unless it is there.
///
/// # Errors
/// As of [`build_quic_go`].
pub(crate) fn install_toxiproxy() -> Result<PathBuf> {
    let folder = folder()?.join(format!("toxiproxy-{TOXIPROXY_VERSION}"));
    if program(&folder, "server").is_none() {
        install(
            &format!("go install {TOXIPROXY}@{TOXIPROXY_VERSION}"),
            &folder,
        )?;
    }
    Ok(folder.join("server"))
}

/// Builds Docker's plugins; always, for Go itself sees whether something changed. They are tools of a module
/// of ours, for they exclude versions of what they need, which Go allows only to the module that is built.
///
/// # Errors
/// As of [`build_quic_go`].
pub(crate) fn build_docker_plugins() -> Result<()> {
    let line = "go -C xtask/peers/docker install tool";
    install(line, &docker_plugins_folder()?)
}

fn install(line: &str, folder: &Path) -> Result<()> {
    ensure!(shell::find("go").is_some(), "Go is not installed");
    let folder = folder.to_string_lossy();
    shell::run_with(line, &[("GOBIN", &folder), ("GOFLAGS", "")])
}

fn program(folder: &Path, name: &str) -> Option<PathBuf> {
    let program = folder.join(name);
    program.is_file().then_some(program)
}

fn caddy_folder() -> Result<PathBuf> {
    Ok(folder()?.join(format!("caddy-{CADDY}")))
}

fn docker_plugins_folder() -> Result<PathBuf> {
    Ok(folder()?.join("docker"))
}

/// Absolute, for servers are started from other folders.
fn folder() -> Result<PathBuf> {
    let folder = shell::target_folder().join("peers/go");
    std::path::absolute(&folder).with_context(|| format!("no {}", folder.display()))
}
