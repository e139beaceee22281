//! The times and sizes that a client measured of one request.

use crate::Protocol;
use serde::{Deserialize, Serialize};

/// A request as its client saw it: a row of `altway load --csv`, an element of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Ordinal of the connection in the run, from 0.
    pub connection: u32,
    /// Ordinal of the request on its connection, from 0.
    pub stream: u32,
    /// The place in the visit that it belongs to, from 0; 0 outside of visits.
    pub item: u32,
    /// The protocol that was asked for.
    pub protocol: Protocol,
    /// The protocol that answered; `None` when there was no connection.
    pub protocol_used: Option<Protocol>,
    /// Time at which the request was to be sent, since the run began.
    pub start_us: u64,
    /// Time from opening the socket to the end of the TLS or QUIC handshake; only on the request
    /// that opened its connection.
    pub connect_us: Option<u64>,
    /// Time from the start (connection set-up included) to the first byte of the response's header.
    pub first_byte_us: Option<u64>,
    /// Time from the start (connection set-up included) to the last byte of the response's body, or
    /// to the error.
    pub total_us: u64,
    /// Bytes of the response's body.
    pub bytes: u64,
    /// HTTP status code.
    pub status: Option<u16>,
    /// True if the answer's `Alt-Svc` named HTTP/3.
    pub alt_svc: bool,
    /// Seconds, in a visit of several sessions, for which the answer's `Alt-Svc` offers HTTP/3 from the same
    /// host and port; 0 when it takes the offer back, `None` when it says nothing of it.
    #[serde(default)]
    pub alt_svc_ma_s: Option<u64>,
    /// The reason for which the request failed; `None` when it did not.
    pub error: Option<String>,
}
