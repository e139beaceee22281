//! Suites of others through a proxy: h2spec, the interoperability tests of gRPC, and the faults of toxiproxy.

use crate::common::{Dir, Serving, eventually, free_port, installed, provided, text};
use crate::h2spec;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A process that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Serves what a configuration says, whose port is 0.
pub(crate) fn serve(dir: &Dir, config: &str) -> Serving {
    dir.file("altway.toml", config);
    let mut command = dir.altway(["serve", "--config", "altway.toml", "--json"]);
    let log = dir.file("log", "");
    let log = std::fs::File::options().append(true).open(log).unwrap();
    command.stderr(log);
    Serving::spawn(dir, command)
}

/// A proxy in clear text with one route.
pub(crate) fn front(dir: &Dir, listen: &str, origin: &str) -> Serving {
    serve(
        dir,
        &format!(
            "threads = 1\n[listen]\nhttp = \"127.0.0.1:0\"\n{listen}\n[[site]]\ndefault = true\n\
             [[site.route]]\nproxy = \"{origin}\"\n"
        ),
    )
}

#[test]
fn h2spec_passes_through_a_proxy_to_http2() {
    let Some(program) = provided("h2spec", "ALTWAY_TEST_H2SPEC") else {
        return;
    };
    let dir = Dir::new();
    dir.file("site/index.html", "hello");
    let origin = Serving::start(&dir, &["--h2c"]);
    let proxy = front(&dir, "", &format!("h2c://127.0.0.1:{}", origin.port));
    h2spec::assert_passes(&program, &dir, &proxy, &[]);
}

/// The cases of the interoperability tests of gRPC that need no credentials of Google's.
const GRPC_CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

/// The server of gRPC's interoperability tests, which ends with this value, and its port.
fn grpc_server(folder: &Path) -> (Killed, u16) {
    let port = free_port();
    let server = Command::new(folder.join("server"))
        .args(["-port", &port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Killed(server.unwrap());
    eventually("gRPC's server listens", || listens(port));
    (server, port)
}

/// A proxy in front of a server of gRPC. `listen`: the key that it listens by.
fn in_front_of_grpc(dir: &Dir, listen: &str, port: u16) -> Serving {
    let config = format!(
        "threads = 1\n[listen]\n{listen} = \"127.0.0.1:0\"\n\
         [[site]]\ndefault = true\n[[site.route]]\nproxy = \"h2c://127.0.0.1:{port}\"\n"
    );
    serve(dir, &config)
}

/// The file of the authority of the proxy's certificate.
fn authority(dir: &Dir) -> PathBuf {
    let made = dir.altway(["certs", "--json"]).output().unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    PathBuf::from(made["ca_certificate"].as_str().unwrap())
}

/// Runs every case, next to each other, for most of them wait. `client`: that of a case.
fn pass_grpc_s_cases(how: &str, client: impl Fn(&'static str) -> Command) {
    let clients = GRPC_CASES.map(|case| {
        let mut client = client(case);
        client.stdin(Stdio::null()).stderr(Stdio::piped());
        (case, client.spawn().unwrap())
    });
    for (case, client) in clients {
        let output = client.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{case}, {how}: {said}");
    }
}

#[test]
fn grpc_s_interoperability_tests_pass_through_a_proxy() {
    let Some(folder) = provided("grpc-go's interop", "ALTWAY_TEST_GRPC") else {
        return;
    };
    let folder = Path::new(&folder);
    let dir = Dir::new();
    let (_server, port) = grpc_server(folder);
    for (listen, is_tls) in [("http", false), ("https", true)] {
        let proxy = in_front_of_grpc(&dir, listen, port);
        let authority = is_tls.then(|| authority(&dir));
        pass_grpc_s_cases(listen, |case| {
            let mut client = Command::new(folder.join("client"));
            client.args(["-server_host", "127.0.0.1", "-test_case", case]);
            client.args(["-server_port", &proxy.port.to_string()]);
            if let Some(authority) = &authority {
                client.arg("-use_tls").arg("-use_test_ca").arg("-ca_file");
                client.arg(authority);
                client.args(["-server_host_override", "localhost"]);
            }
            client
        });
    }
}

#[test]
fn grpc_s_interoperability_tests_pass_over_http3_in_front_of_a_proxy() {
    let (Some(folder), Some(quic_go)) = (
        provided("grpc-go's interop", "ALTWAY_TEST_GRPC"),
        provided("quic-go", "ALTWAY_TEST_QUIC_GO"),
    ) else {
        return;
    };
    let dir = Dir::new();
    let (_server, port) = grpc_server(Path::new(&folder));
    let proxy = in_front_of_grpc(&dir, "https", port);
    let authority = authority(&dir);
    let program = Path::new(&quic_go).with_file_name("interop-grpc-http3");
    pass_grpc_s_cases("HTTP/3", |case| {
        let mut client = Command::new(&program);
        client.arg(proxy.port.to_string()).arg(&authority).arg(case);
        client
    });
}

/// A server that counts the requests by POST that it has read.
struct Origin {
    address: SocketAddr,
    posts: Arc<AtomicUsize>,
}

const LARGE: usize = 100_000;

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let posts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&posts);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let posts = Arc::clone(&counted);
                std::thread::spawn(move || answer(stream, &posts));
            }
        });
        Self { address, posts }
    }
}

