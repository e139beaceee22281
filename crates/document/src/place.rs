//! Places of values in a text.

use crate::tree::{Tree, Value, parse};
use std::fmt;
use toml::de::DeValue;

/// Place of a value: a file, a line and a column, both from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file's name; `None`: the text that the reader began with, which has none.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// `altway.toml:3:9`, the form that editors and terminals take for a link; without a file
/// `line 3, column 9`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column } = self;
        match file {
            Some(file) => write!(f, "{file}:{line}:{column}"),
            None => write!(f, "line {line}, column {column}"),
        }
    }
}

/// A text that knows where its lines begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    name: Option<String>,
    text: String,
    /// Offsets of the first bytes of lines.
    lines: Vec<usize>,
    /// Characters that begin before each block, so that a place in a long line costs no walk over it.
    blocks: Vec<usize>,
}

/// Bytes of a block.
const BLOCK: usize = 1_024;

impl Source {
    /// A text, and what its file is called in messages.
    #[must_use]
    pub fn new(name: Option<&str>, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(end, _)| end + 1));
        let ends = text.as_bytes().chunks(BLOCK).scan(0, |sum, block| {
            *sum += characters(block);
            Some(*sum)
        });
        Self {
            name: name.map(str::to_owned),
            text: text.into(),
            lines: lines.collect(),
            blocks: std::iter::once(0).chain(ends).collect(),
        }
    }

    /// The file's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The place of the byte at `offset`; an offset beyond the text is its end, one within a character
    /// is that character's.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.lines.partition_point(|start| *start <= offset);
        let before = self.characters_before(offset) - self.characters_before(self.lines[line - 1]);
        Place {
            file: self.name.clone(),
            line,
            column: before + 1,
        }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.blocks[block] + characters(&self.text.as_bytes()[block * BLOCK..offset])
    }
}

/// The characters of UTF-8 that begin in some bytes: those that go on begin with `10`.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

impl Source {
    /// The place of the first key of that name, those of the top before those of tables within.
    #[must_use]
    pub fn place_of_key(&self, name: &str) -> Option<Place> {
        let (tree, _) = parse(&self.text);
        let mut level = vec![&tree];
        while !level.is_empty() {
            let keys = level.iter().flat_map(|table| table.keys());
            let starts = keys
                .filter(|key| key.get_ref() == name)
                .map(|key| key.span().start);
            if let Some(start) = starts.min() {
                return Some(self.place(start));
            }
            level = level
                .into_iter()
                .flat_map(|table| table.values())
                .flat_map(tables)
                .collect();
        }
        None
    }
}

/// The tables that a value is or lists.
fn tables<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Tree<'t>> {
    match value.get_ref() {
        DeValue::Table(table) => vec![table],
        DeValue::Array(values) => values.iter().flat_map(tables).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_columns_are_counted_from_1_in_characters() {
        let source = Source::new(None, "a = 1\nü = é\n");
        assert_eq!(source.place(0).to_string(), "line 1, column 1");
        assert_eq!(source.place(4).to_string(), "line 1, column 5");
        // `ü` takes two bytes.
        assert_eq!(source.place(11).to_string(), "line 2, column 5");
        assert_eq!(source.place(99).to_string(), "line 3, column 1");
        let named = Source::new(Some("sites/a.toml"), "");
        assert_eq!(named.place(0).to_string(), "sites/a.toml:1:1");
    }

    #[test]
    fn a_place_in_a_line_of_many_blocks_is_counted_in_characters() {
        let line = "é".repeat(5_000);
        let source = Source::new(None, &format!("a\n{line}\nb"));
        for character in [0, 511, 512, 1_023, 4_999] {
            let place = source.place(2 + 2 * character);
            assert_eq!((place.line, place.column), (2, character + 1));
            assert_eq!(source.place(3 + 2 * character), place, "within it");
        }
        let end = source.place(usize::MAX);
        assert_eq!((end.line, end.column), (3, 2));
    }

    #[test]
    fn a_key_is_found_at_the_top_before_tables_within() {
        let source = Source::new(None, "[a]\nx = 1\n[[b]]\ny = [{ z = 1 }]\n[x]\n");
        let found = |key| {
            source
                .place_of_key(key)
                .map(|place| (place.line, place.column))
        };
        assert_eq!(found("x"), Some((5, 2)));
        assert_eq!(found("z"), Some((4, 8)));
        assert_eq!(found("none"), None);
    }

    proptest! {
        #[test]
        fn every_offset_of_every_text_has_a_place(text: String, offset: usize) {
            let source = Source::new(None, &text);
            for offset in [offset, offset % (text.len() + 1)] {
                let place = source.place(offset);
                prop_assert!(place.line >= 1 && place.column >= 1);
                prop_assert!(place.line <= text.split('\n').count());
            }
        }
    }
}
