//! A fuzzer's bytes, read from the front; every string of bytes means something.

/// Rest of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte; 0 when there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.array().unwrap_or_default();
        byte
    }

    /// The next two bytes as a number, little end first.
    pub(crate) fn word(&mut self) -> u16 {
        u16::from_le_bytes(self.array().unwrap_or_default())
    }

    /// The next `N` bytes, if there are so many.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// The next `len` bytes, or what there is of them.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Selects one of `choices` by the next byte.
    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
