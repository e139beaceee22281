//! Order in which a plan's transfers are made.
//!
//! A randomised block design: a block visits every cell once, in random order, and in each cell
//! makes one transfer with each protocol (and one more of the null arm), in random order, over links
//! with the same seed. Whatever drifts on the machine then falls on all protocols alike. Order and
//! seeds are functions of the plan's seed, the block and the cell alone, so that a run can be
//! resumed, and so that its parts on several machines are those of the whole.

use altway_record::{Arm, Cell, Plan, Sample, Shard};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One transfer that the plan asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Ordinal of the block, from 0.
    pub block: u32,
    /// The condition.
    pub cell: Cell,
    /// Protocol or policy, or the null arm.
    pub arm: Arm,
    /// The link's seed, the same for every protocol of this block and cell.
    pub link_seed: u64,
}

/// The identity of a transfer: block, cell, arm.
pub(crate) type TransferId = (u32, u32, Arm);

impl Transfer {
    pub(crate) fn id(&self) -> TransferId {
        (self.block, self.cell.index, self.arm)
    }
}

/// The transfer that a row is of.
pub(crate) fn id_of(sample: &Sample) -> TransferId {
    let arm = Arm {
        protocol: sample.protocol,
        null_arm: sample.null_arm,
        policy: sample.policy,
    };
    (sample.block, sample.cell, arm)
}

/// All transfers of a part of `plan`, in the order in which they are to be made.
#[must_use]
pub fn schedule(plan: &Plan, shard: Shard) -> Vec<Transfer> {
    let cells = plan.part(shard);
    let of_block = |block| block_of(plan, &cells, block);
    (0..plan.pairs).flat_map(of_block).collect()
}

/// The transfers of one block.
pub(crate) fn block_of(plan: &Plan, cells: &[Cell], block: u32) -> Vec<Transfer> {
    let mut random = generator(plan.seed, Purpose::Order, block, 0);
    let mut cells = cells.to_vec();
    shuffle(&mut cells, &mut random);
    let transfers = cells.iter().map(|cell| transfers_of(plan, cell, block));
    transfers.collect::<Vec<_>>().concat()
}

/// The transfers of one cell in one block.
pub(crate) fn transfers_of(plan: &Plan, cell: &Cell, block: u32) -> Vec<Transfer> {
    let mut random = generator(plan.seed, Purpose::Cell, block, cell.index);
    let link_seed = random.next_u64();
    let mut arms = plan.arms();
    shuffle(&mut arms, &mut random);
    let one = |arm| Transfer {
        block,
        cell: *cell,
        arm,
        link_seed,
    };
    arms.into_iter().map(one).collect()
}

/// Purpose of a generator's numbers; each kind draws numbers of its own.
pub(crate) enum Purpose {
    /// The order of the cells in a block.
    Order = 1,
    /// The order of the arms, and the link's seed.
    Cell = 2,
    /// The choice of transfers that are made alone as well, where others are made side by side.
    Alone = 3,
}

pub(crate) fn generator(seed: u64, purpose: Purpose, block: u32, cell: u32) -> Xoshiro256PlusPlus {
    let mut words = [0; 32];
    words[..8].copy_from_slice(&seed.to_le_bytes());
    words[8] = purpose as u8;
    words[16..20].copy_from_slice(&block.to_le_bytes());
    words[24..28].copy_from_slice(&cell.to_le_bytes());
    let mut random = Xoshiro256PlusPlus::from_seed(words);
    // States that differ in few bits give alike numbers at first: draw those unused.
    for _ in 0..32 {
        random.next_u64();
    }
    random
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
    use altway_record::{Policy, Protocol};
    use std::collections::BTreeSet;

    fn plan(seed: u64) -> Plan {
        let text = format!(
            "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms..9ms by 1ms\"\nsize = \"1MB\"\npairs = 4\nseed = {seed}"
        );
        text.parse().unwrap()
    }

    fn whole(seed: u64) -> Vec<Transfer> {
        schedule(&plan(seed), Shard::WHOLE)
    }

    #[test]
    fn every_cell_is_measured_once_with_every_arm_in_every_block() {
        let transfers = whole(1);
        assert_eq!(transfers.len() as u64, plan(1).transfers());
        let distinct: BTreeSet<_> = transfers.iter().map(Transfer::id).collect();
        assert_eq!(distinct.len(), transfers.len());
    }

    #[test]
    fn the_transfers_of_a_pair_follow_each_other_over_the_same_link() {
        for arms in whole(1).chunks(3) {
            let same = |a: &Transfer, b: &Transfer| {
                (a.block, a.cell, a.link_seed) == (b.block, b.cell, b.link_seed)
            };
            assert!(same(&arms[0], &arms[1]) && same(&arms[0], &arms[2]));
            assert_eq!(arms.iter().filter(|one| one.arm.null_arm).count(), 1);
            let h2 = arms.iter().filter(|one| one.arm.protocol == Protocol::H2);
            assert_eq!(h2.count(), 2);
        }
    }

    #[test]
    fn each_policy_is_an_arm_and_http2_is_its_own_null_arm() {
        let text = "name = \"p\"\nrate = \"5mbit\"\ndelay = \"0ms\"\nsize = \"1MB\"\npairs = 3\n\
                    policy = [\"h2\", \"h3\", \"study\", \"learned\"]";
        let plan: Plan = text.parse().unwrap();
        let transfers = schedule(&plan, Shard::WHOLE);
        assert_eq!(transfers.len() as u64, plan.transfers());
        for arms in transfers.chunks(5) {
            let policies: BTreeSet<_> = arms.iter().map(|one| one.arm.policy).collect();
            assert_eq!(policies.len(), 4);
            let null = arms.iter().find(|one| one.arm.null_arm).unwrap();
            assert_eq!(null.arm.policy, Some(Policy::H2));
        }
    }

    #[test]
    fn each_arm_goes_first_about_as_often() {
        let first = |wanted: (Protocol, bool)| {
            let transfers = schedule(
                &Plan {
                    pairs: 20,
                    ..plan(1)
                },
                Shard::WHOLE,
            );
            let firsts = transfers
                .chunks(3)
                .map(|arms| (arms[0].arm.protocol, arms[0].arm.null_arm));
            firsts.filter(|arm| *arm == wanted).count()
        };
        for arm in [
            (Protocol::H2, false),
            (Protocol::H2, true),
            (Protocol::H3, false),
        ] {
            assert!((45..=90).contains(&first(arm)), "{} of 200", first(arm));
        }
    }

    #[test]
    fn the_order_is_a_function_of_the_seed() {
        assert_eq!(whole(1), whole(1));
        assert_ne!(whole(1), whole(2));
    }

    #[test]
    fn blocks_differ_in_their_order_and_links() {
        let transfers = whole(1);
        let order = |block: u32| -> Vec<u32> {
            let of_block = transfers.iter().filter(|t| t.block == block);
            of_block.map(|t| t.cell.index).collect()
        };
        assert_ne!(order(0), order(1));
        let seeds: BTreeSet<_> = transfers.iter().map(|t| t.link_seed).collect();
        assert_eq!(seeds.len(), 40);
    }

    #[test]
    fn the_parts_are_the_whole_in_pieces() {
        let mut parts: Vec<Transfer> = (1..=3)
            .flat_map(|part| schedule(&plan(1), Shard::new(part, 3).unwrap()))
            .collect();
        let mut whole = whole(1);
        parts.sort_by_key(Transfer::id);
        whole.sort_by_key(Transfer::id);
        assert_eq!(parts, whole);
    }
}
