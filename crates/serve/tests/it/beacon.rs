//! The beacon: off unless a site turns it on, the same over every protocol, and strict with what is sent to it.

use crate::common::{Running, h1, h2, h3::H3, read, soon};
use altway_serve::{HostPolicy, Options, SelectionLog};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::Value;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

const SCRIPT: &str = "/.well-known/altway/beacon.js";
const REPORT: &str = "/.well-known/altway/beacon";
const GOOD: &str = "v=1&p=h2&n=1&s=1&b=307&t=10&l=20";

/// Status, the fields that the beacon gives, and content.
type Answered = (u16, Vec<(String, String)>, Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Over {
    H1,
    H2,
    H3,
}

const ALL: [Over; 3] = [Over::H1, Over::H2, Over::H3];

/// A client of one connection.
enum Client {
    H1(crate::common::H1<Full<Bytes>>),
    H2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
    H3(Box<H3>),
}

impl Client {
    async fn connect(server: &Running, over: Over) -> Self {
        match over {
            Over::H1 => Self::H1(h1(server.connect_tls(&[b"http/1.1"]).await).await),
            Over::H2 => Self::H2(h2(server.connect_tls(&[b"h2"]).await).await),
            Over::H3 => Self::H3(Box::new(H3::connect(server))),
        }
    }

    async fn ask(&mut self, request: Request<Bytes>) -> Answered {
        match self {
            Self::H1(client) => {
                let mut request = request.map(Full::new);
                let host = request.uri().host().unwrap().parse().unwrap();
                *request.uri_mut() = request.uri().path().parse().unwrap();
                request.headers_mut().insert("host", host);
                whole(soon(client.send_request(request)).await.unwrap()).await
            }
            Self::H2(client) => {
                let request = request.map(Full::new);
                whole(soon(client.send_request(request)).await.unwrap()).await
            }
            Self::H3(client) => {
                let (_, head, body) = client.ask(request);
                (head.status().as_u16(), fields(head.headers()), body)
            }
        }
    }

    /// Asks for nothing for that long, and acknowledges what has come.
    async fn idle(&mut self, time: Duration) {
        if let Self::H3(client) = self {
            let end = Instant::now() + time;
            client.wait_until(|| Instant::now() >= end);
        } else {
            tokio::time::sleep(time).await;
        }
    }
}

async fn whole(response: Response<Incoming>) -> Answered {
    let (status, fields) = (response.status().as_u16(), fields(response.headers()));
    (status, fields, soon(read(response)).await)
}

fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
    let named = [
        "allow",
        "cache-control",
        "content-type",
        "retry-after",
        "x-content-type-options",
    ];
    let found = named.iter().filter_map(|name| {
        let value = headers.get(*name)?.to_str().unwrap();
        Some(((*name).to_owned(), value.to_owned()))
    });
    found.collect()
}

fn request(method: Method, host: &str, path: &str, content: &str) -> Request<Bytes> {
    let request = Request::builder().method(method);
    let request = request.uri(format!("https://{host}{path}"));
    request
        .body(Bytes::copy_from_slice(content.as_bytes()))
        .unwrap()
}

fn report(content: &str) -> Request<Bytes> {
    request(Method::POST, "localhost", REPORT, content)
}

