//! Parts that targets over QUIC share: a certificate, and endpoints whose datagrams are carried by
//! hand.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use altway_quic::{Datagram, QuicEndpoint, Transmit};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.expect("the name is a good one");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Identity {
        certificate: made.cert.der().clone(),
        key,
    }
});

static SERVER: LazyLock<Arc<rustls::ServerConfig>> = LazyLock::new(|| {
    let key = PrivateKeyDer::Pkcs8(IDENTITY.key.clone_key());
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![IDENTITY.certificate.clone()], key)
        .expect("the key is the certificate's");
    config.alpn_protocols = vec![b"h3".to_vec()];
    // Tickets are random and large, and no part of what is fuzzed.
    config.send_tls13_tickets = 0;
    Arc::new(config)
});

static CLIENT: LazyLock<Arc<rustls::ClientConfig>> = LazyLock::new(|| {
    let mut roots = rustls::RootCertStore::empty();
    let added = roots.add(IDENTITY.certificate.clone());
    added.expect("it is a certificate");
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    Arc::new(config)
});

pub(crate) fn server_tls() -> Arc<rustls::ServerConfig> {
    Arc::clone(&SERVER)
}

pub(crate) fn client_tls() -> Arc<rustls::ClientConfig> {
    Arc::clone(&CLIENT)
}

/// An endpoint of either crate, as the network sees it.
pub(crate) trait Node {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>);
    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit>;
    fn poll_timeout(&mut self) -> Option<Instant>;
}

impl Node for altway_http3::Endpoint {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.handle_datagram(now, datagram);
    }
    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        self.poll_transmit(now, buf)
    }
    fn poll_timeout(&mut self) -> Option<Instant> {
        self.poll_timeout()
    }
}

impl Node for altway_quic::Endpoint {
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        QuicEndpoint::handle_datagram(self, now, datagram);
    }
    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        QuicEndpoint::poll_transmit(self, now, buf)
    }
    fn poll_timeout(&mut self) -> Option<Instant> {
        QuicEndpoint::poll_timeout(self)
    }
}

pub(crate) fn address(host: u8) -> SocketAddr {
    ([10, 0, 0, host], 443).into()
}

/// All that a node has to send, datagram by datagram.
pub(crate) fn said(node: &mut impl Node, now: Instant) -> Vec<Vec<u8>> {
    let (mut datagrams, mut buf) = (Vec::new(), Vec::new());
    while let Some(transmit) = node.poll_transmit(now, &mut buf) {
        let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
        datagrams.extend(buf[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
    }
    datagrams
}

/// Gives a node a datagram.
pub(crate) fn hear(node: &mut impl Node, now: Instant, remote: SocketAddr, payload: &[u8]) {
    let datagram = Datagram {
        remote,
        local_ip: None,
        ecn: None,
        payload,
    };
    node.handle_datagram(now, datagram);
}

/// Moves the clock to whichever comes first: the next time-out of either, or `limit` from now.
pub(crate) fn next_time(now: Instant, limit: Duration, nodes: [&mut dyn Node; 2]) -> Instant {
    let timers = nodes.map(Node::poll_timeout);
    let next = timers.into_iter().flatten().min();
    next.map_or(now + limit, |at| at.clamp(now, now + limit))
}
