//! A transfer: a line of `records.csv`.

use super::contestant::{Contestant, Outcome};
use super::link::{Link, Transfer};
use crate::shell;
use anyhow::Result;
use serde::Serialize;

/// A transfer. Units stand last in the names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Record {
    pub(crate) link: Link,
    pub(crate) transport: Contestant,
    /// Number of the round, from 1.
    pub(crate) round: u32,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    /// Time from the request to the last byte, by the client's clock; the handshake is before it.
    pub(crate) duration_s: f64,
    /// Packets that entered the link from the server, those of the handshake included.
    pub(crate) packets: u64,
    pub(crate) packets_lost: u64,
    pub(crate) packets_queue_dropped: u64,
    pub(crate) lateness_us_p99: f64,
    pub(crate) valid: bool,
    /// The reason for which it is not valid.
    pub(crate) fault: String,
}

impl Record {
    /// Says so when it is not valid.
    pub(crate) fn new(
        link: Link,
        round: u32,
        transfer: &Transfer,
        transport: Contestant,
        outcome: Result<Outcome>,
    ) -> Self {
        let (seconds, report, fault) = match outcome {
            Ok(outcome) => {
                let fault = outcome.link.fault();
                (outcome.seconds, outcome.link, fault)
            }
            Err(error) => (0.0, Default::default(), Some(format!("{error:#}"))),
        };
        if let Some(fault) = &fault {
            shell::say(&format!("INVALID {transport}: {fault}"));
        }
        Self {
            link,
            transport,
            round,
            seed: transfer.seed,
            bytes: transfer.bytes,
            duration_s: seconds,
            packets: report.down.packets_in,
            packets_lost: report.down.packets_lost,
            packets_queue_dropped: report.down.packets_queue_dropped,
            lateness_us_p99: report.lateness_us_p99,
            valid: fault.is_none(),
            fault: fault.unwrap_or_default().replace('\n', " "),
        }
    }

    /// MB are 10⁶ bytes.
    pub(crate) fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.duration_s
    }
}
