//! One way for a request: whatever the protocol, whether files are all that is served or a service
//! answers, and however often it is asked, the answer has the same status, fields and content, and the
//! same line in the log.
//!
//! Fields that belong to the protocol are left out: Date, whose second passes; Connection and Transfer-Encoding, which
//! only HTTP/1.1 has; and the port number in Alt-Svc, for each server has its own.

use crate::common::access_log::Lines;
use crate::common::{Running, h1, h2, h3::H3, soon};
use altway_serve::{AccessLog, Files, Options, Policy, Site};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request, and the text to look for in the log.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    body: &'static str,
}

/// The parts of a response that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    H1,
    H2,
    H3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Files,
    Service,
}

/// Times that each is asked: newly, from the cache, and as a repetition of the one before.
pub(crate) const TIMES: usize = 3;

/// The time of change of all files: their validators are the same in every folder.
pub(crate) const CHANGED: u64 = 1_700_000_000;

const TEXT: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

fn make(folder: &Path) {
    let write = |name: &str, content: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let changed = UNIX_EPOCH + Duration::from_secs(CHANGED);
        file.set_modified(changed).unwrap();
    };
    for name in [
        "a.txt",
        "b c.txt",
        "\u{e4}.txt",
        "page.html",
        "x.js",
        "noext",
        "...",
    ] {
        write(name, TEXT);
    }
    write("index.html", "<p>home");
    write("empty", "");
    write("large.bin", &TEXT.repeat(2_000));
    write("sub/index.html", "<p>sub");
    write("sub/x.css", "p{}");
    write("bare/x.png", "no picture");
    write(".hidden", "secret");
    write("sub/.git/config", "secret");
    write(".well-known/x", "known");
}

pub(crate) fn case(method: Method, target: &str) -> Case {
    Case {
        method,
        target: target.to_owned(),
        fields: Vec::new(),
        body: "",
    }
}

