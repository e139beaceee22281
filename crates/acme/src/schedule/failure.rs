//! Failures of orders and their causes, from which it follows what is done about them.
#![warn(clippy::disallowed_methods)]

use std::time::Duration;

/// A failure of something that was asked of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The cause: authority, account, rate limit, name or order.
    pub cause: Cause,
    /// The time that the authority asks to be left alone for (RFC 8555 section 6.6).
    pub retry_after: Option<Duration>,
    /// The failure in words.
    pub message: String,
}

/// The cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The authority can't be reached, or has a fault, or there is no room for its certificate: nothing of ours is counted,
    /// and an order that there is goes on.
    Authority,
    /// The account, or what the configuration says of it: no name can be had.
    Account,
    /// A rate limit that the authority has for the name, or for the account.
    RateLimit,
    /// The name: the challenge failed, or the authority does not issue for it.
    Name,
    /// The order, which is no more what it was: another one is made at once, which replaces nothing.
    Order,
}

impl Cause {
    /// The cause by the type of a problem document (RFC 8555 section 6.7, RFC 9773 section 7.4) and the status of the
    /// response that it came with.
    ///
    /// ```
    /// use altway_acme::Cause;
    ///
    /// let kind = "urn:ietf:params:acme:error:rateLimited";
    /// assert_eq!(Cause::of_problem(Some(kind), Some(429)), Cause::RateLimit);
    /// assert_eq!(Cause::of_problem(None, Some(503)), Cause::Authority);
    /// ```
    #[must_use]
    pub fn of_problem(kind: Option<&str>, status: Option<u16>) -> Self {
        let kind = kind.and_then(|kind| kind.strip_prefix("urn:ietf:params:acme:error:"));
        match kind {
            Some("rateLimited") => Self::RateLimit,
            Some("serverInternal" | "badNonce") => Self::Authority,
            Some(
                "accountDoesNotExist"
                | "externalAccountRequired"
                | "invalidContact"
                | "unsupportedContact"
                | "userActionRequired"
                | "badSignatureAlgorithm"
                | "badPublicKey"
                | "invalidProfile",
            ) => Self::Account,
            Some("alreadyReplaced" | "orderNotReady") => Self::Order,
            _ => match status {
                Some(429) => Self::RateLimit,
                Some(500..) => Self::Authority,
                _ => Self::Name,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_problem_has_its_cause() {
        for (kind, status, cause) in [
            ("badNonce", 400, Cause::Authority),
            ("serverInternal", 500, Cause::Authority),
            ("rateLimited", 429, Cause::RateLimit),
            ("rateLimited", 400, Cause::RateLimit),
            ("accountDoesNotExist", 400, Cause::Account),
            ("externalAccountRequired", 403, Cause::Account),
            ("invalidProfile", 400, Cause::Account),
            ("alreadyReplaced", 409, Cause::Order),
            ("unauthorized", 403, Cause::Name),
            ("dns", 400, Cause::Name),
            ("caa", 403, Cause::Name),
            ("rejectedIdentifier", 400, Cause::Name),
            ("a-new-one", 502, Cause::Authority),
            ("a-new-one", 400, Cause::Name),
        ] {
            let kind = format!("urn:ietf:params:acme:error:{kind}");
            assert_eq!(
                Cause::of_problem(Some(&kind), Some(status)),
                cause,
                "{kind}"
            );
        }
        assert_eq!(Cause::of_problem(None, Some(429)), Cause::RateLimit);
        assert_eq!(Cause::of_problem(None, None), Cause::Name);
        assert_eq!(Cause::of_problem(Some("rateLimited"), None), Cause::Name);
    }
}
