//! The secrets of connections, for those who look into packets.

use crate::common::h3::H3;
use crate::common::{Running, get, h2, soon};
use altway_serve::KeyLog;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

impl KeyLog for Labels {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        assert!(!secret.is_empty());
        self.0.lock().unwrap().push(label.to_owned());
    }
}

impl Labels {
    fn take(&self) -> Vec<String> {
        let mut labels = std::mem::take(&mut *self.0.lock().unwrap());
        labels.sort();
        labels.dedup();
        labels
    }
}

const TLS_1_3: [&str; 5] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "EXPORTER_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_TRAFFIC_SECRET_0",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secrets_of_both_transports_are_told() {
    let labels = Arc::<Labels>::default();
    let log = Arc::clone(&labels);
    let server = Running::tls(|options| options.key_log = Some(log));
    server.connect_tls(&[b"h2"]).await;
    assert_eq!(labels.take(), TLS_1_3);
    H3::connect(&server);
    assert_eq!(labels.take(), TLS_1_3);
}

/// Panics, as one does whose disk is full.
#[derive(Debug)]
struct Faulty;

impl KeyLog for Faulty {
    fn log(&self, _: &str, _: &[u8], _: &[u8]) {
        panic!("as it should");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_whoever_is_told_costs_no_handshake() {
    let server = Running::tls(|options| {
        options.key_log = Some(Arc::new(Faulty));
        options.threads = NonZeroUsize::MIN;
    });
    let mut first = H3::connect(&server);
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/"))).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(H3::connect(&server).get("/").0.status(), 200);
    assert_eq!(first.get("/").0.status(), 200);
}
