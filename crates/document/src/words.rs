//! Words with a fixed meaning: how they are read, printed, and what to suggest for a slip.

use std::fmt;

/// The known word that looks most like `word`, if any does: within half its letters.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes time in proportion to both lengths, and no word that is meant is so long.
    if word.len() > 256 {
        return None;
    }
    let by_distance = known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(word, known), known));
    by_distance
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .map(|(_, known)| known)
}

/// The question that follows a sentence on an unknown word, where one is known that looks like it:
/// "did you mean `limits`?".
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|nearest| format!("did you mean `{nearest}`?"))
}

/// A text that is none of the words that it should be one of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// The word that was found.
    pub found: String,
    /// Thing that the word should name, with its article: `a topology`.
    pub what: &'static str,
    /// The words that there are.
    pub known: &'static [&'static str],
}

impl UnknownWord {
    /// The nearest word, as a question.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        did_you_mean(&self.found, self.known.iter().copied())
    }

    /// Returns the fault in a sentence, without the question after the nearest word.
    #[must_use]
    pub fn sentence(&self) -> String {
        let known = match self.known {
            [] => String::new(),
            [one] => (*one).into(),
            [first @ .., last] => format!("{} or {last}", first.join(", ")),
        };
        format!("`{}` is not {}: expected {known}", self.found, self.what)
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())?;
        match self.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownWord {}

/// An enum whose variants are words: `ALL`, `name`, `Display`, `FromStr` (an [`UnknownWord`] else), and
/// the first of them as `Default`.
///
/// ```
/// altway_document::words! {
///     /// How it is painted.
///     Colour, "a colour" {
///         /// As grass is.
///         Green = "green",
///         /// As the sky is.
///         Blue = "blue",
///     }
/// }
/// assert_eq!("blue".parse(), Ok(Colour::Blue));
/// assert_eq!(
///     "gren".parse::<Colour>().unwrap_err().to_string(),
///     "`gren` is not a colour: expected green or blue; did you mean `green`?"
/// );
/// ```
#[macro_export]
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

            /// Their words, in the same order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word, as files spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        /// The first of them: what is meant where nothing is said.
        impl ::std::default::Default for $name {
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
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|one| one.name() == text);
                found.copied().ok_or_else(|| $crate::UnknownWord {
                    found: text.into(),
                    what: $what,
                    known: Self::WORDS,
                })
            }
        }
    };
}

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
