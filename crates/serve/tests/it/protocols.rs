//! The three protocols on one port number: same bytes, same fields, the policy's word on each.

use crate::common::{Running, alt_svc, get, get_over, h1, h2, h3::H3, large, read, soon};
use altway_serve::Policy;
use http::{Method, Version};
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_protocol_gets_the_same_bytes_and_the_offer() {
    let server = Running::tls(|options| options.policy = Policy::FixedH3);
    let offer = format!("h3=\":{}\"; ma=2592000", server.address.port());
    let expected = large();

    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    let response = soon(client.send_request(get("/large"))).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(alt_svc(&response), Some(offer.as_str()));
    assert!(soon(read(response)).await == expected, "HTTP/1.1");

    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/large"))).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(alt_svc(&response), Some(offer.as_str()));
    assert!(soon(read(response)).await == expected, "HTTP/2");

    let mut client = H3::connect(&server);
    let (response, body) = client.get("/large");
    assert_eq!(alt_svc(&response), Some(offer.as_str()));
    assert_eq!(
        response.headers()["content-length"],
        expected.len().to_string()
    );
    assert!(body == expected, "HTTP/3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_without_end_are_times_like_others() {
    let server = Running::tls(|options| {
        options.limits.handshake_timeout = Duration::MAX;
        options.limits.header_timeout = Duration::MAX;
        options.limits.idle_timeout = Duration::MAX;
        options.shutdown_grace = Duration::MAX;
    });
    let mut client = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    assert_eq!(
        soon(client.send_request(get("/"))).await.unwrap().status(),
        200
    );
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    assert_eq!(
        soon(client.send_request(get("/"))).await.unwrap().status(),
        200
    );
    assert_eq!(H3::connect(&server).get("/").0.status(), 200);
    server.ask_to_stop();
    server.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_carry_the_offer_on_every_protocol() {
    let server = Running::tls(|options| options.policy = Policy::FixedH3);
    let mut client = h1(server.connect_tls(&[]).await).await;
    let mut post = get("/");
    *post.method_mut() = Method::POST;
    let response = soon(client.send_request(post)).await.unwrap();
    assert_eq!(response.status(), 405);
    assert!(alt_svc(&response).is_some(), "HTTP/1.1");

    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/none"))).await.unwrap();
    assert_eq!(response.status(), 404);
    assert!(alt_svc(&response).is_some(), "HTTP/2");

    let (response, _) = H3::connect(&server).get("/%2e%2e/");
    assert_eq!(response.status(), 400);
    assert!(alt_svc(&response).is_some(), "HTTP/3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_has_the_length_and_no_body_on_every_protocol() {
    let server = Running::tls(|_| {});
    let head = || {
        let mut head = get("/");
        *head.method_mut() = Method::HEAD;
        head
    };
    let mut client = h1(server.connect_tls(&[]).await).await;
    let over_h1 = soon(client.send_request(head())).await.unwrap();
    assert_eq!(over_h1.headers()["content-length"], "7");
    assert!(soon(read(over_h1)).await.is_empty());
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let over_h2 = soon(client.send_request(head())).await.unwrap();
    assert_eq!(over_h2.headers()["content-length"], "7");
    assert!(soon(read(over_h2)).await.is_empty());
    let mut client = H3::connect(&server);
    let stream = client.request(Method::HEAD, "/");
    let (over_h3, is_all) = client.head(stream);
    assert_eq!(over_h3.headers()["content-length"], "7");
    assert!(is_all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_http2_revokes_the_offer_on_http3_too() {
    let server = Running::tls(|options| options.policy = Policy::FixedH2);
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    let response = soon(client.send_request(get("/"))).await.unwrap();
    assert_eq!(alt_svc(&response), Some("clear"));
    let (response, _) = H3::connect(&server).get("/");
    assert_eq!(alt_svc(&response), Some("clear"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_response_goes_by_the_round_trip_time_of_the_handshake() {
    for (policy, is_offered) in [("threshold:rtt=1ns", true), ("threshold:rtt=10s", false)] {
        let server = Running::tls(|options| options.policy = policy.parse().unwrap());
        let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
        let response = soon(client.send_request(get("/"))).await.unwrap();
        let offer = alt_svc(&response).is_some_and(|field| field.starts_with("h3="));
        assert_eq!(offer, is_offered, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clear_text_speaks_both_versions_and_offers_nothing() {
    let server = Running::clear(|options| options.policy = Policy::FixedH3);
    let mut client = h1(server.connect().await).await;
    let response = soon(client.send_request(get_over(false, "/")))
        .await
        .unwrap();
    assert_eq!(
        (response.version(), alt_svc(&response)),
        (Version::HTTP_11, None)
    );
    assert_eq!(soon(read(response)).await, b"<p>home");
    let mut client = h2(server.connect().await).await;
    let response = soon(client.send_request(get_over(false, "/large")))
        .await
        .unwrap();
    assert_eq!(
        (response.version(), alt_svc(&response)),
        (Version::HTTP_2, None)
    );
    assert!(soon(read(response)).await == large());
    let udp = UdpSocket::bind(server.address);
    assert!(udp.is_ok(), "the UDP port is left to others");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_at_once_get_their_own_bytes() {
    let server = Running::tls(|_| {});
    let client = h2(server.connect_tls(&[b"h2"]).await).await;
    let requests = (0..50).map(|i| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let request = http::Request::get("https://localhost/large")
                .header("range", format!("bytes={i}-{}", i + 9999))
                .body(http_body_util::Empty::new());
            read(client.send_request(request.unwrap()).await.unwrap()).await
        })
    });
    let expected = large();
    for (i, request) in requests.enumerate().collect::<Vec<_>>() {
        assert_eq!(soon(request).await.unwrap(), expected[i..i + 10_000], "{i}");
    }
    let mut client = H3::connect(&server);
    let streams: Vec<_> = (0..50).map(|_| client.send("/")).collect();
    for stream in streams {
        // Responses may come in any order; the bodies wait for us.
        assert_eq!(client.body(stream), b"<p>home");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_ends_a_connection_and_never_the_server() {
    let server = Running::tls(|options| options.policy = Policy::FixedH3);
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for size in [0, 1, 20, 1200, 1500] {
        for first in [0, 0x40, 0xc0, 0xff] {
            let mut datagram = vec![0x5a; size];
            datagram.iter_mut().take(1).for_each(|byte| *byte = first);
            udp.send_to(&datagram, server.address).unwrap();
            let mut tcp = std::net::TcpStream::connect(server.address).unwrap();
            let _ = tcp.write_all(&datagram);
        }
    }
    let mut tls = server.connect_tls(&[b"h2"]).await;
    tokio::io::AsyncWriteExt::write_all(&mut tls, &[0xff; 4096])
        .await
        .unwrap();
    let (response, _) = H3::connect(&server).get("/");
    assert_eq!(response.status(), 200);
    let mut client = h2(server.connect_tls(&[b"h2"]).await).await;
    assert_eq!(
        soon(client.send_request(get("/"))).await.unwrap().status(),
        200
    );
}
