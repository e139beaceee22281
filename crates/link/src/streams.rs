//! The generators of random numbers, and what they decide of each packet.
//!
//! The generator is xoshiro256++ seeded through SplitMix64, both published algorithms with fixed
//! output, because a recorded seed must lose the same packets in every version of this crate. Each
//! feature has a stream of its own, 2^128 draws apart from the next, and every packet that enters takes
//! the same number of draws from each, whether the feature is on or not and whatever becomes of the
//! packet. So the n-th packet's fate depends on the seed, on n and on the feature's own parameters
//! alone: to switch one feature on changes nothing of what the others do.

use crate::loss::Loss;
use crate::{BitFlip, Config};
use altway_units::Ratio;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) type Generator = Xoshiro256PlusPlus;

/// Parts in the whole of a [`Ratio`].
const WHOLE: u128 = 1_000_000_000;

/// The seed of one direction (`up` is client to server) of a link with that `seed`: the two
/// directions draw independent streams, and equal parameters don't lose the same ordinals.
#[must_use]
pub fn seed_for(seed: u64, up: bool) -> u64 {
    let mut generator = Generator::seed_from_u64(seed);
    let (for_up, for_down) = (generator.next_u64(), generator.next_u64());
    if up { for_up } else { for_down }
}

/// Returns true if a draw of 64 random bits hits something of that probability.
pub(crate) fn hits(draw: u64, ratio: Ratio) -> bool {
    // Scales the bits to 0..WHOLE. The bias is below 2^-34, far under one part in a billion, and
    // both ends are exact: 0 never hits, WHOLE always does.
    (u128::from(draw) * WHOLE) >> 64 < u128::from(ratio.as_parts_per_billion())
}

/// The streams of one seed, one after the other.
#[derive(Debug)]
pub(crate) struct Streams(Generator);

impl Streams {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Generator::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> Generator {
        let stream = self.0.clone();
        self.0.jump();
        stream
    }
}

/// Fate of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) is_doubled: bool,
    pub(crate) way: PacketTreatment,
}

/// Treatment of a packet, or its copy, on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketTreatment {
    pub(crate) flip: Option<BitFlip>,
    /// True if it is one of those that [`Config::reordering`] takes out of their order.
    pub(crate) is_shifted: bool,
    /// 64 random bits for the jitter.
    pub(crate) jitter: u64,
}

/// All that is drawn for the packets of a direction.
#[derive(Debug, Clone)]
pub(crate) struct Fates {
    loss: Loss,
    duplication: Generator,
    ways: TreatmentGenerators,
    copies: TreatmentGenerators,
}

/// Generators of what is drawn for packets on their way.
#[derive(Debug, Clone)]
struct TreatmentGenerators {
    corruption: Generator,
    reordering: Generator,
    jitter: Generator,
}

impl Fates {
    pub(crate) fn new(seed: u64) -> Self {
        // New streams go to the end, or a recorded seed would mean something else.
        let mut streams = Streams::new(seed);
        Self {
            loss: Loss::new(streams.next(), streams.next()),
            duplication: streams.next(),
            ways: TreatmentGenerators::new(&mut streams),
            copies: TreatmentGenerators::new(&mut streams),
        }
    }

    /// The fate of the next packet that enters.
    pub(crate) fn next(&mut self, config: &Config) -> Fate {
        Fate {
            is_lost: self.loss.draw(&config.loss),
            is_doubled: hits(self.duplication.next_u64(), config.duplication),
            way: self.ways.next(config),
        }
    }

    /// The way of the next copy.
    pub(crate) fn next_copy(&mut self, config: &Config) -> PacketTreatment {
        self.copies.next(config)
    }
}

impl TreatmentGenerators {
    fn new(streams: &mut Streams) -> Self {
        Self {
            corruption: streams.next(),
            reordering: streams.next(),
            jitter: streams.next(),
        }
    }

    fn next(&mut self, config: &Config) -> PacketTreatment {
        let is_corrupt = hits(self.corruption.next_u64(), config.corruption);
        let flip = BitFlip::new(self.corruption.next_u64());
        PacketTreatment {
            flip: is_corrupt.then_some(flip),
            is_shifted: hits(self.reordering.next_u64(), config.reordering.share),
            jitter: self.jitter.next_u64(),
        }
    }
}
