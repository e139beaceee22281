//! Forms that axum's `Multipart` reads while their clients send them, over every protocol: slow clients, clients that
//! give up, handlers that read no further.

use crate::common::{Running, h1, h2, h3::H3, read, soon};
use altway_serve::{BoxError, Site, serve};
use axum::Router;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::channel::{Channel, Sender};
use hyper::body::Incoming;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

const PROTOCOLS: [&str; 3] = ["HTTP/1.1", "HTTP/2", "HTTP/3"];

const FIELD_A: &str = "--x\r\ncontent-disposition: form-data; name=a\r\n\r\n";
const FIELD_B: &str = "--x\r\ncontent-disposition: form-data; name=b; filename=f\r\n\r\n";
const END: &str = "\r\n--x--\r\n";

/// More than every window and buffer on the way.
const LARGE: usize = 5_000_000;

/// Messages of a handler: fields, chunks, and its end.
type Told = UnboundedReceiver<String>;

/// The application, with what its handlers tell.
fn app() -> (Router, Told) {
    let (tell, told) = unbounded_channel();
    let router = Router::new()
        .route("/", post(all_fields))
        .route("/first", post(first_field))
        .layer(DefaultBodyLimit::disable())
        .with_state(tell);
    (router, told)
}

/// The application inside a program's runtime, and on workers.
fn servers() -> [(Running, Told); 2] {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let (router, told) = app();
    let embedded = Running::embedded(runtime.unwrap(), |options| serve(router, options));
    let (router, also_told) = app();
    let on_workers = Running::tls(|options| options.site = Site::service(router));
    [(embedded, told), (on_workers, also_told)]
}

/// Tells that a handler has returned, or was dropped.
struct Over(UnboundedSender<String>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send("over".into());
    }
}

async fn all_fields(
    State(tell): State<UnboundedSender<String>>,
    mut form: Multipart,
) -> Result<&'static str, MultipartError> {
    let _over = Over(tell.clone());
    while let Some(mut field) = form.next_field().await? {
        let name = field.name().unwrap_or_default();
        let _ = tell.send(format!("field {name}"));
        while let Some(chunk) = field.chunk().await? {
            // The last one may be empty, before a boundary.
            if !chunk.is_empty() {
                let _ = tell.send(String::from_utf8_lossy(&chunk).into_owned());
            }
        }
    }
    let _ = tell.send("end".into());
    Ok("whole")
}

async fn first_field(mut form: Multipart) -> Result<String, MultipartError> {
    match form.next_field().await? {
        Some(field) => field.text().await,
        None => Ok("none".into()),
    }
}

/// A client in the middle of its form.
enum Client {
    Hyper(
        Sender<Bytes, BoxError>,
        JoinHandle<hyper::Result<Response<Incoming>>>,
    ),
    H3(Box<H3>, altway_http3::StreamId),
}

impl Client {
    async fn begin(server: &Running, protocol: &str, path: &str) -> Self {
        let request = Request::post(format!("https://localhost{path}"))
            .header("host", "localhost")
            .header("content-type", "multipart/form-data; boundary=x");
        if protocol == "HTTP/3" {
            let mut client = H3::connect(server);
            let stream = client.open(&request.body(()).unwrap());
            return Self::H3(Box::new(client), stream);
        }
        let (sender, body) = Channel::<Bytes, BoxError>::new(1);
        let request = request.body(body).unwrap();
        let response = match protocol {
            "HTTP/1.1" => {
                let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
                tokio::spawn(async move { client.send_request(request).await })
            }
            _ => {
                let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
                tokio::spawn(async move { client.send_request(request).await })
            }
        };
        Self::Hyper(sender, response)
    }

    async fn send(&mut self, content: impl Into<Bytes>) {
        match self {
            Self::Hyper(sender, _) => soon(sender.send_data(content.into())).await.unwrap(),
            Self::H3(client, stream) => client.give(*stream, content.into(), false),
        }
    }