pub(crate) fn with(target: &str, fields: &[(&'static str, &str)]) -> Case {
    let fields = fields
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    Case {
        fields: fields.collect(),
        ..case(Method::GET, target)
    }
}

const TARGETS: [&str; 36] = [
    "/",
    "/a.txt",
    "/a.txt?",
    "/a.txt?q",
    "/a.txt?q=1&r=%20",
    "/a.txt?%zz",
    "/a.txt/",
    "//a.txt",
    "/a%2etxt",
    "/%61.txt",
    "/b%20c.txt",
    "/b+c.txt",
    "/%C3%A4.txt",
    "/page.html",
    "/x.js",
    "/noext",
    "/empty",
    "/large.bin",
    "/sub",
    "/sub/",
    "/sub?q",
    "/sub/x.css",
    "/sub//x.css",
    "/bare/",
    "/none",
    "/none?q",
    "/.hidden",
    "/%2ehidden",
    "/sub/.git/config",
    "/.well-known/x",
    "/...",
    "/a.txt%00",
    "/..%2fa.txt",
    "/%",
    "/a%5cb",
    "/a.txt;v=1",
];

const RANGES: [&str; 18] = [
    "bytes=0-0",
    "bytes=0-9",
    "bytes=5-",
    "bytes=-5",
    "bytes=-0",
    "bytes=35-",
    "bytes=36-",
    "bytes=36-40",
    "bytes=9-5",
    "bytes=0-99999999999999999999",
    "bytes=0-1,3-4",
    "bytes=",
    "bytes",
    "bytes=a-b",
    "lines=0-1",
    "bytes = 0-1",
    "bytes=0-35",
    "bytes=-99",
];

const DATE: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
const BEFORE: &str = "Tue, 14 Nov 2023 22:13:19 GMT";

fn conditions(etag: &str) -> Vec<Case> {
    let weak = format!("W/{etag}");
    let listed = format!("\"x\", {etag}");
    let all: [&[(&'static str, &str)]; 24] = [
        &[("if-none-match", etag)],
        &[("if-none-match", &weak)],
        &[("if-none-match", &listed)],
        &[("if-none-match", "*")],
        &[("if-none-match", "\"x\"")],
        &[("if-none-match", "x")],
        &[("if-none-match", "\"x\""), ("if-none-match", etag)],
        &[("if-none-match", "\"x\""), ("if-modified-since", DATE)],
        &[("if-match", etag)],
        &[("if-match", &weak)],
        &[("if-match", "*")],
        &[("if-match", "\"x\"")],
        &[("if-match", "\"x\""), ("range", "bytes=0-1")],
        &[("if-modified-since", DATE)],
        &[("if-modified-since", BEFORE)],
        &[("if-modified-since", "soon")],
        &[("if-unmodified-since", DATE)],
        &[("if-unmodified-since", BEFORE)],
        &[("if-range", etag), ("range", "bytes=0-1")],
        &[("if-range", &weak), ("range", "bytes=0-1")],
        &[("if-range", DATE), ("range", "bytes=0-1")],
        &[("if-range", BEFORE), ("range", "bytes=0-1")],
        &[("range", "bytes=0-1"), ("range", "bytes=2-3")],
        &[("if-none-match", etag), ("range", "bytes=0-1")],
    ];
    all.iter().map(|fields| with("/a.txt", fields)).collect()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in TARGETS {
        cases.push(case(Method::GET, target));
        cases.push(case(Method::HEAD, target));
    }
    for method in [
        "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "BREW",
    ] {
        for target in ["/", "/a.txt", "/none"] {
            cases.push(case(method.parse().unwrap(), target));
        }
    }
    for target in ["/a.txt", "/empty"] {
        cases.extend(RANGES.map(|range| with(target, &[("range", range)])));
    }
    cases.push(with("/large.bin", &[("range", "bytes=71000-71999")]));
    cases.extend(conditions(&format!(
        "\"{:x}-24\"",
        u128::from(CHANGED) * 1_000_000_000
    )));
    for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT] {
        cases.push(Case {
            body: "some content",
            ..case(method, "/a.txt")
        });
    }
    for size in [10_000, 32_000, 33_000, 40_000] {
        for method in [Method::GET, Method::HEAD, Method::POST] {
            cases.push(Case {
                fields: vec![("x", "y".repeat(size))],
                ..case(method, "/a.txt")
            });
        }
    }
    cases.push(with(
        "/a.txt",
        &[("accept", "*/*"), ("accept", "text/html"), ("x", "")],
    ));
    cases.push(with(
        "/a.txt",
        &[("cookie", "a=b"), ("user-agent", "test \t x")],
    ));
    cases.push(with(
        "/a.txt?q",
        &[
            ("referer", "https://localhost/\"r\u{e9}f\\"),
            ("user-agent", ""),
        ],
    ));
    cases.push(with("/none", &[("referer", &"r".repeat(300))]));
    cases.push(with("/a.txt", &[("x", "r\u{e9}sum\u{e9}")]));
    cases
}

impl Answer {
    fn new(status: u16, headers: &HeaderMap, body: Vec<u8>, server: &Running) -> Self {
        assert!(headers.contains_key("date"));
        let port = format!(":{}", server.address.port());
        let text = |value: &http::HeaderValue| value.to_str().unwrap().replace(&port, ":PORT");
        let mut fields: Vec<_> = headers
            .iter()
            .filter(|(name, _)| {
                !["date", "connection", "transfer-encoding"].contains(&name.as_str())
            })
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        fields.sort_unstable();
        Self {
            status,
            fields,
            body,
        }
    }

    /// The same with Location as it is understood beside `target` (RFC 3986 section 5.2): files that are a service say it relative.
    fn resolved(mut self, target: &str) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (name, value) in &mut self.fields {
            if name == "location" {
                let relative = value.strip_prefix("./").unwrap();
                *value = format!("{}/{relative}", folder.replace("//", "/"));
            }
        }
        self
    }

    async fn of(response: Response<Incoming>, server: &Running) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Self::new(head.status.as_u16(), &head.headers, body, server)
    }
}

fn request(case: &Case, target: String) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(case.method.clone()).uri(target);
    for (name, value) in &case.fields {
        request = request.header(
            *name,
            http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    request.body(Full::new(case.body.into())).unwrap()
}

/// The answers over one protocol of what `site` makes of a folder, and the lines of the log without what differs
/// between them.
async fn answers(
    protocol: Protocol,
    cases: &[Case],
    site: impl FnOnce(&Path) -> Site,
) -> (Vec<Answer>, Vec<String>) {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let site = site(folder.path());
    let server = Running::tls(|options: &mut Options| {
        options.site = site;
        options.policy = Policy::FixedH3;
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
    });
    let all = cases
        .iter()
        .flat_map(|case| std::iter::repeat_n(case, TIMES));
    let mut answers = Vec::new();
    match protocol {
        Protocol::H1 => {
            let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
            for case in all {
                let mut request = request(case, case.target.clone());
                let host = "localhost".parse().unwrap();
                request.headers_mut().insert("host", host);
                let response = soon(client.send_request(request)).await.unwrap();
                let ends = response.headers().contains_key("connection");
                answers.push(soon(Answer::of(response, &server)).await);
                if ends || soon(client.ready()).await.is_err() {
                    client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
                }
            }
        }
        Protocol::H2 => {
            let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
            for case in all {
                let request = request(case, format!("https://localhost{}", case.target));
                let response = soon(client.send_request(request)).await.unwrap();
                answers.push(soon(Answer::of(response, &server)).await);
            }
        }
        Protocol::H3 => {
            let mut client = H3::connect(&server);
            for case in all {
                let request = request(case, format!("https://localhost{}", case.target));
                let content = Bytes::from_static(case.body.as_bytes());
                let (_, head, body) = client.ask(request.map(|_| content));
                answers.push(Answer::new(
                    head.status().as_u16(),
                    head.headers(),
                    body,
                    &server,
                ));
            }
        }
    }
    server.ask_to_stop();
    server.join().unwrap();
    let lines = lines.text();
    let lines = lines.lines().map(|line| {
        let (_time, rest) = line.split_once(' ').unwrap();
        ["h1", "h2", "h3"]
            .iter()
            .fold(rest.to_owned(), |line, protocol| {
                line.replace(&format!(" protocol={protocol} "), " ")
            })
    });
    let lines = lines.map(|line| without_duration(&line));
    (answers, lines.collect())
}

/// A line without the time that its response took and the key of its client, of which it is checked that they are there.
fn without_duration(line: &str) -> String {
    let (before, rest) = line.split_once(" duration=").expect(line);
    let (duration, after) = rest.split_once(' ').expect(line);
    let (seconds, micros) = duration.split_once('.').expect(line);
    assert!(
        seconds.parse::<u64>().is_ok() && micros.len() == 6,
        "{line}"
    );
    // Each server hashes addresses under a key of its own.
    let (start, key) = before.split_once(" key=").expect(line);
    let (key, end) = key.split_once(' ').expect(line);
    assert_eq!(key.len(), 12, "{line}");
    format!("{start} {end} {after}")
}

/// Checks that every request has the same answer everywhere, and gives the answers, [`TIMES`] of each.
pub(crate) async fn check_one_way(cases: &[Case], site: impl Fn(By, &Path) -> Site) -> Vec<Answer> {
    let (expected, expected_log) =
        answers(Protocol::H2, cases, |folder| site(By::Files, folder)).await;
    assert_eq!(expected_log.len(), expected.len(), "a line each");
    for by in [By::Files, By::Service] {
        for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
            let (answers, log) = answers(protocol, cases, |folder| site(by, folder)).await;
            for (at, (answer, expected)) in answers.into_iter().zip(&expected).enumerate() {
                let case = &cases[at / TIMES];
                let answer = &match by {
                    By::Files => answer,
                    By::Service => answer.resolved(&case.target),
                };
                let shown = (&case.method, &case.target, &case.fields);
                assert_eq!(
                    answer,
                    expected,
                    "{protocol:?} {by:?} {shown:?}, time {}",
                    at % TIMES
                );
            }
            for (line, expected) in log.iter().zip(&expected_log) {
                assert_eq!(line, expected, "{protocol:?} {by:?}");
            }
            assert_eq!(log.len(), expected_log.len(), "{protocol:?} {by:?}");
        }
    }
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_and_logged_the_same_everywhere() {
    let cases = cases();
    assert!(cases.len() >= 150, "{}", cases.len());
    let answers = check_one_way(&cases, |by, folder| {
        make(folder);
        match by {
            By::Files => Site::files(folder),
            By::Service => Site::service(Files::open(folder).unwrap()),
        }
    })
    .await;
    for statuses in [200, 206, 304, 308, 400, 404, 405, 412, 416, 431] {
        let seen = answers.iter().any(|answer| answer.status == statuses);
        assert!(seen, "{statuses} is among them");
    }
}

/// A request for stream 1 or above in literals, with a Range field or without.
fn literal_get(stream: u8, path: &str, range: bool) -> Vec<u8> {
    let literal = |name: &[u8], value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        [name, &[length], value.as_bytes()].concat()
    };
    let mut block = vec![0x82, 0x86];
    block.extend(literal(&[0x04], path));
    block.extend(literal(&[0x01], "localhost"));
    if range {
        block.extend(literal(&[0x0f, 0x23], "bytes=0-1"));
    }
    let length = u8::try_from(block.len()).unwrap();
    [&[0, 0, length, 1, 5, 0, 0, 0, stream], &block[..]].concat()
}

/// The type of the first frame on a stream, and the first byte of its content: for HEADERS the status.
async fn first_frame(client: &mut TcpStream, stream: u8) -> (u8, u8) {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        let mut content = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        client.read_exact(&mut content).await.unwrap();
        if head[8] == stream {
            return (head[3], content[0]);
        }
    }
}

