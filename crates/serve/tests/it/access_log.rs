//! One line a request, with the decision and its reason, whatever the protocol.

use crate::common::access_log::Lines;
use crate::common::{Running, get, h1, h2, h3::H3, read, soon};
use altway_serve::{AccessLog, LogFormat, Site};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, header};
use http_body_util::Empty;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_logged_once_with_its_decision() {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.policy = "threshold:rtt=10s".parse().unwrap();
        options.access_log = Some(log);
    });
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    soon(read(
        soon(client.send_request(get("/index.html"))).await.unwrap(),
    ))
    .await;
    H3::connect(&server).get("/index.htm");
    drop(client);
    server.ask_to_stop();
    server.join().unwrap();

    let text = lines.text();
    let mut log: Vec<_> = text
        .lines()
        .filter(|line| line.contains("\"/index.htm"))
        .collect();
    assert_eq!(log.len(), 2, "{text}");
    // Each worker writes its own lines: in order they are by their times.
    log.sort_unstable();
    let first = "client=127.0.0.1 protocol=h2 method=GET path=\"/index.html\" status=200 bytes=7 offer=h2 \
                 reason=\"min RTT";
    assert!(log[0].contains(first), "{}", log[0]);
    assert!(
        log[1].contains("protocol=h3 method=GET path=\"/index.htm\" status=404"),
        "{}",
        log[1]
    );
    assert!(log[1].contains("offer=h2 reason=\"min RTT"), "{}", log[1]);
}

/// A request for `path` with a Referer that would end a line, a string or a request if it could.
fn asks(path: &str) -> Request<Empty<Bytes>> {
    let referer = HeaderValue::from_bytes(b"https://localhost/\"} r\xe9f\\").unwrap();
    Request::get(path)
        .header(header::REFERER, referer)
        .header(header::USER_AGENT, "test/1 \"x\"")
        .body(Empty::new())
        .unwrap()
}

/// Asks for a file three times, so that it is prepared and repeated, and for one that isn't there, over each
/// protocol; gives the lines.
async fn lines_of_every_protocol(format: LogFormat) -> Vec<String> {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap().with_format(format);
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.policy = altway_serve::Policy::FixedH3;
        options.access_log = Some(log);
    });
    let targets = ["/index.html?secret"; 3].into_iter().chain(["/none"]);
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    for target in targets.clone() {
        let mut request = asks(target);
        let host = HeaderValue::from_static("localhost");
        request.headers_mut().insert(header::HOST, host);
        soon(client.ready()).await.unwrap();
        soon(read(soon(client.send_request(request)).await.unwrap())).await;
    }
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    for target in targets.clone() {
        let request = asks(&format!("https://localhost{target}"));
        soon(read(soon(client.send_request(request)).await.unwrap())).await;
    }
    let mut client = H3::connect(&server);
    for target in targets {
        let request = asks(&format!("https://localhost{target}"));
        client.ask(request.map(|_| Bytes::new()));
    }
    server.ask_to_stop();
    server.join().unwrap();
    let text = lines.text();
    assert!(!text.contains("secret"), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_protocol_has_the_same_lines_in_json() {
    let lines = lines_of_every_protocol(LogFormat::Json).await;
    assert_eq!(lines.len(), 12, "{lines:?}");
    let mut keys = None;
    for (at, line) in lines.iter().enumerate() {
        let mut said: Value = serde_json::from_str(line).expect(line);
        let said = said.as_object_mut().unwrap();
        assert!(
            said.remove("time")
                .unwrap()
                .as_str()
                .unwrap()
                .ends_with('Z')
        );
        let duration = said.remove("duration").unwrap().as_f64().unwrap();
        assert!((1e-6..10.0).contains(&duration), "{line}");
        said.remove("reason").unwrap();
        // The same client over every protocol, whose address is not in its key.
        let key = said.remove("key").unwrap();
        assert_eq!(keys.get_or_insert(key.clone()), &key);
        assert_eq!(key.as_str().unwrap().len(), 12, "{line}");
        let (protocol, is_found) = (["h1", "h2", "h3"][at / 4], at % 4 < 3);
        if !is_found {
            assert!(said["bytes"].as_u64().unwrap() > 0, "{line}");
            said.insert("bytes".into(), 0.into());
        }
        let expected = json!({
            "client": "127.0.0.1",
            "protocol": protocol,
            "method": "GET",
            "path": if is_found { "/index.html" } else { "/none" },
            "status": if is_found { 200 } else { 404 },
            "bytes": if is_found { 7 } else { 0 },
            "offer": "h3",
            "class": "other-other",
            "propensity": 1,
            "host": "localhost",
            "referer": "https://localhost/\"} r\u{fffd}f\\",
            "agent": "test/1 \"x\"",
        });
        assert_eq!(Value::Object(said.clone()), expected, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_protocol_has_the_same_lines_in_the_combined_format() {
    let lines = lines_of_every_protocol(LogFormat::Combined).await;
    assert_eq!(lines.len(), 12, "{lines:?}");
    for (at, line) in lines.iter().enumerate() {
        let version = ["HTTP/1.1", "HTTP/2.0", "HTTP/3.0"][at / 4];
        let rest = line.strip_prefix("127.0.0.1 - - [").expect(line);
        let (time, rest) = rest.split_once("] ").unwrap();
        assert!(time.ends_with(" +0000") && time.len() == 26, "{line}");
        let fields = r#""https://localhost/\x22} r\xEF\xBF\xBDf\x5C" "test/1 \x22x\x22""#;
        if at % 4 < 3 {
            let expected = format!("\"GET /index.html {version}\" 200 7 {fields}");
            assert_eq!(rest, expected);
        } else {
            let start = format!("\"GET /none {version}\" 404 ");
            assert!(rest.starts_with(&start) && rest.ends_with(fields), "{line}");
        }
    }
}

/// A server whose service answers late or at length, and the lines that it writes.
fn cutting() -> (Running, Lines) {
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let late = || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "late"
    };
    let large = || async {
        let piece = || Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 32 << 10]));
        axum::body::Body::from_stream(stream::iter((0..2048).map(move |_| piece())))
    };
    let app = axum::Router::new()
        .route("/late", axum::routing::get(late))
        .route("/large", axum::routing::get(large));
    let server = Running::tls(|options| {
        options.site = Site::service(app);
        options.threads = NonZeroUsize::MIN;
        options.access_log = Some(log);
    });
    (server, lines)
}

