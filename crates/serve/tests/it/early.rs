//! Early data over HTTP/3: services are told of it, and no copy of a first flight is handled again.

use crate::common::h3::H3;
use crate::common::raw::Raw;
use crate::common::{Running, TIME_LIMIT, get, h1, read, soon};
use altway_http3::{ClientConfig, Sessions};
use altway_serve::{Dispatch, EarlyData, EarlyDataFor, Options, Site, TicketKeys};
use axum::Router;
use axum::extract::Extension;
use axum::routing::get as on_get;
use http::StatusCode;
use rustls::ClientConnection;
use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A service that tells how a request came, and counts them.
fn telling(count: &Arc<AtomicUsize>) -> impl FnOnce(&mut Options) + use<> {
    let count = Arc::clone(count);
    let tell = async move |early: Option<Extension<EarlyData>>| {
        count.fetch_add(1, Ordering::SeqCst);
        early.map_or("in time", |_| "early")
    };
    let too_early = async |early: Option<Extension<EarlyData>>| match early {
        Some(_) => StatusCode::TOO_EARLY,
        None => StatusCode::OK,
    };
    let router = Router::new()
        .route("/", on_get(tell.clone()).post(tell))
        .route("/careful", on_get(too_early));
    |options| {
        options.site = Site::service(router);
        options.early_data = EarlyDataFor::Everything;
    }
}

/// A server, and somebody who was there once.
fn visited(change: impl FnOnce(&mut Options)) -> (Running, ClientConfig) {
    let server = Running::tls(change);
    let sessions = Sessions::new();
    let visitor = H3::visitor(&server, &sessions);
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(!early);
    client.wait_until(|| sessions.has_ticket("localhost"));
    (server, visitor)
}

#[test]
fn a_service_is_told_what_came_early_and_is_not_given_what_could_do_harm() {
    let (server, visitor) = visited(telling(&Arc::default()));
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(early);
    let (head, body) = client.get("/");
    assert_eq!((head.status(), &body[..]), (StatusCode::OK, &b"early"[..]));
    // An answer can't be read before the handshake is done, so that this comes after it.
    let (head, body) = client.get("/");
    assert_eq!(head.status(), StatusCode::OK);
    assert_eq!(body, b"in time");
    let posted = client.post("/", b"anything".to_vec());
    let (head, _) = client.head(posted);
    assert_eq!(head.status(), StatusCode::OK);
    assert_eq!(client.body(posted), b"in time");
}

/// HEADERS with the section of a request for `/`: the method (a literal behind the static table's name),
/// and from the static table the scheme and the path; the authority.
fn request(method: &str) -> Vec<u8> {
    let (name, scheme, path, authority) = (0x50 | 0x0f, 0xc0 | 23, 0xc0 | 1, 0x50);
    let mut section = vec![0, 0, name, 0, method.len() as u8];
    section.extend_from_slice(method.as_bytes());
    section.extend_from_slice(&[scheme, path, authority, 9]);
    section.extend_from_slice(b"localhost");
    [&[1, section.len() as u8][..], &section].concat()
}

#[test]
fn what_could_do_harm_is_answered_425_in_early_data_and_by_the_service_after_it() {
    let count = Arc::<AtomicUsize>::default();
    let server = Running::tls(telling(&count));
    let mut client = Raw::new(&server);
    client.come_again();
    let asked = ["POST", "GET", "DELETE"].map(|method| client.ask(&request(method)));
    // 70 is 425 in QPACK's static table.
    let too_early = [1, 4, 0, 0, 0xff, 70 - 63];
    assert_eq!(client.answer(asked[0]), too_early);
    assert!(client.answer(asked[1]).ends_with(b"early"));
    assert_eq!(client.answer(asked[2]), too_early);
    assert_eq!(count.load(Ordering::SeqCst), 1, "of which no service hears");
    let again = client.ask(&request("POST"));
    assert!(client.answer(again).ends_with(b"in time"));
}

#[test]
fn a_service_may_ask_for_a_request_to_come_later() {
    let (server, visitor) = visited(telling(&Arc::default()));
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(early);
    assert_eq!(client.get("/careful").0.status(), StatusCode::TOO_EARLY);
    assert_eq!(client.get("/careful").0.status(), StatusCode::OK);
}

#[test]
fn files_are_served_early_unless_nobody_is() {
    let (server, visitor) = visited(|_| {});
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(early);
    assert_eq!(client.get("/").1, b"<p>home");

    let (server, visitor) = visited(|options| options.early_data = EarlyDataFor::Nobody);
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(!early);
    assert_eq!(client.get("/").1, b"<p>home");
}

