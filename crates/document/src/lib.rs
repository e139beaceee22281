//! Reader of TOML that people write for altway, plans and configurations alike: the place of each value, the
//! word that was meant, and files that one file names.
//!
//! Pure: text in, values out; files are read by the caller. Left to others: what the keys mean (`record`
//! for plans of the lab, `config` for servers).
//!
//! ```
//! use altway_document::{Source, nearest, parse};
//!
//! let source = Source::new(Some("altway.toml"), "state = 1\nlimit = 2");
//! let (tree, faults) = parse(source.text());
//! assert!(faults.is_empty());
//! let (key, _) = tree.get_key_value("limit").ok_or("no such key")?;
//! assert_eq!(source.place(key.span().start).to_string(), "altway.toml:2:1");
//! assert_eq!(nearest(key.get_ref(), ["limits", "listen"]), Some("limits"));
//! # Ok::<(), &str>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod place;
mod tree;
mod words;

pub use place::{Place, Source};
pub use tree::{Syntax, Tree, Value, entries, parse, quoted};
pub use words::{UnknownWord, did_you_mean, nearest};

/// A file that another file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Name of the file in messages, and the base of the paths that the file itself names.
    pub name: String,
    /// Text of the file.
    pub text: String,
}
