//! In which order a plan's transfers are made.
//!
//! A randomised block design: a block visits every cell
//! once, in random order, and in each cell makes one transfer with each protocol, in random order,
//! over links with the same seed. Whatever drifts on the machine then falls on all protocols alike.
//! The order is a function of the plan's seed alone, so that a run can be resumed.

use altway_record::{Cell, Plan, Protocol};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One transfer that the plan asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Ordinal of the block, from 0.
    pub block: u32,
    /// The condition.
    pub cell: Cell,
    /// The protocol.
    pub protocol: Protocol,
    /// The link's seed, the same for every protocol of this block and cell.
    pub link_seed: u64,
}

/// All transfers of `plan`, in the order in which they are to be made.
#[must_use]
pub fn schedule(plan: &Plan) -> Vec<Transfer> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    (0..plan.pairs)
        .flat_map(|block| block_of(plan, block, &mut random))
        .collect()
}

fn block_of(plan: &Plan, block: u32, random: &mut impl Rng) -> Vec<Transfer> {
    let mut cells = plan.cells();
    shuffle(&mut cells, random);
    let mut transfers = Vec::with_capacity(cells.len() * plan.protocols.len());
    for cell in cells {
        let link_seed = random.next_u64();
        let mut protocols = plan.protocols.clone();
        shuffle(&mut protocols, random);
        let one = |protocol| Transfer {
            block,
            cell,
            protocol,
            link_seed,
        };
        transfers.extend(protocols.into_iter().map(one));
    }
    transfers
}

/// Fisher–Yates. The bias of the modulo is below 2^-43 for any list that a plan can hold.
fn shuffle<T>(items: &mut [T], random: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        let chosen = random.next_u64() % (last as u64 + 1);
        items.swap(last, usize::try_from(chosen).expect("at most `last`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan(seed: u64) -> Plan {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..9ms by 1ms\"\nsize = \"1MB\"\npairs = 4\nseed = {seed}"
        );
        text.parse().unwrap()
    }

    #[test]
    fn every_cell_is_measured_once_with_every_protocol_in_every_block() {
        let transfers = schedule(&plan(1));
        assert_eq!(transfers.len(), 4 * 10 * 2);
        let distinct: BTreeSet<_> = transfers
            .iter()
            .map(|t| (t.block, t.cell.index, t.protocol))
            .collect();
        assert_eq!(distinct.len(), transfers.len());
    }

    #[test]
    fn the_transfers_of_a_pair_follow_each_other_over_the_same_link() {
        for pair in schedule(&plan(1)).chunks(2) {
            assert_eq!((pair[0].block, pair[0].cell), (pair[1].block, pair[1].cell));
            assert_eq!(pair[0].link_seed, pair[1].link_seed);
            assert_ne!(pair[0].protocol, pair[1].protocol);
        }
    }

    #[test]
    fn both_protocols_go_first_about_as_often() {
        let h2_first = schedule(&plan(1))
            .chunks(2)
            .filter(|p| p[0].protocol == Protocol::H2)
            .count();
        assert!((8..=32).contains(&h2_first), "{h2_first} of 40");
    }

    #[test]
    fn the_order_is_a_function_of_the_seed() {
        assert_eq!(schedule(&plan(1)), schedule(&plan(1)));
        assert_ne!(schedule(&plan(1)), schedule(&plan(2)));
    }

    #[test]
    fn blocks_differ_in_their_order() {
        let transfers = schedule(&plan(1));
        let order = |block: u32| -> Vec<u32> {
            transfers
                .iter()
                .filter(|t| t.block == block)
                .map(|t| t.cell.index)
                .collect()
        };
        assert_ne!(order(0), order(1));
    }
}
