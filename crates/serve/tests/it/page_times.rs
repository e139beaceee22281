//! Pages over every protocol: what an application takes to answer is no time of the path, and a stream that is open ends
//! none.

use crate::common::h3::H3;
use crate::common::{Running, TIME_LIMIT, get, h1, h2, read, soon};
use altway_serve::select::model::{Context, Judgement, Model, OfferMode};
use altway_serve::select::{Congestion, Prediction, Reason};
use altway_serve::{PageMetrics, Site};
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use futures_util::{Stream, StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use std::convert::Infallible;
use std::future::ready;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time that the application takes.
const THOUGHT: Duration = Duration::from_millis(400);

/// The time for which a visitor looks at a page: more than what ends it.
const READING: Duration = Duration::from_millis(1_500);

/// Predicts that HTTP/3 takes half the time of HTTP/2.
#[derive(Debug)]
struct Half;

impl Model for Half {
    fn judge(&self, _: &Context<'_>) -> Judgement {
        let prediction = Prediction {
            h2: 1.0,
            h3: 0.5,
            difference: 0.5_f64.ln(),
            deviation: 0.0,
            effect: 0.0,
            margin: 0.0,
            rates: [1e8; 2],
            rtt: 0.01,
            loss: 0.0,
            congestion: [Congestion::LossBased; 2],
            is_measured: true,
        };
        Judgement {
            http3: true,
            reason: Reason::Fixed,
            prediction: Some(prediction),
            offer_mode: OfferMode::Forced,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_application_takes_is_no_time_of_the_path_over_every_protocol() {
    let slow = async || {
        sleep(THOUGHT).await;
        "slow"
    };
    let server = Running::tls(|options| {
        options.site = Site::service(Router::new().route("/", on_get(slow)));
        options.model = Some(Arc::new(Half));
    });
    // Each asks at once: what a connection idles before its first request counts.
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    soon(read(soon(over_h1.send_request(get("/"))).await.unwrap())).await;
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    soon(read(soon(over_h2.send_request(get("/"))).await.unwrap())).await;
    let mut over_h3 = H3::connect(&server);
    assert_eq!(over_h3.get("/").1, b"slow");
    let acknowledged = Instant::now() + Duration::from_millis(100);
    over_h3.wait_until(|| Instant::now() >= acknowledged);
    drop((over_h1, over_h2));
    over_h3.close();
    let pages = loaded(&server, 1).await;
    for (page, name) in pages.iter().zip(["h1", "h2", "h3"]) {
        // Of the path alone the other transport would take twice as long, or half.
        let apart = page.predicted_took.abs_diff(page.predicted_elsewhere);
        assert!(page.predicted_took >= THOUGHT, "{name}: {page:?}");
        assert!(apart < THOUGHT / 4, "{name}: {page:?}");
    }
}

/// A server of a page and of a stream of such events.
fn with_events<S>(events: impl Fn() -> S + Clone + Send + Sync + 'static) -> Running
where
    S: Stream<Item = &'static str> + Send + 'static,
{
    let answer = move || {
        let content_type = [(CONTENT_TYPE, "text/event-stream")];
        let events = events().map(Ok::<_, Infallible>);
        ready((content_type, Body::from_stream(events)))
    };
    Running::tls(|options| {
        let router = Router::new().route("/", on_get("page"));
        options.site = Site::service(router.route("/events", on_get(answer)));
        options.model = Some(Arc::new(Half));
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visitors_with_an_open_stream_of_events_have_pages_over_every_protocol() {
    let server = with_events(stream::pending);
    let mut over_h1 = h1(server.connect_tls(&[b"http/1.1"]).await).await;
    soon(read(soon(over_h1.send_request(get("/"))).await.unwrap())).await;
    let events_h1 = soon(over_h1.send_request(get("/events"))).await.unwrap();
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let events_h2 = soon(over_h2.send_request(get("/events"))).await.unwrap();
    soon(read(soon(over_h2.send_request(get("/"))).await.unwrap())).await;
    let mut over_h3 = H3::connect(&server);
    let events_h3 = over_h3.send("/events");
    over_h3.head(events_h3);
    assert_eq!(over_h3.get("/").1, b"page");
    let acknowledged = Instant::now() + Duration::from_millis(100);
    over_h3.wait_until(|| Instant::now() >= acknowledged);
    drop((events_h1, events_h2, over_h1, over_h2));
    over_h3.close();
    let pages = loaded(&server, 1).await;
    for page in pages {
        assert!(page.predicted_took < TIME_LIMIT / 2, "{page:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_many_a_second_keep_no_page_from_its_end() {
    let server = with_events(|| {
        stream::unfold((), |()| async {
            sleep(THOUGHT / 8).await;
            Some(("data: x\n\n", ()))
        })
    });
    let mut over_h2 = h2(server.connect_tls(&[b"h2"]).await).await;
    let events = soon(over_h2.send_request(get("/events"))).await.unwrap();
    let mut events_h2 = events.into_body();
    soon(read(soon(over_h2.send_request(get("/"))).await.unwrap())).await;
    let next_page = Instant::now() + READING;
    while Instant::now() < next_page {
        soon(events_h2.frame()).await.unwrap().unwrap();
    }
    soon(read(soon(over_h2.send_request(get("/"))).await.unwrap())).await;
    let mut over_h3 = H3::connect(&server);
    let events_h3 = over_h3.send("/events");
    over_h3.head(events_h3);
    over_h3.get("/");
    let next_page = Instant::now() + READING;
    over_h3.wait_until(|| Instant::now() >= next_page);
    over_h3.get("/");
    // Their connections are still there.
    let pages = loaded_over(&server, 1.., 1).await;
    for page in &pages[1..] {
        assert!(page.predicted_took < READING, "{page:?}");
    }
}

/// The figures of pages over each protocol, once each has so many.
async fn loaded(server: &Running, count: u64) -> [PageMetrics; 3] {
    loaded_over(server, 0.., count).await
}

/// The same once each of those protocols has so many.
async fn loaded_over(server: &Running, of: RangeFrom<usize>, count: u64) -> [PageMetrics; 3] {
    let give_up = Instant::now() + TIME_LIMIT;
    loop {
        let pages = server.monitor().metrics().protocols.map(|it| it.pages);
        if pages[of.clone()].iter().all(|it| it.predicted == count) {
            return pages;
        }
        assert!(Instant::now() < give_up, "{pages:?}");
        sleep(Duration::from_millis(10)).await;
    }
}
