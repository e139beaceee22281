//! The certificate as clients see it: the OCSP response beside it, its replacement while connections go
//! on, and sessions that are resumed without it.

use crate::common::ocsp::{self, Says};
use crate::common::{Recorder, Running, get, h1, h2, h3::H3, read, soon};
use altway_serve::{Error, Identity, TicketKeys, certs};
use rustls::HandshakeKind::{Full, Resumed};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio_rustls::TlsConnector;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn tomorrow() -> Says<'static> {
    Says::Good(Some(OffsetDateTime::now_utc() + Duration::DAY))
}

fn with_ocsp(leaf: &certs::Leaf, response: &[u8]) -> Result<Identity, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(response).unwrap();
    leaf.identity().unwrap().with_ocsp_file(file.path())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ocsp_response_is_stapled_over_every_version_and_transport() {
    let server = Running::tls(|_| {});
    let leaf = server.site.leaf();
    let response = ocsp::response(&leaf.certificate, &tomorrow());
    server.replace(with_ocsp(&leaf, &response).unwrap());
    for version in VERSIONS {
        let recorder = Recorder::new(&server.site);
        let tls = recorder.client(&[b"http/1.1"], &[version]);
        server.connect_with(Arc::new(tls)).await;
        assert_eq!(recorder.last().ocsp, response, "{version:?}");
    }
    let recorder = Recorder::new(&server.site);
    H3::connect_with(&server, recorder.client(&[], &[&TLS13]));
    assert_eq!(recorder.last().ocsp, response, "QUIC");
}

#[test]
fn an_ocsp_response_that_clients_would_refuse_is_refused_first() {
    let dir = tempfile::tempdir().unwrap();
    let leaf = certs::Store::open(dir.path()).unwrap();
    let leaf = leaf.leaf::<&str>(&[]).unwrap();
    let error = |says| {
        let response = ocsp::response(&leaf.certificate, &says);
        with_ocsp(&leaf, &response).unwrap_err()
    };
    let expired = error(Says::Good(Some(OffsetDateTime::now_utc())));
    assert!(matches!(expired, Error::OcspExpired { .. }), "{expired}");
    let revoked = error(Says::Revoked);
    assert!(
        matches!(revoked, Error::OcspNotGood { status, .. } if status == "revoked"),
        "{revoked}"
    );
    let unknown = error(Says::Unknown);
    assert!(
        matches!(unknown, Error::OcspNotGood { status, .. } if status == "unknown"),
        "{unknown}"
    );
    let issuer = error(Says::OfIssuer(b"another"));
    assert!(matches!(issuer, Error::OcspOfAnother { .. }), "{issuer}");

    let other = tempfile::tempdir().unwrap();
    let other = certs::Store::open(other.path()).unwrap();
    let other = other.leaf::<&str>(&[]).unwrap();
    let serial = ocsp::response(&other.certificate, &tomorrow());
    let serial = with_ocsp(&leaf, &serial).unwrap_err();
    assert!(matches!(serial, Error::OcspOfAnother { .. }), "{serial}");
}

