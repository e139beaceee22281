//! Promises about requests to servers behind, over each protocol in front with each behind.

use super::proxied::{PROTOCOLS, proxy};
use crate::common::{Running, h1, h2, h3::H3, read, soon};
use altway_serve::Site;
use axum::body::Body;
use axum::extract::Request as Asked;
use axum::routing::get as on_get;
use axum::{Extension, Router};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Empty};
use std::convert::Infallible;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::block_in_place;
use tokio_rustls::client::TlsStream;

/// The schemes by which a configuration names servers behind, one for each protocol.
const BEHIND: [&str; 3] = ["http", "h2c", "h3"];

/// An application that is spoken to by a scheme, and a proxy before it.
fn behind(scheme: &str, app: Router) -> (Running, Running) {
    let site = Site::service(app);
    let (origin, trusted) = match scheme {
        "h3" => {
            let origin = Running::tls(|options| options.site = site);
            let authority = origin.site.authority();
            let roots = authority.display();
            let trusted = format!("\nserver-name = \"localhost\"\nroots = \"{roots}\"");
            (origin, trusted)
        }
        _ => (Running::clear(|options| options.site = site), String::new()),
    };
    let server = proxy(&format!(
        "proxy = \"{scheme}://{}\"{trusted}",
        origin.address
    ));
    (origin, server)
}

