//! Certificates of clients: asked for by name, over every protocol alike, and no way around.

use crate::common::access_log::Lines;
use crate::common::{H2, Running, h1, h2, h3::H3, read, soon};
use altway_serve::{AccessLog, Certificates, ClientAuth, ClientCertificate, Security, Site, certs};
use axum::Router;
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::Empty;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::HandshakeKind::{Full, Resumed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAMES: [&str; 3] = ["closed.test", "maybe.test", "open.test"];

/// The protocol, and version of TLS, over which a client connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Http1OverTls12,
    Http1,
    Http2,
    Http3,
}

const WAYS: [Way; 4] = [Way::Http1OverTls12, Way::Http1, Way::Http2, Way::Http3];

/// An authority for clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A client's certificate with its key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    serial: SerialNumber,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    fn auth(&self) -> ClientAuth {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.pem).unwrap();
        ClientAuth::from_pem_file(file.path()).unwrap()
    }

    fn sign(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let serial = SerialNumber::from_slice(name.as_bytes());
        params.serial_number = Some(serial.clone());
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            chain: vec![signed.der().clone()],
            key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            serial,
        }
    }

    /// The same, with a list of revoked certificates that is in its time to the end of a year.
    fn auth_with_list(&self, revoked: &Identity, year: i32, is_pem: bool) -> ClientAuth {
        let revoked = RevokedCertParams {
            serial_number: revoked.serial.clone(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(year, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        match is_pem {
            true => std::fs::write(file.path(), list.pem().unwrap()).unwrap(),
            false => std::fs::write(file.path(), list.der()).unwrap(),
        }
        let files = [file.path().to_path_buf()];
        self.auth().with_revocation(&files).unwrap()
    }
}

impl Identity {
    fn fingerprint(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.chain[0]);
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        hex.collect()
    }
}

/// A server with three names, and the authorities of its clients.
struct Bench {
    server: Running,
    _folder: tempfile::TempDir,
    roots: RootCertStore,
    certificates: Certificates,
    staff: Authority,
    guests: Authority,
}

/// Returns the client as its site is told of it.
async fn who(request: axum::extract::Request) -> String {
    match request.extensions().get::<ClientCertificate>() {
        Some(it) => format!("{} {}", it.subject(), it.fingerprint()),
        None => "nobody".into(),
    }
}

impl Bench {
    /// One worker, so that what one handshake leaves behind another one of its thread would find.
    fn new(log: Option<Lines>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = certs::Store::open(folder.path().join("certs")).unwrap();
        let own = Certificates::new(store.leaf(&NAMES).unwrap().identity().unwrap());
        let (staff, guests) = (Authority::new(), Authority::new());
        let asking = own
            .clone()
            .with_client_auth(["closed.test"], Some(&staff.auth()))
            .with_client_auth(["maybe.test"], Some(&guests.auth().optional()))
            .with_client_auth(["open.test"], None);
        let server = Running::tls(|options| {
            options.threads = NonZeroUsize::MIN;
            options.site = Site::service(Router::new().fallback(who));
            options.security = Security::tls(asking);
            options.access_log = log.map(|log| AccessLog::new(log).unwrap());
        });
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(store.authority()).unwrap();
        roots.add(authority).unwrap();
        Self {
            server,
            _folder: folder,
            roots,
            certificates: own,
            staff,
            guests,
        }
    }

    fn tls(&self, way: Way, identity: Option<&Identity>) -> ClientConfig {
        let versions: &[&SupportedProtocolVersion] = match way {
            Way::Http1OverTls12 => &[&TLS12],
            _ => &[&TLS13],
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let mut config = match identity {
            Some(Identity { chain, key, .. }) => builder
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = match way {
            Way::Http1OverTls12 | Way::Http1 => vec![b"http/1.1".to_vec()],
            Way::Http2 => vec![b"h2".to_vec()],
            Way::Http3 => Vec::new(),
        };
        config
    }

    async fn connect(
        &self,
        name: &str,
        tls: &Arc<ClientConfig>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = name.to_owned().try_into().unwrap();
        let connector = TlsConnector::from(Arc::clone(tls));
        connector.connect(name, self.server.connect().await).await
    }

    /// The status and content that a request for a host gets on a connection to a name.
    async fn ask(
        &self,
        way: Way,
        name: &str,
        host: &str,
        identity: Option<&Identity>,
    ) -> (u16, String) {
        let tls = self.tls(way, identity);
        if way == Way::Http3 {
            return ask_over_h3(&mut H3::connect_as(name, self.server.address, tls), host);
        }
        let stream = self.connect(name, &Arc::new(tls)).await.unwrap();
        ask_over(stream, way, host).await
    }
}

fn ask_over_h3(client: &mut H3, host: &str) -> (u16, String) {
    let request = Request::get(format!("https://{host}/")).body(Bytes::new());
    let (_, head, body) = client.ask(request.unwrap());
    (head.status().as_u16(), String::from_utf8(body).unwrap())
}

async fn ask_over(stream: TlsStream<TcpStream>, way: Way, host: &str) -> (u16, String) {
    let request = Request::builder().header("host", host);
    let response = match way {
        Way::Http2 => {
            let mut client: H2 = h2(stream).await;
            let request = Request::get(format!("https://{host}/")).version(Version::HTTP_2);
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            soon(client.send_request(request)).await.unwrap()
        }
        _ => {
            let mut client = h1(stream).await;
            let request = request.uri("/").body(Empty::<Bytes>::new()).unwrap();
            soon(client.send_request(request)).await.unwrap()
        }
    };
    let status = response.status().as_u16();
    (
        status,
        String::from_utf8(soon(read(response)).await).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_name_has_the_certificates_that_it_asks_for_over_every_protocol() {
    let bench = Bench::new(None);
    let (alice, bob) = (bench.staff.sign("alice"), bench.guests.sign("bob"));
    let told = |identity: &Identity, name: &str| format!("CN={name} {}", identity.fingerprint());
    let (of_alice, of_bob) = (told(&alice, "alice"), told(&bob, "bob"));
    let [closed, maybe, open] = NAMES;
    for way in WAYS {
        for (name, host, identity, status, content) in [
            (closed, closed, Some(&alice), 200, Some(&*of_alice)),
            (closed, closed, None, 403, None),
            (closed, "CLOSED.test.:443", None, 403, None),
            // Another name's authority has signed it.
            (closed, closed, Some(&bob), 403, None),
            (maybe, maybe, Some(&bob), 200, Some(&*of_bob)),
            (maybe, maybe, Some(&alice), 200, Some("nobody")),
            (maybe, maybe, None, 200, Some("nobody")),
            (open, open, Some(&alice), 200, Some("nobody")),
            // By a name where the client was asked for nothing, or for something else.
            (open, closed, Some(&alice), 421, None),
            (open, "Closed.Test.", Some(&alice), 421, None),
            (open, closed, None, 421, None),
            (maybe, closed, Some(&alice), 421, None),
            (open, maybe, None, 421, None),
            // A site that asks for none is not told of any.
            (closed, open, Some(&alice), 200, Some("nobody")),
        ] {
            let (found, text) = bench.ask(way, name, host, identity).await;
            let case = format!("{way:?}, to {name} for {host}");
            assert_eq!(found, status, "{case}");
            assert!(
                content.is_none_or(|expected| expected == text),
                "{case}: {text}"
            );
        }
    }
    // Of each way, the 421 and the 403 above: counted before they are answered.
    let counted = [("refused request", 5 * 4), ("client certificate", 3 * 4)];
    assert_eq!(bench.server.monitor().metrics().incidents, counted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_no_authority_of_the_server_has_signed_ends_the_handshake() {
    let bench = Bench::new(None);
    let stranger = Authority::new().sign("alice");
    for way in [Way::Http1OverTls12, Way::Http1] {
        let tls = Arc::new(bench.tls(way, Some(&stranger)));
        let Ok(stream) = soon(bench.connect("closed.test", &tls)).await else {
            continue;
        };
        // With version 1.3 the client has finished before the server tells.
        let mut client = h1::<Empty<Bytes>>(stream).await;
        let request = Request::get("/").header("host", "closed.test");
        let request = request.body(Empty::new()).unwrap();
        assert!(soon(client.send_request(request)).await.is_err(), "{way:?}");
        // To another name it is not shown.
        let stream = soon(bench.connect("open.test", &tls)).await.unwrap();
        assert_eq!(ask_over(stream, way, "open.test").await.0, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_resumed_has_the_certificate_that_it_began_with() {
    let bench = Bench::new(None);
    let alice = bench.staff.sign("alice");
    let expected = (200, format!("CN=alice {}", alice.fingerprint()));
    for way in [Way::Http1OverTls12, Way::Http1] {
        let tls = Arc::new(bench.tls(way, Some(&alice)));
        for kind in [Full, Resumed] {
            let stream = bench.connect("closed.test", &tls).await.unwrap();
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(kind), "{way:?}");
            assert_eq!(ask_over(stream, way, "closed.test").await, expected);
            // A session without one, resumed, leaves nothing behind for the next handshake.
            let stream = bench.connect("open.test", &tls).await.unwrap();
            assert_eq!(ask_over(stream, way, "closed.test").await.0, 421);
        }
        let other = Arc::new(bench.tls(way, Some(&alice)));
        let stream = bench.connect("closed.test", &other).await.unwrap();
        assert_eq!(
            ask_over(stream, way, "closed.test").await,
            expected,
            "{way:?}"
        );
    }
    let tls = bench.tls(Way::Http3, Some(&alice));
    for _ in 0..2 {
        let mut client = H3::connect_as("closed.test", bench.server.address, tls.clone());
        assert_eq!(ask_over_h3(&mut client, "closed.test"), expected);
    }
}

#[test]
fn each_request_of_a_connection_is_judged_by_its_own_host() {
    let bench = Bench::new(None);
    let alice = bench.staff.sign("alice");
    let tls = bench.tls(Way::Http3, Some(&alice));
    let mut client = H3::connect_as("closed.test", bench.server.address, tls);
    for _ in 0..2 {
        for (host, expected) in [
            ("closed.test", 200),
            ("closed.test:8443", 200),
            ("maybe.test", 421),
            ("open.test", 200),
        ] {
            let (status, content) = ask_over_h3(&mut client, host);
            assert_eq!(status, expected, "{host}");
            let is_told = content.contains("alice");
            assert_eq!(is_told, host.starts_with("closed"), "{host}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_changes_with_a_reload_for_every_connection() {
    let bench = Bench::new(None);
    let (alice, address) = (bench.staff.sign("alice"), bench.server.address);
    let tls = |identity| bench.tls(Way::Http3, identity);
    let mut before = H3::connect_as("open.test", address, tls(Some(&alice)));
    let mut known = H3::connect_as("closed.test", address, tls(Some(&alice)));
    assert_eq!(ask_over_h3(&mut before, "open.test").0, 200);
    assert_eq!(ask_over_h3(&mut known, "closed.test").0, 200);
    let certificates = bench.certificates.clone();
    let certificates = certificates
        .with_client_auth(["open.test"], Some(&bench.staff.auth()))
        .with_client_auth(["closed.test"], Some(&bench.guests.auth()));
    bench.server.replace_certificates(certificates);
    // That connection was asked for nothing, this one for another authority's.
    assert_eq!(ask_over_h3(&mut before, "open.test").0, 403);
    assert_eq!(ask_over_h3(&mut known, "closed.test").0, 403);
    let mut after = H3::connect_as("open.test", address, tls(Some(&alice)));
    assert_eq!(ask_over_h3(&mut after, "open.test").0, 200);
    bench
        .server
        .replace_certificates(bench.certificates.clone());
    assert_eq!(
        ask_over_h3(&mut before, "closed.test"),
        (200, "nobody".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_says_whose_certificate_it_was() {
    let lines = Lines::default();
    let bench = Bench::new(Some(lines.clone()));
    let alice = bench.staff.sign("alice\" cut=1");
    for way in WAYS {
        bench
            .ask(way, "closed.test", "closed.test", Some(&alice))
            .await;
        bench
            .ask(way, "closed.test", "open.test", Some(&alice))
            .await;
    }
    let fingerprint = alice.fingerprint();
    drop(bench);
    let text = lines.text();
    let said = format!(r#" subject="CN=alice\" cut=1" fingerprint={fingerprint}"#);
    assert_eq!(text.matches(&said).count(), WAYS.len(), "{text}");
    let open: Vec<_> = text
        .lines()
        .filter(|it| it.contains("host=\"open.test\""))
        .collect();
    assert_eq!(open.len(), WAYS.len(), "{text}");
    assert!(open.iter().all(|line| !line.contains("subject=")), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_list_revokes_is_good_no_longer_from_a_reload_on_and_nothing_is_by_an_old_list() {
    let bench = Bench::new(None);
    let (alice, carol) = (bench.staff.sign("alice"), bench.staff.sign("carol"));
    let address = bench.server.address;
    let by = |auth: ClientAuth| {
        let certificates = bench.certificates.clone();
        let certificates = certificates.with_client_auth(["closed.test"], Some(&auth));
        bench.server.replace_certificates(certificates);
    };
    for is_pem in [true, false] {
        by(bench.staff.auth());
        let connect =
            |identity| H3::connect_as("closed.test", address, bench.tls(Way::Http3, identity));
        let (mut of_alice, mut of_carol) = (connect(Some(&alice)), connect(Some(&carol)));
        assert_eq!(ask_over_h3(&mut of_alice, "closed.test").0, 200);
        assert_eq!(ask_over_h3(&mut of_carol, "closed.test").0, 200);
        by(bench.staff.auth_with_list(&alice, 2200, is_pem));
        assert_eq!(ask_over_h3(&mut of_alice, "closed.test").0, 403);
        assert_eq!(ask_over_h3(&mut of_carol, "closed.test").0, 200);
        for way in WAYS {
            let found = bench.ask(way, "closed.test", "closed.test", Some(&carol));
            assert_eq!(found.await.0, 200, "{way:?}");
        }
        let tls = Arc::new(bench.tls(Way::Http1OverTls12, Some(&alice)));
        assert!(soon(bench.connect("closed.test", &tls)).await.is_err());
        by(bench.staff.auth_with_list(&alice, 2021, is_pem));
        assert_eq!(ask_over_h3(&mut of_carol, "closed.test").0, 403);
    }
}
