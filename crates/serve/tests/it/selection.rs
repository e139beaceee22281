//! Tests that a client's connections decide what it is offered next, also after a restart.

use super::gate::frame;
use crate::common::access_log::Lines;
use crate::common::{Running, alt_svc, get, h1, h2, h3::H3, read, soon};
use altway_http3::{CloseReason, Code};
use altway_serve::select::Model;
use altway_serve::select::model::{Context, Judgement};
use altway_serve::{AccessLog, Options, Policy};
use bytes::Bytes;
use http::Request;
use http::header::{HOST, USER_AGENT};
use http_body_util::Empty;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// A client of which the embedded surface knows that it takes less over QUIC than loopback carries.
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";

/// Bytes of a download that shows the rate of any path to loopback.
const BULK: u64 = 64 << 20;

/// Most that is predicted of a path of which nothing is known, in percent. What has been learnt predicts more, by how much
/// changes with every visit, each of which is a sample of the path.
const UNKNOWN: f64 = 5.0;

fn request(path: &str) -> Request<Empty<Bytes>> {
    let mut request = get(path);
    let agent = FIREFOX.try_into().unwrap();
    request.headers_mut().insert(USER_AGENT, agent);
    request
}

/// A server with a large file, and its log.
struct Logged {
    server: Running,
    lines: Lines,
}

fn server(change: impl FnOnce(&mut Options)) -> Logged {
    let (lines, change) = logging(change);
    Logged::new(Running::tls(change), lines)
}

/// One worker, whose log goes to the lines.
fn logging(change: impl FnOnce(&mut Options)) -> (Lines, impl FnOnce(&mut Options)) {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let change = |options: &mut Options| {
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
        change(options);
    };
    (lines, change)
}

impl Logged {
    fn new(server: Running, lines: Lines) -> Self {
        let file = std::fs::File::create(server.site.folder().join("bulk")).unwrap();
        file.set_len(BULK).unwrap();
        Self { server, lines }
    }

