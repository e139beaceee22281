//! The value of `--backend`: the name of a backend, or `auto`.

use altway_emulate::{Backend, UnknownBackend};
use std::str::FromStr;

/// The backend that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackendArgument(Option<Backend>);

impl BackendArgument {
    /// `None` for whichever this machine has.
    pub(crate) fn backend(self) -> Option<Backend> {
        self.0
    }
}

impl FromStr for BackendArgument {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self(None)),
            named => named.parse().map(|backend| Self(Some(backend))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_whichever_there_is() {
        assert_eq!("auto".parse(), Ok(BackendArgument(None)));
        assert_eq!("netem".parse(), Ok(BackendArgument(Some(Backend::Netem))));
        assert!("any".parse::<BackendArgument>().is_err());
    }
}
