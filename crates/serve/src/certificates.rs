//! The certificates of a server, and which of them a TLS handshake is shown.

use crate::client_auth::{self, AskedNames};
use crate::host_table::HostTable;
use crate::request::panic_guard::catch_panic;
use crate::{ClientAuth, Identity};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The certificates of a server. A client is shown one for the name that it asks for (Server Name Indication,
/// RFC 6066 section 3), by the names in the certificate, where `*.example.org` stands for one label
/// (RFC 9525 section 6.3). Of several for the same name, it is the first that the client can verify; those with ECDSA
/// keys come before others, because their handshakes cost the server least.
///
/// A client that asks for no name, or for one that no certificate is for, is shown the first certificate, unless
/// [`strict`](Self::strict) is set. A client that asks for an [awaited](Self::awaiting) name is shown none until
/// there is one. Clients that connect by an address ask for no name, as there are no addresses in Server Name Indication:
/// [`with_unnamed`](Self::with_unnamed) has what those are shown.
#[derive(Debug, Clone, Default)]
pub struct Certificates {
    /// The default is the first.
    identities: Vec<Identity>,
    /// Places of the certificates for a name, best first.
    by_name: HostTable<Vec<usize>>,
    /// Places of the certificates for clients that ask for no name, best first. Empty: the default.
    unnamed: Vec<usize>,
    strict: bool,
    asked_names: AskedNames,
    on_demand: Option<Arc<dyn OnDemand>>,
}

/// A source of certificates that are obtained when a client first asks for their names. It is called on the server's
/// threads, within handshakes, and must not block. Where it panics the handshake goes on, or ends as for a name that is wanted.
pub trait OnDemand: fmt::Debug + Send + Sync {
    /// A handshake asks for a name, in lower case, that no certificate is for. `true`: it may have one on demand, and the
    /// handshake is ended; `false`: it is shown the default, if there is one.
    fn wanted(&self, name: &str) -> bool;

    /// A handshake is shown a certificate for a name, in lower case.
    fn used(&self, name: &str);
}

/// Converts a single certificate, which is shown whatever name a client asks for.
impl From<Identity> for Certificates {
    fn from(identity: Identity) -> Self {
        Self::new(identity)
    }
}

impl Certificates {
    /// The certificate for clients that ask for no name, or for one that no other certificate is for.
    #[must_use]
    pub fn new(default: Identity) -> Self {
        Self::default().with(default)
    }

    /// Adds a name whose certificate is still to be obtained: until there is one, handshakes of clients that ask for
    /// it fail, rather than show another site's certificate.
    #[must_use]
    pub fn awaiting(mut self, name: &str) -> Self {
        self.by_name.entry(name).or_default();
        self
    }

    /// Sets the observer of clients that ask for a name without a certificate: `on_demand` may obtain one for it.
    /// Until that certificate has been added here, their handshakes fail.
    #[must_use]
    pub fn on_demand(mut self, on_demand: Arc<dyn OnDemand>) -> Self {
        self.on_demand = Some(on_demand);
        self
    }

    /// Adds a certificate, for the names that it holds.
    #[must_use]
    pub fn with(mut self, identity: Identity) -> Self {
        let names = identity.dns_names();
        self.identities.push(identity);
        for name in names {
            add_last(self.by_name.entry(&name).or_default(), &self.identities);
        }
        self
    }

    /// Adds a certificate, for the names that it holds and for clients that ask for no name, as those do that connect by
    /// an address. They are shown it in place of the default, [`strict`](Self::strict) or not.
    #[must_use]
    pub fn with_unnamed(self, identity: Identity) -> Self {
        let mut all = self.with(identity);
        add_last(&mut all.unnamed, &all.identities);
        all
    }

    /// Ends handshakes of clients that ask for no name, or for one that no certificate is for, instead of showing
    /// them the default. So clients that connect by address are refused, unless a certificate is
    /// [for them](Self::with_unnamed). Default: they are shown the default certificate.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Asks clients that connect to one of these names for a certificate of theirs by `auth`, or with `None` for no
    /// certificate, even where [others](Self::with_other_client_auth) are asked. A name is a host name; `*.` and a
    /// host name, which stands for one more label; or an address as in URIs. The host of a request counts as such a
    /// name as well. Clients that ask for no name count as those of the first address.
    ///
    /// A request whose host asks for another certificate than the name that its client connected to, or that came in
    /// clear text, is answered 421 (Misdirected Request). A request without a certificate signed by the roots is
    /// answered 403, unless the certificate is [optional](ClientAuth::optional). A certificate that no root of any
    /// name has signed ends the handshake. A resumed session has the certificate that it began with, which is checked
    /// again.
    #[must_use]
    pub fn with_client_auth<N: AsRef<str>>(
        mut self,
        names: impl IntoIterator<Item = N>,
        auth: Option<&ClientAuth>,
    ) -> Self {
        for name in names {
            self.asked_names.add(name.as_ref(), auth);
        }
        self
    }

    /// Asks clients that connect to any other name, or to none, for a certificate of theirs.
    #[must_use]
    pub fn with_other_client_auth(mut self, auth: &ClientAuth) -> Self {
        self.asked_names.add_others(auth);
        self
    }

    /// Returns the certificates, the default first.
    pub fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.identities.iter()
    }

    /// Returns the names that the certificates are for, in lower case, those of the default first.
    pub(crate) fn dns_names(&self) -> impl Iterator<Item = String> {
        let names = self.identities.iter().flat_map(Identity::dns_names);
        names.map(|name| name.to_ascii_lowercase())
    }

    /// The names of which clients are asked for certificates.
    pub(crate) fn asked_names(&self) -> &AskedNames {
        &self.asked_names
    }

    /// The same for requests; `None`: nobody is asked for one.
    pub(crate) fn demanded_names(&self) -> Option<Arc<AskedNames>> {
        let names = &self.asked_names;
        names.is_some().then(|| Arc::new(names.clone()))
    }

    /// The certificate for a handshake at `now`; `None` ends it. Whether the client is asked for one as well is noted.
    pub(crate) fn find(
        &self,
        hello: &ClientHello<'_>,
        now: SystemTime,
    ) -> Option<Arc<CertifiedKey>> {
        let asked = self.asked_names.of_name(hello.server_name());
        client_auth::note(asked.is_some());
        let identity = self.select(hello.server_name(), hello.signature_schemes())?;
        if let (Some(on_demand), Some(name)) = (&self.on_demand, hello.server_name()) {
            // A panic would take all of the worker's connections over QUIC along.
            let _ = catch_panic(|| on_demand.used(&name.to_ascii_lowercase()));
        }
        Some(identity.certified(now))
    }

    fn select(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Identity> {
        let has_default = !self.strict && !self.identities.is_empty();
        let default = || has_default.then_some(&[0][..]);
        let named = match name {
            Some(name) => self.by_name.find(name.as_bytes()).map(Vec::as_slice),
            None => (!self.unnamed.is_empty()).then_some(&*self.unnamed),
        };
        if let (None, Some(name), Some(on_demand)) = (named, name, &self.on_demand)
            && catch_panic(|| on_demand.wanted(&name.to_ascii_lowercase())).unwrap_or(true)
        {
            return None;
        }
        let order = named.or_else(default)?;
        let mut candidates = order.iter().map(|index| &self.identities[*index]);
        let first = candidates.clone().next();
        // Without a common scheme the handshake fails by itself, with the alert that says so.
        candidates.find(|it| it.can_sign(schemes)).or(first)
    }
}

/// Adds the last of the certificates to those for a name, unless it is one of them: before those with other keys if its own
/// is of ECDSA, behind them otherwise.
fn add_last(order: &mut Vec<usize>, identities: &[Identity]) {
    let last = identities.len() - 1;
    if order.contains(&last) {
        return;
    }
    let place = match identities[last].is_ecdsa() {
        true => order.partition_point(|index| identities[*index].is_ecdsa()),
        false => order.len(),
    };
    order.insert(place, last);
}

impl Identity {
    fn is_ecdsa(&self) -> bool {
        self.key_algorithm() == SignatureAlgorithm::ECDSA
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::SignatureScheme::{ECDSA_NISTP256_SHA256, ED25519, RSA_PSS_SHA256};

    /// A certificate of its own for these names.
    fn identity(names: &[&str], algorithm: &'static rcgen::SignatureAlgorithm) -> Identity {
        let dir = tempfile::tempdir().unwrap();
        let names = names.iter().map(|name| (*name).to_owned());
        let params = rcgen::CertificateParams::new(names.collect::<Vec<_>>()).unwrap();
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let made = params.self_signed(&key).unwrap();
        let path = dir.path().join("both.pem");
        std::fs::write(&path, made.pem() + &key.serialize_pem()).unwrap();
        Identity::from_pem_files(&path, &path).unwrap()
    }

    fn ecdsa(names: &[&str]) -> Identity {
        identity(names, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// The place of the certificate that is shown.
    fn shown(of: &Certificates, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<usize> {
        let selected = of.select(name, schemes)?;
        of.iter().position(|it| std::ptr::eq(it, selected))
    }

    #[test]
    fn a_name_has_its_own_certificate_and_others_the_first() {
        let all = Certificates::new(ecdsa(&["a.example"]))
            .with(ecdsa(&["b.example", "*.b.example"]))
            .with(ecdsa(&["x.b.example"]));
        let shown = |name| shown(&all, name, &[ECDSA_NISTP256_SHA256]);
        for (name, place) in [
            ("a.example", 0),
            ("b.example", 1),
            ("B.Example", 1),
            ("y.b.example", 1),
            ("x.b.example", 2),
            ("y.x.b.example", 0),
            ("example", 0),
            ("*.b.example", 1),
        ] {
            assert_eq!(shown(Some(name)), Some(place), "{name}");
        }
        assert_eq!(shown(None), Some(0));
    }

    #[test]
    fn a_name_that_is_awaited_is_shown_nothing_until_its_certificate_is_there() {
        let none = Certificates::default();
        let shown_of = |of: &Certificates, name| shown(of, name, &[ECDSA_NISTP256_SHA256]);
        assert_eq!(shown_of(&none, Some("a.example")), None);
        assert_eq!(shown_of(&none, None), None);
        let some = Certificates::new(ecdsa(&["*.example"])).awaiting("A.example");
        assert_eq!(shown_of(&some, Some("a.example")), None);
        assert_eq!(shown_of(&some, Some("b.example")), Some(0));
        assert_eq!(shown_of(&some, None), Some(0));
        let there = some.with(ecdsa(&["a.example"])).awaiting("a.example");
        assert_eq!(shown_of(&there, Some("a.example")), Some(1));
    }

    /// Has names below `example` on demand, and notes which were wanted.
    #[derive(Debug, Default)]
    struct Below(std::sync::Mutex<Vec<String>>);

    impl OnDemand for Below {
        fn wanted(&self, name: &str) -> bool {
            self.0.lock().unwrap().push(name.to_owned());
            name.ends_with(".example")
        }

        fn used(&self, _: &str) {}
    }

    #[test]
    fn a_name_on_demand_is_shown_no_other_certificate_until_it_has_its_own() {
        let below = Arc::new(Below::default());
        let all = Certificates::new(ecdsa(&["a.test", "*.b.example"]));
        let all = all.awaiting("c.example").on_demand(Arc::clone(&below) as _);
        let shown = |of: &Certificates, name| shown(of, name, &[ECDSA_NISTP256_SHA256]);
        for (name, place) in [
            (Some("A.example"), None),
            (Some("other.test"), Some(0)),
            (Some("a.test"), Some(0)),
            (Some("x.b.example"), Some(0)),
            (Some("c.example"), None),
            (None, Some(0)),
        ] {
            assert_eq!(shown(&all, name), place, "{name:?}");
        }
        let all = all.with(ecdsa(&["a.example"]));
        assert_eq!(shown(&all, Some("A.example")), Some(1));
        assert_eq!(*below.0.lock().unwrap(), ["a.example", "other.test"]);
    }

    #[test]
    fn strict_certificates_show_nothing_to_others() {
        let all = Certificates::new(ecdsa(&["a.example"])).strict();
        let shown = |name| shown(&all, name, &[ECDSA_NISTP256_SHA256]);
        assert_eq!(shown(Some("a.example")), Some(0));
        assert_eq!(shown(Some("b.example")), None);
        assert_eq!(shown(None), None);
    }

    #[test]
    fn clients_that_ask_for_no_name_are_shown_what_is_for_them() {
        let all = Certificates::new(ecdsa(&["a.example"]));
        let all = all.with_unnamed(identity(&["192.0.2.1"], &rcgen::PKCS_ED25519));
        let all = all.with_unnamed(ecdsa(&["192.0.2.1"]));
        for all in [all.clone(), all.strict()] {
            let shown = |name, schemes: &[SignatureScheme]| shown(&all, name, schemes);
            assert_eq!(shown(None, &[ED25519, ECDSA_NISTP256_SHA256]), Some(2));
            assert_eq!(shown(None, &[ED25519]), Some(1));
            assert_eq!(shown(Some("a.example"), &[ED25519]), Some(0));
            let other = shown(Some("b.example"), &[ED25519]);
            assert_eq!(other, (!all.strict).then_some(0));
        }
    }

    #[test]
    fn of_several_certificates_for_a_name_each_kind_of_key_keeps_the_order_in_which_they_came() {
        let ed25519 = || identity(&["a.example", "A.example"], &rcgen::PKCS_ED25519);
        let none = Certificates::default().with_unnamed(ed25519());
        let all = none.with_unnamed(ecdsa(&["a.example"]));
        let all = all.with_unnamed(ed25519());
        let all = all.with_unnamed(ecdsa(&["a.example", "b.example"]));
        let order = [1, 3, 0, 2];
        assert_eq!(all.by_name.find(b"a.example").unwrap()[..], order);
        assert_eq!(all.unnamed, order);
    }

    #[test]
    fn keys_stand_side_by_side_and_ecdsa_comes_first() {
        let all = Certificates::new(identity(&["a.example"], &rcgen::PKCS_ED25519))
            .with(ecdsa(&["a.example"]));
        let shown = |schemes: &[SignatureScheme]| shown(&all, Some("a.example"), schemes);
        assert_eq!(shown(&[ED25519, ECDSA_NISTP256_SHA256]), Some(1));
        assert_eq!(shown(&[ED25519]), Some(0));
        assert_eq!(shown(&[RSA_PSS_SHA256]), Some(1), "the handshake says why");
    }
}