#[test]
fn a_server_without_files_or_with_shared_keys_takes_no_early_data_by_default() {
    let count = Arc::<AtomicUsize>::default();
    let (server, visitor) = visited(|options| {
        telling(&count)(options);
        options.early_data = EarlyDataFor::Files;
    });
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(!early);
    assert_eq!(client.get("/").1, b"in time");

    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, [7; 48]).unwrap();
    let (server, visitor) = visited(|options| {
        options.ticket_keys = Some(TicketKeys::from_files(&[key]).unwrap());
    });
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(!early);
    assert_eq!(client.get("/").1, b"<p>home");
}

/// Files at `/`, and a service that counts at `/api`.
#[derive(Debug)]
struct Mixed;

impl Dispatch for Mixed {
    fn dispatch(&self, _: Option<usize>, path: &[u8]) -> Option<usize> {
        Some(usize::from(path.starts_with(b"/api")))
    }
}

#[test]
fn beside_files_a_service_hears_of_a_request_when_the_handshake_is_done() {
    let count = Arc::<AtomicUsize>::default();
    let (server, visitor) = visited(|options| {
        let files = options.site.clone();
        let counted = Arc::clone(&count);
        let tell = async move || {
            counted.fetch_add(1, Ordering::SeqCst);
            "in time"
        };
        let service = Site::service(Router::new().route("/api", on_get(tell)));
        options.site = Site::dispatched(Mixed, vec![files, service]);
    });
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(early);
    let (file, asked) = (client.send("/"), client.send("/api"));
    assert_eq!(client.head(file).0.status(), StatusCode::OK);
    assert_eq!(client.head(asked).0.status(), StatusCode::TOO_EARLY);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(client.get("/api").1, b"in time");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_process_that_took_over_takes_no_session_of_the_former_one() {
    let dir = tempfile::tempdir().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let change = || {
        let (path, telling) = (dir.path().join("takeover"), telling(&count));
        |options: &mut Options| {
            telling(options);
            options.takeover = Some(path);
            options.shutdown_grace = Duration::from_secs(60);
        }
    };
    let (former, visitor) = visited(change());
    let (mut client, early) = H3::visit(&former, &visitor);
    assert!(early);
    assert_eq!(client.get("/").1, b"early");
    let flight = client.flight.clone();
    client.close();
    let server = former.next(change()).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // The tickets that are left are of sessions that the former process had, or has used.
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(!early);
    assert_eq!(client.get("/").1, b"in time");
    assert_eq!(count.load(Ordering::SeqCst), 2);
    let thief = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    thief
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let give_up = Instant::now() + TIME_LIMIT;
    loop {
        assert!(
            Instant::now() < give_up,
            "it answers the copy with a full handshake"
        );
        for datagram in &flight {
            thief.send_to(datagram, server.address).unwrap();
        }
        if thief.recv(&mut [0; 2048]).is_ok() {
            break;
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_first_flight_that_somebody_sends_again_is_not_handled() {
    let count = Arc::<AtomicUsize>::default();
    let (server, visitor) = visited(telling(&count));
    let (mut client, early) = H3::visit(&server, &visitor);
    assert!(early);
    assert_eq!(client.get("/").1, b"early");
    let flight = client.flight.clone();
    client.close();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // From many ports, so that either worker gets a copy. Each says hello to one, once it has
    // forgotten the connection; until then it takes copies for packets that have gone astray.
    let thieves = [(); 16].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let mut greeted = HashSet::new();
    let give_up = Instant::now() + TIME_LIMIT;
    while greeted.len() < 2 {
        assert!(Instant::now() < give_up, "not all greeted: {greeted:?}");
        for (number, thief) in thieves.iter().enumerate() {
            for datagram in &flight {
                thief.send_to(datagram, server.address).unwrap();
            }
            thief.set_nonblocking(true).unwrap();
            if thief.recv(&mut [0; 2048]).is_ok() {
                greeted.insert(number);
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp_there_is_no_early_data() {
    let server = Running::tls(|_| {});
    let mut tls = server.site.client_tls(&[b"http/1.1"]);
    tls.enable_early_data = true;
    let tls = Arc::new(tls);
    let stream = server.connect_with(Arc::clone(&tls)).await;
    let response = soon(h1(stream).await.send_request(get("/"))).await;
    assert_eq!(soon(read(response.unwrap())).await, b"<p>home");
    let name = "localhost".try_into().unwrap();
    let mut second = ClientConnection::new(tls, name).unwrap();
    assert!(second.early_data().is_none());
}
