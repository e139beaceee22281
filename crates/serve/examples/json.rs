//! JSON with state in an axum program: a counter for each name.
//!
//! ```text
//! cargo run -p altway-serve --example json
//! curl -k -X POST https://localhost:8443/counters/visits -H 'content-type: application/json' -d '{"by": 2}'
//! curl -k https://localhost:8443/counters/visits
//! ```

use altway_serve::{Options, certs, serve};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Names beyond so many get 507.
const MAX_COUNTERS: usize = 1000;

type Counters = Arc<Mutex<HashMap<String, u64>>>;

#[derive(Deserialize)]
struct Step {
    by: u64,
}

#[derive(Serialize)]
struct Count {
    count: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    Ok(serve(app(), Options::tls(certs::localhost()?)).await?)
}

/// The application, which knows nothing of the server.
pub(crate) fn app() -> Router {
    Router::new()
        .route("/counters/{name}", get(read).post(add))
        .with_state(Counters::default())
}

async fn read(
    State(counters): State<Counters>,
    Path(name): Path<String>,
) -> Result<Json<Count>, StatusCode> {
    let counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counters.get(&name).ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(Count { count: *count }))
}

async fn add(
    State(counters): State<Counters>,
    Path(name): Path<String>,
    Json(step): Json<Step>,
) -> Result<Json<Count>, StatusCode> {
    let mut counters = counters.lock().unwrap_or_else(PoisonError::into_inner);
    if counters.len() >= MAX_COUNTERS && !counters.contains_key(&name) {
        return Err(StatusCode::INSUFFICIENT_STORAGE);
    }
    let count = counters.entry(name).or_default();
    *count = count.saturating_add(step.by);
    Ok(Json(Count { count: *count }))
}
