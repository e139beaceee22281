//! Altway's client of foreign servers: `altway load`, and the library where more is asked.

use super::foreign::{Peer, servers};
use super::ours::Client;
use super::{BIG, Ground, HUGE, MEDIUM, UPLOAD, content};
use crate::common::refusal;
use altway_http3::{Code, Version};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

/// Servers that can be asked for more than files.
fn programmable() -> Vec<Peer> {
    let mut servers = servers();
    servers.retain(|peer| *peer != Peer::Caddy);
    servers
}

/// The output of `altway load` for so many requests.
fn load(ground: &Ground, port: u16, path: &str, requests: u32) -> Value {
    load_with(ground, port, path, requests, &[])
}

fn load_with(ground: &Ground, port: u16, path: &str, requests: u32, more: &[&str]) -> Value {
    let url = format!("https://localhost:{port}{path}");
    let ca = ground.authority.to_str().unwrap();
    let mut load = ground
        .dir
        .altway(["load", &url, "-p", "h3", "--ca", ca, "--json"]);
    load.args(["-n", &requests.to_string(), "-m", "50"])
        .args(more);
    let output: Value = serde_json::from_slice(&load.output().unwrap().stdout).unwrap();
    output["summary"].clone()
}

#[test]
fn the_client_gets_small_and_big_files_and_404() {
    let ground = Ground::new();
    for peer in servers() {
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let small = client.get("/small.txt");
        assert_eq!((small.status(), &*small.body), (200, &b"small"[..]));
        let big = client.get("/big.bin");
        assert_eq!(big.status(), 200, "{peer:?}");
        assert!(big.body == content(BIG), "{peer:?}");
        assert_eq!(client.get("/none").status(), 404, "{peer:?}");
        let head = client.request(Method::HEAD, "/big.bin").unwrap();
        assert_eq!((head.status(), head.body.len()), (200, 0), "{peer:?}");
        assert_eq!(head.field("content-length"), BIG.to_string(), "{peer:?}");
    }
}

#[test]
fn the_client_uploads_and_downloads_at_once() {
    let ground = Ground::new();
    for peer in programmable() {
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "of all".parse().unwrap());
        let answer = client.echo("/echo", &content(UPLOAD), &trailers);
        assert_eq!(answer.status(), 200, "{peer:?}");
        assert!(answer.body == content(UPLOAD), "{peer:?}");
        assert_eq!(answer.trailers["x-sum"], "of all", "{peer:?}");
    }
}

#[test]
fn the_client_hears_early_hints() {
    let ground = Ground::new();
    for peer in servers() {
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let answer = client.get("/hints");
        let interim = &answer.interim[..];
        assert_eq!(interim.len(), 1, "{peer:?}");
        assert_eq!(interim[0].status().as_u16(), 103, "{peer:?}");
        assert!(interim[0].headers().contains_key("link"), "{peer:?}");
        assert_eq!(answer.status(), 200, "{peer:?}");
        assert_eq!(answer.body, b"after hints", "{peer:?}");
    }
}

#[test]
fn the_client_takes_large_fields_and_gives_larger_ones_up() {
    let ground = Ground::new();
    for peer in programmable() {
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let large = client.get("/fields/48");
        assert_eq!(large.field("x-large-2").len(), 16 << 10, "{peer:?}");
        // It announces 64 KiB.
        let larger = client.request(Method::GET, "/fields/80");
        assert_eq!(larger.unwrap_err(), Code::H3_EXCESSIVE_LOAD, "{peer:?}");
        let next = client.get("/small.txt");
        assert_eq!(next.status(), 200, "{peer:?}: the connection goes on");
    }
}

#[test]
fn one_connection_of_the_client_carries_ten_thousand_requests() {
    let ground = Ground::new();
    for peer in servers() {
        let server = peer.serve(&ground, &json!({}));
        let summary = load(&ground, server.port, "/small.txt", peer.many());
        assert_eq!(summary["errors"], json!([]), "{peer:?}");
        assert_eq!(summary["statuses"], json!({"200": peer.many()}), "{peer:?}");
        assert_eq!(summary["connections"], 1, "{peer:?}");
        assert_eq!(summary["body_bytes"], 5 * peer.many(), "{peer:?}");
    }
}

#[test]
fn the_client_and_aioquic_use_dynamic_tables_both_ways() {
    if !Peer::Aioquic.is_there() {
        return;
    }
    let ground = Ground::new();
    let server = Peer::Aioquic.serve(&ground, &json!({}));
    let mut client = Client::connect(&ground, server.port);
    let answers: Vec<_> = (0..50).map(|_| client.get("/small.txt")).collect();
    let counts = answers[49].field("x-qpack");
    let counts: Vec<u64> = counts.split(' ').map(|n| n.parse().unwrap()).collect();
    let [sent, acknowledged, received] = counts[..] else {
        panic!("{counts:?}")
    };
    assert!(sent > 10, "the server inserted fields: {counts:?}");
    assert!(acknowledged > 10, "the client read them: {counts:?}");
    // The capacity alone takes three bytes.
    assert!(received > 10, "the client inserted some too: {counts:?}");
    for answer in answers {
        assert_eq!((answer.status(), &*answer.body), (200, &b"small"[..]));
    }
}

