//! What every bench can be told.

use super::workload::Transport;
use std::path::{Path, PathBuf};

/// A quick run has a tenth of the requests.
const QUICK_DIVISOR: u64 = 10;

const QUICK_ROUNDS: u32 = 2;
const ROUNDS: u32 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Rounds, in each of which every server is measured once [default: 5; quick: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Only over TLS.
    #[arg(long, conflicts_with = "h2c")]
    tls: bool,
    /// Only in clear text (prior knowledge).
    #[arg(long)]
    h2c: bool,
    /// A tenth of the requests: to see that it works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Measure the release binaries as they are (`setup.json` tells their commit).
    #[arg(long)]
    pub(crate) no_build: bool,
    /// Shuffles the order within the rounds [default: from the clock; printed].
    #[arg(long)]
    seed: Option<u64>,
    /// Write the run's folder in here [default: results, quick: runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Common {
    pub(crate) fn rounds(&self) -> u32 {
        let default = if self.quick { QUICK_ROUNDS } else { ROUNDS };
        self.rounds.unwrap_or(default)
    }

    pub(crate) fn divisor(&self) -> u64 {
        if self.quick { QUICK_DIVISOR } else { 1 }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..))
    }

    pub(crate) fn transports(&self) -> &'static [Transport] {
        match (self.h2c, self.tls) {
            (true, _) => &[Transport::H2c],
            (_, true) => &[Transport::Tls],
            _ => &[Transport::H2c, Transport::Tls],
        }
    }

    /// The folder for the run's folder.
    pub(crate) fn parent(&self) -> PathBuf {
        let default = if self.quick { "runs" } else { "results" };
        self.out.clone().unwrap_or(Path::new(default).to_owned())
    }
}
