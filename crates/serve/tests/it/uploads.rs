//! Uploads of a configured site, the same over every protocol: curl over HTTP/1.1 and HTTP/2, our own client over
//! HTTP/3.

use crate::common::{Content, Running, TIME_LIMIT, h1, h2, h3::H3, soon};
use altway_config::{NoFiles, read};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PROTOCOLS: [&str; 3] = ["http1.1", "http2", "http3"];

/// A server that stores what is sent to `/in/*`, and the folder.
fn server(more: &str) -> (Running, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let server = serving(dir.path(), more);
    (server, dir)
}

fn serving(dir: &Path, more: &str) -> Running {
    let text = format!(
        "[[site]]\ndefault = true\nroute = [{{ path = \"/in/*\", upload = {{ folder = \"{}\"{more} }} }}]\n",
        dir.display()
    );
    let plan = read("test.toml", &text, &mut NoFiles).unwrap_or_else(|faults| panic!("{faults}"));
    Running::tls(|options| options.site = altway_site::site(&plan).unwrap())
}

/// One request over a protocol: status, Location and content.
fn ask(
    server: &Running,
    protocol: &str,
    method: &str,
    path: &str,
    fields: &[&str],
    content: &[u8],
) -> (u16, String, String) {
    if protocol == "http3" {
        let mut request = Request::builder().method(method);
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let request = request.uri(format!("https://localhost{path}"));
        let request = request.body(Bytes::copy_from_slice(content)).unwrap();
        let (_, head, body) = H3::connect(server).ask(request);
        let location = head.headers().get("location");
        let location = location.map_or("", |it| it.to_str().unwrap()).to_owned();
        return (
            head.status().as_u16(),
            location,
            String::from_utf8(body).unwrap(),
        );
    }
    let mut curl = Command::new("curl");
    curl.args([
        "-sSk",
        "-m",
        "30",
        "--path-as-is",
        &format!("--{protocol}"),
        "-X",
        method,
    ]);
    curl.args([
        "-w",
        "\n%{http_code} %header{location}",
        "--data-binary",
        "@-",
    ]);
    curl.args(["-H", "content-type:", "-H", "expect:"]);
    for field in fields {
        curl.args(["-H", field]);
    }
    let mut curl = curl
        .arg(format!("https://{}{path}", server.address))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = curl.stdin.take().unwrap();
    stdin.write_all(content).unwrap();
    drop(stdin);
    let output = curl.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{protocol} {method} {path}: {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let (content, last) = text.rsplit_once('\n').unwrap();
    let (status, location) = last.split_once(' ').unwrap();
    (status.parse().unwrap(), location.into(), content.into())
}

fn form(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut form = String::new();
    for (disposition, content) in parts {
        form +=
            &format!("--XX\r\ncontent-disposition: form-data; {disposition}\r\n\r\n{content}\r\n");
    }
    form += "--XX--\r\n";
    form.into_bytes()
}

const FORM: &str = "content-type: multipart/form-data; boundary=XX";

/// Names in the folder, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Method, path, fields and content, and what is answered: status and Location.
type Case<'c> = (&'c str, &'c str, &'c [&'c str], &'c [u8], u16, &'c str);

#[test]
fn every_protocol_has_the_same_answers() {
    let large = "x".repeat(3_000_000);
    let good = form(&[
        ("name=a; filename=\"../one é.txt\"", &large),
        ("name=b; filename=two", "2"),
    ]);
    let twice = form(&[("filename=x", "1"), ("filename=x", "2")]);
    let hostile = form(&[("filename=\"..\"", "1")]);
    let cases: [Case<'_>; 17] = [
        ("PUT", "/in/a%20b", &[], large.as_bytes(), 201, "/in/a%20b"),
        ("PUT", "/in/a%20b", &[], b"other", 409, ""),
        ("PUT", "/in/empty", &[], b"", 201, "/in/empty"),
        ("PUT", "/in/..%2fescaped", &[], b"x", 400, ""),
        ("PUT", "/in/%00", &[], b"x", 400, ""),
        ("PUT", "/in/.env", &[], b"x", 400, ""),
        ("PUT", "/in/NUL", &[], b"x", 400, ""),
        ("PUT", "/in/none/a", &[], b"x", 409, ""),
        (
            "PUT",
            "/in/part",
            &["content-range: bytes 0-0/2"],
            b"x",
            400,
            "",
        ),
        ("PUT", "/in/gz", &["content-encoding: gzip"], b"x", 415, ""),
        ("DELETE", "/in/empty", &[], b"", 405, ""),
        ("POST", "/in/", &[FORM], &good, 201, ""),
        ("POST", "/in/", &[FORM], &good, 409, ""),
        ("POST", "/in/", &[FORM], &twice, 409, ""),
        ("POST", "/in/", &[FORM], &hostile, 400, ""),
        ("POST", "/in/", &[FORM], &good[..good.len() - 6], 409, ""),
        ("POST", "/in/", &["content-type: text/plain"], b"x", 415, ""),
    ];
    let mut contents = Vec::new();
    for protocol in PROTOCOLS {
        let (server, dir) = server("");
        let mut answers = Vec::new();
        for (method, path, fields, content, status, location) in cases {
            let answer = ask(&server, protocol, method, path, fields, content);
            let found = (answer.0, answer.1.as_str());
            assert_eq!(
                found,
                (status, location),
                "{protocol} {method} {path}: {}",
                answer.2
            );
            answers.push(answer.2);
        }
        contents.push(answers);
        assert_eq!(
            names(dir.path()),
            ["a b", "empty", "one é.txt", "two"],
            "{protocol}"
        );
        for file in ["a b", "one é.txt"] {
            assert_eq!(
                fs::read(dir.path().join(file)).unwrap(),
                large.as_bytes(),
                "{protocol}"
            );
        }
    }
    assert_eq!(contents[0], contents[1]);
    assert_eq!(contents[0], contents[2]);
}

#[test]
fn an_upload_that_is_refused_early_is_answered() {
    for (more, path, status) in [
        (", body = \"100KB\"", "/in/a", 413),
        (", min-free = \"9000000GB\"", "/in/a", 507),
        ("", "/in/.a", 400),
        (", methods = \"POST\"", "/in/a", 405),
    ] {
        let (server, dir) = server(more);
        for protocol in PROTOCOLS {
            for size in [200_000, 2_000_000] {
                let answer = ask(&server, protocol, "PUT", path, &[], &vec![b'x'; size]);
                assert_eq!(answer.0, status, "{protocol} {size}: {}", answer.2);
                // Of unknown length: it is found out on the way.
                if protocol == "http1.1" {
                    let chunked = ["transfer-encoding: chunked"];
                    let answer = ask(&server, protocol, "PUT", path, &chunked, &vec![b'x'; size]);
                    assert_eq!(answer.0, status, "{protocol} {size}: {}", answer.2);
                }
            }
        }
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

/// The content of a client that stops sending.
fn beginning() -> StreamBody<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Unpin> {
    let piece = Frame::data(Bytes::from(vec![b'x'; 10_000]));
    let pieces = futures_util::stream::iter([Ok(piece)]);
    StreamBody::new(pieces.chain(futures_util::stream::pending()))
}

fn put(body: impl Content) -> Request<impl Content> {
    let request = Request::put("https://localhost/in/a").header("host", "localhost");
    request.body(body).unwrap()
}

#[tokio::test]
async fn a_client_that_stops_sending_is_answered_408_and_leaves_nothing() {
    let (server, dir) = server(", slowest = \"1KB/s after 1s\"");
    let stream = server.connect_tls(&[b"http/1.1"]).await;
    let answer = soon(h1(stream).await.send_request(put(beginning()))).await;
    assert_eq!(answer.unwrap().status(), 408);
    let stream = server.connect_tls(&[b"h2"]).await;
    let answer = soon(h2(stream).await.send_request(put(beginning()))).await;
    assert_eq!(answer.unwrap().status(), 408);
    let client = tokio::task::spawn_blocking(move || {
        let mut client = H3::connect(&server);
        let stream = client.begin_endless("PUT", "/in/a", vec![b'x'; 10_000]);
        assert_eq!(client.head(stream).0.status(), 408);
    });
    client.await.unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn fifty_uploads_at_once_are_stored_whole() {
    let (server, dir) = server("");
    let content = |at: usize| vec![u8::try_from(at).unwrap(); 300_000 + at];
    std::thread::scope(|scope| {
        for at in 0..50 {
            let server = &server;
            scope.spawn(move || {
                let protocol = PROTOCOLS[at % 3];
                let path = format!("/in/{at}");
                let answer = ask(server, protocol, "PUT", &path, &[], &content(at));
                assert_eq!(answer.0, 201, "{protocol} {at}: {}", answer.2);
            });
        }
    });
    assert_eq!(names(dir.path()).len(), 50);
    for at in 0..50 {
        let stored = fs::read(dir.path().join(at.to_string())).unwrap();
        assert!(stored == content(at), "{at}");
    }
}

#[test]
fn of_several_who_send_the_same_name_one_has_it() {
    let (server, dir) = server("");
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |at: u8| {
            let server = &server;
            let protocol = PROTOCOLS[usize::from(at) % 3];
            move || ask(server, protocol, "PUT", "/in/a", &[], &vec![at; 500_000]).0
        };
        let clients: Vec<_> = (0..9).map(|at| scope.spawn(ask(at))).collect();
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(
        answers.iter().filter(|it| **it == 201).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(
        answers.iter().filter(|it| **it == 409).count(),
        8,
        "{answers:?}"
    );
    let winner = answers.iter().position(|it| *it == 201).unwrap();
    let stored = fs::read(dir.path().join("a")).unwrap();
    assert!(stored == vec![u8::try_from(winner).unwrap(); 500_000]);
}

#[test]
fn an_upload_goes_on_over_every_protocol() {
    let (server, dir) = server(", resumable = true");
    let patch = "content-type: application/partial-upload";
    for (at, protocol) in PROTOCOLS.into_iter().enumerate() {
        // The next request comes over another protocol.
        let other = PROTOCOLS[(at + 1) % 3];
        let path = format!("/in/{protocol}");
        let begun = ask(
            &server,
            protocol,
            "PUT",
            &path,
            &["upload-complete: ?0"],
            b"one",
        );
        assert_eq!(begun.0, 201, "{protocol}: {}", begun.2);
        let more = |offset: &str, content: &[u8]| {
            let offset = format!("upload-offset: {offset}");
            let fields = [patch, "upload-complete: ?1", &offset];
            ask(&server, other, "PATCH", &begun.1, &fields, content)
        };
        let wrong = more("2", b"two");
        assert_eq!(wrong.0, 409, "{protocol}: {}", wrong.2);
        let done = more("3", b"two");
        assert_eq!((done.0, &done.1), (201, &path), "{protocol}: {}", done.2);
        assert_eq!(fs::read(dir.path().join(protocol)).unwrap(), b"onetwo");
    }
}

const RESUMABLE: [&str; 2] = ["upload-complete: ?1", "upload-draft-interop-version: 8"];

/// The heads of all responses to an upload over a protocol, in lower case.
fn heads(server: &Running, protocol: &str, path: &str, fields: &[&str]) -> String {
    if protocol == "http3" {
        let mut request = Request::put(format!("https://localhost{path}"));
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let request = request.body(Bytes::from_static(b"content")).unwrap();
        let (interim, head, _) = H3::connect(server).ask(request);
        let all = interim.iter().chain([&head]);
        let text =
            |it: &http::Response<()>| format!("{} {:?}\n", it.status().as_u16(), it.headers());
        return all.map(text).collect::<String>().replace('"', "");
    }
    let mut curl = Command::new("curl");
    curl.args(["-sSki", "-m", "30", &format!("--{protocol}"), "-X", "PUT"]);
    curl.args(["--data-binary", "content", "-H", "content-type:"]);
    for field in fields {
        curl.args(["-H", field]);
    }
    let url = format!("https://{}{path}", server.address);
    let output = curl.arg(url).output().unwrap();
    assert!(output.status.success(), "{protocol}: {output:?}");
    String::from_utf8(output.stdout).unwrap().to_lowercase()
}

#[test]
fn whoever_asks_for_it_is_told_by_104_where_an_upload_can_go_on() {
    let (server, dir) = server(", resumable = true");
    for protocol in PROTOCOLS {
        let text = heads(&server, protocol, &format!("/in/{protocol}"), &RESUMABLE);
        let (first, last) = (text.find("104").unwrap(), text.find("201 ").unwrap());
        assert!(first < last, "{protocol}: {text}");
        let interim = &text[first..last];
        for field in [
            "location: /in/.uploads/",
            "upload-limit: max-size=",
            "upload-draft-interop-version: 8",
        ] {
            assert!(interim.contains(field), "{protocol}: {text}");
        }
        assert!(text[last..].contains("upload-complete: ?1"), "{text}");
        let stored = fs::read(dir.path().join(protocol)).unwrap();
        assert_eq!(stored, b"content");
        for (name, fields) in [
            ("none", &[][..]),
            ("unversioned", &RESUMABLE[..1]),
            ("old", &[RESUMABLE[0], "upload-draft-interop-version: 6"]),
            ("unmeant", &RESUMABLE[1..]),
        ] {
            let path = format!("/in/{protocol}-{name}");
            let text = heads(&server, protocol, &path, fields);
            assert!(!text.contains("104 ") && text.contains("201"), "{text}");
        }
    }
}

#[tokio::test]
async fn an_upload_of_one_request_that_breaks_off_goes_on_where_104_has_said() {
    let (server, dir) = server(", resumable = true");
    let mut stream = server.connect_tls(&[b"http/1.1"]).await;
    let fields = RESUMABLE.join("\r\n");
    let head = format!(
        "PUT /in/a HTTP/1.1\r\nhost: localhost\r\n{fields}\r\ncontent-length: 9\r\n\r\none"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = String::new();
    while !interim.ends_with("\r\n\r\n") {
        interim.push(char::from(soon(stream.read_u8()).await.unwrap()));
    }
    let first = "HTTP/1.1 104 Upload Resumption Supported\r\n";
    assert!(interim.starts_with(first), "{interim}");
    let location = interim.split("location: ").nth(1).unwrap();
    let location = location.lines().next().unwrap().to_owned();
    drop(stream);
    let goes_on = tokio::task::spawn_blocking(move || {
        let offset = || {
            let request = Request::head(format!("https://localhost{location}"));
            let (_, told, _) = H3::connect(&server).ask(request.body(Bytes::new()).unwrap());
            assert_eq!(told.headers()["upload-length"], "9");
            told.headers()["upload-offset"].clone()
        };
        // What came before the end may still be on its way to the disk.
        let give_up = Instant::now() + TIME_LIMIT;
        while offset() != "3" {
            assert!(Instant::now() < give_up, "what was sent is not there");
        }
        let fields = [
            "content-type: application/partial-upload",
            "upload-complete: ?1",
            "upload-offset: 3",
        ];
        let done = ask(&server, "http2", "PATCH", &location, &fields, b"twosix");
        assert_eq!((done.0, &*done.1), (201, "/in/a"), "{}", done.2);
    });
    goes_on.await.unwrap();
    assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"onetwosix");
}

/// A file system of 4 MiB that is gone at the end; `None` where it can't be made.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(dir.path());
        let done = mount.stderr(Stdio::null()).status();
        done.is_ok_and(|it| it.success()).then(|| Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(done.unwrap().success());
    }
}

#[test]
fn a_full_disk_is_answered_507_and_leaves_nothing() {
    let Some(small) = Small::mount() else {
        println!("skipped: mounting a file system needs root");
        return;
    };
    let dir = small.0.path();
    let server = serving(dir, ", min-free = \"0B\"");
    let large = vec![b'x'; 6_000_000];
    for protocol in PROTOCOLS {
        let answer = ask(&server, protocol, "PUT", "/in/a", &[], &large);
        assert_eq!(answer.0, 507, "{protocol}: {}", answer.2);
        let text = "y".repeat(6_000_000);
        let files = form(&[("filename=one", "1"), ("filename=large", &text)]);
        let answer = ask(&server, protocol, "POST", "/in/", &[FORM], &files);
        assert_eq!(answer.0, 507, "{protocol}: {}", answer.2);
        assert_eq!(names(dir), [""; 0]);
    }
    // Nothing holds the space any longer.
    let answer = ask(&server, "http2", "PUT", "/in/a", &[], &large[..3_000_000]);
    assert_eq!(answer.0, 201, "{}", answer.2);
    drop(server);
}
