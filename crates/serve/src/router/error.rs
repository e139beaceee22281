//! Errors by which a route is refused.

use matchit::InsertError;

/// A route that can't be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRoute {
    /// The method has a route for the path already.
    #[error("{method} `{path}` is registered twice")]
    Twice {
        /// The method.
        method: String,
        /// The path, as it was given.
        path: String,
    },
    /// Requests for the path would be requests for another one, too.
    #[error("`{path}` can't be told from `{other}`")]
    Ambiguous {
        /// The path, as it was given.
        path: String,
        /// The path that is registered.
        other: String,
    },
    /// The path is one that no request has.
    #[error("`{path}` is not a path of routes: {reason}")]
    Path {
        /// The path that was given.
        path: String,
        /// The fault of the path.
        reason: &'static str,
    },
    /// The paths are as many as a router can have.
    #[error("a router has {0} paths at most")]
    TooMany(usize),
}

impl InvalidRoute {
    pub(super) fn of_tree(path: &str, error: &InsertError) -> Self {
        let reason = match error {
            InsertError::Conflict { with } => {
                return Self::Ambiguous {
                    path: path.into(),
                    other: with.clone(),
                };
            }
            InsertError::InvalidParamSegment => "a segment has one parameter, at its end",
            InsertError::InvalidParam => "a parameter is `{name}` or, at the end, `{*name}`",
            InsertError::InvalidCatchAll => "`{*name}` stands at the end",
            _ => "it can't be read",
        };
        Self::Path {
            path: path.into(),
            reason,
        }
    }
}

/// Refuses what the tree would take, and no request would match.
pub(super) fn check(path: &str) -> Result<(), InvalidRoute> {
    let reason = if !path.starts_with('/') {
        "it begins with `/`"
    } else if path.contains(['?', '#']) {
        "queries are not looked at"
    } else if path.contains('%') {
        "characters stand for themselves: write them without `%`"
    } else if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
        "it is of visible ASCII characters"
    } else {
        return Ok(());
    };
    Err(InvalidRoute::Path {
        path: path.into(),
        reason,
    })
}
