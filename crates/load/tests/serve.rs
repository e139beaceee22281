//! Every protocol against the project's own server: the two ends that the lab measures with.
#![allow(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod common;

use altway_load::{EarlyDataCount, Options, Trust};
use altway_record::{After, Protocol, RequestRecord, Sessions, Visit, VisitRequest};
use altway_serve::select::Reason;
use altway_serve::select::model::{Context, Judgement, Model, OfferMode};
use altway_serve::{
    Bind, EarlyData, EarlyDataFor, Security, Server, Site, StopHandle, certs, stop_channel,
};
use axum::Router;
use axum::extract::Extension;
use axum::http::StatusCode;
use axum::http::header::ALT_SVC;
use common::{assert_sound, count, options, requests, run};
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

const SIZE: usize = 300_000;

/// A server of one file on a thread of its own; stopped and awaited on drop.
struct Running {
    dir: TempDir,
    port: u16,
    stop: Option<(StopHandle, JoinHandle<()>)>,
}

impl Running {
    fn start(security: impl FnOnce(&Path) -> Security) -> Self {
        Self::start_with(security, |_| {})
    }

    fn start_with(
        security: impl FnOnce(&Path) -> Security,
        change: impl FnOnce(&mut altway_serve::Options),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page"), vec![b'x'; SIZE]).unwrap();
        let mut options = altway_serve::Options::new(Site::files(dir.path()), security(dir.path()));
        options.bind = Bind::Address(Ipv4Addr::LOCALHOST.into());
        options.port = 0;
        options.threads = NonZeroUsize::MIN;
        change(&mut options);
        let server = Server::bind(&options).unwrap();
        let port = server.local_addr().port();
        let (handle, signal) = stop_channel();
        let thread = std::thread::spawn(move || server.run(&signal).unwrap());
        Self {
            dir,
            port,
            stop: Some((handle, thread)),
        }
    }

    fn options(&self, scheme: &str, protocol: Protocol) -> Options {
        options(scheme, protocol, (Ipv4Addr::LOCALHOST, self.port).into())
    }

    fn trust(&self) -> Trust {
        let store = certs::Store::open(self.dir.path().join("certs")).unwrap();
        Trust::CaFile(store.authority())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some((handle, thread)) = self.stop.take() {
            handle.stop();
            thread.join().unwrap();
        }
    }
}

fn with_certificate(dir: &Path) -> Security {
    let store = certs::Store::open(dir.join("certs")).unwrap();
    let leaf = store.leaf(&["localhost"]).unwrap();
    Security::tls(leaf.identity().unwrap())
}

async fn fetch_40(mut options: Options) {
    let protocol = options.protocol();
    options.connections = count(2);
    options.stop = requests(40);
    if protocol != Protocol::H1 {
        options = options.with_streams(count(5)).unwrap();
    }
    let (records, summary) = run(&options).await;
    assert_sound(&records, protocol, SIZE as u64);
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (40, 2));
    assert_eq!(summary.protocols[&protocol], 40);
}

#[tokio::test]
async fn all_three_protocols_fetch_over_one_port() {
    let server = Running::start(with_certificate);
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let mut options = server.options("https", protocol);
        options.trust = server.trust();
        fetch_40(options).await;
    }
}

async fn visit_10_times(server: &Running) -> EarlyDataCount {
    let options = server.options("https", Protocol::H3);
    let mut options = options.with_early_data().unwrap();
    options.trust = server.trust();
    options.stop = requests(10);
    let (records, summary) = run(&options).await;
    assert_sound(&records, Protocol::H3, SIZE as u64);
    assert!(records.iter().all(|record| record.stream == 0));
    let summary = summary.unwrap();
    assert_eq!((summary.requests, summary.connections), (10, 10));
    summary.early_data.unwrap()
}

#[tokio::test]
async fn a_returning_visitor_s_requests_leave_with_the_first_packets() {
    let server = Running::start_with(with_certificate, |options| {
        options.early_data = EarlyDataFor::Everything;
    });
    let count = visit_10_times(&server).await;
    assert_eq!((count.accepted, count.refused), (9, 0));
}

#[tokio::test]
async fn what_a_server_finds_too_early_is_asked_for_again_after_the_hand_shake() {
    let answered = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&answered);
    let careful = async move |early: Option<Extension<EarlyData>>| match early {
        Some(_) => (StatusCode::TOO_EARLY, vec![b'!'; 9]),
        None => {
            count.fetch_add(1, Ordering::SeqCst);
            (StatusCode::OK, vec![b'x'; SIZE])
        }
    };
    let server = Running::start_with(with_certificate, |options| {
        options.early_data = EarlyDataFor::Everything;
        options.site = Site::service(Router::new().fallback(careful));
    });
    let count = visit_10_times(&server).await;
    assert_eq!((count.accepted, count.refused, count.too_early), (9, 0, 9));
    assert_eq!(answered.load(Ordering::SeqCst), 10);
}

#[tokio::test]
async fn a_server_without_early_data_is_visited_after_the_hand_shake() {
    let server = Running::start_with(with_certificate, |options| {
        options.early_data = EarlyDataFor::Nobody;
    });
    assert_eq!(visit_10_times(&server).await, EarlyDataCount::default());
}

/// A page with two objects, three times: at once, ten seconds and an hour later by the client's clock.
fn three_sessions() -> Visit {
    let request = |after| VisitRequest {
        path: "/page".into(),
        size_bytes: SIZE as u64,
        after,
        priority: None,
    };
    let object = Some(After::EndOf(0));
    Visit {
        requests: vec![request(None), request(object), request(object)],
        new_connections: false,
        early_data: false,
        learn_http3: false,
        sessions: Some(Sessions {
            apart_ms: vec![10_000, 3_600_000],
        }),
    }
}

