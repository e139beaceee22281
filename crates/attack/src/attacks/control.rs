//! Offences on the control and QPACK streams of HTTP/3, and fields that are too large.

use std::time::Duration;

use anyhow::Result;
use quinn_proto::Dir;

use crate::client::h3::{self, Http3};
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "h3-control-floods",
        "frames without use or against the rules on the control stream",
        floods,
    ),
    Attack::new(
        "h3-qpack",
        "instructions of QPACK without use or against the rules",
        qpack,
    ),
    Attack::new(
        "h3-large-fields",
        "heads that are too large in each way",
        fields,
    ),
];

/// Error codes of HTTP/3 and QPACK (RFC 9114 section 8.1, RFC 9204 section 8.3).
const KNOWN: std::ops::RangeInclusive<u64> = 0x100..=0x110;
const QPACK: std::ops::RangeInclusive<u64> = 0x200..=0x202;
const TIMES: usize = 5000;

fn floods(context: &mut AttackContext<'_>) -> Result<()> {
    let once = |frame: Vec<u8>| frame;
    let settings: Vec<u8> = (0..7000_u64)
        .flat_map(|n| {
            let id = crate::client::packet::varint(0x21 + 0x1f * n);
            [id, vec![0]].concat()
        })
        .collect();
    let cases: [(&str, Vec<u8>); 6] = [
        ("reserved frames", h3::frame(0x21, b"x").repeat(TIMES)),
        (
            "MAX_PUSH_ID",
            (0..TIMES as u64)
                .flat_map(|n| h3::frame(13, &crate::client::packet::varint(n)))
                .collect(),
        ),
        ("GOAWAY", h3::frame(7, &[0]).repeat(TIMES)),
        (
            "PRIORITY_UPDATE",
            h3::frame(0xf0700, &[0, b'u', b'=', b'1']).repeat(TIMES),
        ),
        ("a second SETTINGS", once(h3::frame(4, &[]))),
        ("large SETTINGS", h3::frame(4, &settings)),
    ];
    for (name, bytes) in cases {
        let mut client = Http3::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
        let control = client.control;
        expect_close(context, name, &mut client, |client| {
            client.quic.write(control, &bytes)
        });
    }
    Ok(())
}

fn qpack(context: &mut AttackContext<'_>) -> Result<()> {
    let cases: [(&str, u8, Vec<u8>); 4] = [
        (
            "Set Capacity to and fro",
            2,
            [0x3f, 0x01, 0x20].repeat(TIMES),
        ),
        ("Duplicate of nothing", 2, vec![0]),
        (
            "Insert beyond the capacity",
            2,
            [&[0x3f, 0xe1, 0xff, 0x7f][..], &[0x41, b'a', 1, b'b']].concat(),
        ),
        (
            "Stream Cancellation without a stream",
            3,
            [0x44].repeat(TIMES),
        ),
    ];
    for (name, kind, bytes) in cases {
        let mut client = Http3::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
        client.quic.turn();
        let stream = client.quic.open(Dir::Uni, &[kind]);
        let stream = stream.ok_or_else(|| anyhow::anyhow!("no stream is allowed"))?;
        expect_close(context, name, &mut client, |client| {
            client.quic.write(stream, &bytes)
        });
    }
    Ok(())
}

fn expect_close(
    context: &mut AttackContext<'_>,
    name: &str,
    client: &mut Http3,
    act: impl FnOnce(&mut Http3) -> usize,
) {
    client.quic.turn();
    act(client);
    client
        .quic
        .drive(Duration::from_millis(700), |quic| quic.lost().is_some());
    let code = client.quic.close_code();
    let met = code.is_some_and(|code| KNOWN.contains(&code) || QPACK.contains(&code));
    context.check(name, "closed with a code", format!("{code:?}"), met);
}

fn fields(context: &mut AttackContext<'_>) -> Result<()> {
    let (long, path) = ("x".repeat(70_000), format!("/{}", "p".repeat(60_000)));
    let names: Vec<String> = (0..5000).map(|n| format!("field-{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let cookies = vec![("cookie", "a=bcdefghijklmnopqrstuvwxyz"); 1800];
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, &'a [u16]);
    let cases: [Case<'_>; 4] = [
        ("a field of 70 KB", "/", vec![("x", &long)], &[431]),
        ("5,000 fields", "/", many, &[431]),
        ("1,800 cookies", "/", cookies, &[431]),
        ("a path of 60 KB", &path, vec![], &[404, 414, 431]),
    ];
    for (name, path, more, expected) in cases {
        let mut client = Http3::connect(&context.target(), AttackContext::ATTACKER, 65_535)?;
        client.quic.turn();
        let stream = client.quic.open(Dir::Bi, &[]);
        let stream = stream.ok_or_else(|| anyhow::anyhow!("no stream is allowed"))?;
        let (request, mut sent) = (h3::request("GET", path, &more), 0);
        let mut response = Vec::new();
        // Its windows open as the server reads.
        client.quic.drive(Duration::from_secs(2), |quic| {
            if sent < request.len() {
                sent += quic.write(stream, &request[sent..]);
                if sent == request.len() {
                    quic.finish(stream);
                }
                quic.flush();
            }
            let (more, over) = quic.read(stream, usize::MAX);
            response.extend(more);
            over
        });
        let status = h3::status(&response);
        let met = status.is_some_and(|status| expected.contains(&status));
        context.check(name, format!("{expected:?}"), format!("{status:?}"), met);
    }
    Ok(())
}