#[test]
fn the_client_proves_its_address_to_servers_that_demand_it() {
    let ground = Ground::new();
    for peer in programmable() {
        let server = peer.serve(&ground, &json!({"retry": true}));
        let mut client = Client::connect(&ground, server.port);
        let answer = client.get("/medium.bin");
        assert_eq!(answer.field("x-retried"), "true", "{peer:?}");
        assert!(answer.body == content(MEDIUM), "{peer:?}");
    }
}

#[test]
fn a_server_of_other_versions_alone_is_a_clear_error() {
    let ground = Ground::new();
    for peer in programmable() {
        let server = peer.serve(&ground, &json!({"other_version": true}));
        let url = format!("https://localhost:{}/", server.port);
        let ca = ground.authority.to_str().unwrap();
        let said = refusal(&mut ground.dir.altway(["load", &url, "-p", "h3", "--ca", ca]));
        let expected = "QUIC handshake failed: peer speaks no common quic version";
        assert!(said.contains(expected), "{peer:?}: {said}");
    }
}

/// Tests against servers that speak nothing else.
#[test]
fn the_client_speaks_version_2() {
    let ground = Ground::new();
    for peer in programmable() {
        for settings in [
            json!({"other_version": true}),
            json!({"other_version": true, "retry": true}),
            json!({"other_version": true, "key_updates": 3}),
        ] {
            let server = peer.serve(&ground, &settings);
            let mut client = Client::connect_by(Version::V2, &ground, server.port);
            let answer = client.get("/medium.bin");
            assert!(answer.body == content(MEDIUM), "{peer:?}: {settings}");
            let is_retried = settings.get("retry").is_some().to_string();
            assert_eq!(answer.field("x-retried"), is_retried, "{peer:?}");
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "of all".parse().unwrap());
            let uploaded = client.echo("/echo", &content(UPLOAD), &trailers);
            assert!(uploaded.body == content(UPLOAD), "{peer:?}: {settings}");
        }
    }
}

#[test]
fn load_says_which_version_of_quic_it_speaks() {
    let ground = Ground::new();
    for peer in programmable() {
        for (version, is_other) in [(1, false), (2, true)] {
            let server = peer.serve(&ground, &json!({"other_version": is_other}));
            let more = ["--quic-version", &version.to_string()];
            let summary = load_with(&ground, server.port, "/small.txt", 10, &more);
            assert_eq!(summary["statuses"], json!({"200": 10}), "{peer:?}");
            assert_eq!(summary["quic_version"], version, "{peer:?}");
        }
    }
}

/// quic-go changes keys by itself, after its first hundred packets, and so does Caddy, which doesn't
/// tell.
#[test]
fn the_client_follows_when_the_server_changes_keys() {
    let ground = Ground::new();
    for peer in programmable() {
        let server = peer.serve(&ground, &json!({"key_updates": 3}));
        let mut client = Client::connect(&ground, server.port);
        let answer = client.get("/medium.bin");
        assert!(answer.body == content(MEDIUM), "{peer:?}");
        let updates = answer.trailers["x-key-updates"].to_str().unwrap();
        let expected = if peer == Peer::Aioquic { 3 } else { 1 };
        assert!(updates.parse::<u32>().unwrap() >= expected, "{peer:?}");
    }
}

#[test]
fn a_download_goes_on_when_a_nat_gives_the_client_another_port() {
    const MOVES: usize = 3;
    let ground = Ground::new();
    for peer in servers() {
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let mut moves = 0;
        let answer = client.download("/medium.bin", |client, read| {
            if moves < MOVES && read > (moves + 1) * MEDIUM / (MOVES + 1) {
                client.move_away();
                moves += 1;
            }
        });
        assert_eq!(moves, MOVES, "{peer:?}");
        assert!(answer.body == content(MEDIUM), "{peer:?}");
    }
}

/// aioquic has no graceful stop.
#[test]
fn a_download_ends_when_its_server_stops_gracefully() {
    let ground = Ground::new().with_huge();
    for peer in servers() {
        if peer == Peer::Aioquic {
            continue;
        }
        let server = peer.serve(&ground, &json!({}));
        let mut client = Client::connect(&ground, server.port);
        let mut asked = false;
        let answer = client.download("/huge.bin", |_, read| {
            if read > 0 && !asked {
                server.ask_to_stop();
                asked = true;
            }
        });
        assert!(answer.body == content(HUGE), "{peer:?}");
        assert!(client.told_to_go, "{peer:?}");
    }
}