/// Asks for `/large` over each protocol, and gives the responses up at their beginnings.
async fn give_up(server: &Running) {
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut request = get("/large");
    *request.uri_mut() = "/large".parse().unwrap();
    drop(soon(client.send_request(request)).await.unwrap());
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    drop(soon(client.send_request(get("/large"))).await.unwrap());
    let mut client = H3::connect(server);
    let stream = client.send("/large");
    client.head(stream);
    client.stop(stream);
    client.close();
}

/// The line of a path over a protocol.
fn line_of<'a>(text: &'a str, protocol: &str, path: &str) -> &'a str {
    let start = format!("protocol={protocol} method=GET path=\"{path}\" status=200 bytes=");
    let mut lines = text.lines();
    lines.find(|line| line.contains(&start)).expect(text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_says_how_long_an_answer_took_and_whether_it_was_cut_off() {
    let (server, lines) = cutting();
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut request = get("/late");
    *request.uri_mut() = "/late".parse().unwrap();
    soon(read(soon(client.send_request(request)).await.unwrap())).await;
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/late"))).await.unwrap();
    soon(read(response)).await;
    H3::connect(&server).get("/late");
    give_up(&server).await;
    server.ask_to_stop();
    server.join().unwrap();
    let text = lines.text();
    for protocol in ["h1", "h2", "h3"] {
        let late = line_of(&text, protocol, "/late");
        let duration = late.split_once(" duration=").unwrap().1;
        let duration: f64 = duration.split(' ').next().unwrap().parse().unwrap();
        assert!((0.3..60.0).contains(&duration), "{late}");
        assert!(!late.contains(" cut="), "{late}");
        let large = line_of(&text, protocol, "/large");
        assert!(large.ends_with(" cut=1"), "{large}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_cut_off_says_how_much_of_it_was_sent() {
    const SIZE: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("large")).unwrap();
    file.set_len(SIZE).unwrap();
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone()).unwrap();
    let server = Running::tls(|options| {
        options.site = Site::files(folder.path());
        options.access_log = Some(log);
    });
    give_up(&server).await;
    server.ask_to_stop();
    server.join().unwrap();
    let text = lines.text();
    for protocol in ["h1", "h2", "h3"] {
        let line = line_of(&text, protocol, "/large");
        let bytes = line.split_once(" bytes=").unwrap().1;
        let bytes: u64 = bytes.split(' ').next().unwrap().parse().unwrap();
        assert!(bytes < SIZE && line.ends_with(" cut=1"), "{line}");
    }
}
