//! Settings: the authority, the account at it, challenges, and where certificates are kept.

use crate::ask::Program;
use crate::client::Client;
use crate::{Challenge, Error};
use std::fmt;
use std::path::PathBuf;

/// The authority, the account at it, and how names are shown to be this server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the authority's directory (RFC 8555 section 7.1.1).
    pub directory: String,
    /// An address for the authority's mail; `None`: it has none.
    pub email: Option<String>,
    /// The authority's profile of certificates; `None`: its default.
    pub profile: Option<String>,
    /// PEM file of the authorities that sign the certificate of the directory's server; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// The account that the authority's operator has given out (RFC 8555 section 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// The challenges that the server can answer, the first one first.
    pub challenges: Vec<Challenge>,
    /// Names that come at run time; `None`: certificates are those of given names alone.
    pub on_demand: Option<OnDemandSettings>,
    /// The folder of accounts and certificates.
    pub folder: PathBuf,
    /// The name and version of the program, which the authority is told (RFC 8555 section 6.1).
    pub user_agent: String,
}

impl Settings {
    /// Reads what the settings name, as a server does that starts; makes and asks nothing.
    ///
    /// # Errors
    /// The roots or the URL of the question can't be used.
    pub fn check(&self) -> Result<(), Error> {
        let asking = self.on_demand.as_ref();
        let program = asking.map(|it| Program::new(&it.url, &self.user_agent));
        program.transpose()?;
        Client::new(self.roots.as_deref(), &self.user_agent).map(drop)
    }
}

/// The names that may have certificates on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandSettings {
    /// URL of `http` that is asked before a certificate is ordered, with `domain=NAME` in its query: 200 is yes, any other
    /// status no.
    pub url: String,
    /// The most names that have a certificate or an order.
    pub most: usize,
}

/// An account outside of ACME that the ACME account is bound to.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The key identifier.
    pub id: String,
    /// The MAC key, decoded.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl ExternalAccount {
    /// The longest MAC key in its text form, in bytes.
    const MAX_KEY: usize = 4_096;

    /// Decodes the MAC key, which authorities give in base64url; `None`: it is not that.
    #[must_use]
    pub fn new(id: &str, key: &str) -> Option<Self> {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let key = key.trim().trim_end_matches('=');
        let decoded = (key.len() <= Self::MAX_KEY).then(|| URL_SAFE_NO_PAD.decode(key));
        let key = decoded?.ok().filter(|key| !key.is_empty())?;
        Some(Self { id: id.into(), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_key_is_base64url_and_is_never_shown() {
        let account = ExternalAccount::new("kid-1", "c2VjcmV0LWtleQ==\n").unwrap();
        assert_eq!(account.key, b"secret-key");
        assert!(!format!("{account:?}").contains("115"), "{account:?}");
        for text in ["", "==", "not base64!", "a", &"A".repeat(5_000)] {
            assert!(ExternalAccount::new("kid-1", text).is_none(), "{text}");
        }
    }
}
