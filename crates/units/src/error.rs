//! Reasons why a text is not a quantity.

/// A text that is not the quantity it should be; says what was found and what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The unit has no number in front of it.
    #[error("`{text}` is not a {quantity}: expected a number with a unit, like `{example}`")]
    NoNumber {
        /// The text that was found.
        text: String,
        /// The quantity that was expected, as a noun.
        quantity: &'static str,
        /// A text that would have been right.
        example: &'static str,
    },
    /// The number is negative.
    #[error("`{text}` is not a {quantity}: it can't be negative")]
    Negative {
        /// The text that was found.
        text: String,
        /// The quantity that was expected, as a noun.
        quantity: &'static str,
    },
    /// The unit is missing or unknown.
    #[error("`{text}` is not a {quantity}: expected one of the units {units}, like `{example}`")]
    Unit {
        /// The text that was found.
        text: String,
        /// The quantity that was expected, as a noun.
        quantity: &'static str,
        /// The units that would have been right.
        units: &'static str,
        /// A text that would have been right.
        example: &'static str,
    },
    /// A number without a unit that people write in two senses: `tc` and `ping` take `1` for 1 %, others
    /// for the whole.
    #[error("`{text}` is not a {quantity}: without a unit it may mean {readings}")]
    Ambiguous {
        /// The text that was found.
        text: String,
        /// The quantity that was expected, as a noun.
        quantity: &'static str,
        /// The readings that it may have, each as it would be right.
        readings: String,
    },
    /// The value lies outside what the quantity can hold.
    #[error("`{text}` is not a {quantity}: it must be {range}")]
    Range {
        /// The text that was found.
        text: String,
        /// The quantity that was expected, as a noun.
        quantity: &'static str,
        /// The range in words.
        range: &'static str,
    },
}
