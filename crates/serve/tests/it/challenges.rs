//! Challenges of certificate authorities, in clear text and in handshakes.

use crate::common::{H2, Running, get, get_over, h1, h2, read, soon};
use altway_serve::{Bind, Challenges, Listener, ListenerKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PATH: &str = "/.well-known/acme-challenge/token";

fn start(challenges: &Challenges) -> Running {
    let bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
    let listener = |kind| Listener::new(kind, bind, 0);
    let kinds = [
        ListenerKind::Redirect,
        ListenerKind::ClearText,
        ListenerKind::Tls,
    ];
    let challenges = Some(challenges.clone());
    Running::tls(|options| {
        options.challenges = challenges;
        options.listeners = kinds.map(listener).into();
    })
}

async fn connect(
    server: &Running,
    address: SocketAddr,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::new(server.site.client_tls(alpn)));
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    soon(connector.connect(name, stream)).await
}

fn shown(stream: &TlsStream<TcpStream>) -> &[u8] {
    &stream.get_ref().1.peer_certificates().unwrap()[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_answered_in_clear_text_alone_before_the_redirect_and_the_site() {
    let challenges = Challenges::default();
    let server = start(&challenges);
    let [redirect, plain, tls] = server.further[..] else {
        panic!("{:?}", server.further);
    };
    challenges.answer_http("token", "token.thumb").unwrap();
    for address in [redirect, plain] {
        let mut over_h1 = h1(TcpStream::connect(address).await.unwrap()).await;
        let response = soon(over_h1.send_request(get_over(false, PATH)))
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let kind = &response.headers()["content-type"];
        assert_eq!(kind, "application/octet-stream");
        assert_eq!(soon(read(response)).await, b"token.thumb");
        let stream = TcpStream::connect(address).await.unwrap();
        let mut over_h2: H2 = h2(stream).await;
        let response = soon(over_h2.send_request(get_over(false, PATH))).await;
        assert_eq!(soon(read(response.unwrap())).await, b"token.thumb");
    }
    for address in [server.address, tls] {
        let stream = connect(&server, address, &[b"http/1.1"]).await.unwrap();
        let mut over_tls = h1(stream).await;
        let response = soon(over_tls.send_request(get(PATH))).await.unwrap();
        assert_eq!(response.status(), 404);
    }
    challenges.remove_http("token");
    let mut over_h1 = h1(TcpStream::connect(plain).await.unwrap()).await;
    let response = soon(over_h1.send_request(get_over(false, PATH)))
        .await
        .unwrap();
    assert_eq!(response.status(), 404);
}

/// RFC 8737 section 3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_for_a_challenge_is_shown_its_certificate_and_nothing_follows() {
    let challenges = Challenges::default();
    let server = start(&challenges);
    let usual = server.site.leaf_der();
    let alpn: &[&[u8]] = &[b"acme-tls/1"];
    let tls = server.further[2];
    for address in [server.address, tls] {
        assert!(
            connect(&server, address, alpn).await.is_err(),
            "there is none"
        );
    }
    let leaf = server.site.new_leaf();
    let certificate = CertificateDer::from_pem_file(&leaf.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&leaf.key).unwrap();
    let of = certificate.to_vec();
    challenges
        .answer_tls("localhost", certificate, key)
        .unwrap();
    for address in [server.address, tls] {
        let mut stream = connect(&server, address, alpn).await.unwrap();
        assert_eq!(shown(&stream), of);
        let mut rest = Vec::new();
        soon(stream.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"");
        // A client that can do anything else is one of the site.
        let both: &[&[u8]] = &[b"acme-tls/1", b"http/1.1"];
        let stream = connect(&server, address, both).await.unwrap();
        assert_eq!(shown(&stream), usual);
        let mut over_tls = h1(stream).await;
        let response = soon(over_tls.send_request(get("/"))).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    challenges.remove_tls("localhost");
    assert!(connect(&server, tls, alpn).await.is_err());
    let metrics = server.monitor().metrics();
    assert_eq!(metrics.incidents, [], "nobody was refused");
}
