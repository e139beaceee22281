//! Figures of a run.

use crate::client::microseconds;
use crate::costs::Costs;
use crate::options::{Options, TransportKind};
use altway_load::{Percentiles, Times};
use serde::Serialize;
use std::time::Duration;

/// A run over one transport. As JSON it is an object of these fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The transport.
    pub over: TransportKind,
    /// The server, as it was named, with its port.
    pub server_address: String,
    /// Transfers, one after the other.
    pub requests: u64,
    /// Payload bytes from the client to the server, of all transfers.
    pub up_bytes: u64,
    /// Payload bytes from the server to the client, of all transfers.
    pub down_bytes: u64,
    /// Time from the first packet to the end of the handshake.
    pub connect_us: u64,
    /// Time from the first transfer's command to the last one's receipt.
    pub wall_us: u64,
    /// Payload of both directions over wall time, in 10⁶ bytes a second; `None` without payload.
    pub mb_per_s: Option<f64>,
    /// Time that each transfer took; `None` of a single one, which took the wall time.
    pub transfer: Option<Percentiles>,
    /// Costs of the client.
    pub client: Side,
    /// Costs of the server.
    pub server: Side,
}

/// The costs of one end, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Costs as they were counted.
    #[serde(flatten)]
    pub costs: Costs,
    /// Processor seconds for 10⁹ bytes of payload; `None` without payload.
    pub cpu_s_per_gb: Option<f64>,
    /// System calls for 10⁶ bytes of payload; `None` without payload.
    pub calls_per_mb: Option<f64>,
}

impl From<Costs> for Side {
    fn from(costs: Costs) -> Self {
        Self {
            cpu_s_per_gb: costs.cpu_s_per_gb(),
            calls_per_mb: costs.calls_per_mb(),
            costs,
        }
    }
}

impl Run {
    pub(crate) fn new(
        options: &Options,
        connect: Duration,
        wall: Duration,
        times: &Times,
        client: Costs,
        server: Costs,
    ) -> Self {
        let bytes = client.sent_bytes + client.received_bytes;
        let rate = bytes as f64 / wall.as_secs_f64() / 1e6;
        let (up_bytes, down_bytes) = (client.sent_bytes, client.received_bytes);
        Self {
            over: options.over,
            server_address: options.authority(),
            requests: options.requests.get(),
            up_bytes,
            down_bytes,
            connect_us: microseconds(connect),
            wall_us: microseconds(wall),
            mb_per_s: (bytes > 0).then_some(rate),
            transfer: times.percentiles().filter(|times| times.count > 1),
            client: client.into(),
            server: server.into(),
        }
    }

    /// Processor seconds of both ends for 10⁹ bytes of payload; `None` without payload.
    #[must_use]
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        Some(self.client.cpu_s_per_gb? + self.server.cpu_s_per_gb?)
    }
}
