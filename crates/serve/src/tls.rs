//! The TLS settings of both transports: one provider, the same certificates, one set of ticket keys, unless
//! QUIC keeps its sessions itself.

use crate::cert_compression;
use crate::challenges;
use crate::client_auth::Verifier;
use crate::key_log::ForTls;
use crate::reload::InUse;
use crate::sessions::Sessions;
use crate::ticket_keys::{self, Rotating};
use crate::{Certificates, Error, Options, Protocols};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::ProducesTickets;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;
use std::time::Instant;

/// Protocols on TCP in the server's order (RFC 7301). Clients of HTTP/1.0 that offer nothing else, as `curl --http1.0` does, are
/// answered in that.
fn alpn_tcp(protocols: Protocols) -> Vec<Vec<u8>> {
    let names: [(bool, &[u8]); 3] = [
        (protocols.http2, b"h2"),
        (protocols.http1, b"http/1.1"),
        (protocols.http1, b"http/1.0"),
    ];
    let given = names.into_iter().filter(|(is_given, _)| *is_given);
    given.map(|(_, name)| name.to_vec()).collect()
}

/// Session tickets after a handshake of TLS 1.3 over TCP. Clients use each once, lest they can be
/// followed from connection to connection (RFC 8446 appendix C.4): one is for the next connection, the
/// other for a second at the same time (IPv6 raced against IPv4, a download beside the page). Each is a
/// record of some 200 bytes; whoever resumes is given new ones.
const TICKETS: usize = 2;

/// The same over QUIC, of which a client has one connection at a time.
const TICKETS_QUIC: usize = 1;

/// The cryptography: aws-lc, with AES-128-GCM before AES-256-GCM and ChaCha20. On every processor
/// with AES instructions it costs the least per byte, and clients that know it lose no strength
/// that matters.
pub(crate) fn provider() -> CryptoProvider {
    use aws_lc_rs::cipher_suite as suite;
    let mut provider = aws_lc_rs::default_provider();
    let first = [
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    provider
        .cipher_suites
        .sort_by_key(|candidate| !first.contains(candidate));
    provider
}

/// The settings of both transports, which share the certificates and, as a rule, the ticket keys.
#[derive(Debug)]
pub(crate) struct Tls {
    /// Versions 1.2 and 1.3, HTTP/2 and HTTP/1.1.
    pub(crate) tcp: Arc<ServerConfig>,
    /// Version 1.3 (RFC 9001 section 4.2).
    pub(crate) quic: Arc<ServerConfig>,
    pub(crate) certificates: InUse,
    /// `None`: the server's own, which change by themselves.
    pub(crate) ticket_keys: Option<ticket_keys::InUse>,
    /// Clients may send early data over QUIC, whose sessions are kept for it.
    pub(crate) early_data: bool,
}

impl Tls {
    /// The settings of TCP with other protocols.
    pub(crate) fn over_tcp(&self, protocols: Protocols) -> Arc<ServerConfig> {
        let mut config = (*self.tcp).clone();
        let former = config.alpn_protocols.iter();
        let challenges = former.filter(|name| *name == challenges::ALPN).cloned();
        let challenges: Vec<_> = challenges.collect();
        config.alpn_protocols = alpn_tcp(protocols);
        config.alpn_protocols.extend(challenges);
        Arc::new(config)
    }
}

/// The settings for `certificates` by the options. `early_data`: sessions of QUIC are kept for it; there is none over TCP.
///
/// # Errors
/// The system gives no random numbers for the ticket keys.
pub(crate) fn configs(
    certificates: Certificates,
    options: &Options,
    early_data: bool,
) -> Result<Tls, Error> {
    let certificates = InUse::new(certificates);
    let ticket_keys = options.ticket_keys.clone().map(ticket_keys::InUse::new);
    let ticketer: Arc<dyn ProducesTickets> = match &ticket_keys {
        Some(keys) => Arc::new(keys.clone()),
        // Keys change every six hours and are forgotten after twelve.
        None => Arc::new(Rotating::new(Instant::now)?),
    };
    let mut tcp = config(&certificates, &[&TLS13, &TLS12])?;
    tcp.alpn_protocols = alpn_tcp(options.protocols);
    if let Some(challenges) = &options.challenges {
        tcp.alpn_protocols.push(challenges::ALPN.into());
        tcp.cert_resolver = Arc::new(challenges.before(certificates.clone()));
    }
    tcp.ticketer = Arc::clone(&ticketer);
    let mut quic = config(&certificates, &[&TLS13])?;
    quic.send_tls13_tickets = TICKETS_QUIC;
    if early_data {
        quic.session_storage = Arc::new(Sessions::new());
    } else {
        quic.ticketer = ticketer;
    }
    let chains = cert_compression::cache();
    for config in [&mut tcp, &mut quic] {
        if options.certificate_compression {
            cert_compression::enable(config, &chains);
        }
        if let Some(key_log) = &options.key_log {
            config.key_log = Arc::new(ForTls(Arc::clone(key_log)));
        }
    }
    Ok(Tls {
        tcp: Arc::new(tcp),
        quic: Arc::new(quic),
        certificates,
        ticket_keys,
        early_data,
    })
}

fn config(
    certificates: &InUse,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ServerConfig, Error> {
    let provider = Arc::new(provider());
    let verifier = Verifier::new(certificates.clone(), Arc::clone(&provider));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(Error::tls)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(certificates.clone()));
    config.ignore_client_order = true;
    config.send_tls13_tickets = TICKETS;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_128_gcm_comes_first_and_no_suite_is_lost() {
        let suites = provider().cipher_suites;
        let first = suites[0].suite();
        assert_eq!(first, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        let default = aws_lc_rs::default_provider().cipher_suites;
        assert_eq!(suites.len(), default.len());
    }
}
