//! Sockets that a service manager has bound: by socket activation (sd_listen_fds(3)), told apart by their names,
//! `https` and `http`.

use crate::hint::usage_error;
use crate::sys;
use altway_config::{Listen, Listener, Security};
use altway_serve::PassedSocket;
use anyhow::Result;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// The names that sockets may have: `FileDescriptorName=` of their unit.
const NAMES: [&str; 2] = ["https", "http"];

/// The sockets that were passed, each at an address that is listened at; none without a service manager that does so.
///
/// # Errors
/// One is of another kind, name or address than what the configuration listens at.
pub(super) fn sockets(listen: &Listen) -> Result<Vec<PassedSocket>> {
    let passed = sys::passed_descriptors().map_err(|error| {
        usage_error(
            format!("cannot use the sockets that were passed: {error}"),
            "LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES are a service manager's to set: see sd_listen_fds(3)",
        )
    })?;
    let each = passed.into_iter();
    each.map(|(descriptor, name)| socket(descriptor, &name, listen))
        .collect()
}

fn socket(descriptor: OwnedFd, name: &str, listen: &Listen) -> Result<PassedSocket> {
    let socket = PassedSocket::new(descriptor).map_err(|error| {
        usage_error(
            format!("cannot serve at the socket `{name}` that was passed: {error}"),
            "its unit needs `ListenStream=` or `ListenDatagram=` with an address and a port",
        )
    })?;
    if !NAMES.contains(&name) {
        return Err(usage_error(
            format!("a socket was passed that is named `{name}`: expected https or http"),
            "say `FileDescriptorName=https` in its unit, and have the sockets of `http` in a unit of their own",
        ));
    }
    let is_its = |it: &&Listener| {
        let is_tls = it.security == Security::Tls;
        is_tls == (name == "https") && is_at(it, socket.address())
    };
    let listener = listen.listeners.iter().find(is_its);
    let transport = if socket.is_udp() { "UDP" } else { "TCP" };
    let address = socket.address();
    match listener {
        None => Err(usage_error(
            format!(
                "the socket `{name}` that was passed is bound to {transport} {address}, where the configuration does not listen"
            ),
            format!("add \"{address}\" to `{name}` in [listen], or take it from the socket's unit"),
        )),
        Some(listener) if socket.is_udp() && !listener.has_http3() => Err(usage_error(
            format!(
                "the socket `{name}` that was passed is bound to UDP {address}, where there is no HTTP/3"
            ),
            "add `h3` to its `protocols`, or take `ListenDatagram=` from the socket's unit",
        )),
        Some(_) => Ok(socket),
    }
}

/// True if a listener is for an address; `*` is `[::]`, or `0.0.0.0`.
fn is_at(listener: &Listener, address: SocketAddr) -> bool {
    let all = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let is_ip = match listener.address.ip {
        Some(ip) => ip == address.ip(),
        None => all.contains(&address.ip()),
    };
    is_ip && listener.address.port == address.port()
}
