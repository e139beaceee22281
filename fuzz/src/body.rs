//! Bodies of which every byte is known, so that no byte can come late, twice, or on another stream.

use std::sync::LazyLock;

use bytes::Bytes;

/// A prime, so that no length of a frame or window is a multiple.
const PERIOD: usize = 251;

/// Largest piece.
pub(crate) const MAX_PIECE: usize = 1 << 16;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let period: Vec<u8> = (0..=250).collect();
    period.repeat(MAX_PIECE / PERIOD + 2).into()
});

/// `len` bytes, at most `MAX_PIECE`, from `offset` on, of the body that `from_server` or else the
/// client sends on a stream.
pub(crate) fn piece(stream: u32, from_server: bool, offset: usize, len: usize) -> Bytes {
    let of_stream = usize::try_from(stream % 251).expect("small") * 17;
    let start = (of_stream + usize::from(from_server) * 101 + offset) % PERIOD;
    PATTERN.slice(start..start + len)
}
