//! A short text that is copied like a number: cells are, and they have names in them.

use std::fmt;

/// A text of at most `MOST` bytes, `MOST` up to 255.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShortText<const MOST: usize> {
    /// 0 behind the text, so that texts are ordered as strings are.
    bytes: [u8; MOST],
    length: u8,
}

impl<const MOST: usize> ShortText<MOST> {
    /// # Panics
    /// The text is longer than `MOST` bytes.
    pub(crate) const fn new(text: &str) -> Self {
        const { assert!(MOST <= u8::MAX as usize) };
        let mut bytes = [0; MOST];
        let mut i = 0;
        while i < text.len() {
            bytes[i] = text.as_bytes()[i];
            i += 1;
        }
        Self {
            bytes,
            length: text.len() as u8,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = &self.bytes[..usize::from(self.length)];
        std::str::from_utf8(bytes).expect("made of a whole text")
    }
}

impl<const MOST: usize> fmt::Debug for ShortText<MOST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_and_ordered_as_strings_are() {
        let texts = ["", "a", "ab", "abc", "b", "ü"];
        let short = texts.map(ShortText::<3>::new);
        assert_eq!(short.map(|text| text.as_str().to_owned()), texts);
        assert!(short.is_sorted());
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_text_that_does_not_fit_is_no_short_text() {
        let _ = ShortText::<3>::new("abcd");
    }
}
