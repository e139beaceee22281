//! Cost of a decision: for a client that nobody knows, for one that is known, and on a host whose visitors load
//! all kinds of things. The time is the thread's on a processor, which says the same on a machine that does other
//! things as well.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use altway_select::{
    Bulk, Client, Config, DecisionRequest, Host, ModelKind, Observation, Page, Secret, Selector,
    Start, Transport, UnixTime,
};
use altway_units::{Bandwidth, DataSize};
use criterion::{Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

const NOW: UnixTime = UnixTime::from_secs(1_795_392_000);
const SECRET: Secret = Secret::new([7; 16]);

/// Clients that are asked for in turn: more than a processor's nearest cache holds.
const CLIENTS: u32 = 4_096;

fn client(number: u32) -> Client {
    let address = Ipv4Addr::from_bits(0x0a00_0000 + number * 97);
    Client::new(
        &SECRET,
        address.into(),
        "chromium-windows".parse().expect("a class"),
    )
}

fn page(first: u64, rest: u64, responses: u32, start: Start) -> Page {
    Page {
        first: DataSize::from_bytes(first),
        rest: DataSize::from_bytes(rest),
        responses,
        start,
        time: Duration::from_millis(150),
        waited: Some(Duration::ZERO),
    }
}

/// A selector that has learnt enough to go by it, and clients with rates over both transports if they are `known`.
fn selector(known: bool) -> Selector {
    let mut config = Config::new(SECRET, &ModelKind::Learned(None));
    config.learn_after = 0;
    let selector = Selector::new(config);
    let host = Host::new("elsewhere.test");
    for number in 0..if known { CLIENTS } else { 0 } {
        let client = client(number);
        for transport in [Transport::Tcp, Transport::Quic] {
            selector.connected(&client, &host, transport, NOW);
            let seen = Observation {
                min_rtt: Some(Duration::from_millis(5 + u64::from(number % 40))),
                packets_sent: 8_000,
                packets_lost: u64::from(number % 60),
                bulk: Some(Bulk {
                    size: DataSize::from_bytes(20_000_000),
                    rate: Bandwidth::from_bps(10_000_000 * u64::from(1 + number % 90))
                        .expect("a rate"),
                    app_limited: false,
                }),
                page: Some(page(20_000, 400_000, 21, Start::Warm)),
                ..Observation::new(transport)
            };
            selector.observe(&client, &host, &seen, NOW);
        }
    }
    selector
}

/// A host whose visitors load eight sizes and more, over new connections and open ones.
fn busy_host(selector: &Selector, pages: u32) -> Host {
    let host = Host::new("busy.test");
    let somebody = Client::new(
        &SECRET,
        Ipv4Addr::LOCALHOST.into(),
        "firefox-linux".parse().expect("a class"),
    );
    for number in 0..pages {
        let size = 3_000 << (number % 11);
        let start = if number % 3 == 0 {
            Start::Cold
        } else {
            Start::Warm
        };
        let seen = Observation {
            page: Some(page(size, size / 2, 1 + number % 9, start)),
            ..Observation::new(Transport::Tcp)
        };
        selector.observe(&somebody, &host, &seen, NOW);
    }
    host
}

/// The time that this thread has had a processor for.
fn on_processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

fn decision(criterion: &mut Criterion) {
    let clients: Vec<Client> = (0..CLIENTS).map(client).collect();
    let mut group = criterion.benchmark_group("decision");
    let mut measure = |name: &str, selector: &Selector, host: &Host| {
        let mut clients = clients.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let begin = on_processor();
                for _ in 0..count {
                    let client = clients.next().expect("there are some");
                    let moment = DecisionRequest {
                        min_rtt: Some(Duration::from_millis(20)),
                        load: 0.3,
                        ..DecisionRequest::new(NOW, Transport::Tcp)
                    };
                    black_box(selector.decide(client, host, black_box(&moment)));
                }
                on_processor().saturating_sub(begin)
            });
        });
    };
    let (fresh, learned) = (selector(false), selector(true));
    measure("unknown client, usual mix", &fresh, &Host::new("new.test"));
    measure("known client, usual mix", &learned, &Host::new("new.test"));
    let (young, old) = (busy_host(&learned, 199), busy_host(&learned, 600));
    measure("known client, own and usual mix", &learned, &young);
    measure("known client, own mix", &learned, &old);
    group.finish();
}

criterion_group!(benches, decision);
criterion_main!(benches);
