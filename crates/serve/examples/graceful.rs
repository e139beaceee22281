//! An axum program that ends gracefully on Ctrl-C: requests that run are answered, new ones refused.
//!
//! ```text
//! cargo run -p altway-serve --example graceful &
//! curl -k https://localhost:8443/slow & sleep 1; kill -INT %1
//! ```

use altway_serve::{Options, certs, serve};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::tls(certs::localhost()?);
    options.shutdown_grace = Duration::from_secs(30);
    let app = app(Duration::from_secs(5)).into_make_service_with_connect_info::<SocketAddr>();
    let stop = async {
        // Without signals the server runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    Ok(serve(app, options).with_graceful_shutdown(stop).await?)
}

/// The application, which knows nothing of the server.
pub(crate) fn app(slow: Duration) -> Router {
    let greet = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| format!("hello {}\n", peer.ip());
    let slow = async move || {
        tokio::time::sleep(slow).await;
        "at last\n"
    };
    Router::new()
        .route("/", get(greet))
        .route("/slow", get(slow))
}
