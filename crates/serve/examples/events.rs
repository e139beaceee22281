//! Server-Sent Events in an axum program, which end when their client leaves.
//!
//! ```text
//! cargo run -p altway-serve --example events
//! curl -kN https://localhost:8443/
//! ```

use altway_serve::{Options, certs, serve};
use axum::Router;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(serve(
        app(Duration::from_secs(1)),
        Options::tls(certs::localhost()?),
    )
    .await?)
}

/// The application, which knows nothing of the server: numbers at an `interval`.
pub(crate) fn app(interval: Duration) -> Router {
    let events = async move || Sse::new(ticks(interval)).keep_alive(KeepAlive::default());
    Router::new().route("/", get(events))
}

fn ticks(interval: Duration) -> impl Stream<Item = Result<Event, Infallible>> {
    let timer = tokio::time::interval(interval);
    stream::unfold((timer, 0_u64), |(mut timer, n)| async move {
        timer.tick().await;
        let event = Event::default().event("tick").data(n.to_string());
        Some((Ok(event), (timer, n + 1)))
    })
}
