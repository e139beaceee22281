//! How long exchanges took until the peer had the response: what a path does to a whole exchange, and
//! no round-trip time tells.

use std::time::Duration;

/// A server's exchanges whose responses have arrived: the peer has acknowledged each byte of them.
/// Those that were given up by either side don't count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// The number of deliveries on the connection.
    pub count: u64,
    /// The latest.
    pub latest: Option<Delivery>,
}

/// A response that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// From the first byte of the request to the acknowledgement of the last byte of the response,
    /// both by this end's clock. The request's body is in it, the application's time, and what the
    /// peer waits with an acknowledgement (RFC 9000 section 13.2.1: 25 ms at most by default).
    pub time: Duration,
    /// Bytes of the response: field sections and body, without frame headers.
    pub bytes: u64,
}
