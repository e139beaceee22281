//! The plan of a run: its cells, and the amounts that are sent in each.

use super::topic::{By, Cell, Group, Topic, Topology};

/// The amounts of each measurement.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Scale {
    /// Datagrams whose delay is measured.
    pub(crate) delays: u64,
    /// Time for which a rate is measured by datagrams, in ms.
    pub(crate) rate_ms: u64,
    /// Time that TCP may take before it is counted, and time for which it is counted then, in ms.
    pub(crate) warm_up_ms: u64,
    pub(crate) stream_ms: u64,
    /// Datagrams over a link that loses some.
    pub(crate) losses: u64,
    /// Number of times that a topology is set up in a round.
    pub(crate) set_ups: u32,
    /// Bytes that TCP sends over a link with loss.
    pub(crate) lossy_bytes: u64,
}

impl Scale {
    pub(crate) const WHOLE: Self = Self {
        delays: 2_000,
        rate_ms: 3_000,
        warm_up_ms: 2_000,
        stream_ms: 4_000,
        losses: 100_000,
        set_ups: 10,
        lossy_bytes: 5_000_000,
    };

    pub(crate) const QUICK: Self = Self {
        delays: 100,
        rate_ms: 300,
        warm_up_ms: 200,
        stream_ms: 300,
        losses: 5_000,
        set_ups: 3,
        lossy_bytes: 1_000_000,
    };
}

/// Every cell, in the order of the table.
pub(crate) fn cells() -> Vec<Cell> {
    use By::{Altway, AltwayAwake, AltwayNormal, Iperf3, Rattan};
    let of = |topic, by: &[By]| by.iter().map(move |by| Cell { topic, by: *by }).collect();
    let alone = &[Altway][..];
    let delays = [1, 5, 25, 100, 400].map(|ms| {
        let everyone = [Altway, AltwayAwake, AltwayNormal, Rattan];
        of(
            Topic::Delay { ms },
            if ms == 25 { &everyone } else { alone },
        )
    });
    let rates = [1, 5, 20, 100, 400].map(|mbit| of(Topic::Rate { mbit }, alone));
    let goodputs = [5, 50, 200, 1_000].map(|mbit| {
        let checked = [Altway, Iperf3];
        of(
            Topic::Goodput { mbit },
            if mbit == 50 { &checked } else { alone },
        )
    });
    let losses = [1, 5].map(|percent| of(Topic::Loss { percent }, alone));
    let unlimited = of(Topic::Unlimited, &[Altway, AltwayNormal, Iperf3, Rattan]);
    let set_ups = Topology::ALL.map(|topology| of(Topic::SetUp { topology }, alone));
    let side_by_side = [2, 1].map(|processors| of(Topic::SideBySide { processors }, alone));
    let parts: [Vec<Vec<Cell>>; 8] = [
        delays.into(),
        rates.into(),
        goodputs.into(),
        losses.into(),
        vec![of(Topic::LossyTcp, alone)],
        vec![unlimited],
        set_ups.into(),
        side_by_side.into(),
    ];
    parts.into_iter().flatten().flatten().collect()
}

/// The cells of some groups; none chosen: of all.
pub(crate) fn of_groups(cells: Vec<Cell>, groups: &[Group]) -> Vec<Cell> {
    let is_chosen = |cell: &Cell| groups.is_empty() || groups.contains(&cell.topic.group());
    cells.into_iter().filter(is_chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_stands_twice_and_every_group_has_one() {
        let cells = cells();
        for (place, cell) in cells.iter().enumerate() {
            assert_eq!(cells.iter().position(|other| other == cell), Some(place));
        }
        for group in <Group as clap::ValueEnum>::value_variants() {
            assert!(!of_groups(cells.clone(), &[*group]).is_empty(), "{group:?}");
        }
        assert_eq!(of_groups(cells.clone(), &[]), cells);
    }
}
