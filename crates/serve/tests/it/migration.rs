//! Clients of HTTP/3 whose port changes: they stay with their worker, whoever brings their datagrams
//! there.

use crate::common::access_log::Lines;
use crate::common::h3::H3;
use crate::common::{LARGE, Running, large};
use altway_serve::{AccessLog, ServerId, Steering};
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;

/// Number of workers with which three of four moves would end a connection that nobody steers.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// Times that a client moves in a download.
const MOVES: usize = 10;

fn start(steering: Steering, server_id: &str) -> Running {
    Running::tls(|options| {
        options.threads = WORKERS;
        options.steering = steering;
        options.server_id = server_id.parse::<ServerId>().unwrap();
    })
}

/// Downloads while it moves.
fn download(server: &Running) {
    let mut client = H3::connect(server);
    let stream = client.send("/large");
    let (head, _) = client.head(stream);
    assert_eq!(head.status(), 200);
    let (mut body, mut moves) = (Vec::new(), 0);
    while let Some(bytes) = client.part(stream) {
        body.extend_from_slice(&bytes);
        if body.len() > (moves + 1) * LARGE / (MOVES + 1) {
            client.move_away();
            moves += 1;
        }
    }
    assert_eq!(moves, MOVES);
    assert!(body == large());
}

/// Several connections, as each may be another worker's.
fn check_downloads(steering: Steering) {
    let server = start(steering, "");
    for _ in 0..4 {
        download(&server);
    }
}

#[test]
fn a_download_goes_on_wherever_its_client_moves() {
    check_downloads(Steering::Kernel);
}

#[test]
fn a_download_goes_on_where_workers_pass_datagrams_on() {
    check_downloads(Steering::Workers);
}

#[test]
fn a_server_with_a_name_steers_as_one_without() {
    download(&start(Steering::Kernel, "a5"));
    download(&start(Steering::Workers, "0a5f"));
}

#[test]
fn each_request_may_come_from_another_port() {
    for steering in [Steering::Kernel, Steering::Workers] {
        let server = start(steering, "");
        let mut clients: Vec<_> = (0..8).map(|_| H3::connect(&server)).collect();
        for _ in 0..20 {
            for client in &mut clients {
                client.move_away();
                let (head, body) = client.get("/");
                assert_eq!(head.status(), 200);
                assert_eq!(body, b"<p>home");
            }
        }
    }
}

#[test]
fn a_client_at_another_address_is_learnt_of_there_and_logged_where_it_began() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
    });
    let known = || server.monitor().metrics().known_clients;
    let mut client = H3::connect(&server);
    client.get("/");
    client.move_away();
    client.get("/");
    assert_eq!(known(), 1, "a port is no address");
    client.move_to(Ipv4Addr::new(127, 0, 0, 2));
    // Its response is larger than what may go to an address that has shown nothing.
    let stream = client.send("/large");
    assert_eq!(client.body(stream).len(), LARGE);
    client.get("/");
    assert_eq!(known(), 2);
    client.close();
    server.ask_to_stop();
    server.join().unwrap();
    let text = lines.text();
    assert_eq!(text.matches("127.0.0.1").count(), 4, "{text}");
}
