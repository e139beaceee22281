//! Admission of QUIC connections by the worker's table of clients.

use super::responses::Connection;
use crate::clients::{Clients, Transport};
use altway_http3::{Admission, Retry};
use std::net::SocketAddr;
use std::time::Instant;

/// Lets in whom the table has room for. A client that has used up half of its share has to show its
/// address first (`validated`), or forged packets could use up the rest.
pub(super) fn admit(
    clients: &Clients,
    retry: Retry,
    remote: SocketAddr,
    validated: bool,
) -> Admission<Connection> {
    if !validated && retry != Retry::Never && clients.is_crowded(remote.ip()) {
        return Admission::Retry;
    }
    match clients.admit(remote.ip(), Transport::Quic, Instant::now()) {
        Some(admitted) => Admission::Accept {
            share: Some(admitted.quic_share()),
            state: Connection::new(admitted),
        },
        None => Admission::Refuse,
    }
}
