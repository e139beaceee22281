//! Connections of a worker take turns.

use crate::common::{Running, soon};
use altway_serve::Site;
use axum::Router;
use axum::extract::Request;
use std::num::NonZeroUsize;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Requests that come at once.
const PIPELINED: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_pipelines_does_not_keep_others_waiting() {
    let (begin, began) = channel();
    let (go_on, held) = channel::<()>();
    let held = Arc::new(Mutex::new(Some(held)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    let note = move |request: Request| {
        let path = request.uri().path().to_owned();
        // The first keeps its worker busy until the other client has asked.
        if path == "/pipelined"
            && let Some(held) = held.lock().unwrap().take()
        {
            begin.send(()).unwrap();
            held.recv().unwrap();
        }
        noted.lock().unwrap().push(path);
        async { "noted" }
    };
    let server = Running::clear(|options| {
        options.site = Site::service(Router::new().fallback(note));
        options.threads = NonZeroUsize::MIN;
    });
    let mut other = server.connect().await;
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut buffer = vec![0; 1 << 10];
    // Both connections are known to the worker.
    other.write_all(request("/other").as_bytes()).await.unwrap();
    assert!(soon(other.read(&mut buffer)).await.unwrap() > 0);
    let mut greedy = server.connect().await;
    let pipeline = request("/pipelined").repeat(PIPELINED);
    greedy.write_all(pipeline.as_bytes()).await.unwrap();
    soon(tokio::task::spawn_blocking(move || began.recv()))
        .await
        .unwrap()
        .unwrap();
    other.write_all(request("/other").as_bytes()).await.unwrap();
    go_on.send(()).unwrap();
    assert!(soon(other.read(&mut buffer)).await.unwrap() > 0);
    let order = order.lock().unwrap();
    let before = order.iter().skip(1).take_while(|path| *path != "/other");
    let before = before.count();
    assert!(before <= 100, "{before} of {PIPELINED}");
}
