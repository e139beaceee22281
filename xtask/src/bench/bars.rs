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
pub(crate) const RATIOS: [RatioBar; 27] = {
    use Contender::{AltwayH2, AltwayLog, Caddy, H2o, Haproxy, Nghttpd, Nginx, QuicGo};
    use Transport::{H2c, H3, Tls};
    use Workload::{Hq1, Hq2, Hq3, P1, P2, W1, W2, W3, W4, W5};
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
        bar(Hq1, H3, QuicGo, 0.30),
        bar(Hq2, H3, QuicGo, 0.75),
        bar(Hq2, H3, AltwayH2, 1.50),
        bar(Hq3, H3, QuicGo, 0.40),
        bar(P1, Tls, Nginx, 0.50),
        bar(P1, Tls, Haproxy, 0.70),
        bar(P1, Tls, Caddy, 0.25),
        bar(P2, Tls, Nginx, 0.65),
        bar(P2, Tls, Haproxy, 0.95),
    ]
};

/// The bar against another build of altway, in every workload: what a change may cost.
const BEFORE_AT_MOST: f64 = 1.03;

/// The bar of altway by a file of sites against altway without one, in every workload: what sites may cost a request.
const SITES_AT_MOST: f64 = 1.03;

/// The most that a figure of altway alone may be in a workload (the worst of the rounds).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct OwnBar {
    pub(crate) workload: Workload,
    pub(crate) transport: Transport,
    pub(crate) figure: Figure,
    pub(crate) at_most: f64,
}

/// A figure that has a bar without a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Resident memory, MB (10⁶ bytes); of idle connections for 10,000 of them.
    MemoryMb,
    /// Resident memory that an idle connection adds, KB (10³ bytes).
    ConnectionKb,
    /// Datagrams that found the server's socket full.
    DatagramsLost,
    /// Resident memory that 10,000 idle clients add to a proxy, MB (10⁶ bytes).
    AddedMb,
    /// Median latency that a proxy adds to that of the origin asked directly in the same round, µs; median of the
    /// rounds.
    AddedP50Us,
    /// The same of the 99th percentile.
    AddedP99Us,
}

/// Bars without a peer.
pub(crate) const OWN: [OwnBar; 11] = {
    use Figure::{AddedMb, AddedP50Us, AddedP99Us, ConnectionKb, DatagramsLost, MemoryMb};
    use Transport::{H2c, H3, Tls};
    use Workload::{Hq1, Idle, ProxyIdle, ProxyLatency, Ramp, W2};
    [
        own(W2, H2c, MemoryMb, 40.0),
        own(W2, Tls, MemoryMb, 40.0),
        own(Idle, Tls, MemoryMb, 250.0),
        own(Hq1, H3, MemoryMb, 60.0),
        own(Idle, H3, ConnectionKb, 30.0),
        own(Ramp, H3, DatagramsLost, 0.0),
        own(ProxyIdle, Tls, AddedMb, 150.0),
        own(ProxyLatency, Tls, AddedP50Us, 100.0),
        own(ProxyLatency, Tls, AddedP99Us, 1000.0),
        own(ProxyLatency, H3, AddedP50Us, 100.0),
        own(ProxyLatency, H3, AddedP99Us, 1000.0),
    ]
};

const fn bar(workload: Workload, transport: Transport, peer: Contender, at_most: f64) -> RatioBar {
    RatioBar {
        workload,
        transport,
        peer,
        at_most,
    }
}

const fn own(workload: Workload, transport: Transport, figure: Figure, at_most: f64) -> OwnBar {
    OwnBar {
        workload,
        transport,
        figure,
        at_most,
    }
}

/// The bar of altway's ratio to `peer` in `cell`.
pub(crate) fn ratio(cell: Cell, peer: Contender) -> Option<f64> {
    if peer == Contender::AltwayBefore {
        return Some(BEFORE_AT_MOST);
    }
    if peer.sites().is_some() {
        return Some(SITES_AT_MOST);
    }
    let is_it = |bar: &&RatioBar| {
        (bar.workload, bar.transport, bar.peer) == (cell.workload, cell.transport, peer)
    };
    let bar = RATIOS.iter().find(is_it).filter(|_| cell.workers == 1);
    bar.map(|bar| bar.at_most)
}

/// The bars of altway alone in `cell`.
pub(crate) fn own_bars(cell: Cell) -> impl Iterator<Item = OwnBar> {
    let is_it = move |bar: &OwnBar| {
        cell.workers == 1 && (bar.workload, bar.transport) == (cell.workload, cell.transport)
    };
    OWN.into_iter().filter(is_it)
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
    fn idle_connections_have_a_bar_by_transport() {
        let figure = |transport| {
            let mut bars = own_bars(Cell {
                workers: 1,
                workload: Workload::Idle,
                transport,
            });
            bars.next().map(|bar| bar.figure)
        };
        assert_eq!(figure(Transport::Tls), Some(Figure::MemoryMb));
        assert_eq!(figure(Transport::H3), Some(Figure::ConnectionKb));
        assert_eq!(figure(Transport::H2c), None);
    }

    #[test]
    fn sites_have_the_same_bar_everywhere() {
        for (workers, workload, transport) in [
            (1, Workload::W1, Transport::Tls),
            (2, Workload::Hq1, Transport::H3),
        ] {
            let cell = Cell {
                workers,
                workload,
                transport,
            };
            assert_eq!(ratio(cell, Contender::AltwayManySites), Some(1.03));
            assert_eq!(ratio(cell, Contender::AltwayOneSite), Some(1.03));
        }
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
