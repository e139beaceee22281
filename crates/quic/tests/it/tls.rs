//! A certificate for `localhost`, made once a process, and TLS configurations around it.

use std::sync::{Arc, LazyLock};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Identity {
        certificate: made.cert.der().clone(),
        key,
    }
});

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

pub(crate) fn server() -> Arc<rustls::ServerConfig> {
    server_with_chain(1)
}

/// A chain of so many certificates, of which the first counts.
pub(crate) fn server_with_chain(length: usize) -> Arc<rustls::ServerConfig> {
    server_of(length, provider())
}

/// Other primitives.
pub(crate) fn server_with_provider(
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Arc<rustls::ServerConfig> {
    server_of(1, provider)
}

fn server_of(
    length: usize,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Arc<rustls::ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(IDENTITY.key.clone_key());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![IDENTITY.certificate.clone(); length], key)
        .unwrap();
    Arc::new(config)
}

/// One whose sessions are kept there.
pub(crate) fn server_with(
    sessions: Arc<dyn rustls::server::StoresServerSessions>,
) -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(&server());
    config.session_storage = sessions;
    Arc::new(config)
}

/// One whose clients keep their sessions themselves.
pub(crate) fn server_with_tickets() -> Arc<rustls::ServerConfig> {
    let mut config = rustls::ServerConfig::clone(&server());
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    Arc::new(config)
}

pub(crate) fn client() -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(IDENTITY.certificate.clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
