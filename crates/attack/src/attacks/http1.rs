//! HTTP/1.1: heads and bodies without measure, slow ones, and pipelines.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::tls::Tls;
use crate::server::SMALL;
use crate::{Attack, AttackContext};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(
        "h1-without-measure",
        "heads and bodies that are too large in each way",
        measureless,
    )
    .within(16),
    Attack::new("h1-slow-posts", "bodies that come byte by byte", slow_posts),
    Attack::new(
        "h1-pipeline",
        "2,000 requests at once, again and again",
        pipeline,
    ),
    Attack::new(
        "h1-pipeline-unread",
        "requests without end whose responses nobody reads",
        unread,
    )
    .within(16),
    Attack::new("h1-slow-head", "a head that comes byte by byte", slow_head).only_in_full(),
];

fn connect(context: &AttackContext<'_>) -> std::io::Result<Tls> {
    Tls::connect(&context.target(), AttackContext::ATTACKER, b"http/1.1")
}

fn measureless(context: &mut AttackContext<'_>) -> Result<()> {
    let fields: String = (0..101).map(|n| format!("field-{n}: x\r\n")).collect();
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\n";
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let cases: [(&str, String); 9] = [
        (
            "a target of 100 KB",
            format!(
                "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
                "a".repeat(100_000)
            ),
        ),
        (
            "a field of 40 KB",
            format!(
                "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
                "a".repeat(500_000)
            ),
        ),
        (
            "a field of 1 MB",
            format!(
                "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}",
                "a".repeat(1_000_000)
            ),
        ),
        (
            "101 fields",
            format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"),
        ),
        ("1 MB of CRLF", "\r\n".repeat(500_000)),
        (
            "a chunk extension of 1 MB",
            format!("{chunked}1;{}", "a".repeat(1_000_000)),
        ),
        (
            "100,000 chunks",
            format!("{chunked}{}", "1\r\nx\r\n".repeat(100_000)),
        ),
        (
            "1 MB of trailers",
            format!("{chunked}0\r\nx: {}", "a".repeat(1_000_000)),
        ),
        (
            "a length beyond 64 bits",
            format!("{head}content-length: 99999999999999999999999\r\n\r\n"),
        ),
    ];
    for (name, bytes) in cases {
        let mut tls = connect(context)?;
        // It may close before it has taken all.
        let _ = tls.write(bytes.as_bytes());
        let ending = tls.read_to_end(Duration::from_secs(2));
        let refused = ending
            .status()
            .is_none_or(|status| (400..500).contains(&status));
        let measured = format!("{:?}, closed: {}", ending.status(), ending.closed);
        context.check(
            name,
            "refused, and closed",
            measured,
            refused && ending.closed,
        );
    }
    Ok(())
}

fn slow_posts(context: &mut AttackContext<'_>) -> Result<()> {
    let mut held = Vec::new();
    for _ in 0..context.pick(50, 300) {
        let mut tls = connect(context)?;
        tls.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\nx")?;
        held.push(tls);
    }
    let mut refused = 0;
    for tls in &mut held {
        let _ = tls.write(b"x");
        let answer = tls.read(Duration::from_secs(1)).unwrap_or_default();
        refused += usize::from(crate::client::tls::status(&answer) == Some(405));
    }
    let all = held.len();
    context.check(
        "bodies refused at once",
        format!("{all} × 405"),
        refused.to_string(),
        refused == all,
    );
    Ok(())
}

fn pipeline(context: &mut AttackContext<'_>) -> Result<()> {
    let requests = format!("GET /{SMALL} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(2000);
    let deadline = Instant::now() + context.pick(Duration::from_secs(1), Duration::from_secs(10));
    let mut answered = 0;
    while Instant::now() < deadline {
        let mut tls = connect(context)?;
        tls.write(requests.as_bytes())?;
        let (mut seen, begun) = (0, Instant::now());
        while seen < 2000 && begun.elapsed() < Duration::from_secs(5) {
            let Ok(bytes) = tls.read(Duration::from_millis(100)) else {
                break;
            };
            seen += bytes
                .windows(6)
                .filter(|window| window == b"hello\n")
                .count();
        }
        answered += seen;
    }
    context.check(
        "requests answered",
        "> 0",
        answered.to_string(),
        answered > 0,
    );
    Ok(())
}

fn unread(context: &mut AttackContext<'_>) -> Result<()> {
    let requests = format!("GET /{SMALL} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(1000);
    let mut tls = connect(context)?;
    tls.tcp()
        .set_write_timeout(Some(Duration::from_millis(500)))?;
    let mut taken = 0;
    while taken < 64 << 20 && tls.write(requests.as_bytes()).is_ok() {
        taken += requests.len();
    }
    let mebibytes = taken as f64 / f64::from(1 << 20);
    context.check_at_most(
        "requests taken while no response is",
        16.0,
        mebibytes,
        " MiB",
    );
    Ok(())
}

fn slow_head(context: &mut AttackContext<'_>) -> Result<()> {
    let mut tls = connect(context)?;
    let begun = Instant::now();
    tls.write(b"GET / HTTP/1.1\r\n")?;
    let mut open = true;
    while open && begun.elapsed() < Duration::from_secs(60) {
        open = tls.write(b"x").is_ok() && tls.read(Duration::from_secs(1)).is_ok();
    }
    context.check(
        "the connection is closed",
        "in 60 s",
        format!("{:?}", begun.elapsed()),
        !open,
    );
    Ok(())
}
