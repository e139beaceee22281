//! Costs of a transfer at one end: processor time of its thread, its system calls, its packets.
//!
//! System calls are those of the transfer's own loop, each counted where it is made; the kernel has
//! no counter of them that is to be had without tracing. Page faults and the like are not in it.

use crate::sys;
use serde::{Deserialize, Serialize};
use std::ops::Sub;

/// System calls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// TCP: recv.
    pub read: u64,
    /// TCP: send and writev.
    pub write: u64,
    /// UDP: recvmmsg, each of which may bring many datagrams.
    pub receive: u64,
    /// UDP: sendmsg, each of which may carry many datagrams.
    pub send: u64,
    /// Waiting: ppoll.
    pub wait: u64,
}

impl Calls {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.write + self.receive + self.send + self.wait
    }
}

/// Calls since an earlier count; counters only grow.
impl Sub for Calls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            read: self.read - before.read,
            write: self.write - before.write,
            receive: self.receive - before.receive,
            send: self.send - before.send,
            wait: self.wait - before.wait,
        }
    }
}

/// Processor time of a thread, in microseconds.
///
/// The sum is exact; how it is parted is the kernel's estimate from where its clock ticks found the
/// thread, good to some milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Time in the program: the protocol engine, encryption, copies of its own.
    pub user_us: u64,
    /// Time in the kernel on its behalf: system calls, copies, TCP or UDP and IP. What arrives
    /// over loopback is handled by the kernel in the sender's time.
    pub system_us: u64,
}

impl Cpu {
    /// Returns the processor time of the calling thread, since it began.
    pub(crate) fn of_this_thread() -> Self {
        sys::thread_cpu()
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn total_us(&self) -> u64 {
        self.user_us + self.system_us
    }
}

/// Time since an earlier reading. Rounding may put a share a little below what it was.
impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
        }
    }
}

/// Figures of the connection's path, as the transport gives them at the end of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Packets sent. TCP: segments with payload, as large as the kernel makes them before the device
    /// cuts them; QUIC: all packets.
    pub packets_sent: u64,
    /// Retransmissions. TCP: segments; QUIC: packets declared lost, whose content is sent again.
    pub retransmissions: u64,
    /// Smallest round-trip time seen, in microseconds.
    pub min_rtt_us: Option<u64>,
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: Option<u64>,
    /// Payload of the largest packet. TCP: its maximum segment size; QUIC: of UDP.
    pub packet_bytes: u64,
    /// The congestion control at work on this end: cubic, reno, bbr, or another of the kernel's.
    pub congestion: String,
}

/// Costs of all transfers of a connection at one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Processor time of the thread that did it.
    pub cpu: Cpu,
    /// System calls of its loop.
    pub calls: Calls,
    /// `None` where the system doesn't tell.
    pub path: Option<Path>,
    /// Connections that shared the thread meanwhile, this one included: its time was theirs too.
    pub connections: u64,
}

impl Costs {
    /// Processor seconds for 10⁹ bytes of payload, either way; `None` when there was none.
    #[must_use]
    pub fn cpu_s_per_gb(&self) -> Option<f64> {
        self.per_byte(self.cpu.total_us() as f64 * 1e3)
    }

    /// System calls for 10⁶ bytes of payload, either way; `None` when there was none.
    #[must_use]
    pub fn calls_per_mb(&self) -> Option<f64> {
        self.per_byte(self.calls.total() as f64 * 1e6)
    }

    /// Returns the costs as a server sends them.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers have a text")
    }

    /// `None`: no server of ours wrote this.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    fn per_byte(&self, quantity: f64) -> Option<f64> {
        let bytes = self.sent_bytes + self.received_bytes;
        (bytes > 0).then(|| quantity / bytes as f64)
    }
}

/// Counts from one moment on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    cpu: Cpu,
    calls: Calls,
}

impl Meter {
    /// Begins now, on the calling thread; `calls`: those made until now.
    pub(crate) fn begin(calls: Calls) -> Self {
        Self {
            cpu: Cpu::of_this_thread(),
            calls,
        }
    }

    /// Returns what was spent since. `moved`: payload bytes sent and received.
    pub(crate) fn costs(&self, calls: Calls, moved: (u64, u64), path: Option<Path>) -> Costs {
        Costs {
            sent_bytes: moved.0,
            received_bytes: moved.1,
            cpu: Cpu::of_this_thread() - self.cpu,
            calls: calls - self.calls,
            path,
            connections: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_the_payload_of_both_directions() {
        let costs = Costs {
            sent_bytes: 30_000_000,
            received_bytes: 70_000_000,
            cpu: Cpu {
                user_us: 20_000,
                system_us: 30_000,
            },
            calls: Calls {
                read: 100,
                write: 50,
                wait: 50,
                ..Calls::default()
            },
            ..Costs::default()
        };
        assert_eq!(costs.cpu_s_per_gb(), Some(0.5));
        assert_eq!(costs.calls_per_mb(), Some(2.0));
        assert_eq!(Costs::default().cpu_s_per_gb(), None);
    }

    #[test]
    fn a_meter_counts_from_its_beginning() {
        let calls = |read| Calls {
            read,
            ..Calls::default()
        };
        let meter = Meter::begin(calls(5));
        let costs = meter.costs(calls(12), (1, 2), None);
        assert_eq!(costs.calls, calls(7));
        assert_eq!((costs.sent_bytes, costs.received_bytes), (1, 2));
    }
}
