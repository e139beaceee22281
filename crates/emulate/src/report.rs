//! Reports of what the link did, and the check that a measurement over it counts.

use crate::backend::{Backend, Choice};
use crate::lateness::Lateness;
use crate::proxy::ProxyReport;
use crate::pump::Snapshot;
use altway_link::{Config, Counters, LossModel};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Counters of the link since the last start or restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Counters from the client to the server.
    pub up: DirectionReport,
    /// Counters from the server to the client.
    pub down: DirectionReport,
    /// The mover of the packets.
    pub backend: Backend,
    /// Reason for that choice.
    pub backend_reason: String,
    /// True if the link thread ran with real-time priority (SCHED_FIFO); `None` where the kernel
    /// itself moved the packets.
    pub realtime_priority: Option<bool>,
    /// True if a packet's delay begins when the kernel gets it; else it begins when the link thread
    /// reads it, some 10 µs later, or 100 in a virtual machine. `None` where the kernel itself moved
    /// the packets.
    #[serde(default)]
    pub arrivals_by_kernel: Option<bool>,
    /// Median of the time by which packets left the link later than the model wanted, in µs.
    /// Quantiles are rounded up, by 3 % at most. `None` where nobody can measure it: a link in the
    /// kernel doesn't tell.
    pub lateness_us_p50: Option<f64>,
    /// The 99th percentile of the same.
    pub lateness_us_p99: Option<f64>,
    /// The largest of the same.
    pub lateness_us_max: Option<f64>,
    /// The 99th percentile above which a measurement does not count.
    pub lateness_limit_us: f64,
    /// Packets that were lost outside of the model, in all.
    pub hidden_drops: u64,
    /// Hidden drops at the interfaces at the ends and between them, because the link thread did not
    /// read packets in time, or a program's processor did not; and packets lost on the way to a
    /// router and in its proxies.
    pub hidden_drops_interfaces: u64,
    /// Hidden drops at packet sockets, because the link thread did not read them in time; and packets
    /// that were none of the wire (longer than the MTU, or with a VLAN tag).
    pub hidden_drops_sockets: u64,
    /// Hidden drops of the link thread: for want of memory, or because the kernel took the packets
    /// no more.
    pub hidden_drops_thread: u64,
    /// Number of times that the link thread had to give its processor to another before it was
    /// done.
    #[serde(default)]
    pub involuntary_switches: u64,
    /// Counters of the router, where the topology has one. The counters above are then those of
    /// the hop between it and the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterReport>,
}

/// Counters of the client's side of a router, and of the router itself, since the last start or
/// restart.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RouterReport {
    /// Counters of the hop from the client to the router, a veth pair that changes nothing.
    pub up: DirectionReport,
    /// Counters of the hop from the router to the client.
    pub down: DirectionReport,
    /// Counters of its proxies, in the topology that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyReport>,
}

/// Counters of one direction of a hop. Bytes are IP bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionReport {
    /// Packets that entered the link.
    pub packets_in: u64,
    /// Bytes that entered the link.
    pub bytes_in: u64,
    /// Packets of UDP that were blocked, or beyond the rate to which UDP is policed.
    pub packets_udp_dropped: u64,
    /// Packets lost as configured, of those that were not dropped as UDP.
    pub packets_lost: u64,
    /// The share of packets that was to be lost at random, from 0 to 1; `None` where there is no such
    /// share to hold against what was counted: bursts, a list of packets, or a share that changed
    /// while the link ran.
    pub loss_configured: Option<f64>,
    /// Packets dropped because the queue was full.
    pub packets_queue_dropped: u64,
    /// Packets dropped by CoDel.
    pub packets_codel_dropped: u64,
    /// Copies made of packets.
    pub packets_duplicated: u64,
    /// Packets that came out with a flipped bit.
    pub packets_corrupted: u64,
    /// Packets sent out of their order.
    pub packets_reordered: u64,
    /// Packets that came out at the other end.
    pub packets_out: u64,
    /// Bytes that came out at the other end.
    pub bytes_out: u64,
    /// Packets still inside.
    pub packets_queued: u64,
    /// The most bytes that waited for or were in serialisation at once; 0 where the kernel shaped,
    /// which doesn't tell.
    pub bytes_backlog_max: u64,
}

/// Reason why a measurement over the link does not count.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Packets were lost that the model did not lose.
    #[error("{packets} packets were dropped outside of the emulated link")]
    HiddenDrops {
        /// Number of them.
        packets: u64,
    },
    /// The loss in one direction differs from the one asked for by more than chance explains.
    #[error(
        "{lost} of {packets} packets were lost in one direction where {percent}% was asked for"
    )]
    Loss {
        /// Number of them.
        lost: u64,
        /// Number of packets in all.
        packets: u64,
        /// The loss that was asked for, in per cent.
        percent: f64,
    },
    /// Packets left the link too late.
    #[error(
        "packets left the emulated link late: 99th percentile {p99_us:.0} µs, at most {limit_us:.0} µs allowed"
    )]
    Late {
        /// The 99th percentile found, in µs.
        p99_us: f64,
        /// [`LinkReport::lateness_limit_us`].
        limit_us: f64,
    },
}

