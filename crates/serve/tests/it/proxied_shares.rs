//! One address that takes all that it can of a proxied server, and another that is answered all the same.

use super::proxied;
use super::shares::connect_from;
use crate::common::h3::H3;
use crate::common::{Running, get, h1, h2, read, soon};
use altway_serve::Site;
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use bytes::Bytes;
use http_body_util::Empty;
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// A worker that may have eighteen requests at a server with streams of events, two of them in reserve.
fn behind_proxy() -> (Running, Running) {
    let events =
        async || Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
    let origin = Running::clear(|options| {
        let router = Router::new().route("/", on_get("home"));
        options.site = Site::service(router.route("/events", on_get(events)));
    });
    let route = format!(
        "path = \"/*\"\nproxy = \"http://{}\"\nupstream-requests = 18",
        origin.address
    );
    let server = Running::tls(|options| {
        options.threads = NonZeroUsize::MIN;
        options.site = proxied::site(&route);
    });
    (origin, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_all_the_requests_that_a_proxied_server_may_have_leaves_some_for_others() {
    const MOST: usize = 17;
    for protocol in ["h1", "h2", "h3"] {
        let (_origin, server) = behind_proxy();
        let mut held = Vec::new();
        let mut over_h2 = h2::<Empty<Bytes>>(server.connect_tls(&[b"h2"]).await).await;
        let mut over_h3 = H3::connect(&server);
        for _ in 0..MOST {
            match protocol {
                "h1" => {
                    let stream = server.connect_tls(&[b"http/1.1"]).await;
                    let mut client = h1::<Empty<Bytes>>(stream).await;
                    let answer = soon(client.send_request(get("/events"))).await.unwrap();
                    held.push((answer, Some(client)));
                }
                "h2" => held.push((
                    soon(over_h2.send_request(get("/events"))).await.unwrap(),
                    None,
                )),
                _ => {
                    let stream = over_h3.send("/events");
                    assert_eq!(over_h3.head(stream).0.status(), 200);
                }
            }
        }
        assert!(held.iter().all(|(answer, _)| answer.status() == 200));
        // One more waits for a place.
        let waiting = over_h2.send_request(get("/"));
        let waiting = tokio::spawn(async move { waiting.await.unwrap().status() });
        let tls = TlsConnector::from(Arc::new(server.site.client_tls(&[b"h2"])));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connect_from(server.address, 2).await;
        let mut other = h2::<Empty<Bytes>>(tls.connect(name, stream).await.unwrap()).await;
        let answer = soon(other.send_request(get("/"))).await.unwrap();
        assert_eq!(answer.status(), 200, "{protocol}");
        assert_eq!(soon(read(answer)).await, b"home");
        drop(held);
        over_h3.close();
        assert_eq!(soon(waiting).await.unwrap(), 200, "{protocol}");
    }
}
