//! Cost of field blocks: decoding and encoding what a server sees most.
//!
//! HPACK is private to the crate, so its modules are compiled into this program.
#![allow(
    dead_code,
    missing_docs,
    unused_imports,
    reason = "the modules hold more than is measured, their tests included"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use http::HeaderMap;

#[path = "../src/field_block.rs"]
mod field_block;
#[path = "../src/hpack/mod.rs"]
mod hpack;

use altway_message::FieldKind;
pub use field_block::{FieldBlock, Indexing};
use hpack::{Decoder, Encoder, Visitor};

/// Looks at every field as an engine must.
#[derive(Default)]
struct Sum(usize);

impl Visitor for Sum {
    fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        let malformed = usize::from(matches!(kind, FieldKind::Refused(_)));
        self.0 += malformed + name.len() + value.len() + hpack::FIELD_OVERHEAD;
    }
}

/// Fields that h2load sends: the path comes without indexing.
const REQUEST: [(&str, &str); 5] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":path", "/index.html"),
    (":authority", "www.example.com:8443"),
    ("user-agent", "h2load nghttp2/1.52.0"),
];

/// Fields that a browser sends beside those.
const BROWSER: [(&str, &str); 5] = [
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-GB,en;q=0.5"),
    ("cookie", "session=c2Vzc2lvbiBpZGVudGlmaWVy; theme=dark"),
    ("priority", "u=0, i"),
];

fn encoded(encoder: &mut Encoder, fields: &[(&str, &str)], indexing: Indexing) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(name.as_bytes(), value.as_bytes(), indexing, &mut out);
    }
    out
}

fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for (name, fields) in [
        ("5 indexed fields", &REQUEST[..]),
        ("10 indexed fields", &[REQUEST, BROWSER].concat()),
    ] {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
        let first = encoded(&mut encoder, fields, Indexing::Incremental);
        decoder
            .decode(&first, &mut Sum::default())
            .expect("it is a block");
        let block = encoded(&mut encoder, fields, Indexing::Incremental);
        assert_eq!(block.len(), fields.len());
        measure(&mut group, name, &mut decoder, &block);
    }
    for (name, path) in [
        ("path of 12 bytes", "/style.css?1"),
        (
            "path of 60 bytes",
            "/assets/2024/images/products/large/0815-4711-front-view.webp",
        ),
    ] {
        let block = encoded(&mut Encoder::new(), &[(":path", path)], Indexing::Without);
        measure(&mut group, name, &mut Decoder::new(4096), &block);
    }
    let block = [&[0x04, 12][..], b"/style.css?1"].concat();
    measure(
        &mut group,
        "path of 12 bytes, no huffman",
        &mut Decoder::new(4096),
        &block,
    );
    let block = encoded(&mut Encoder::new(), &BROWSER, Indexing::Incremental);
    measure(
        &mut group,
        "5 fields into the table",
        &mut Decoder::new(4096),
        &block,
    );
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn measure(group: &mut Group<'_>, name: &str, decoder: &mut Decoder, block: &[u8]) {
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut sum = Sum::default();
            let decoded = decoder.decode(black_box(block), &mut sum);
            decoded.expect("it is a block");
            sum.0
        });
    });
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let parsed = fields.iter().map(|(name, value)| {
        let name = name.parse().expect("it is a name");
        (name, value.parse().expect("it is a value"))
    });
    parsed.collect()
}

fn encoding(c: &mut Criterion) {
    let common = headers(&[
        ("server", "altway"),
        ("alt-svc", "h3=\":443\"; ma=3600"),
        ("vary", "accept-encoding"),
    ]);
    let file = headers(&[
        ("content-type", "text/html; charset=utf-8"),
        ("content-length", "600"),
        ("etag", "\"5f3b-1a2b3c\""),
        ("last-modified", "Mon, 21 Oct 2013 20:13:21 GMT"),
    ]);
    let date = headers(&[("date", "Mon, 21 Oct 2013 20:13:21 GMT")]);
    let blocks = [common, file.clone(), date]
        .map(|fields| FieldBlock::from_headers(&fields, Indexing::Incremental));
    let without = FieldBlock::from_headers(&file, Indexing::Without);

    let mut group = c.benchmark_group("encode");
    let mut respond = |name: &str, blocks: &[&FieldBlock]| {
        let (mut encoder, mut out) = (Encoder::new(), Vec::with_capacity(4096));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                encoder.begin(&mut out);
                encoder.status(200, &mut out);
                for block in blocks {
                    encoder.block(black_box(block), &mut out);
                }
                out.len()
            });
        });
    };
    respond("status and a memoised block", &[&blocks[0]]);
    respond(
        "status and 3 memoised blocks",
        &[&blocks[0], &blocks[1], &blocks[2]],
    );
    respond("status and a block without indexing", &[&without]);

    let (mut encoder, mut out) = (Encoder::new(), Vec::with_capacity(4096));
    encoder.block(&blocks[1], &mut out);
    group.bench_function("4 fields looked up one by one", |bencher| {
        bencher.iter(|| {
            out.clear();
            for (name, value) in &file {
                let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
                encoder.field(name, black_box(value), Indexing::Incremental, &mut out);
            }
            out.len()
        });
    });
}

criterion_group!(benches, decoding, encoding);
criterion_main!(benches);