impl LinkReport {
    /// The 99th percentile of lateness above which a measurement over a link of this `delay` (one
    /// way, the longer of the two) does not count, in µs: 1 % of the delay, but at least 1 ms.
    ///
    /// A link that keeps its delay to 1 % can't move a transfer's time by more than that, a third of
    /// the band within which protocols count as equal. And 1 ms, where the delay is short, is less
    /// than the time that one full packet takes at 10 Mbit/s. It is ten times what a link thread with
    /// real-time priority shows even on a loaded machine (60 to 90 µs), and about what one without
    /// shows when others compete for its processor (0.5 to 1.9 ms): it tells a starved link from a
    /// healthy one.
    ///
    /// At 25 ms: 1,000 µs; at 175 ms: 1,750 µs.
    #[must_use]
    pub fn lateness_limit_us(delay: Duration) -> f64 {
        const LEAST: Duration = Duration::from_millis(1);
        (delay / 100).max(LEAST).as_secs_f64() * 1e6
    }

    /// Returns whether a measurement over this link counts.
    ///
    /// # Errors
    /// Says why it does not: packets lost outside of the model first, then loss that chance does not
    /// explain, then lateness.
    pub fn validity(&self) -> Result<(), Invalid> {
        if self.hidden_drops > 0 {
            return Err(Invalid::HiddenDrops {
                packets: self.hidden_drops,
            });
        }
        self.up.plausible_loss()?;
        self.down.plausible_loss()?;
        match self.lateness_us_p99 {
            Some(p99_us) if p99_us > self.lateness_limit_us => Err(Invalid::Late {
                p99_us,
                limit_us: self.lateness_limit_us,
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn new(snapshot: &Snapshot, circumstances: Circumstances<'_>) -> Self {
        let lateness = |of: fn(&Lateness) -> u64| {
            let lateness = snapshot.lateness.as_ref()?;
            Some(of(lateness) as f64 / 1_000.0)
        };
        let Circumstances {
            choice,
            realtime_priority,
            arrivals_by_kernel,
            dropped,
            router,
        } = circumstances;
        let [up_loss, down_loss] = snapshot.now.loss;
        Self {
            up: DirectionReport::new(snapshot.up, up_loss),
            down: DirectionReport::new(snapshot.down, down_loss),
            backend: choice.backend,
            backend_reason: choice.reason.clone(),
            realtime_priority,
            arrivals_by_kernel,
            lateness_us_p50: lateness(|lateness| lateness.percentile(50)),
            lateness_us_p99: lateness(|lateness| lateness.percentile(99)),
            lateness_us_max: lateness(Lateness::max),
            lateness_limit_us: Self::lateness_limit_us(snapshot.now.least_delay),
            hidden_drops: snapshot.link_drops + snapshot.socket_drops + dropped,
            hidden_drops_interfaces: dropped,
            hidden_drops_sockets: snapshot.socket_drops,
            hidden_drops_thread: snapshot.link_drops,
            involuntary_switches: snapshot.involuntary_switches,
            router,
        }
    }
}

/// Facts that a link doesn't know of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'a> {
    pub(crate) choice: &'a Choice,
    pub(crate) realtime_priority: Option<bool>,
    pub(crate) arrivals_by_kernel: Option<bool>,
    /// Packets that interfaces dropped.
    pub(crate) dropped: u64,
    pub(crate) router: Option<RouterReport>,
}

/// The share of packets that a direction loses at random.
pub(crate) fn mean_loss(config: &Config) -> Option<f64> {
    match config.loss {
        LossModel::Random(ratio) => Some(ratio.as_f64()),
        _ => None,
    }
}

impl DirectionReport {
    fn new(counters: Counters, loss_configured: Option<f64>) -> Self {
        Self {
            loss_configured,
            ..Self::from(counters)
        }
    }

    /// Checks that chance explains how many packets were lost: six standard deviations, and three packets
    /// where there are few, let one honest direction in 100 million be accused.
    fn plausible_loss(&self) -> Result<(), Invalid> {
        let Some(share) = self.loss_configured else {
            return Ok(());
        };
        let packets = self.packets_in.saturating_sub(self.packets_udp_dropped) as f64;
        let lost = self.packets_lost as f64;
        let deviation = (packets * share * (1.0 - share)).sqrt();
        // A link that loses nothing or everything leaves nothing to chance.
        let slack = if deviation == 0.0 {
            0.0
        } else {
            6.0 * deviation + 3.0
        };
        if (lost - packets * share).abs() <= slack {
            return Ok(());
        }
        Err(Invalid::Loss {
            lost: self.packets_lost,
            packets: self.packets_in.saturating_sub(self.packets_udp_dropped),
            percent: share * 100.0,
        })
    }
}

impl From<Counters> for DirectionReport {
    fn from(counters: Counters) -> Self {
        Self {
            packets_in: counters.packets_in,
            bytes_in: counters.bytes_in,
            packets_udp_dropped: counters.packets_udp_dropped,
            packets_lost: counters.packets_lost,
            loss_configured: None,
            packets_queue_dropped: counters.packets_queue_dropped,
            packets_codel_dropped: counters.packets_codel_dropped,
            packets_duplicated: counters.packets_duplicated,
            packets_corrupted: counters.packets_corrupted,
            packets_reordered: counters.packets_reordered,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            packets_queued: counters.packets_queued,
            bytes_backlog_max: counters.bytes_backlog_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(hidden_drops: u64, lateness_us_p99: f64) -> LinkReport {
        LinkReport {
            up: DirectionReport::default(),
            down: DirectionReport::default(),
            backend: Backend::Tun,
            backend_reason: "it was asked for".into(),
            realtime_priority: Some(true),
            arrivals_by_kernel: Some(true),
            lateness_us_p50: Some(30.0),
            lateness_us_p99: Some(lateness_us_p99),
            lateness_us_max: Some(5_000.0),
            lateness_limit_us: LinkReport::lateness_limit_us(Duration::ZERO),
            hidden_drops,
            hidden_drops_interfaces: hidden_drops,
            hidden_drops_sockets: 0,
            hidden_drops_thread: 0,
            involuntary_switches: 0,
            router: None,
        }
    }

    #[test]
    fn a_report_at_the_limit_counts_and_one_above_does_not() {
        assert_eq!(report(0, 1_000.0).validity(), Ok(()));
        let late = report(0, 1_000.1).validity().unwrap_err();
        assert!(late.to_string().contains("at most 1000 µs"), "{late}");
    }

    #[test]
    fn the_limit_is_1_percent_of_the_delay_or_1_ms() {
        let limit = |ms| LinkReport::lateness_limit_us(Duration::from_millis(ms));
        assert_eq!(
            [0, 100, 101, 200].map(limit),
            [1_000.0, 1_000.0, 1_010.0, 2_000.0]
        );
    }

    #[test]
    fn lateness_that_nobody_measured_is_no_fault() {
        let mut unknown = report(0, 9_999.0);
        unknown.lateness_us_p99 = None;
        assert_eq!(unknown.validity(), Ok(()));
    }

    #[test]
    fn a_loss_that_chance_does_not_explain_makes_a_run_invalid() {
        let lost = |packets_lost, packets_in, share| {
            let mut report = report(0, 0.0);
            report.down = DirectionReport {
                packets_in,
                packets_lost,
                loss_configured: share,
                ..DirectionReport::default()
            };
            report.validity()
        };
        // 1 % of 10,000: 100, with a standard deviation of 9.95, so up to 62.7 more or fewer.
        assert_eq!(lost(162, 10_000, Some(0.01)), Ok(()));
        assert_eq!(lost(38, 10_000, Some(0.01)), Ok(()));
        let much = lost(163, 10_000, Some(0.01)).unwrap_err().to_string();
        assert_eq!(
            much,
            "163 of 10000 packets were lost in one direction where 1% was asked for"
        );
        assert!(lost(37, 10_000, Some(0.01)).is_err());
        assert!(lost(1, 10_000, Some(0.0)).is_err(), "none was asked for");
        assert_eq!(lost(0, 0, Some(0.5)), Ok(()));
        assert_eq!(lost(77, 100, None), Ok(()), "bursts");
    }

    #[test]
    fn what_is_dropped_as_udp_is_no_loss() {
        let mut policed = report(0, 0.0);
        policed.down = DirectionReport {
            packets_in: 1_000,
            packets_udp_dropped: 900,
            loss_configured: Some(0.0),
            ..DirectionReport::default()
        };
        assert_eq!(policed.validity(), Ok(()));
        policed.down.loss_configured = Some(0.5);
        assert!(
            policed.validity().is_err(),
            "50 of the other 100 were to be lost"
        );
        policed.down.packets_lost = 50;
        assert_eq!(policed.validity(), Ok(()));
    }

    #[test]
    fn one_hidden_drop_is_one_too_many() {
        let dropped = report(1, 0.0).validity();
        assert_eq!(dropped, Err(Invalid::HiddenDrops { packets: 1 }));
    }

    #[test]
    fn survives_a_round_trip_through_json() {
        let mut there = report(3, 123.5);
        for router in [None, Some(RouterReport::default())] {
            there.router = router;
            let text = serde_json::to_string(&there).unwrap();
            assert_eq!(serde_json::from_str::<LinkReport>(&text).unwrap(), there);
        }
    }
}
