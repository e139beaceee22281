//! Prints what a decision costs: with the usual mix of six exchanges, with a host's own of eight, and kept.
//!
//! `cargo run --release -p altway-select --example decision_cost`
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

use altway_select::{
    Bulk, Client, ClientClass, Config, Host, ModelKind, Moment, Observation, Page, Secret,
    Selector, Start, Transport, UnixTime,
};
use altway_units::{Bandwidth, DataSize};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);
const CLIENTS: u32 = 10_000;
const ROUNDS: u32 = 50;

fn main() {
    let secret = Secret::new([1; 16]);
    let mut config = Config::new(secret, &ModelKind::Learned);
    config.learn_after = 0;
    let selector = Selector::new(config);
    let class = ClientClass::OTHER;
    let client = |number: u32| Client::new(&secret, Ipv4Addr::from_bits(number << 8).into(), class);
    let clients: Vec<Client> = (0..CLIENTS).map(client).collect();
    let usual = Host::new("usual");
    for (client, number) in clients.iter().zip(0..) {
        for transport in [Transport::Tcp, Transport::Quic] {
            selector.observe(client, &usual, &bulk(transport, number), NOW);
        }
    }
    let own = Host::new("own");
    for number in 0..1_000 {
        selector.observe(&clients[0], &own, &page(number), NOW);
    }
    let moment = Moment::new(NOW, Transport::Tcp);
    for (name, host) in [("usual mix", &usual), ("eight exchanges", &own)] {
        let preview = time(&clients, |client| {
            _ = black_box(selector.preview(client, host, &moment));
        });
        let decide = time(&clients, |client| {
            _ = black_box(selector.decide(client, host, &moment));
        });
        println!("{name}: {preview:.0} ns a decision, {decide:.0} ns kept");
    }
}

fn time(clients: &[Client], mut each: impl FnMut(&Client)) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        clients.iter().for_each(&mut each);
    }
    start.elapsed().as_nanos() as f64 / f64::from(CLIENTS * ROUNDS)
}

fn bulk(transport: Transport, number: u64) -> Observation {
    let bulk = Bulk {
        size: DataSize::from_bytes(50_000_000),
        rate: Bandwidth::from_mbit(20 + number % 900).expect("20 is not 0"),
        app_limited: false,
    };
    Observation {
        min_rtt: Some(Duration::from_millis(1 + number % 90)),
        packets_sent: 30_000,
        packets_lost: number % 200,
        bulk: Some(bulk),
        ..Observation::new(transport)
    }
}

fn page(number: u64) -> Observation {
    let page = Page {
        first: DataSize::from_bytes(20_000),
        rest: DataSize::from_bytes(10_000 << (number % 6)),
        responses: 12,
        start: if number.is_multiple_of(2) {
            Start::Cold
        } else {
            Start::Warm
        },
        time: Duration::from_millis(200),
    };
    Observation {
        page: Some(page),
        ..Observation::new(Transport::Tcp)
    }
}
