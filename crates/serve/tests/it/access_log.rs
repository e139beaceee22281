//! One line a request, with the decision and its reason, whatever the protocol.

use crate::common::access_log::Lines;
use crate::common::{Running, get, h2, h3::H3, read, soon};
use altway_serve::AccessLog;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_logged_once_with_its_decision() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.policy = "threshold:rtt=10s".parse().unwrap();
        options.access_log = Some(log);
    });
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    soon(read(
        soon(client.send_request(get("/index.html"))).await.unwrap(),
    ))
    .await;
    H3::connect(&server).get("/index.htm");
    drop(client);
    server.ask_to_stop();
    server.join().unwrap();

    let text = lines.text();
    let mut log: Vec<_> = text
        .lines()
        .filter(|line| line.contains("\"/index.htm"))
        .collect();
    assert_eq!(log.len(), 2, "{text}");
    // Each worker writes its own lines: in order they are by their times.
    log.sort_unstable();
    let first = "client=127.0.0.1 protocol=h2 method=GET path=\"/index.html\" status=200 bytes=7 offer=h2 \
                 reason=\"min RTT";
    assert!(log[0].contains(first), "{}", log[0]);
    assert!(
        log[1].contains("protocol=h3 method=GET path=\"/index.htm\" status=404"),
        "{}",
        log[1]
    );
    assert!(log[1].contains("offer=h2 reason=\"min RTT"), "{}", log[1]);
}
