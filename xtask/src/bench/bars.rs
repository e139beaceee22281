//! The bars: what altway has to reach. The one place where they stand.
//!
//! They hold for one worker, as they were measured. A missed bar is printed as missed; it fails
//! nothing.

use super::contender::Contender;
use super::workload::{Cell, Transport, Workload};
use serde::Serialize;

/// The most that altway's CPU time may be of `peer`'s in the same round (median of the rounds).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct RatioBar {
    pub(crate) workload: Workload,
    pub(crate) transport: Transport,
    pub(crate) peer: Contender,
    pub(crate) at_most: f64,
}

/// Bars against a peer. The one for `altway-log` is the other way round: what the log may cost.
pub(crate) const RATIOS: [RatioBar; 18] = {
    use Contender::{AltwayLog, H2o, Nghttpd};
    use Transport::{H2c, Tls};
    use Workload::{W1, W2, W3, W4, W5};
    [
        bar(W1, H2c, H2o, 0.45),
        bar(W1, H2c, Nghttpd, 0.30),
        bar(W1, H2c, AltwayLog, 1.15),
        bar(W1, Tls, H2o, 0.50),
        bar(W1, Tls, Nghttpd, 0.35),
        bar(W1, Tls, AltwayLog, 1.15),
        bar(W2, H2c, H2o, 0.30),
        bar(W2, H2c, Nghttpd, 0.18),
        bar(W2, Tls, H2o, 0.35),
        bar(W2, Tls, Nghttpd, 0.22),
        bar(W3, H2c, H2o, 0.85),
        bar(W3, H2c, Nghttpd, 0.80),
        bar(W3, Tls, H2o, 0.55),
        bar(W3, Tls, Nghttpd, 0.35),
        bar(W4, H2c, H2o, 0.85),
        bar(W4, Tls, H2o, 0.85),
        bar(W5, H2c, H2o, 0.60),
        bar(W5, Tls, H2o, 0.60),
    ]
};

/// Resident memory in W2, MB (10⁶ bytes).
pub(crate) const W2_MEMORY_MB: f64 = 40.0;

/// Resident memory of idle connections over TLS, MB for 10,000 of them.
pub(crate) const IDLE_MEMORY_MB: f64 = 250.0;

const fn bar(workload: Workload, transport: Transport, peer: Contender, at_most: f64) -> RatioBar {
    RatioBar {
        workload,
        transport,
        peer,
        at_most,
    }
}

/// The bar of altway's ratio to `peer` in `cell`.
pub(crate) fn ratio(cell: Cell, peer: Contender) -> Option<f64> {
    let is_it = |bar: &&RatioBar| {
        (bar.workload, bar.transport, bar.peer) == (cell.workload, cell.transport, peer)
    };
    let bar = RATIOS.iter().find(is_it).filter(|_| cell.workers == 1);
    bar.map(|bar| bar.at_most)
}

/// The bar of altway's memory in `cell`, MB.
pub(crate) fn memory_mb(cell: Cell) -> Option<f64> {
    match cell.workload {
        _ if cell.workers != 1 => None,
        Workload::W2 => Some(W2_MEMORY_MB),
        Workload::Idle => Some(IDLE_MEMORY_MB),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_for_one_worker() {
        let mut cell = Cell {
            workers: 1,
            workload: Workload::W1,
            transport: Transport::H2c,
        };
        assert_eq!(ratio(cell, Contender::H2o), Some(0.45));
        assert_eq!(ratio(cell, Contender::Nginx), None);
        cell.workers = 2;
        assert_eq!(ratio(cell, Contender::H2o), None);
    }

    #[test]
    fn no_bar_stands_twice() {
        for (index, bar) in RATIOS.iter().enumerate() {
            let same = |other: &&RatioBar| {
                (other.workload, other.transport, other.peer)
                    == (bar.workload, bar.transport, bar.peer)
            };
            assert_eq!(RATIOS.iter().position(|other| same(&other)), Some(index));
        }
    }
}
