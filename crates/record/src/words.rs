//! Words with a fixed meaning: how they are read, printed, and what to suggest for a slip.

use std::fmt;

/// The known word that looks most like `word`, if any does.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let by_distance = known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(word, known), known));
    by_distance
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .map(|(_, known)| known)
}

/// A text that is none of the words that it should be one of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// What was found.
    pub found: String,
    /// What it should name, with its article: `a topology`.
    pub what: &'static str,
    /// The words that there are.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}: expected ", self.found, self.what)?;
        match self.known {
            [] => {}
            [one] => f.write_str(one)?,
            [first @ .., last] => write!(f, "{} or {last}", first.join(", "))?,
        }
        match nearest(&self.found, self.known.iter().copied()) {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownWord {}

/// An enum whose variants are words: `Display`, `FromStr`, serde and an axis of a plan.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word, as plans and files spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        /// The first of them: what a plan means that says nothing.
        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|one| one.name() == text);
                found.copied().ok_or_else(|| $crate::words::UnknownWord {
                    found: text.into(),
                    what: $what,
                    known: &[$($word),+],
                })
            }
        }

        $crate::words::text_in_files!($name);

        impl $crate::axis::AxisValue for $name {
            fn read(text: &str) -> Result<Self, String> {
                text.parse::<Self>().map_err(|error| error.to_string())
            }
        }
    };
}
pub(crate) use words;

/// Has a type stand in files as its text form: what `Display` writes and `FromStr` reads.
macro_rules! text_in_files {
    ($name:ident) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_in_files;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_within_half_its_letters() {
        let known = ["direct", "router", "proxied"];
        assert_eq!(nearest("ruoter", known), Some("router"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn an_unknown_word_names_the_known_ones() {
        let unknown = UnknownWord {
            found: "ruoter".into(),
            what: "a topology",
            known: &["direct", "router"],
        };
        let text = "`ruoter` is not a topology: expected direct or router; did you mean `router`?";
        assert_eq!(unknown.to_string(), text);
    }
}
