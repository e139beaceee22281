//! Why a text is not a policy.

/// A text that is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// No policy has this name.
    #[error("`{0}` is not a policy: expected h2, h3, threshold or threshold:rtt=50ms,loss=1%")]
    Unknown(String),
    /// A threshold has no such setting, or it stands twice.
    #[error("`{0}` is not a setting of a threshold: expected rtt=TIME and loss=RATIO, once each")]
    Setting(String),
    /// A setting's value can't be read.
    #[error("`{setting}` of a threshold can't be read")]
    Value {
        /// Its name.
        setting: String,
        /// What is wrong with it.
        source: altway_units::ParseError,
    },
}
