//! The statistics of a run for each cell: the rows of `summary.csv`.

use crate::{
    Certificate, Client, Congestion, Connection, InitialWindow, LinkName, Protocol, QueueLimit,
    ServerName, Topology,
};
use serde::{Deserialize, Serialize};

/// The statistics of a protocol in a cell, and its comparison with the plan's first protocol.
///
/// A column is empty when nothing was measured for it. The comparison's columns are empty on the
/// first protocol's own rows. A difference is exp(log-ratio) − 1 in per cent: −10 means that this
/// protocol takes 10 % less time. Times are those that are compared, whatever the scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// Ordinal of the cell in the plan.
    pub cell: u32,
    /// Place where the link was emulated.
    pub topology: Topology,
    /// The server.
    pub server: ServerName,
    /// The client.
    pub client: Client,
    /// Congestion control of the server.
    pub congestion: Congestion,
    /// First congestion window of the server over both transports.
    #[serde(default)]
    pub initial_window_packets: InitialWindow,
    /// The certificate that the server showed.
    #[serde(default)]
    pub certificate: Certificate,
    /// True if the server compressed its certificates for clients that read it (RFC 8879).
    #[serde(default = "crate::yes")]
    pub certificate_compression: bool,
    /// Set-up of the connection: measured with the transfer (`cold`), or done before it (`warm`).
    pub connection: Connection,
    /// The link's settings beside its rate, delay, loss and queue: a name in the plan's `links`.
    pub link: LinkName,
    /// Room for waiting packets.
    pub queue: QueueLimit,
    /// Rate of the link; empty without limit.
    pub rate_bps: Option<u64>,
    /// Delay of each direction.
    pub delay_us: u64,
    /// Loss configured in each direction, in parts per billion.
    pub loss_ppb: u32,
    /// Size of the object, or of a whole page.
    pub size_bytes: u64,
    /// The protocol described.
    pub protocol: Protocol,
    /// True if the row is of the null arm: the first protocol once more, held against itself.
    pub null_arm: bool,
    /// Valid transfers.
    pub n: u64,
    /// Transfers that did not count and were repeated or given up.
    pub invalid: u64,
    /// Mean time.
    pub mean_us: Option<f64>,
    /// Median time.
    pub median_us: Option<f64>,
    /// Mean of the fastest 20 %: comparable with older labs, biased towards runs without loss.
    pub fastest_fifth_mean_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 95th percentile.
    pub p95_us: Option<f64>,
    /// 99th percentile. Below a hundred transfers it is drawn from the slowest two: what it is worth its
    /// interval says.
    pub p99_us: Option<f64>,
    /// Lower end of its 95 % interval, which rests on ranks alone.
    #[serde(default)]
    pub p99_low_us: Option<f64>,
    /// Upper end of the interval; empty below 368 transfers, of which the slowest may lie below the
    /// percentile.
    #[serde(default)]
    pub p99_high_us: Option<f64>,
    /// Standard deviation of the sample.
    pub std_dev_us: Option<f64>,
    /// Standard deviation over mean.
    pub coefficient_of_variation: Option<f64>,
    /// Mean of the client's involuntary context switches a transfer.
    pub involuntary_switches_mean: Option<f64>,
    /// Packets counted as lost by the link over all that entered it, both directions, in per cent.
    pub loss_counted_percent: Option<f64>,
    /// Pairs that the comparison rests on.
    pub pairs: Option<u64>,
    /// Difference in time from the first protocol, in per cent.
    pub difference_percent: Option<f64>,
    /// Lower end of its 95 % interval.
    pub difference_low_percent: Option<f64>,
    /// Upper end of its 95 % interval.
    pub difference_high_percent: Option<f64>,
    /// The method of that interval: `bootstrap` of fewer than 12 pairs, `signed-rank`, or `looks`,
    /// which is wide enough for all looks of a plan's rule for stopping.
    #[serde(default)]
    pub interval: Option<String>,
    /// Gain of the base study: (T first − T this) / T this, of the means, in per cent.
    pub gain_percent: Option<f64>,
    /// Wilcoxon signed-rank p, two-sided.
    pub p: Option<f64>,
    /// The p-value after Benjamini–Hochberg over the whole run.
    pub p_adjusted: Option<f64>,
    /// Share of pairs in which this protocol was faster; ties count half.
    pub probability_faster: Option<f64>,
    /// `h2`, `h3`, …, `tie` or `unclear`; of the null arm `sound`, `suspect` when its interval leaves
    /// out 0, or `unclear` when it has too few pairs for one.
    pub verdict: Option<String>,
}
