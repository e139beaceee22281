//! A server of QUIC for tests, with the protocol name and the certificate that a client of HTTP/3 asks for.

use crate::Roots;
use crate::tls::Tls;
use altway_http3::quic::{Endpoint, QuicEndpoint as _};
use altway_http3::{Datagram, ServerConfig};
use rustls::pki_types::PrivateKeyDer;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serves as [`start_trusted`] says. Returns a client's TLS that believes it.
pub(crate) fn start(socket: UdpSocket, answer: impl FnMut(&mut Endpoint) + Send + 'static) -> Tls {
    let roots = start_trusted(socket, answer);
    Tls::new(&Roots::File(roots.path().to_owned()), None).unwrap()
}

/// Serves at `socket` on a thread of its own, and has `answer` see to the endpoint time and again. The certificate is that of
/// `localhost`. Returns a file of authorities that are to be trusted for it.
pub(crate) fn start_trusted(
    socket: UdpSocket,
    mut answer: impl FnMut(&mut Endpoint) + Send + 'static,
) -> tempfile::NamedTempFile {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), made.cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = ServerConfig::new(Arc::new(tls)).over();
    let mut endpoint = <Endpoint>::server(&config, [7; 32]).unwrap();
    let pause = Some(Duration::from_millis(10));
    socket.set_read_timeout(pause).unwrap();
    std::thread::spawn(move || {
        let (mut payload, mut batch) = ([0; 2_048], Vec::new());
        loop {
            if let Ok((len, remote)) = socket.recv_from(&mut payload) {
                let datagram = Datagram {
                    remote,
                    local_ip: None,
                    ecn: None,
                    payload: &payload[..len],
                };
                endpoint.handle_datagram(Instant::now(), datagram);
            }
            endpoint.handle_timeout(Instant::now());
            answer(&mut endpoint);
            while let Some(sent) = endpoint.poll_transmit(Instant::now(), &mut batch) {
                let size = sent.segment_size.unwrap_or(sent.size);
                for datagram in batch.chunks(size) {
                    // The client may have gone.
                    let _ = socket.send_to(datagram, sent.destination);
                }
            }
        }
    });
    roots
}