fn with_beacon(change: impl FnOnce(&mut Options)) -> Running {
    Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.beacon = Some("1%".parse().unwrap());
        change(options);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_the_beacon_have_the_same_answer_over_every_protocol() {
    let long = format!("{GOOD}{}", "&x=1".repeat(600));
    let mut foreign = report(GOOD);
    let cross_site = "cross-site".parse().unwrap();
    foreign.headers_mut().insert("sec-fetch-site", cross_site);
    let mut own = report(GOOD);
    let same_origin = "same-origin".parse().unwrap();
    own.headers_mut().insert("sec-fetch-site", same_origin);
    let asked = |method, path| request(method, "localhost", path, "");
    let cases = [
        (asked(Method::GET, SCRIPT), 200),
        (asked(Method::HEAD, SCRIPT), 200),
        (asked(Method::POST, SCRIPT), 405),
        (asked(Method::GET, REPORT), 405),
        (own, 204),
        (foreign, 403),
        (report("<script>alert(1)</script>"), 400),
        (report(""), 400),
        (report(&long), 413),
        (asked(Method::GET, "/.well-known/altway/other"), 404),
    ];
    let mut seen: Vec<Vec<Answered>> = Vec::new();
    for over in ALL {
        let server = with_beacon(|_| {});
        let mut answers = Vec::new();
        for (request, status) in &cases {
            // An answer before the end of a request's content may end a connection over HTTP/1.1.
            let mut client = Client::connect(&server, over).await;
            let answer = client.ask(request.clone()).await;
            assert_eq!(answer.0, *status, "{over:?} {request:?}");
            answers.push(answer);
        }
        let script = String::from_utf8(answers[0].2.clone()).unwrap();
        assert!(script.contains("Math.random() >= 0.01"), "{script}");
        assert!(answers[1].2.is_empty());
        let (_, counts) = server.monitor().timing();
        assert_eq!((counts.taken, counts.matched, counts.refused), (1, 0, 0));
        seen.push(answers);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_beacon_its_paths_are_the_sites_own() {
    let server = Running::tls(|options| options.threads = NonZeroUsize::MIN);
    std::fs::create_dir_all(server.site.folder().join(".well-known/altway")).unwrap();
    server.site.write(".well-known/altway/beacon.js", "mine");
    for over in ALL {
        let mut client = Client::connect(&server, over).await;
        let (status, _, body) = client
            .ask(request(Method::GET, "localhost", SCRIPT, ""))
            .await;
        assert_eq!((status, &body[..]), (200, &b"mine"[..]), "{over:?}");
        let mut client = Client::connect(&server, over).await;
        assert_eq!(client.ask(report(GOOD)).await.0, 405, "{over:?}");
    }
    assert_eq!(server.monitor().timing().1.taken, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_site_has_its_own_share_of_page_views() {
    let site = |name: &str, beacon: Option<&str>| {
        let mut site = HostPolicy::new(name, "learned".parse().unwrap());
        site.beacon = beacon.map(|share| share.parse().unwrap());
        site
    };
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.hosts = Some(vec![site("a.test", Some("2.5%")), site("b.test", None)]);
    });
    let script = async |host: &str| {
        let mut client = Client::connect(&server, Over::H2).await;
        let (status, _, body) = client.ask(request(Method::GET, host, SCRIPT, "")).await;
        (status, String::from_utf8(body).unwrap())
    };
    let (status, text) = script("a.test").await;
    assert!(status == 200 && text.contains(">= 0.025"), "{text}");
    assert_eq!(script("b.test").await.0, 404);
    assert_eq!(script("localhost").await.0, 404);
    server.replace_hosts(&[site("a.test", None), site("b.test", Some("100%"))]);
    assert_eq!(script("a.test").await.0, 404);
    assert!(script("b.test").await.1.contains(">= 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_sends_ten_reports_and_is_told_to_wait_then() {
    let server = with_beacon(|_| {});
    for (index, over) in [Over::H1, Over::H2, Over::H3]
        .iter()
        .cycle()
        .take(11)
        .enumerate()
    {
        let mut client = Client::connect(&server, *over).await;
        let (status, fields, _) = client.ask(report(GOOD)).await;
        let expected = if index < 10 { 204 } else { 429 };
        assert_eq!(status, expected, "{index}");
        let wait = fields
            .iter()
            .any(|(name, value)| name == "retry-after" && value == "60");
        assert_eq!(wait, index == 10);
    }
    assert_eq!(server.monitor().timing().1.refused, 1);
}

/// Lines of a selection log with a report.
fn reports(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("beacon").is_some()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_compared_with_the_page_that_the_server_timed_and_logged_as_numbers() {
    for (over, protocol, place) in [(Over::H2, "h2", 0), (Over::H3, "h3", 1)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("selection.jsonl");
        let log = SelectionLog::append(&path).unwrap();
        let server = with_beacon(|options| options.selection_log = Some(log));
        let mut client = Client::connect(&server, over).await;
        let (status, _, body) = client.ask(request(Method::GET, "localhost", "/", "")).await;
        assert_eq!((status, body.len()), (200, 7));
        // A page is over a second after its last response.
        client.idle(Duration::from_millis(1_100)).await;
        let own = GOOD.replace("p=h2", &format!("p={protocol}"));
        assert_eq!(client.ask(report(&own)).await.0, 204);
        let (timing, counts) = server.monitor().timing();
        assert_eq!((counts.taken, counts.matched), (1, 1), "{over:?}");
        let bias = timing[0].bias;
        assert_eq!((bias[place].reports, bias[1 - place].reports), (1.0, 0.0));
        let lines = soon(async {
            loop {
                let lines = reports(&path);
                if !lines.is_empty() {
                    return lines;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let beacon = &lines[0]["beacon"];
        let seconds = beacon["server_seconds"].as_f64().unwrap();
        assert!(
            (seconds.ln() - 0.01_f64.ln() - bias[place].mean).abs() < 0.01,
            "{beacon}"
        );
        assert_eq!(
            (&beacon["responses"], &beacon["bytes"]),
            (&1.into(), &307.into())
        );
        assert!(lines[0].get("page").is_none() && lines[0]["protocol"] == protocol);
        let all = lines[0].as_object().unwrap();
        assert!(
            beacon.as_object().unwrap().values().all(Value::is_number) && all.contains_key("path")
        );
    }
}
