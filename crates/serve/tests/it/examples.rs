//! The examples' applications over all three protocols: curl over HTTP/1.1 and HTTP/2, our own client
//! over HTTP/3.

#[path = "../../examples/events.rs"]
#[expect(dead_code, reason = "their `main` runs elsewhere")]
mod events;
#[path = "../../examples/file_store.rs"]
#[expect(dead_code, reason = "their `main` runs elsewhere")]
mod file_store;
#[path = "../../examples/graceful.rs"]
#[expect(dead_code, reason = "their `main` runs elsewhere")]
mod graceful;
#[path = "../../examples/json.rs"]
#[expect(dead_code, reason = "their `main` runs elsewhere")]
mod json;
#[path = "../../examples/uploads.rs"]
#[expect(dead_code, reason = "their `main` runs elsewhere")]
mod uploads;

use crate::common::{Running, TIME_LIMIT, h3::H3};
use altway_serve::{Options, Serve, serve};
use bytes::Bytes;
use http::Request;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const VERSIONS: [&str; 2] = ["--http1.1", "--http2"];

fn run(serve: impl FnOnce(Options) -> Serve + Send + 'static) -> Running {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    Running::embedded(runtime.unwrap(), serve)
}

/// Returns the output of curl: the body, then the status and the version on a line of their own.
fn curl(server: &Running, path: &str, arguments: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sSk", "-m", "20", "-w", "\n%{http_code} %{http_version}"]);
    curl.args(arguments);
    let output = curl
        .arg(format!("https://{}{path}", server.address))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn ask(
    server: &Running,
    request: http::request::Builder,
    content: impl Into<Bytes>,
) -> (u16, String) {
    let (_, head, body) = H3::connect(server).ask(request.body(content.into()).unwrap());
    (head.status().as_u16(), String::from_utf8(body).unwrap())
}

#[test]
fn json_with_state() {
    let server = run(|options| serve(json::app(), options));
    let kind = "content-type: application/json";
    for (version, name) in VERSIONS.into_iter().zip(["1.1", "2"]) {
        let path = format!("/counters/{name}");
        let answer = curl(&server, &path, &[version, "-H", kind, "-d", r#"{"by": 2}"#]);
        assert_eq!(answer, format!("{{\"count\":2}}\n200 {name}"));
        let answer = curl(&server, &path, &[version]);
        assert_eq!(answer, format!("{{\"count\":2}}\n200 {name}"));
        let answer = curl(&server, &path, &[version, "-H", kind, "-d", "{}"]);
        assert!(answer.ends_with(&format!("422 {name}")), "{answer}");
    }
    let uri = "https://localhost/counters/3";
    let post = Request::post(uri).header("content-type", "application/json");
    let counted = (200, r#"{"count":2}"#.to_owned());
    assert_eq!(ask(&server, post, r#"{"by": 2}"#), counted);
    assert_eq!(ask(&server, Request::get(uri), ""), counted);
    assert_eq!(ask(&server, Request::get(format!("{uri}x")), "").0, 404);
}

#[test]
fn uploads_are_measured() {
    let server = run(|options| serve(uploads::app(), options));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 3_000_001]).unwrap();
    let form = format!("a=@{};filename=one", file.display());
    for (version, name) in VERSIONS.into_iter().zip(["1.1", "2"]) {
        let answer = curl(&server, "/", &[version, "-F", &form]);
        assert_eq!(answer, format!("one: 3000001 bytes\n\n200 {name}"));
    }
    let mut content =
        b"--x\r\ncontent-disposition: form-data; name=a; filename=one\r\n\r\n".to_vec();
    content.resize(content.len() + 300_001, b'x');
    content.extend_from_slice(b"\r\n--x--\r\n");
    let post = Request::post("https://localhost/")
        .header("content-type", "multipart/form-data; boundary=x");
    let measured = (200, "one: 300001 bytes\n".to_owned());
    assert_eq!(ask(&server, post, content), measured);
}

#[test]
fn files_are_stored_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    let server = run(move |options| serve(file_store::app(&root).unwrap(), options));
    let content = "x".repeat(300_001);
    let source = server.site.folder().join("source");
    std::fs::write(&source, &content).unwrap();
    for (version, name) in VERSIONS.into_iter().zip(["1.1", "2"]) {
        let form = format!("a=@{};filename=../{name} é.txt", source.display());
        let answer = curl(&server, "/files", &[version, "-F", &form]);
        assert_eq!(answer, format!("{name} é.txt\n\n201 {name}"));
        let answer = curl(&server, "/files", &[version, "-F", &form]);
        assert_eq!(
            answer,
            format!("{name} é.txt is there already\n\n409 {name}")
        );
        let path = format!("/files/{name}%20%C3%A9.txt");
        let answer = curl(&server, &path, &[version, "-r", "5-6"]);
        assert_eq!(answer, format!("xx\n206 {name}"));
        let answer = curl(&server, &path, &[version, "-I", "-o", "/dev/null"]);
        assert_eq!(answer, format!("\n200 {name}"));
        for (method, path, status) in [
            ("DELETE", "/files", 405),
            ("POST", path.as_str(), 405),
            ("GET", "/files", 405),
            ("GET", "/files/none", 404),
            ("GET", "/files/..%2fsource", 400),
            ("GET", "/", 404),
        ] {
            let answer = curl(&server, path, &[version, "-X", method, "-o", "/dev/null"]);
            assert_eq!(answer, format!("\n{status} {name}"), "{method} {path}");
        }
    }
    let uri = "https://localhost/files";
    let post = || Request::post(uri).header("content-type", "multipart/form-data; boundary=x");
    let form = format!(
        "--x\r\ncontent-disposition: form-data; name=a; filename=three\r\n\r\n{content}\r\n--x--\r\n"
    );
    assert_eq!(ask(&server, post(), form.clone()), (201, "three\n".into()));
    assert_eq!(ask(&server, post(), form).0, 409);
    let three = Request::get(format!("{uri}/three"));
    assert_eq!(ask(&server, three, ""), (200, content));
    assert_eq!(ask(&server, Request::delete(uri), "").0, 405);
    assert_eq!(ask(&server, Request::get(uri), "").0, 405);
}

#[test]
fn events_arrive_as_they_are_sent() {
    let server = run(|options| serve(events::app(Duration::from_millis(200)), options));
    let expected = "event: tick\ndata: 0\n\nevent: tick\ndata: 1\n\n";
    for version in VERSIONS {
        // Never ending: curl is stopped after a while, and shows what it received. On a busy machine it takes longer
        // to begin.
        let ask = |seconds: &&str| curl(&server, "/", &[version, "-N", "-m", seconds]);
        let mut answers = ["2", "8", "32"].iter().map(|it| (*it, ask(it)));
        let enough = |(_, answer): &(_, String)| answer.starts_with(expected);
        let (seconds, answer) = answers.find(enough).expect("two events in 32 s");
        assert!(seconds != "2" || !answer.contains("data: 20\n"), "{answer}");
    }
    let mut client = H3::connect(&server);
    let stream = client.send("/");
    assert_eq!(
        client.head(stream).0.headers()["content-type"],
        "text/event-stream"
    );
    let mut received = Vec::new();
    while received.len() < expected.len() {
        received.extend_from_slice(&client.part(stream).unwrap());
    }
    assert!(received.starts_with(expected.as_bytes()));
    client.stop(stream);
}

#[test]
fn a_stop_lets_slow_requests_end() {
    let slow = Duration::from_millis(1500);
    let begun = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&begun);
    let note = move |request: axum::extract::Request| {
        count.fetch_add(
            usize::from(request.uri().path() == "/slow"),
            Ordering::Relaxed,
        );
        std::future::ready(request)
    };
    let server = run(move |options| {
        let app = graceful::app(slow).layer(axum::middleware::map_request(note));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        serve(app, options)
    });
    for (version, name) in VERSIONS.into_iter().zip(["1.1", "2"]) {
        let answer = curl(&server, "/", &[version]);
        assert_eq!(answer, format!("hello 127.0.0.1\n\n200 {name}"));
    }
    let hello = (200, "hello 127.0.0.1\n".to_owned());
    assert_eq!(ask(&server, Request::get("https://localhost/"), ""), hello);
    std::thread::scope(|scope| {
        let server = &server;
        let slow = VERSIONS.map(|version| scope.spawn(move || curl(server, "/slow", &[version])));
        let third = scope.spawn(|| ask(server, Request::get("https://localhost/slow"), ""));
        let give_up = Instant::now() + TIME_LIMIT;
        while begun.load(Ordering::Relaxed) < 3 {
            assert!(Instant::now() < give_up, "{begun:?} of 3 have begun");
            std::thread::sleep(Duration::from_millis(10));
        }
        server.ask_to_stop();
        for (answer, name) in slow.into_iter().zip(["1.1", "2"]) {
            assert_eq!(answer.join().unwrap(), format!("at last\n\n200 {name}"));
        }
        assert_eq!(third.join().unwrap(), (200, "at last\n".to_owned()));
    });
    server.join().unwrap();
}