/// `OPTIONS *`: status, fields and content.
async fn ask_for_the_server(server: &Running, protocol: &str) -> (u16, HeaderMap, Vec<u8>) {
    let whole = Uri::builder()
        .scheme("https")
        .authority("localhost")
        .path_and_query("*");
    let request = Request::builder().method(Method::OPTIONS);
    if protocol == "h3" {
        let request = request.uri(whole.build().unwrap()).body(Bytes::new());
        let (_, head, body) = block_in_place(|| H3::connect(server).ask(request.unwrap()));
        return (head.status().as_u16(), head.headers().clone(), body);
    }
    let stream = server.connect_tls(&[protocol.as_bytes()]).await;
    let response = if protocol == "h2" {
        let request = request.uri(whole.build().unwrap());
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        soon(h2(stream).await.send_request(request)).await
    } else {
        let request = request.uri("*").header("host", "localhost");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        soon(h1(stream).await.send_request(request)).await
    };
    let response = response.unwrap();
    let (status, fields) = (response.status().as_u16(), response.headers().clone());
    (status, fields, soon(read(response)).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_say_what_they_allow_to_whoever_asks_for_the_server_as_a_whole() {
    let server = Running::tls(|_| {});
    for protocol in PROTOCOLS {
        let (status, fields, content) = ask_for_the_server(&server, protocol).await;
        assert_eq!(status, 204, "{protocol}");
        assert_eq!(fields["allow"], "GET, HEAD, OPTIONS", "{protocol}");
        assert!(content.is_empty(), "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asterisk_passes_as_it_is() {
    let app = || {
        let asked = async |asked: Asked| {
            format!(
                "{} {}",
                asked.method(),
                asked.uri().path_and_query().unwrap()
            )
        };
        Router::new().fallback(asked)
    };
    for scheme in BEHIND {
        let (_origin, server) = behind(scheme, app());
        for protocol in PROTOCOLS {
            let (status, _, content) = ask_for_the_server(&server, protocol).await;
            let content = String::from_utf8(content).unwrap();
            assert_eq!(
                (status, &*content),
                (200, "OPTIONS *"),
                "{protocol} {scheme}"
            );
        }
    }
}

/// Tells when it is dropped.
struct Guard(UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Notes of requests that have come, and of those whose work was dropped.
#[derive(Clone)]
struct Notes {
    begin: UnboundedSender<()>,
    drops: UnboundedSender<()>,
}

/// `/` never answers, `/stream` never ends, `/upload` reads what never comes.
fn waiting(notes: Notes) -> Router {
    async fn forever(Extension(notes): Extension<Notes>) {
        let _guard = Guard(notes.drops);
        notes.begin.send(()).unwrap();
        std::future::pending::<()>().await;
    }
    async fn stream(Extension(notes): Extension<Notes>) -> Body {
        let guard = Guard(notes.drops);
        notes.begin.send(()).unwrap();
        Body::from_stream(futures_util::stream::unfold(guard, async |guard| {
            std::future::pending::<()>().await;
            Some((Ok::<_, Infallible>(Bytes::new()), guard))
        }))
    }
    async fn upload(Extension(notes): Extension<Notes>, asked: Asked) -> Body {
        let _guard = Guard(notes.drops);
        let mut content = asked.into_body();
        let first = content.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "begun");
        notes.begin.send(()).unwrap();
        let _ = content.collect().await;
        Body::empty()
    }
    Router::new()
        .route("/", on_get(forever))
        .route("/stream", on_get(stream))
        .route("/upload", axum::routing::post(upload))
        .layer(Extension(notes))
}

/// A client with one request that goes on.
enum Client {
    Http1(Box<TlsStream<TcpStream>>),
    Http2(H2Upload, tokio::task::JoinHandle<()>),
    Http3(Box<H3>, altway_http3::StreamId),
}

/// A client of HTTP/2 whose requests may have content.
type H2Upload = hyper::client::conn::http2::SendRequest<Body>;

/// The ways of a client to leave.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaving {
    /// The connection ends.
    Connection,
    /// The request is given up, where the protocol has that.
    Request,
}

impl Client {
    async fn begin(server: &Running, protocol: &str, path: &str) -> Self {
        let is_upload = path == "/upload";
        let url = format!("https://localhost{path}");
        if protocol == "h3" {
            return block_in_place(|| {
                let mut client = H3::connect(server);
                let stream = match is_upload {
                    true => client.begin_endless_post(path, b"begun".to_vec()),
                    false => client.send(path),
                };
                client.flush();
                Self::Http3(Box::new(client), stream)
            });
        }
        let mut stream = server.connect_tls(&[protocol.as_bytes()]).await;
        if protocol == "h2" {
            let mut client: H2Upload = h2(stream).await;
            let method = if is_upload { Method::POST } else { Method::GET };
            let body = match is_upload {
                true => {
                    let begun = futures_util::stream::unfold(true, async |is_first| {
                        if !is_first {
                            std::future::pending::<()>().await;
                        }
                        Some((Ok::<_, Infallible>(Bytes::from_static(b"begun")), false))
                    });
                    Body::from_stream(begun)
                }
                false => Body::empty(),
            };
            let request = Request::builder().method(method).uri(url);
            let asked = client.send_request(request.body(body).unwrap());
            let asked = tokio::spawn(async move {
                // Its content is taken until it is given up.
                let response = asked.await.unwrap();
                let _ = response.into_body().collect().await;
            });
            return Self::Http2(client, asked);
        }
        let head = match is_upload {
            true => "POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nbegun",
            false => &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        };
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        Self::Http1(Box::new(stream))
    }

    /// Carries what the server says, until something holds.
    async fn wait(&mut self, mut done: impl FnMut() -> bool) {
        match self {
            Self::Http3(client, _) => block_in_place(|| client.wait_until(done)),
            _ => {
                soon(async {
                    while !done() {
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                })
                .await;
            }
        }
    }

    fn leave(self, leaving: Leaving) -> Option<Self> {
        match self {
            Self::Http1(stream) => {
                drop(stream);
                None
            }
            Self::Http2(client, asked) => {
                asked.abort();
                (leaving == Leaving::Request).then(|| Self::Http2(client, asked))
            }
            Self::Http3(mut client, stream) => match leaving {
                Leaving::Connection => {
                    client.close();
                    None
                }
                Leaving::Request => {
                    client.give_up(stream);
                    Some(Self::Http3(client, stream))
                }
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_ends_the_work_for_its_request_over_each_protocol_to_each() {
    for scheme in BEHIND {
        let (begin, mut began) = unbounded_channel();
        let (drops, mut dropped) = unbounded_channel();
        let (_origin, server) = behind(scheme, waiting(Notes { begin, drops }));
        for protocol in PROTOCOLS {
            for path in ["/", "/stream", "/upload"] {
                for leaving in [Leaving::Connection, Leaving::Request] {
                    let case = format!("{path} over {protocol} to {scheme}: {leaving:?}");
                    let mut client = Client::begin(&server, protocol, path).await;
                    client.wait(|| began.try_recv().is_ok()).await;
                    assert!(dropped.try_recv().is_err(), "{case}");
                    let mut there = client.leave(leaving);
                    match &mut there {
                        Some(client) => client.wait(|| dropped.try_recv().is_ok()).await,
                        None => soon(dropped.recv()).await.unwrap(),
                    }
                }
            }
        }
    }
}