    /// Returns how much longer, in percent, HTTP/3 is predicted to take by the decision of a small response on a new
    /// connection over HTTP/2.
    async fn predicted(&self) -> f64 {
        // A path of its own, as lines of downloads may still be on their way.
        let asked = |text: &str| -> Vec<String> {
            let is_it = |line: &&str| line.contains("path=\"/index.html\"");
            text.lines().filter(is_it).map(str::to_owned).collect()
        };
        let before = asked(&self.lines.text()).len();
        let mut client = h2(self.server.connect_tls(&[b"h2"]).await).await;
        let response = soon(client.send_request(request("/index.html")))
            .await
            .unwrap();
        let offer = alt_svc(&response).is_some_and(|field| field.starts_with("h3="));
        assert!(!offer, "a path so short is none for HTTP/3");
        soon(read(response)).await;
        drop(client);
        soon(async {
            loop {
                let lines = asked(&self.lines.text());
                let last = lines.get(before);
                let reason = last.and_then(|line| line.split("HTTP/3 predicted ").nth(1));
                if let Some((percent, _)) = reason.and_then(|it| it.split_once('%')) {
                    return percent.parse().unwrap();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    async fn download_over_h2(&self) {
        let mut client = h2(self.server.connect_tls(&[b"h2"]).await).await;
        let response = soon(client.send_request(request("/bulk"))).await.unwrap();
        assert_eq!(soon(read(response)).await.len() as u64, BULK);
        // What comes next shows that the client has it.
        soon(read(soon(client.send_request(request("/"))).await.unwrap())).await;
    }

    async fn download_over_h1(&self) {
        let mut client = h1(self.server.connect_tls(&[b"http/1.1"]).await).await;
        for (path, size) in [("/bulk", BULK), ("/", 7)] {
            let mut request = request(path);
            let host = self.server.address.to_string();
            *request.uri_mut() = path.parse().unwrap();
            request.headers_mut().insert(HOST, host.parse().unwrap());
            let response = soon(client.send_request(request)).await.unwrap();
            assert_eq!(soon(read(response)).await.len() as u64, size);
        }
    }

    fn download_over_h3(&self) {
        let mut client = H3::connect(&self.server);
        let stream = client.send("/bulk");
        assert_eq!(client.head(stream).0.status(), 200);
        assert_eq!(client.body(stream).len() as u64, BULK);
    }

    fn stop(self) {
        self.server.ask_to_stop();
        self.server.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_shows_the_rate_of_a_path() {
    for over_h1 in [false, true] {
        let server = server(|_| {});
        let unknown = server.predicted().await;
        assert!(unknown.abs() < UNKNOWN, "{unknown}");
        match over_h1 {
            true => server.download_over_h1().await,
            false => server.download_over_h2().await,
        }
        let known = server.predicted().await;
        assert!(known > 15.0, "{known} % (HTTP/1.1: {over_h1})");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_over_http3_shows_it_too() {
    let server = server(|_| {});
    server.download_over_h3();
    // Clients of another class at the same address: what its path carries over TCP is unknown, and is taken to be
    // what it carries over QUIC at least.
    let known = server.predicted().await;
    assert!(known.is_finite());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_learnt_outlives_the_process_where_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let run = |state: Option<&Path>| server(|options| options.state = state.map(Path::to_owned));
    let first = run(Some(&state));
    first.download_over_h2().await;
    let known = first.predicted().await;
    assert!(known > 15.0, "{known}");
    first.stop();
    let again = run(Some(&state)).predicted().await;
    assert!(again > UNKNOWN, "{known} {again}");
    let without = run(None).predicted().await;
    assert!(without.abs() < UNKNOWN, "{without}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_takes_over_knows_what_the_one_before_has_learnt() {
    let dir = tempfile::tempdir().unwrap();
    let options = |options: &mut Options| {
        options.state = Some(dir.path().join("state"));
        options.takeover = Some(dir.path().join("takeover"));
    };
    let first = server(options);
    first.download_over_h2().await;
    let known = first.predicted().await;
    assert!(known > 15.0, "{known}");
    let (lines, change) = logging(options);
    let second = Logged::new(first.server.next(change).unwrap(), lines);
    first.server.join().unwrap();
    let again = second.predicted().await;
    assert!(again > UNKNOWN, "{known} {again}");
    // The former process has left the folder alone at its end.
    second.stop();
    let third = server(options).predicted().await;
    assert!(third > UNKNOWN, "{known} {third}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_state_is_put_aside_and_a_folder_that_is_none_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("paths.state"), b"nonsense").unwrap();
    let server = Running::tls(|options| options.state = Some(dir.path().to_owned()));
    assert!(dir.path().join("paths.damaged").exists());
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let next = server.next(|options| {
        options.state = Some(file);
        options.port = 0;
    });
    let error = next.err().unwrap().to_string();
    assert!(error.starts_with("cannot use the state folder"), "{error}");
}

/// HEADERS of a request for `/` of localhost by `agent`, in HPACK's literals.
fn headers(agent: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x84, 0x01, 9];
    block.extend_from_slice(b"localhost");
    // `user-agent` has the static index 58 (RFC 7541 appendix A).
    block.extend_from_slice(&[0x0f, 58 - 15, u8::try_from(agent.len()).unwrap()]);
    block.extend_from_slice(agent.as_bytes());
    frame(1, 0x05, &block)
}

/// The payload of the first ALTSVC frame (RFC 7838 section 4) that comes, after how many DATA frames.
async fn first_alt_svc(mut client: impl AsyncRead + Unpin) -> (usize, Vec<u8>) {
    let mut data = 0;
    loop {
        let mut header = [0; 9];
        client.read_exact(&mut header).await.unwrap();
        let mut payload = vec![0; usize::from(header[1]) << 8 | usize::from(header[2])];
        client.read_exact(&mut payload).await.unwrap();
        match header[3] {
            0x0 => data += 1,
            0xa => return (data, payload),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firefox_has_its_offer_in_a_frame_when_its_page_has_come() {
    let server = Running::tls(|options| {
        options.policy = "threshold:rtt=0ms,loss=1%".parse().unwrap();
    });
    let mut client = server.connect_tls(&[b"h2"]).await;
    let preface = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..],
        &headers(FIREFOX),
    ];
    client.write_all(&preface.concat()).await.unwrap();
    let (data, payload) = soon(first_alt_svc(client)).await;
    assert_eq!(data, 1, "the page has come before");
    let port = server.address.port();
    let expected = format!("https://localhosth3=\":{port}\"; ma=2592000");
    assert_eq!(
        String::from_utf8_lossy(&payload),
        format!("\0\u{11}{expected}")
    );

    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(request("/"))).await.unwrap();
    assert!(
        alt_svc(&response).is_some_and(|it| it.starts_with("h3=")),
        "its later responses have it, so that it does not run out"
    );
}

#[test]
fn the_connection_of_a_firefox_that_is_to_go_back_ends_once_it_idles_and_no_other_does() {
    let logged = server(|options| options.policy = "h2".parse().unwrap());
    let ask = |client: &mut H3, agent: &str| {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = "https://localhost/index.html".parse().unwrap();
        let agent = agent.try_into().unwrap();
        request.headers_mut().insert(USER_AGENT, agent);
        let (_, head, _) = client.ask(request);
        assert_eq!(head.headers()["alt-svc"], "clear");
    };
    let (mut firefox, mut other) = (H3::connect(&logged.server), H3::connect(&logged.server));
    ask(&mut other, "curl/8.15.0");
    ask(&mut firefox, FIREFOX);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        firefox.pump();
    }
    ask(&mut firefox, FIREFOX);
    let idle = Instant::now();
    let closed = firefox.closed();
    let lived = idle.elapsed();
    assert!(
        lived > Duration::from_millis(2_500),
        "closed after {lived:?}"
    );
    assert!(
        matches!(
            closed,
            CloseReason::Peer {
                code: Code::H3_NO_ERROR,
                ..
            }
        ),
        "{closed:?}"
    );
    ask(&mut other, "curl/8.15.0");
    logged.stop();
}

/// A model of a program's, with a defect.
#[derive(Debug)]
struct Panicking;

impl Model for Panicking {
    fn judge(&self, _: &Context<'_>) -> Judgement {
        panic!("as it should")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_model_of_the_program_panics_the_policy_decides_and_no_connection_is_lost() {
    let server = Running::tls(|options| {
        options.policy = Policy::FixedH3;
        options.model = Some(Arc::new(Panicking));
    });
    let mut kept = h2::<Empty<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
    // More than a worker is started again.
    for _ in 0..10 {
        let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
        for client in [&mut client, &mut kept] {
            let response = soon(client.send_request(get("/"))).await.unwrap();
            assert_eq!(response.status(), 200);
            assert!(alt_svc(&response).is_some_and(|it| it.contains("h3")));
        }
    }
}
