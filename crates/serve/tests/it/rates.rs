//! Rates at which requests of one client may come: over every protocol together, and refused alike.

use crate::common::{Running, TIME_LIMIT, get, get_over, h1, h2, h3::H3, read, soon};
use altway_serve::{Policy, Site};
use http::{HeaderMap, Response};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpSocket;

/// Returns the fields of a refusal, without those that belong to the protocol.
fn said(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut fields: Vec<_> = headers
        .iter()
        .filter(|(name, _)| !["date", "connection"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    fields.sort_unstable();
    fields
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_rate_are_refused_the_same_over_every_protocol() {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.policy = Policy::FixedH3;
        options.limits.requests_per_prefix = Some("1/h, burst 6".parse().unwrap());
        options.site = Site::service(tower::service_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
        }));
    });
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let mut over_h3 = H3::connect(&server);
    let mut refused = Vec::new();
    for _ in 0..3 {
        let one = soon(over_h1.send_request(get("/"))).await.unwrap();
        let two = soon(over_h2.send_request(get("/"))).await.unwrap();
        let three = over_h3.get("/").0;
        let heads = [
            (one.status(), said(one.headers())),
            (two.status(), said(two.headers())),
            (three.status(), said(three.headers())),
        ];
        soon(read(one)).await;
        soon(read(two)).await;
        refused.extend(heads.into_iter().filter(|(status, _)| *status != 200));
    }
    assert_eq!(handled.load(Ordering::Relaxed), 6);
    assert_eq!(refused.len(), 3);
    for (status, fields) in &mut refused {
        assert_eq!(*status, 429);
        let retry = fields.extract_if(.., |(name, _)| name == "retry-after");
        let [(_, retry)] = retry.collect::<Vec<_>>().try_into().unwrap();
        // An hour, less what has gone of it since the first request, rounded up.
        let least = 3_600 - TIME_LIMIT.as_secs();
        assert!((least..=3_600).contains(&retry.parse().unwrap()), "{retry}");
    }
    assert!(refused.iter().all(|it| *it == refused[0]), "{refused:?}");
    let incidents = server.monitor().metrics().incidents;
    assert_eq!(incidents, [("request rate", 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_connects_anew_is_not_forgotten_and_another_is_served() {
    let server = Running::clear(|options| {
        options.threads = NonZeroUsize::MIN;
        options.limits.requests_per_prefix = Some("1/h, burst 2".parse().unwrap());
    });
    let ask = async |last: u8| {
        let socket = TcpSocket::new_v4().unwrap();
        let own = Ipv4Addr::new(127, 0, 0, last);
        socket.bind((own, 0).into()).unwrap();
        let stream = socket.connect(server.address).await.unwrap();
        let mut client = h1(stream).await;
        let response = soon(client.send_request(get_over(false, "/"))).await;
        response.unwrap().status().as_u16()
    };
    // From memory or not, with a connection left or not.
    for expected in [200, 200, 429, 429] {
        assert_eq!(ask(1).await, expected);
    }
    assert_eq!(ask(2).await, 200);
}
