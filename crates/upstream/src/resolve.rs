//! The addresses of a server's name: resolved when they are first needed, then again and again in the background.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;

/// Time after which a name is resolved again.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// The most addresses of a name that are kept.
const MAX_ADDRESSES: usize = 16;

/// The latest answer for one name. Kept while there is no newer one: a resolver that fails changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Mutex<Vec<SocketAddr>>,
    /// An answer had not all addresses of the one before it. So it is for few names: nobody else locks them for a request.
    has_changed: AtomicBool,
}

impl Names {
    /// The addresses of `host`; asks the resolver only where there was no answer yet.
    pub(crate) async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![(ip, port).into()]);
        }
        let known = self.known().clone();
        if known.is_empty() {
            self.refresh(host, port).await
        } else {
            Ok(known)
        }
    }

    /// Returns whether there was an answer.
    pub(crate) fn is_known(&self) -> bool {
        !self.known().is_empty()
    }

    /// Returns whether an answer had not all addresses of the one before it.
    pub(crate) fn have_changed(&self) -> bool {
        self.has_changed.load(Ordering::Relaxed)
    }

    /// Returns whether the server has left the address that a connection is to, which `address` gives: the latest answer
    /// has others alone. One without an address, that of a Unix socket, is never left.
    pub(crate) fn has_left(&self, address: impl FnOnce() -> Option<IpAddr>) -> bool {
        self.have_changed()
            && address().is_some_and(|ip| !self.known().iter().any(|known| known.ip() == ip))
    }

    /// Asks the resolver, and keeps its answer if it has one.
    pub(crate) async fn refresh(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = lookup_host((host, port))
            .await?
            .take(MAX_ADDRESSES)
            .collect();
        self.keep(&found);
        Ok(self.known().clone())
    }

    /// Keeps an answer, if it has addresses.
    pub(crate) fn keep(&self, found: &[SocketAddr]) {
        if found.is_empty() {
            return;
        }
        let found = in_turn(found);
        let mut known = self.known();
        if known.iter().any(|former| !found.contains(former)) {
            self.has_changed.store(true, Ordering::Relaxed);
        }
        *known = found;
    }

    /// Has `address`, which has taken a connection, tried before the others until there is another answer.
    pub(crate) fn put_first(&self, address: SocketAddr) {
        self.known().sort_by_key(|it| *it != address);
    }

    /// Has an address, at which a connection ended without a response, tried after the others until there is another answer.
    pub(crate) fn put_last(&self, address: IpAddr) {
        self.known().sort_by_key(|it| it.ip() == address);
    }

    fn known(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of both families in turn, in the order of each, beginning with the family of the first one: a family that
/// doesn't reach the server costs one attempt (RFC 8305 section 4).
fn in_turn(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_first = |it: &&SocketAddr| it.is_ipv6() == addresses[0].is_ipv6();
    let (first, second): (Vec<_>, Vec<_>) = addresses.iter().partition(is_first);
    let longest = first.len().max(second.len());
    let pair = |place: usize| [first.get(place), second.get(place)];
    (0..longest).flat_map(pair).flatten().copied().collect()
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

    #[test]
    fn an_address_is_left_once_an_answer_has_others_alone() {
        let names = Names::default();
        let [a, b] = ["192.0.2.1:80", "[2001:db8::1]:80"].map(|it| it.parse().unwrap());
        let has_left = |address: SocketAddr| names.has_left(|| Some(address.ip()));
        assert!(!has_left(a));
        names.keep(&[a]);
        names.keep(&[b, a]);
        assert!(!has_left(a) && !has_left(b));
        names.keep(&[b]);
        assert!(has_left(a) && !has_left(b) && !names.has_left(|| None));
        names.keep(&[]);
        assert!(has_left(a) && !has_left(b), "no answer");
        names.keep(&[a]);
        assert!(!has_left(a) && has_left(b));
    }

    #[test]
    fn families_take_turns_and_an_address_that_answered_is_first_and_one_that_did_not_is_last() {
        let names = Names::default();
        let [a, b, c, d] =
            ["[::1]:1", "[::2]:1", "192.0.2.1:1", "[::3]:1"].map(|it| it.parse().unwrap());
        names.keep(&[a, b, c, d]);
        assert_eq!(*names.known(), [a, c, b, d]);
        names.put_first(b);
        assert_eq!(*names.known(), [b, a, c, d]);
        names.put_last(a.ip());
        assert_eq!(*names.known(), [b, c, d, a]);
        names.keep(&[a, b, c, d]);
        assert_eq!(*names.known(), [a, c, b, d]);
    }

    #[tokio::test]
    async fn an_address_needs_no_resolver() {
        let names = Names::default();
        let found = names.resolve("::1", 80).await.unwrap();
        assert_eq!(found, ["[::1]:80".parse().unwrap()]);
    }
}