/// Answers until the other end goes: `/slow` after a pause, `/large` at length, `/close` to the end of the connection.
fn answer(stream: TcpStream, posts: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            if !reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                return;
            }
            head.push_str(&line);
        }
        if head.starts_with("POST") {
            posts.fetch_add(1, Ordering::SeqCst);
            let mut content = [0; 4];
            if reader.read_exact(&mut content).is_err() {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let mut body = "here".to_owned();
        match path {
            "/slow" => std::thread::sleep(Duration::from_millis(600)),
            "/large" => body = "x".repeat(LARGE),
            _ => {}
        }
        let is_last = path == "/close";
        let length = match is_last {
            true => "Connection: close".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\n{body}");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || is_last {
            return;
        }
    }
}

/// A running toxiproxy, told over its API what to do.
struct Toxiproxy {
    api: u16,
    _process: Killed,
}

impl Toxiproxy {
    fn start(program: &std::ffi::OsStr) -> Self {
        let api = free_port();
        let process = Command::new(program)
            .args(["-host", "127.0.0.1", "-port", &api.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = Killed(process.unwrap());
        eventually("toxiproxy listens", || listens(api));
        Self {
            api,
            _process: process,
        }
    }

    fn post(&self, path: &str, what: &serde_json::Value) -> serde_json::Value {
        let what = what.to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.api)).unwrap();
        let len = what.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let head = format!("{head}Content-Type: application/json\r\nContent-Length: {len}");
        write!(stream, "{head}\r\n\r\n{what}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{path}: {answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// An address at which the server is reached with a fault, which is one of what it sends.
    fn fault(
        &self,
        origin: &Origin,
        name: &str,
        kind: &str,
        attributes: &serde_json::Value,
    ) -> String {
        let upstream = origin.address.to_string();
        let proxy = serde_json::json!({
            "name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true,
        });
        let made = self.post("/proxies", &proxy);
        let toxic = serde_json::json!({
            "type": kind, "stream": "downstream", "toxicity": 1.0, "attributes": attributes,
        });
        self.post(&format!("/proxies/{name}/toxics"), &toxic);
        made["listen"].as_str().unwrap().to_owned()
    }
}

/// The response as curl has seen it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    /// Bytes of content.
    size: usize,
    /// True if the response was whole.
    is_whole: bool,
}

fn ask(proxy: &Serving, protocol: &str, method: &str, path: &str) -> Seen {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-m", "40", protocol, "-o", "/dev/null"]);
    curl.args(["-w", "%{http_code} %{size_download}"]);
    if method == "POST" {
        curl.args(["--data", "data"]);
    }
    curl.arg(format!("http://127.0.0.1:{}{path}", proxy.port));
    let output = curl.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stdout);
    let (status, size) = said.split_once(' ').unwrap();
    Seen {
        status: status.parse().unwrap(),
        size: size.parse().unwrap(),
        is_whole: output.status.success(),
    }
}

