//! Reserved identifiers (RFC 9114 sections 6.2.3, 7.2.4.1 and 7.2.8): settings, frames and streams
//! without meaning that keep peers used to what they don't know.

/// Gives identifiers of the form 0x1f × N + 0x21, different ones each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grease(u64);

impl Grease {
    /// The same seed gives the same identifiers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws another identifier.
    pub(crate) fn identifier(&mut self) -> u64 {
        // SplitMix64's step; any generator would do.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        0x1f * (mixed >> 40) + 0x21
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_reserved_ones_and_differ() {
        let mut grease = Grease::new(7);
        let identifiers: Vec<u64> = (0..100).map(|_| grease.identifier()).collect();
        assert!(
            identifiers
                .iter()
                .all(|id| (id - 0x21).is_multiple_of(0x1f))
        );
        assert!(identifiers.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
