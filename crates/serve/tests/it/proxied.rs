//! A proxy of a configured site, the same over every protocol in front: what an upstream is asked for, what of its
//! answers passes.

use super::websockets::{example, silent};
use crate::common::websocket::{ALL, Over};
use crate::common::{Running, h1, h2, h3::H3, read, soon};
use altway_config::{NoFiles, read as read_config};
use altway_proxy::Statistics;
use altway_serve::{EarlyHints, Site};
use axum::extract::Request as Asked;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// The protocols in front.
pub(crate) const PROTOCOLS: [&str; 3] = ["http/1.1", "h2", "h3"];

/// A site whose one route has these keys.
pub(crate) fn site(route: &str) -> Site {
    counted(route).0
}

/// The same, with what it counts.
pub(crate) fn counted(route: &str) -> (Site, Arc<Statistics>) {
    let text = format!("[[site]]\ndefault = true\n[[site.route]]\n{route}\n");
    let plan = read_config("test.toml", &text, &mut NoFiles);
    let plan = plan.unwrap_or_else(|faults| panic!("{faults}"));
    let statistics = Arc::default();
    (
        altway_site::site_counted(&plan, &statistics).unwrap(),
        statistics,
    )
}

pub(crate) fn proxy(route: &str) -> Running {
    Running::tls(|options| options.site = site(route))
}

/// An upstream in clear text with [`echo_site`].
fn echo() -> Running {
    Running::clear(|options| options.site = echo_site())
}

/// A service that answers with what it is asked for and told.
fn echo_site() -> Site {
    let answer = async |request: Asked| {
        let mut lines = vec![format!("{} {}", request.method(), request.uri())];
        for (name, value) in request.headers() {
            lines.push(format!("{name}: {}", value.to_str().unwrap()));
        }
        let fields = [
            ("server", "theirs"),
            ("x-internal-a", "1"),
            ("x-internal-b", "2"),
            ("vary", "accept"),
            ("x-from", "theirs"),
            ("location", "/users/7"),
        ];
        (fields, lines.join("\n")).into_response()
    };
    Site::service(Router::new().fallback(answer))
}

