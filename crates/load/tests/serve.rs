//! Every protocol against the project's own server: the two ends that the lab measures with.
#![allow(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod common;

use altway_load::{EarlyDataCount, Options, Trust};
use altway_record::Protocol;
use altway_serve::{Bind, EarlyData, Security, Server, Site, StopHandle, certs, stop_channel};
use axum::Router;
use axum::extract::Extension;
use axum::http::StatusCode;
use common::{assert_sound, count, options, requests, run};
use std::net::Ipv4Addr;
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
    let server = Running::start_with(with_certificate, |options| options.early_data = true);
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
        options.early_data = true;
        options.site = Site::service(Router::new().fallback(careful));
    });
    let count = visit_10_times(&server).await;
    assert_eq!((count.accepted, count.refused, count.too_early), (9, 0, 9));
    assert_eq!(answered.load(Ordering::SeqCst), 10);
}

#[tokio::test]
async fn a_server_without_early_data_is_visited_after_the_hand_shake() {
    let server = Running::start(with_certificate);
    assert_eq!(visit_10_times(&server).await, EarlyDataCount::default());
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
