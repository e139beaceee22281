//! Times of pages over every protocol: what an application takes to answer is no time of the path.

use crate::common::h3::H3;
use crate::common::{Running, TIME_LIMIT, get, h1, h2, read, soon};
use altway_serve::Site;
use altway_serve::select::model::{Context, Judgement, Model, OfferMode};
use altway_serve::select::{Congestion, Prediction, Reason};
use axum::Router;
use axum::routing::get as on_get;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time that the application takes.
const THOUGHT: Duration = Duration::from_millis(400);

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
    let give_up = Instant::now() + TIME_LIMIT;
    let pages = loop {
        let pages = server.monitor().metrics().protocols.map(|it| it.pages);
        if pages.iter().all(|it| it.predicted == 1) {
            break pages;
        }
        assert!(Instant::now() < give_up, "{pages:?}");
        sleep(Duration::from_millis(10)).await;
    };
    for (page, name) in pages.iter().zip(["h1", "h2", "h3"]) {
        // Of the path alone the other transport would take twice as long, or half.
        let apart = page.predicted_took.abs_diff(page.predicted_elsewhere);
        assert!(page.predicted_took >= THOUGHT, "{name}: {page:?}");
        assert!(apart < THOUGHT / 4, "{name}: {page:?}");
    }
}