/// The routes of a proxy to a server with faults: to it alone, and beside one without.
fn routes(toxiproxy: &Toxiproxy, origin: &Origin) -> String {
    let faults = [
        ("reset", "reset_peer", serde_json::json!({ "timeout": 0 })),
        (
            "reset-late",
            "reset_peer",
            serde_json::json!({ "timeout": 200 }),
        ),
        (
            "slow-close",
            "slow_close",
            serde_json::json!({ "delay": 300 }),
        ),
        (
            "limit-head",
            "limit_data",
            serde_json::json!({ "bytes": 10 }),
        ),
        (
            "limit-content",
            "limit_data",
            serde_json::json!({ "bytes": 5_000 }),
        ),
        ("silent", "timeout", serde_json::json!({ "timeout": 0 })),
        ("closed", "timeout", serde_json::json!({ "timeout": 200 })),
    ];
    let mut routes = String::new();
    for (name, kind, attributes) in faults {
        let faulty = toxiproxy.fault(origin, name, kind, &attributes);
        let well = origin.address;
        // Nothing comes from one that is silent; the others have as long as a busy machine needs.
        let head = if name == "silent" { "1s" } else { "10s" };
        for (path, servers) in [
            (name.to_owned(), format!("\"http://{faulty}\"")),
            (
                format!("{name}-pair"),
                format!("\"http://{faulty}\", \"http://{well}\""),
            ),
        ] {
            routes += &format!(
                "[[site.route]]\npath = \"/{path}/*\"\nstrip-prefix = \"/{path}\"\nproxy = [{servers}]\n\
                 timeouts = {{ head = \"{head}\" }}\n"
            );
        }
    }
    routes
}

#[test]
fn each_of_toxiproxy_s_faults_has_the_answer_that_the_table_of_retries_says() {
    let Some(program) = provided("toxiproxy", "ALTWAY_TEST_TOXIPROXY") else {
        return;
    };
    if !installed("curl") {
        return;
    }
    let dir = Dir::new();
    let toxiproxy = Toxiproxy::start(&program);
    let origin = Origin::start();
    let config = format!(
        "threads = 1\n[listen]\nhttp = \"127.0.0.1:0\"\n[[site]]\ndefault = true\n{}",
        routes(&toxiproxy, &origin)
    );
    let proxy = serve(&dir, &config);
    let whole = |status, size| Seen {
        status,
        size,
        is_whole: true,
    };
    let (bad, late) = (whole(502, 16), whole(504, 20));
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        for (method, path, expected) in [
            // It is gone before it answers: another one does, if that can do no harm.
            ("GET", "/reset/ok", &bad),
            ("POST", "/reset/ok", &bad),
            ("GET", "/reset-late/slow", &bad),
            ("POST", "/reset-late/slow", &bad),
            ("GET", "/closed/ok", &bad),
            // Something has come, and no more.
            ("GET", "/limit-head/ok", &bad),
            ("POST", "/limit-head/ok", &bad),
            // Nothing comes, from nowhere faster.
            ("GET", "/silent/ok", &late),
            ("POST", "/silent/ok", &late),
            ("GET", "/slow-close/ok", &whole(200, 4)),
            ("GET", "/slow-close/close", &whole(200, 4)),
            ("GET", "/slow-close/large", &whole(200, LARGE)),
        ] {
            let seen = ask(&proxy, protocol, method, path);
            assert_eq!(&seen, expected, "{protocol} {method} {path}");
        }
        // Each of the two has one of two requests, until the faulty one is left alone.
        for path in ["/reset-pair/ok", "/reset-late-pair/slow", "/closed-pair/ok"] {
            for _ in 0..4 {
                let seen = ask(&proxy, protocol, "GET", path);
                assert_eq!(seen, whole(200, 4), "{protocol} {path}");
            }
        }
        let seen = ask(&proxy, protocol, "GET", "/limit-content/large");
        // curl 7.88 forgets the head of a stream that is reset in the same read, which nghttp shows to be there.
        let is_forgotten = protocol != "--http1.1" && seen.status == 0;
        assert!(is_forgotten || seen.status == 200, "{protocol}: {seen:?}");
        assert!(!seen.is_whole && seen.size < 5_000, "{protocol}: {seen:?}");
    }
    let before = origin.posts.load(Ordering::SeqCst);
    for _ in 0..10 {
        let path = "/reset-late-pair/slow";
        let seen = ask(&proxy, "--http1.1", "POST", path);
        assert!(matches!(seen.status, 200 | 502), "{seen:?}");
    }
    let posts = origin.posts.load(Ordering::SeqCst) - before;
    assert_eq!(posts, 10, "a POST that was read is never sent again");
}
