//! Servers of HTTP/3 that mean harm: what they do to one request ends with it, and keeps no other waiting.

use super::*;
use crate::content::Content;
use crate::tls::Tls;
use crate::{Protocol, Roots};
use altway_http3::quic::{self, Direction, Event, QuicConnection as _, QuicEndpoint as _, Read};
use altway_http3::{Datagram, ServerConfig};
use http::{Method, StatusCode};
use http_body_util::Empty;
use rustls::pki_types::PrivateKeyDer;
use std::net::UdpSocket;
use tokio::time::timeout;

/// Time after which a test takes what it waits for as not coming.
const TIME_LIMIT: Duration = Duration::from_secs(50);

/// Frames of HTTP/3: heads with the status alone, and content.
const OK: &[u8] = &[1, 3, 0, 0, 0xd9];
const EARLY_HINTS: &[u8] = &[1, 3, 0, 0, 0xd8];
const NO_CONTENT: &[u8] = &[0, 0];

/// A server that answers the first request of all with `first`, and `next` without end, and others with 200.
fn flooding(first: &'static [u8], next: &'static [u8]) -> (SocketAddr, Tls) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let roots = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), made.cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = ServerConfig::new(Arc::new(tls)).over();
    let endpoint = <quic::Endpoint>::server(&config, [7; 32]).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || serve(&socket, endpoint, Bytes::from_static(first), next));
    (
        address,
        Tls::new(&Roots::File(roots.path().to_owned()), None).unwrap(),
    )
}

fn serve(socket: &UdpSocket, mut endpoint: quic::Endpoint, mut left: Bytes, next: &[u8]) {
    let pause = Some(Duration::from_millis(10));
    socket.set_read_timeout(pause).unwrap();
    let next = Bytes::from(next.repeat(1_000));
    let (mut payload, mut batch, mut flooded) = ([0; 2_048], Vec::new(), None);
    loop {
        if let Ok((len, remote)) = socket.recv_from(&mut payload) {
            let datagram = Datagram {
                remote,
                local_ip: None,
                ecn: None,
                payload: &payload[..len],
            };
            endpoint.handle_datagram(Instant::now(), datagram);
        }
        endpoint.handle_timeout(Instant::now());
        while let Some((handle, event)) = endpoint.poll_event() {
            let Some(connection) = endpoint.connection(handle) else {
                continue;
            };
            match event {
                Event::Readable { stream } => while let Read::Data(_) = connection.read(stream) {},
                Event::Opened { stream } => {
                    while let Read::Data(_) = connection.read(stream) {}
                    if stream.direction() == Direction::Unidirectional {
                        continue;
                    }
                    if flooded.is_some() {
                        let _ = connection.write(stream, &mut [Bytes::from_static(OK)]);
                        let _ = connection.finish(stream);
                    }
                    flooded.get_or_insert((handle, stream));
                }
                _ => {}
            }
        }
        if let Some((handle, stream)) = flooded
            && let Some(connection) = endpoint.connection(handle)
        {
            while let Ok(true) = connection.write(stream, std::slice::from_mut(&mut left)) {
                left = next.clone();
            }
        }
        while let Some(sent) = endpoint.poll_transmit(Instant::now(), &mut batch) {
            let size = sent.segment_size.unwrap_or(sent.size);
            for datagram in batch.chunks(size) {
                // The proxy may have gone.
                let _ = socket.send_to(datagram, sent.destination);
            }
        }
    }
}

async fn connect((address, tls): (SocketAddr, Tls)) -> Http3 {
    let remote = (address, "localhost");
    let tls = tls.config(Protocol::Http3);
    let counters = Arc::default();
    let connecting = Http3::connect(tls, remote, TIME_LIMIT, &counters);
    timeout(TIME_LIMIT, connecting).await.unwrap().unwrap()
}

async fn get(connection: &Http3, interim: Option<Interim>) -> Result<Response<Http3Body>, Failed> {
    let request = Request::get("https://localhost/").body(()).unwrap();
    let content = Content::new(Empty::<Bytes>::new(), &Method::GET, 0, None);
    let sent = connection.send(request, true, content.attempt(None), interim);
    timeout(TIME_LIMIT, sent).await.expect("it is given up")
}

#[tokio::test]
async fn interim_responses_without_end_are_no_response_and_keep_nobody_waiting() {
    let connection = connect(flooding(&[], EARLY_HINTS)).await;
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let interim = Interim::new(move |_, _| _ = count.fetch_add(1, Ordering::Relaxed));
    let flooded = get(&connection, Some(interim)).await;
    let is_malformed = |it: &Failed| matches!(it, Failed::NoResponse(Failure::Malformed, _));
    assert!(flooded.is_err_and(|it| is_malformed(&it)));
    assert_eq!(heard.load(Ordering::Relaxed), 1_024);
    for _ in 0..3 {
        let other = get(&connection, None).await.unwrap();
        assert_eq!(other.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_no_response() {
    // The length of a head beyond the limit, and the beginning of it.
    const LARGE: &[u8] = &[1, 0x80, 1, 0, 1];
    let connection = connect(flooding(LARGE, &[0])).await;
    let failed = get(&connection, None).await;
    let is_malformed = |it: &Failed| matches!(it, Failed::NoResponse(Failure::Malformed, _));
    assert!(failed.is_err_and(|it| is_malformed(&it)));
    let other = get(&connection, None).await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}

#[tokio::test]
async fn content_of_nothing_without_end_ends_the_connection() {
    let connection = connect(flooding(OK, NO_CONTENT)).await;
    let Ok(response) = get(&connection, None).await else {
        return assert!(connection.is_closed());
    };
    let mut content = response.into_body();
    let next = std::future::poll_fn(|cx| content.poll_frame(cx));
    let next = timeout(TIME_LIMIT, next).await.expect("it is given up");
    assert!(next.unwrap().is_err());
    assert!(connection.is_closed());
}
