//! Names that handshakes ask for at run time, on their way from the server's threads to the one that orders certificates.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::Notify;

/// The most names of each kind that wait to be taken; others are left out, and come again with the next handshake.
const MAX_SEEN: usize = 1_024;

/// The longest name and the longest label (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// The choice of the names that may be had on demand, in lower case.
pub type NameFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Names that handshakes ask for, as they come. Clones are the same. Never waits: a handshake is a worker's.
#[derive(Clone, Default)]
pub struct OnDemand(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// `None`: no name is had on demand.
    covers: RwLock<Option<NameFilter>>,
    seen: Mutex<RequestedNames>,
    is_wanted: Notify,
}

/// Names of handshakes since the last look.
#[derive(Debug, Default)]
pub(crate) struct RequestedNames {
    /// Names without a certificate.
    pub(crate) wanted: BTreeSet<String>,
    /// Names whose certificate was shown.
    pub(crate) used: BTreeSet<String>,
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemand").finish_non_exhaustive()
    }
}

impl OnDemand {
    /// Replaces the test of names that are had on demand from now on; `None`: none is.
    pub fn replace(&self, covers: Option<NameFilter>) {
        *self
            .0
            .covers
            .write()
            .unwrap_or_else(PoisonError::into_inner) = covers;
    }

    /// Returns true if a name, in lower case, may have its certificate on demand: it is one of a host in the public tree of names
    /// and not an address, and the choice of names has it.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let covers = self.0.covers.read().unwrap_or_else(PoisonError::into_inner);
        covers
            .as_ref()
            .is_some_and(|covers| is_host(name) && covers(name))
    }

    /// Notes that a handshake has asked for a name without a certificate. Whether it may have one on demand.
    #[must_use]
    pub fn want(&self, name: &str) -> bool {
        if !self.covers(name) {
            return false;
        }
        if add(&mut self.seen().wanted, name) {
            self.0.is_wanted.notify_one();
        }
        true
    }

    /// Notes that a handshake was shown the certificate of a name.
    pub fn used(&self, name: &str) {
        if self.covers(name) {
            add(&mut self.seen().used, name);
        }
    }

    /// Waits until a name is wanted.
    pub(crate) async fn wanted(&self) {
        while self.seen().wanted.is_empty() {
            self.0.is_wanted.notified().await;
        }
    }

    /// The names since the last time.
    pub(crate) fn take(&self) -> RequestedNames {
        std::mem::take(&mut *self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, RequestedNames> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(names: &mut BTreeSet<String>, name: &str) -> bool {
    names.len() < MAX_SEEN && !names.contains(name) && names.insert(name.to_owned())
}

/// Returns true if a text is the name of a host for which an authority may issue: labels of letters, digits and
/// hyphens, two at least, the last of which is no number.
fn is_host(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit_once('.').map(|(_, last)| last);
    let is_top =
        |last: &str| last != "localhost" && last.bytes().any(|byte| byte.is_ascii_alphabetic());
    name.len() <= MAX_NAME && last.is_some_and(is_top) && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_public_hosts_are_had_and_others_are_not() {
        let all = OnDemand::default();
        assert!(!all.want("a.example"), "nothing is on demand at first");
        all.replace(Some(Arc::new(|name| name != "mine.example")));
        let long = format!("{}.example", "a".repeat(MAX_LABEL + 1));
        for name in [
            "mine.example",
            "example",
            "",
            "a..example",
            ".example",
            "a.example.",
            "-a.example",
            "a_b.example",
            "*.example",
            "A.example",
            "a.localhost",
            "192.0.2.1",
            "../x.example",
            &long,
        ] {
            assert!(!all.want(name), "{name}");
        }
        for name in ["a.example", "xn--bcher-kva.example", "1.2.example"] {
            assert!(all.want(name), "{name}");
        }
    }

    #[test]
    fn names_are_noted_once_and_no_more_than_may_wait() {
        let all = OnDemand::default();
        all.replace(Some(Arc::new(|_| true)));
        for index in 0..2 * MAX_SEEN {
            assert!(all.want(&format!("{index}.example")));
            all.used("a.example");
        }
        let seen = all.take();
        assert_eq!((seen.wanted.len(), seen.used.len()), (MAX_SEEN, 1));
        assert!(all.take().wanted.is_empty());
    }
}
