//! Connections that wait for a worker at its limit.

use crate::common::{H2, Running, get, h1, h2, read, soon, spread};
use altway_serve::{Options, Spread};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// One worker, which may have one connection.
fn start() -> Running {
    Running::clear(|options: &mut Options| {
        options.threads = NonZeroUsize::MIN;
        options.limits.max_connections = 1;
    })
}

/// A connection that is being served.
async fn served(server: &Running) -> H2 {
    let mut client = h2(server.connect().await).await;
    let answer = soon(client.send_request(get("/"))).await.unwrap();
    assert_eq!(soon(read(answer)).await, b"<p>home");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_over_the_limit_waits_until_another_ends() {
    let server = start();
    let first = served(&server).await;
    let mut second = h2(server.connect().await).await;
    let mut answer = tokio::spawn(second.send_request(get("/")));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut answer).await;
    assert!(early.is_err(), "answered over the limit");
    drop(first);
    assert_eq!(soon(answer).await.unwrap().unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_serves_those_that_were_accepted_and_turns_the_rest_away() {
    for is_http1 in [false, true] {
        let server = start();
        let _first = served(&server).await;
        let stream = server.connect().await;
        let answer = if is_http1 {
            let mut client = h1(stream).await;
            tokio::spawn(client.send_request(get("/")))
        } else {
            let mut client = h2(stream).await;
            tokio::spawn(client.send_request(get("/")))
        };
        // On loopback it waits by now, with its request, wherever it waits.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begin = Instant::now();
        server.ask_to_stop();
        let end = spawn_blocking(|| server.join());
        soon(end).await.unwrap().unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(3), "{took:?}");
        // A worker that accepts for itself has accepted no second one.
        let is_accepted = spread() == Spread::RoundRobin;
        let answer = soon(answer).await.unwrap();
        assert_eq!(answer.is_ok(), is_accepted, "{is_http1}: {answer:?}");
    }
}