/// Asks on a stream of a connection in clear text; the first frame of the answer.
async fn ask(client: &mut TcpStream, stream: u8, path: &str, range: bool) -> (u8, u8) {
    let request = literal_get(stream, path, range);
    client.write_all(&request).await.unwrap();
    soon(first_frame(client, stream)).await
}

/// `http` can't say such a target, so it is sent byte by byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_with_a_fragment_is_refused_whether_its_answer_is_prepared_or_not() {
    const OK: (u8, u8) = (1, 0x88);
    let server = Running::clear(|_| {});
    server.site.write("a.txt", TEXT);
    for path in ["/a.txt?q#x", "/a.txt#x", "/a.txt?<q>", "/a.txt?q q"] {
        let client = &mut server.connect().await;
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        client.write_all(preface).await.unwrap();
        assert_eq!(ask(client, 1, "/a.txt?q", false).await, OK);
        let mut answers = Vec::new();
        for (stream, range) in [(3, false), (5, true), (7, false), (9, false)] {
            answers.push(ask(client, stream, path, range).await);
        }
        assert_ne!(answers[0], OK, "{path}");
        assert_eq!(answers[0].0, answers[1].0, "{path}: refused in one way");
        assert!(
            answers[1..]
                .iter()
                .all(|answer| answer.0 == answers[0].0 && *answer != OK)
        );
    }
}
