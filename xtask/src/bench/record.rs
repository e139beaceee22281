//! The record of one server in one round: a line of `records.csv`.

use super::contender::Contender;
use super::cpu::{CpuTime, Source};
use super::workload::{Cell, Load, Transport, Workload};
use serde::Serialize;

/// A server's share of a round. Units stand last in the names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Record {
    pub(crate) workers: usize,
    pub(crate) workload: Workload,
    /// Transport of the cell: `altway-h2` and nghttpd are asked over HTTP/2 and TLS in one of HTTP/3.
    pub(crate) transport: Transport,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    /// The server's place in the round's order, from 1.
    pub(crate) turn: usize,
    pub(crate) server: Contender,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) body_bytes: u64,
    /// Duration by the client's clock.
    pub(crate) duration_s: f64,
    /// User and system time of all its threads and processes.
    pub(crate) server_cpu_ns: u64,
    pub(crate) cpu_source: Source,
    /// The peak of this cell so far; for idle connections what is resident while they are open.
    pub(crate) memory_bytes: u64,
    /// Time from a request to the end of its answer, by the client's clock. `None`: not measured.
    pub(crate) latency_mean_us: Option<f64>,
    pub(crate) latency_max_us: Option<f64>,
    /// Median and 99th percentile, from when a request was due.
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    /// Share of the connections that the worker with most of them has, from 0 to 1. `None`: not
    /// looked at.
    pub(crate) busiest_share: Option<f64>,
    /// Negotiated version and cipher; empty in clear text, and where the client doesn't tell (`altway load`).
    pub(crate) tls: String,
    /// Resident before idle connections were opened. `None`: not measured.
    pub(crate) memory_before_bytes: Option<u64>,
    /// Datagrams that the server's UDP socket had no room for. `None`: over TCP.
    pub(crate) datagrams_lost: Option<u64>,
    pub(crate) valid: bool,
    /// Reason for which it is not valid.
    pub(crate) fault: String,
}

/// A server in a round, as it was observed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Observation {
    pub(crate) duration_s: f64,
    pub(crate) body_bytes: u64,
    pub(crate) cpu: CpuTime,
    pub(crate) memory_bytes: u64,
    pub(crate) memory_before_bytes: Option<u64>,
    pub(crate) latency_mean_us: Option<f64>,
    pub(crate) latency_max_us: Option<f64>,
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    pub(crate) busiest_share: Option<f64>,
    pub(crate) datagrams_lost: Option<u64>,
    pub(crate) tls: String,
    pub(crate) fault: Option<String>,
}

/// The server that was measured, and its round and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) cell: Cell,
    pub(crate) round: u32,
    pub(crate) turn: usize,
    pub(crate) server: Contender,
}

impl Record {
    pub(crate) fn new(turn: Turn, load: Load, seen: Observation) -> Self {
        Self {
            workers: turn.cell.workers,
            workload: turn.cell.workload,
            transport: turn.cell.transport,
            round: turn.round,
            turn: turn.turn,
            server: turn.server,
            connections: load.connections,
            requests: load.requests,
            body_bytes: seen.body_bytes,
            duration_s: seen.duration_s,
            server_cpu_ns: seen.cpu.nanoseconds,
            cpu_source: seen.cpu.source,
            memory_bytes: seen.memory_bytes,
            latency_mean_us: seen.latency_mean_us,
            latency_max_us: seen.latency_max_us,
            latency_p50_us: seen.latency_p50_us,
            latency_p99_us: seen.latency_p99_us,
            busiest_share: seen.busiest_share,
            tls: seen.tls,
            memory_before_bytes: seen.memory_before_bytes,
            datagrams_lost: seen.datagrams_lost,
            valid: seen.fault.is_none(),
            fault: seen.fault.unwrap_or_default(),
        }
    }

    pub(crate) fn cell(&self) -> Cell {
        Cell {
            workers: self.workers,
            workload: self.workload,
            transport: self.transport,
        }
    }

    /// CPU time in the workload's unit: microseconds a request, or seconds a gigabyte (10⁹ bytes).
    pub(crate) fn cost(&self) -> f64 {
        let nanoseconds = self.server_cpu_ns as f64;
        if self.workload.is_bulk() {
            nanoseconds / self.body_bytes as f64
        } else {
            nanoseconds / 1e3 / self.requests as f64
        }
    }

    /// Memory of the server that an idle connection added, KB (10³ bytes).
    pub(crate) fn connection_kb(&self) -> Option<f64> {
        let before = self.memory_before_bytes?;
        let added = self.memory_bytes.saturating_sub(before);
        Some(added as f64 / 1e3 / self.connections as f64)
    }

    /// Memory that as many idle connections as the workload has add to the server, MB (10⁶ bytes).
    pub(crate) fn added_mb(&self) -> Option<f64> {
        let connections = self.workload.load().connections as f64;
        Some(self.connection_kb()? * connections / 1e3)
    }

    pub(crate) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.duration_s
    }
}