/// The protocols and connections of three sessions, by item.
async fn come_back(server: &Running) -> Vec<RequestRecord> {
    let records = visit(server, three_sessions()).await;
    assert_eq!(records.len(), 9);
    records
}

async fn visit(server: &Running, visit: Visit) -> Vec<RequestRecord> {
    let options = server.options("https", Protocol::H3);
    let mut options = options.with_visit(visit).unwrap();
    options.trust = server.trust();
    let (mut records, summary) = run(&options).await;
    summary.unwrap();
    records.sort_by_key(|record| record.item);
    assert!(records.iter().all(|record| record.error.is_none()));
    records
}

fn protocols(records: &[RequestRecord]) -> Vec<u8> {
    let used = records.iter().map(|record| record.protocol_used.unwrap());
    used.map(|protocol| protocol as u8 + 1).collect()
}

#[tokio::test]
async fn a_client_that_comes_back_goes_where_it_was_told_to() {
    let server = Running::start_with(with_certificate, |options| {
        options.policy = "h3".parse().unwrap();
    });
    let records = come_back(&server).await;
    assert_eq!(protocols(&records), [2, 3, 3, 3, 3, 3, 3, 3, 3]);
    let connections: Vec<_> = records.iter().map(|record| record.connection).collect();
    assert_eq!(connections, [0, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert!(records[0].alt_svc && records[0].alt_svc_ma_s > Some(3_600));

    let server = Running::start_with(with_certificate, |options| {
        options.policy = "h2".parse().unwrap();
    });
    let records = come_back(&server).await;
    assert_eq!(protocols(&records), [2; 9]);
}

/// Offers HTTP/3 to clients of whose path something was measured.
#[derive(Debug)]
struct OnceMeasured;

impl Model for OnceMeasured {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        Judgement {
            http3: context.packets().0 > 0.0,
            reason: Reason::UnknownPath,
            prediction: None,
            offer_mode: OfferMode::Long,
        }
    }
}

#[tokio::test]
async fn a_client_that_is_told_after_its_page_goes_there_in_the_next_session() {
    let server = Running::start_with(with_certificate, |options| {
        options.model = Some(Arc::new(OnceMeasured));
    });
    // Of one request, so that no later response has what the first one shows.
    let mut sessions = three_sessions();
    sessions.requests.truncate(1);
    let records = visit(&server, sessions).await;
    assert_eq!(protocols(&records), [2, 3, 3]);
    assert!(records[0].alt_svc_ma_s.is_none_or(|max_age| max_age == 0));
}

/// A server that offers HTTP/3 for a minute at its port, and speaks none.
fn offering() -> Running {
    let port = Arc::<AtomicUsize>::default();
    let offered = Arc::clone(&port);
    let answer = async move || {
        let port = offered.load(Ordering::SeqCst);
        let offer = format!("h3=\":{port}\"; ma=60");
        ([(ALT_SVC, offer)], vec![b'x'; SIZE])
    };
    let server = Running::start_with(with_certificate, |options| {
        options.protocols.http3 = false;
        options.site = Site::service(Router::new().fallback(answer));
    });
    port.store(server.port.into(), Ordering::SeqCst);
    server
}

#[tokio::test]
async fn where_nobody_speaks_quic_requests_go_over_tcp_and_none_is_lost() {
    let server = offering();
    let records = come_back(&server).await;
    assert_eq!(protocols(&records), [2; 9]);
    assert!(records.iter().all(|record| record.alt_svc_ma_s == Some(60)));
}

#[tokio::test]
async fn where_udp_is_lost_tcp_is_tried_beside_quic_and_one_connection_serves_a_session() {
    let server = offering();
    // Takes what comes, and answers nothing.
    let _silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    let options = server.options("https", Protocol::H3);
    let mut visit = three_sessions();
    // In the second session QUIC counts as broken; in the third it is tried anew, by the offer of the second.
    visit.sessions = Some(Sessions {
        apart_ms: vec![290_000, 20_000],
    });
    let mut options = options.with_visit(visit).unwrap();
    options.trust = server.trust();
    let (mut records, summary) = run(&options).await;
    summary.unwrap();
    records.sort_by_key(|record| record.item);
    assert_eq!(protocols(&records), [2; 9]);
    let connections: Vec<_> = records.iter().map(|record| record.connection).collect();
    assert_eq!(connections, [0, 0, 0, 2, 2, 2, 4, 4, 4]);
    for item in [1, 6] {
        assert!(
            (250_000..2_000_000).contains(&records[item].total_us),
            "{item}"
        );
    }
    assert!(records[6].connect_us >= Some(250_000));
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl rustls::KeyLog for Labels {
    fn log(&self, label: &str, _: &[u8], _: &[u8]) {
        self.0.lock().unwrap().push(label.to_owned());
    }
}

#[tokio::test]
async fn the_secrets_of_both_transports_are_told() {
    let server = Running::start(with_certificate);
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let labels = Arc::<Labels>::default();
        let mut options = server.options("https", protocol);
        options.trust = server.trust();
        options.key_log = Some(Arc::clone(&labels) as _);
        run(&options).await.1.unwrap();
        let labels = labels.0.lock().unwrap();
        for label in [
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            "CLIENT_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0",
        ] {
            assert!(labels.iter().any(|it| it == label), "{protocol}: {label}");
        }
    }
}

#[tokio::test]
async fn http1_and_http2_fetch_in_clear_text() {
    let server = Running::start(|_| Security::ClearText);
    for protocol in [Protocol::H1, Protocol::H2] {
        fetch_40(server.options("http", protocol)).await;
    }
}