    /// The next message of the handler. Events of HTTP/3 that come meanwhile are lost.
    async fn next_of(&mut self, told: &mut Told) -> String {
        match self {
            Self::Hyper(..) => soon(told.recv()).await.unwrap(),
            Self::H3(client, _) => {
                let mut next = None;
                client.wait_until(|| {
                    next = told.try_recv().ok();
                    next.is_some()
                });
                next.unwrap()
            }
        }
    }

    /// The response, to a form that ends here or goes on.
    async fn response(self, ends: bool) -> (u16, Vec<u8>) {
        match self {
            Self::Hyper(sender, response) => {
                let kept = (!ends).then_some(sender);
                let response = soon(response).await.unwrap().unwrap();
                let status = response.status().as_u16();
                let body = soon(read(response)).await;
                drop(kept);
                (status, body)
            }
            Self::H3(mut client, stream) => {
                if ends {
                    client.give(stream, Bytes::new(), true);
                }
                let (head, _) = client.head(stream);
                let body = client.body(stream);
                // What the congestion window holds up would hold up the end of the connection as well.
                client.pump();
                (head.status().as_u16(), body)
            }
        }
    }

    /// Gives the form up.
    fn abort(&mut self) {
        match self {
            Self::Hyper(sender, response) => {
                let (unused, _) = Channel::new(1);
                std::mem::replace(sender, unused).abort("given up".into());
                response.abort();
            }
            Self::H3(client, stream) => client.give_up(*stream),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_has_each_piece_of_a_form_before_the_client_sends_the_next() {
    let pieces: [(&str, &[&str]); 7] = [
        (FIELD_A, &["field a"]),
        ("one", &["one"]),
        ("two", &["two"]),
        ("\r\n", &[]),
        (FIELD_B, &["field b"]),
        ("three", &["three"]),
        (END, &["end", "over"]),
    ];
    for (server, mut told) in servers() {
        for protocol in PROTOCOLS {
            let mut client = Client::begin(&server, protocol, "/").await;
            for (piece, messages) in &pieces[..6] {
                client.send(*piece).await;
                for message in *messages {
                    assert_eq!(client.next_of(&mut told).await, *message, "{protocol}");
                }
            }
            let (last, messages) = pieces[6];
            client.send(last).await;
            assert_eq!(client.response(true).await, (200, b"whole".to_vec()));
            for message in messages {
                assert_eq!(told.try_recv().unwrap(), *message, "{protocol}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_its_client_gives_up_is_never_whole_to_its_handler() {
    for (server, mut told) in servers() {
        for protocol in PROTOCOLS {
            // Within a part's head, within its content, and where only the end is missing.
            for content in [&FIELD_B[..20], FIELD_B, &[FIELD_B, "three\r\n"].concat()] {
                let mut client = Client::begin(&server, protocol, "/").await;
                client.send([FIELD_A, "one"].concat()).await;
                assert_eq!(client.next_of(&mut told).await, "field a");
                assert_eq!(client.next_of(&mut told).await, "one");
                client.send(["\r\n", content].concat()).await;
                client.abort();
                loop {
                    match client.next_of(&mut told).await.as_str() {
                        "over" => break,
                        "end" => panic!("{protocol}: taken for whole"),
                        _ => {}
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_answers_after_the_first_field_while_its_client_still_sends() {
    for (server, _) in servers() {
        for protocol in PROTOCOLS {
            let mut client = Client::begin(&server, protocol, "/first").await;
            client.send([FIELD_A, "one\r\n", FIELD_B].concat()).await;
            let answer = client.response(false).await;
            assert_eq!(answer, (200, b"one".to_vec()), "{protocol}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_after_the_first_field_is_seen_by_clients_that_send_much_more() {
    for (server, _) in servers() {
        for protocol in PROTOCOLS {
            let mut client = Client::begin(&server, protocol, "/first").await;
            // One piece, of which as much leaves as the server takes.
            let mut form = [FIELD_A, "one\r\n", FIELD_B].concat().into_bytes();
            form.resize(LARGE, b'x');
            client.send(form).await;
            let answer = client.response(false).await;
            assert_eq!(answer, (200, b"one".to_vec()), "{protocol}");
        }
    }
}
