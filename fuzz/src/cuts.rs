//! Bytes in pieces, as a network brings them.

/// The script in pieces of up to 64 bytes, or in one if the seed is 0.
pub(crate) fn cuts(script: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut state) = (script, u32::from(seed));
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = match seed {
            0 => rest.len(),
            _ => usize::try_from(state >> 26).expect("small") + 1,
        };
        let (piece, behind) = rest.split_at(len.min(rest.len()));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}
