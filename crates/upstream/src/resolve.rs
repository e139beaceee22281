//! The addresses of a server's name: resolved when they are first needed, then again and again in the background.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;

/// Time after which a name is resolved again.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// The most addresses of a name that are kept.
const MAX_ADDRESSES: usize = 16;

/// The latest answer for one name. Kept while there is no newer one: a resolver that fails changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Vec<SocketAddr>>);

impl Names {
    /// The addresses of `host`; asks the resolver only where there was no answer yet.
    pub(crate) async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![(ip, port).into()]);
        }
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if known.is_empty() {
            self.refresh(host, port).await
        } else {
            Ok(known)
        }
    }

    /// Returns whether there was an answer.
    pub(crate) fn is_known(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !known.is_empty()
    }

    /// Asks the resolver, and keeps its answer if it has one.
    pub(crate) async fn refresh(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = lookup_host((host, port))
            .await?
            .take(MAX_ADDRESSES)
            .collect();
        if !found.is_empty() {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.clone_from(&found);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_kept_when_the_resolver_fails() {
        let names = Names::default();
        let found = names.refresh("localhost", 80).await.unwrap();
        assert!(!found.is_empty() && names.is_known());
        // A name that no resolver has (RFC 6761 section 6.4).
        assert!(names.refresh("nobody.invalid", 80).await.is_err());
        assert_eq!(names.resolve("nobody.invalid", 80).await.unwrap(), found);
    }

    #[tokio::test]
    async fn an_address_needs_no_resolver() {
        let names = Names::default();
        let found = names.resolve("::1", 80).await.unwrap();
        assert_eq!(found, ["[::1]:80".parse().unwrap()]);
    }
}
