//! The tree of a TOML text, with the span of every key and value.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table: keys and values with their spans, in the order of their names.
pub type Tree<'t> = DeTable<'t>;

/// A value with its span.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// A fault of syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Syntax {
    /// The fault, in a sentence without a full stop.
    pub message: String,
    /// The bytes that are meant.
    pub span: Range<usize>,
}

/// Reads a text as far as it is TOML, and says everything that is not.
#[must_use]
pub fn parse(text: &str) -> (Tree<'_>, Vec<Syntax>) {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let faults = errors.iter().map(|error| Syntax {
        // A second line lists what was expected: one sentence is enough.
        message: error.message().replace('\n', ", "),
        span: error.span().unwrap_or_default(),
    });
    (tree.into_inner(), faults.collect())
}

/// The keys and values of a table as they were written: a later one stands further down.
#[must_use]
pub fn entries<'v, 't>(
    table: &'v Tree<'t>,
) -> Vec<(&'v Spanned<toml::de::DeString<'t>>, &'v Value<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A text as TOML writes it: in quotes, on one line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_fault_of_syntax_is_found_and_the_rest_is_read() {
        let (tree, faults) = parse("a = 1\nb = \nc = 2\nd = \"x\n");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(tree.contains_key("a") && tree.contains_key("c"));
        assert!(faults.iter().all(|fault| !fault.message.contains('\n')));
    }

    #[test]
    fn entries_stand_as_they_were_written() {
        let (tree, _) = parse("z = 1\na = 2\nm = 3");
        let names: Vec<_> = entries(&tree)
            .iter()
            .map(|(key, _)| key.get_ref().to_string())
            .collect();
        assert_eq!(names, ["z", "a", "m"]);
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_read_as_itself(text: String) {
            let quoted = format!("a = {}", quoted(&text));
            let (tree, faults) = parse(&quoted);
            prop_assert!(faults.is_empty(), "{faults:?}");
            let value = tree.get("a").unwrap().get_ref();
            prop_assert!(matches!(value, DeValue::String(read) if *read == text));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let (_, faults) = parse(&text);
            prop_assert!(faults.iter().all(|fault| fault.span.start <= text.len()));
        }
    }
}