/// One GET: the response's head, and its content.
async fn get(
    server: &Running,
    protocol: &str,
    path: &str,
    fields: &[(&'static str, &'static str)],
) -> (Response<()>, String) {
    let mut request = Request::get(format!("https://localhost{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    if protocol == "h3" {
        let request = request.body(Bytes::new()).unwrap();
        let asking = tokio::task::block_in_place(|| H3::connect(server).ask(request));
        let (_, head, body) = asking;
        return (head, String::from_utf8(body).unwrap());
    }
    let stream = server.connect_tls(&[protocol.as_bytes()]).await;
    let response = match protocol {
        "h2" => {
            let request = request.body(Full::<Bytes>::default()).unwrap();
            soon(h2(stream).await.send_request(request)).await.unwrap()
        }
        _ => {
            let request = request.uri(path).header("host", "localhost");
            let request = request.body(Full::<Bytes>::default()).unwrap();
            soon(h1(stream).await.send_request(request)).await.unwrap()
        }
    };
    let (parts, body) = response.into_parts();
    let body = read(Response::new(body)).await;
    (
        Response::from_parts(parts, ()),
        String::from_utf8(body).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_lose_and_are_given_a_beginning() {
    let origin = echo();
    let keys = format!(
        "path = \"/api/*\"\nproxy = \"http://{}\"\nstrip-prefix = \"/api\"\nadd-prefix = \"/v2\"",
        origin.address
    );
    let server = proxy(&keys);
    for protocol in PROTOCOLS {
        for (path, expected) in [
            ("/api/users?q=/api", "/v2/users?q=/api"),
            ("/api/", "/v2/"),
            ("/%61pi/a%20b", "/v2/a%20b"),
            ("//api//a.example", "/v2/a.example"),
        ] {
            let (head, text) = get(&server, protocol, path, &[]).await;
            assert_eq!(head.status(), 200, "{protocol} {path}: {text}");
            assert_eq!(
                text.lines().next(),
                Some(&*format!("GET {expected}")),
                "{protocol} {path}"
            );
            // Of what the upstream calls its own paths nothing is known.
            assert_eq!(head.headers()["location"], "/users/7", "{protocol}");
        }
        let (head, _) = get(&server, protocol, "/api/%2e%2e/admin", &[]).await;
        assert_eq!(head.status(), 400, "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_of_all_paths_never_leaves_the_beginning_that_it_gives() {
    let origin = echo();
    let keys = format!(
        "proxy = \"http://{}\"\nadd-prefix = \"/v2\"",
        origin.address
    );
    let server = proxy(&keys);
    for protocol in PROTOCOLS {
        let (head, text) = get(&server, protocol, "/users", &[]).await;
        assert_eq!(head.status(), 200, "{protocol}");
        assert!(text.starts_with("GET /v2/users\n"), "{protocol}: {text}");
        for path in ["/../admin", "/%2e%2e/admin", "/x/..%2f..%2fadmin"] {
            let (head, text) = get(&server, protocol, path, &[]).await;
            assert_eq!(head.status(), 400, "{protocol} {path}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_of_several_lines_are_one_field_and_empty_lines_add_nothing() {
    let origin = echo();
    let proxy = proxy(&format!("proxy = \"http://{}\"", origin.address));
    let service = Running::tls(|options| options.site = echo_site());
    let sent = [
        ("cookie", ""),
        ("cookie", "a=1"),
        ("cookie", ""),
        ("cookie", "b=2"),
    ];
    for (server, protocol) in [&proxy, &service]
        .into_iter()
        .flat_map(|server| PROTOCOLS.map(|protocol| (server, protocol)))
    {
        let (_, text) = get(server, protocol, "/", &sent).await;
        let lines: Vec<_> = text
            .lines()
            .filter(|it| it.starts_with("cookie:"))
            .collect();
        assert_eq!(lines, ["cookie: a=1; b=2"], "{protocol}");
    }
}

/// The values of a field.
fn values<'h>(fields: &'h HeaderMap, name: &str) -> Vec<&'h str> {
    let values = fields.get_all(name).iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_removed_set_and_appended_in_both_directions() {
    let origin = echo();
    let keys = format!(
        "proxy = \"http://{}\"
request-headers = {{ remove = [\"Cookie\", \"X-Secret-*\", \"X-Forwarded-Host\"], set = {{ X-Tenant = \"a\" }}, append = {{ Accept = [\"text/a\", \"text/b\"] }} }}
response-headers = {{ remove = [\"X-Internal-*\"], set = {{ Server = \"api\" }}, append = {{ Vary = \"origin\" }} }}
headers = {{ X-From = \"route\" }}",
        origin.address
    );
    let server = proxy(&keys);
    for protocol in PROTOCOLS {
        let sent = [
            ("cookie", "a=1"),
            ("x-secret-a", "1"),
            ("x-secret", "stays"),
            ("x-tenant", "theirs"),
            ("accept", "*/*"),
        ];
        let (head, text) = get(&server, protocol, "/", &sent).await;
        let told = |name: &str| {
            let of = format!("{name}: ");
            let lines = text.lines().filter_map(|line| line.strip_prefix(&of));
            lines.collect::<Vec<_>>()
        };
        for (name, expected) in [
            ("cookie", &[][..]),
            ("x-secret-a", &[]),
            ("x-secret", &["stays"]),
            ("x-tenant", &["a"]),
            ("accept", &["*/*", "text/a", "text/b"]),
            ("x-forwarded-host", &[]),
            ("x-forwarded-proto", &["https"]),
            ("host", &["localhost"]),
        ] {
            assert_eq!(told(name), expected, "{protocol} {name}");
        }
        let fields = head.headers();
        for (name, expected) in [
            ("x-internal-a", &[][..]),
            ("x-internal-b", &[]),
            ("server", &["api"]),
            ("vary", &["accept", "origin"]),
            ("x-from", &["route"]),
        ] {
            assert_eq!(values(fields, name), expected, "{protocol} {name}");
        }
    }
}

/// An echo over WebSockets in clear text.
fn websockets() -> Running {
    Running::clear(|options| options.site = Site::service(example::app()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_pass_from_every_protocol_to_http1_and_http2() {
    let origin = websockets();
    for scheme in ["http", "h2c"] {
        let server = proxy(&format!("proxy = \"{scheme}://{}\"", origin.address));
        for over in ALL {
            let (mut socket, _gone) = soon(over.connect(&server, "/echo")).await;
            let large: Vec<u8> = (0..5_000_003).map(|i| (i % 251) as u8).collect();
            for message in [
                Message::text("hello"),
                Message::binary(vec![0, 255, 7]),
                Message::binary(large),
            ] {
                soon(socket.send(message.clone())).await.unwrap();
                let answer = soon(socket.next()).await.unwrap().unwrap();
                assert!(
                    answer == message,
                    "{over:?} to {scheme}: {} bytes",
                    answer.len()
                );
            }
            soon(socket.close(None)).await.unwrap();
            let close = soon(socket.next()).await.unwrap().unwrap();
            assert_eq!(close, Message::Close(None), "{over:?} to {scheme}");
            assert!(soon(socket.next()).await.is_none(), "{over:?} to {scheme}");
        }
    }
}

/// Waits until so many connections are open, and as many requests in progress.
async fn counts(statistics: &Statistics, many: usize) {
    let found = || {
        let (_, now) = statistics.upstreams().remove(0);
        (now.open_connections, now.in_progress)
    };
    while found() != (many as u64, many) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_have_connections_that_name_their_clients_and_count_as_long_as_they_are_open() {
    let origin = Running::clear(|options| {
        options.proxy_protocol_from = vec!["127.0.0.1/32".parse().unwrap()];
        options.site = Site::service(example::app());
    });
    for scheme in ["http", "h2c"] {
        let route = format!(
            "proxy = \"{scheme}://{}\"\nsend-proxy-protocol = true",
            origin.address
        );
        let (site, statistics) = counted(&route);
        let server = Running::tls(|options| options.site = site);
        for over in ALL {
            let (mut socket, _gone) = soon(over.connect(&server, "/echo")).await;
            soon(socket.send(Message::text("hello"))).await.unwrap();
            let answer = soon(socket.next()).await.unwrap().unwrap();
            assert_eq!(answer, Message::text("hello"), "{over:?} to {scheme}");
            soon(counts(&statistics, 1)).await;
            soon(socket.close(None)).await.unwrap();
            let close = soon(socket.next()).await.unwrap().unwrap();
            assert_eq!(close, Message::Close(None), "{over:?} to {scheme}");
            assert!(soon(socket.next()).await.is_none(), "{over:?} to {scheme}");
            soon(counts(&statistics, 0)).await;
        }
        // Whoever opens one over HTTP/2 asks for a page first.
        let times = ALL.len() as u64 + 1;
        let (_, all) = statistics.upstreams().remove(0);
        assert_eq!(
            (all.requests, all.latency.count()),
            (times, times),
            "{all:?}"
        );
        assert_eq!(all.failures.iter().sum::<u64>(), 0, "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_says_no_to_a_websocket_in_its_own_words() {
    let origin = websockets();
    for scheme in ["http", "h2c"] {
        let server = proxy(&format!("proxy = \"{scheme}://{}\"", origin.address));
        for over in ALL {
            let opened = soon(over.open(&server, "/nothing", HeaderMap::new())).await;
            assert_eq!(opened.head.status(), 404, "{over:?} to {scheme}");
        }
    }
}

/// A server of HTTP/2 without extended CONNECT, which counts the requests for one that come all the same.
async fn without_websockets() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |request: Request<hyper::body::Incoming>| {
                assert_ne!(request.method(), http::Method::CONNECT);
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("here")))
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_http2_that_takes_no_websockets_is_asked_for_none() {
    let address = without_websockets().await;
    let server = proxy(&format!("proxy = \"h2c://{address}\""));
    for over in ALL {
        for _ in 0..4 {
            let opened = soon(over.open(&server, "/echo", HeaderMap::new())).await;
            assert_eq!(opened.head.status(), 502, "{over:?}");
        }
    }
    // It counts as healthy.
    let (head, text) = get(&server, "h2", "/", &[]).await;
    assert_eq!((head.status().as_u16(), &*text), (200, "here"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_survives_the_reload_of_its_route() {
    let origin = websockets();
    for scheme in ["http", "h2c"] {
        let route = format!("proxy = \"{scheme}://{}\"", origin.address);
        let server = proxy(&route);
        for over in ALL {
            let (mut socket, _gone) = soon(over.connect(&server, "/echo")).await;
            for word in ["before", "after", "once more"] {
                soon(socket.send(Message::text(word))).await.unwrap();
                let answer = soon(socket.next()).await.unwrap().unwrap();
                assert_eq!(answer, Message::text(word), "{over:?} to {scheme}");
                server.replace_site(&site(&route)).unwrap();
                let (head, _) = get(&server, "h2", "/", &[]).await;
                assert_eq!(head.status(), 200);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_vanishes_takes_its_websocket_behind_with_it() {
    let (app, mut began, mut dropped) = silent();
    let origin = Running::clear(|options| options.site = Site::service(app));
    // Over HTTP/1.1 a handler that neither reads nor writes would not notice.
    let server = proxy(&format!("proxy = \"h2c://{}\"", origin.address));
    for over in [Over::Http2, Over::Http3] {
        let (socket, gone) = soon(over.connect(&server, "/")).await;
        soon(began.recv()).await.unwrap();
        assert!(dropped.try_recv().is_err(), "{over:?}");
        gone.vanish(socket);
        soon(dropped.recv()).await.unwrap();
    }
}

/// An upstream in clear text, which reads all of a request and says how much that was.
fn reader() -> Running {
    let answer = async |request: Asked| {
        let whole = axum::body::to_bytes(request.into_body(), usize::MAX).await;
        whole.map_or_else(|_| "cut off".into(), |whole| whole.len().to_string())
    };
    Running::clear(|options| options.site = Site::service(Router::new().fallback(answer)))
}

/// One PUT of so many bytes, whose length the client says or not: the status.
async fn put(server: &Running, protocol: &str, path: &str, (length, said): (usize, bool)) -> u16 {
    let content = Bytes::from(vec![b'x'; length]);
    let request = Request::put(format!("https://localhost{path}"));
    if protocol == "h3" {
        let request = request.body(content).unwrap();
        let (_, head, _) = tokio::task::block_in_place(|| H3::connect(server).ask(request));
        return head.status().as_u16();
    }
    let pieces = content.chunks(1_000).map(Bytes::copy_from_slice);
    let pieces = pieces.map(|it| Ok::<_, Infallible>(Frame::data(it)));
    let pieces: Vec<_> = pieces.collect();
    let body = match said {
        true => Full::new(content).boxed_unsync(),
        false => StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync(),
    };
    let stream = server.connect_tls(&[protocol.as_bytes()]).await;
    let response = match protocol {
        "h2" => soon(h2(stream).await.send_request(request.body(body).unwrap())).await,
        _ => {
            let request = request.uri(path).header("host", "localhost");
            soon(h1(stream).await.send_request(request.body(body).unwrap())).await
        }
    };
    response.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_is_bounded_by_the_nearest_limit_and_what_is_longer_is_counted() {
    let origin = reader();
    let proxy = format!("proxy = \"http://{}\"", origin.address);
    let folder = tempfile::tempdir().unwrap();
    let upload = format!(
        "upload = {{ folder = \"{}\", body = \"9KB\" }}",
        folder.path().display()
    );
    let text = format!(
        "[limits]\nmax-body = \"1KB\"\n\
         [[site]]\ndefault = true\nmax-body = \"5KB\"\nroute = [\n\
         {{ path = \"/large/*\", {proxy}, max-body = \"7KB\" }}, {{ path = \"/in/*\", {upload} }}, {{ {proxy} }}]\n"
    );
    let plan = read_config("test.toml", &text, &mut NoFiles);
    let plan = plan.unwrap_or_else(|faults| panic!("{faults}"));
    let server = Running::tls(|options| options.site = altway_site::site(&plan).unwrap());
    let mut refused = 0;
    for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
        let upload = format!("/in/{number}");
        for (path, most, stored) in [
            ("/a", 5_000, 200),
            ("/large/a", 7_000, 200),
            (upload.as_str(), 9_000, 201),
        ] {
            for said in [true, false] {
                let longer = put(&server, protocol, path, (most + 1, said)).await;
                assert_eq!(longer, 413, "{protocol} {path} {said}");
                refused += 1;
            }
            let fits = put(&server, protocol, path, (most, true)).await;
            assert_eq!(fits, stored, "{protocol} {path}");
        }
    }
    let incidents = server.monitor().metrics().incidents;
    let counted = incidents.contains(&("content limit", refused));
    assert!(counted, "{refused}: {incidents:?}");
}

/// A server of HTTP/1.1 that hints before it answers, as servers of ours do over the other protocols alone.
fn hinting_http1() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hint = |link| format!("HTTP/1.1 103 Early Hints\r\nLink: {link}\r\nAlt-Svc: clear\r\n\r\n");
    let hints = [hint("</a.css>"), hint("</b.css>")].concat();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.find(String::is_empty);
            stream.write_all(hints.as_bytes()).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhinted";
            stream.write_all(answer).unwrap();
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_hints_pass_from_servers_of_every_protocol() {
    let hinting = async |Extension(hints): Extension<EarlyHints>| {
        for link in ["</a.css>", "</b.css>"] {
            let fields = [("link", link), ("alt-svc", "clear")];
            let fields =
                fields.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            hints.send(HeaderMap::from_iter(fields)).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        "hinted"
    };
    let site = || Site::service(Router::new().fallback(hinting));
    let clear = Running::clear(|options| options.site = site());
    let tls = Running::tls(|options| options.site = site());
    let trusted = format!(
        "server-name = \"localhost\"\nroots = \"{}\"",
        tls.site.authority().display()
    );
    for route in [
        format!("proxy = \"http://{}\"", hinting_http1()),
        format!("proxy = \"h2c://{}\"", clear.address),
        format!("proxy = \"h2://{}\"\n{trusted}", tls.address),
        format!("proxy = \"h3://{}\"\n{trusted}", tls.address),
    ] {
        let server = proxy(&route);
        let request = Request::get("https://localhost/").body(Bytes::new());
        let asking = || H3::connect(&server).ask(request.unwrap());
        let (interim, head, body) = tokio::task::block_in_place(asking);
        assert_eq!((head.status().as_u16(), &body[..]), (200, &b"hinted"[..]));
        let told: Vec<_> = interim
            .iter()
            .map(|it| (it.status().as_u16(), values(it.headers(), "link")))
            .collect();
        let expected = [(103, vec!["</a.css>"]), (103, vec!["</b.css>"])];
        assert_eq!(told, expected, "{route}");
        assert!(
            interim
                .iter()
                .all(|it| !it.headers().contains_key("alt-svc"))
        );
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sik", "--http2", "-m", "20"]);
        curl.arg(format!("https://{}/", server.address));
        let output = tokio::task::block_in_place(|| curl.output().unwrap());
        let text = String::from_utf8(output.stdout).unwrap();
        let interim = text.find("HTTP/2 103").expect("an interim response");
        assert!(
            text[interim..].contains("link: </a.css>"),
            "{route}: {text}"
        );
        assert!(
            text.find("HTTP/2 200").unwrap() > interim,
            "{route}: {text}"
        );
    }
}