#[test]
fn a_file_without_an_ocsp_answer_is_told_from_one() {
    let dir = tempfile::tempdir().unwrap();
    let leaf = certs::Store::open(dir.path()).unwrap();
    let leaf = leaf.leaf::<&str>(&[]).unwrap();
    let good = ocsp::response(&leaf.certificate, &tomorrow());
    with_ocsp(&leaf, &good).unwrap();
    let pem = std::fs::read(&leaf.certificate).unwrap();
    let longer = [&good[..], b"\0"].concat();
    for bad in [b"", &pem[..], &good[..good.len() - 1], &longer] {
        let error = with_ocsp(&leaf, bad).unwrap_err();
        assert!(matches!(error, Error::NotOcsp { .. }), "{error}");
    }
    let later = with_ocsp(&leaf, &ocsp::refusal()).unwrap_err();
    assert!(
        matches!(&later, Error::OcspFailed { status, .. } if status == "TryLater"),
        "{later}"
    );
    let nowhere = Path::new("/nowhere.ocsp");
    let missing = leaf.identity().unwrap().with_ocsp_file(nowhere);
    assert!(matches!(missing, Err(Error::ReadOcsp { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_shown_to_new_connections_and_the_others_go_on() {
    let server = Running::tls(|_| {});
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);

    let leaf = server.site.new_leaf();
    server.replace(leaf.identity().unwrap());

    let response = soon(over_h1.send_request(get("/"))).await.unwrap();
    assert_eq!(soon(read(response)).await, b"<p>home");
    let response = soon(over_h2.send_request(get("/"))).await.unwrap();
    assert_eq!(soon(read(response)).await, b"<p>home");
    assert_eq!(over_h3.get("/").1, b"<p>home");

    let expected = server.site.leaf_der();
    let recorder = Recorder::new(&server.site);
    let tls = recorder.client(&[b"h2"], &VERSIONS);
    server.connect_with(Arc::new(tls)).await;
    assert!(recorder.last().leaf == expected, "TCP");
    let recorder = Recorder::new(&server.site);
    H3::connect_with(&server, recorder.client(&[], &[&TLS13]));
    assert!(recorder.last().leaf == expected, "QUIC");
}

/// Sessions are resumed after a reload as well, for tickets know nothing of certificates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_resumed_over_tcp() {
    let server = Running::tls(|_| {});
    for version in VERSIONS {
        let tls = Arc::new(Recorder::new(&server.site).client(&[b"http/1.1"], &[version]));
        let first = server.connect_with(Arc::clone(&tls)).await;
        assert_eq!(first.get_ref().1.handshake_kind(), Some(Full));
        // The tickets of TLS 1.3 come with the response.
        let response = soon(h1(first).await.send_request(get("/"))).await;
        soon(read(response.unwrap())).await;
        server.replace(server.site.new_leaf().identity().unwrap());
        let second = server.connect_with(Arc::clone(&tls)).await;
        let third = server.connect_with(tls).await;
        for (name, stream) in [("second", second), ("third", third)] {
            let kind = stream.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(Resumed), "{name} over {version:?}");
        }
    }
}

#[test]
fn sessions_are_resumed_over_quic() {
    let server = Running::tls(|_| {});
    let recorder = Recorder::new(&server.site);
    let tls = recorder.client(&[], &[&TLS13]);
    for _ in 0..3 {
        let (response, _) = H3::connect_with(&server, tls.clone()).get("/");
        assert_eq!(response.status(), 200);
    }
    assert_eq!(recorder.count(), 1, "who resumes is shown no certificate");
}

/// Keys of these seeds, the first of which encrypts.
fn ticket_keys(seeds: &[u8]) -> TicketKeys {
    let folder = tempfile::tempdir().unwrap();
    let files = seeds.iter().map(|seed| {
        let file = folder.path().join(format!("{seed}.key"));
        std::fs::write(&file, [*seed; 48]).unwrap();
        file
    });
    TicketKeys::from_files(&files.collect::<Vec<_>>()).unwrap()
}

/// The second server has another authority, which the client does not trust: it can only resume there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_share_ticket_keys_resume_each_others_sessions_until_a_key_is_gone() {
    let first = Running::tls(|options| options.ticket_keys = Some(ticket_keys(&[1])));
    let second = Running::tls(|options| options.ticket_keys = Some(ticket_keys(&[2, 1])));
    let connect = async |tls: &Arc<rustls::ClientConfig>| {
        let connector = TlsConnector::from(Arc::clone(tls));
        let name = "localhost".try_into().unwrap();
        connector.connect(name, second.connect().await).await
    };
    for version in VERSIONS {
        let tls = Arc::new(Recorder::new(&first.site).client(&[b"http/1.1"], &[version]));
        let begun = first.connect_with(Arc::clone(&tls)).await;
        let response = soon(h1(begun).await.send_request(get("/"))).await;
        soon(read(response.unwrap())).await;
        let resumed = connect(&tls).await.unwrap();
        assert_eq!(resumed.get_ref().1.handshake_kind(), Some(Resumed));
    }
    let tls = Recorder::new(&first.site).client(&[], &[&TLS13]);
    assert_eq!(
        H3::connect_with(&first, tls.clone()).get("/").0.status(),
        200
    );
    let resumed = H3::connect_to(second.address, tls).get("/").0;
    assert_eq!(resumed.status(), 200, "over QUIC");

    let tls = Arc::new(Recorder::new(&first.site).client(&[b"http/1.1"], &VERSIONS));
    let begun = first.connect_with(Arc::clone(&tls)).await;
    let response = soon(h1(begun).await.send_request(get("/"))).await;
    soon(read(response.unwrap())).await;
    second.replace_ticket_keys(ticket_keys(&[2]));
    assert!(connect(&tls).await.is_err(), "the key is gone");
}
