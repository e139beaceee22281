//! Cost of one request to the engine: ten of them in a turn, answered at once from prepared fields.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use altway_http2::{Config, Connection, Event, FieldBlock, Indexing, Output};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::HeaderMap;

const REQUESTS: u32 = 10;

fn block(fields: &[(&'static str, &'static str)], indexing: Indexing) -> FieldBlock {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.insert(*name, value.parse().unwrap());
    }
    FieldBlock::from_headers(&map, indexing)
}

/// The bytes of the next ten requests of a client.
fn requests(client: &mut Connection, now: Instant, out: &mut Output) -> Vec<u8> {
    let request = http::Request::get("https://altway.example/file")
        .header("user-agent", "bench")
        .body(())
        .unwrap();
    let mut turn = client.turn(now, out);
    for _ in 0..REQUESTS {
        turn.send_request(&request, None, true).unwrap();
    }
    let bytes = out.slices().flatten().copied().collect();
    out.clear();
    bytes
}

fn answer_ten(c: &mut Criterion) {
    let now = Instant::now();
    let config = Arc::new(Config::default());
    let file = block(
        &[("content-type", "text/html"), ("etag", "\"1-2\"")],
        Indexing::Incremental,
    );
    let common = block(&[("server", "altway")], Indexing::Incremental);
    let body = Bytes::from(vec![0; 600]);
    let mut group = c.benchmark_group("turn");
    group.throughput(Throughput::Elements(REQUESTS.into()));
    group.bench_function("ten small files", |b| {
        let mut client = Connection::client(Arc::clone(&config), now);
        let mut server = Connection::server(Arc::clone(&config), now);
        let (mut to_server, mut to_client) = (Output::new(), Output::new());
        b.iter_custom(|iterations| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                let bytes = requests(&mut client, now, &mut to_server);
                let began = Instant::now();
                let mut input = &bytes[..];
                let mut turn = server.turn(now, &mut to_client);
                while let Some(event) = turn.receive(&mut input) {
                    if let Event::Request { stream, head, .. } = event {
                        black_box(head.id());
                        turn.send_response(stream, 200, &[&file, &common], false)
                            .unwrap();
                        turn.send_data(stream, &body, true).unwrap();
                    }
                }
                black_box(to_client.len());
                spent += began.elapsed();
                answer(&mut client, now, &mut to_client, &mut to_server);
            }
            spent
        });
    });
    group.finish();
}

/// Gives the client its answers, so that its streams end and its windows open.
fn answer(client: &mut Connection, now: Instant, said: &mut Output, out: &mut Output) {
    let bytes: Vec<u8> = said.slices().flatten().copied().collect();
    said.clear();
    let mut input = &bytes[..];
    let mut turn = client.turn(now, out);
    while let Some(event) = turn.receive(&mut input) {
        if let Event::Data { stream, data, .. } = event {
            let n = data.len();
            turn.release(stream, n);
        }
    }
}

criterion_group!(benches, answer_ten);
criterion_main!(benches);
