//! The admin socket of `altway serve`, and what it is told of the servers behind.

use crate::hint::usage_error;
use altway_admin::{Address, Admin, StartError, UpstreamStatus, Upstreams};
use altway_proxy::Statistics;
use altway_upstream::{FAILURES, LATENCY_BUCKETS_MS, ServerStatistics};
use anyhow::Result;
use std::sync::Arc;

/// Starts the admin socket, if there is to be one; it ends with what is returned. `takes_over`: another process may
/// have one in its place.
///
/// # Errors
/// The socket can't be bound; the hint says what to do about it.
pub(super) fn start(
    admin: &Admin,
    at: Option<&Address>,
    takes_over: bool,
) -> Result<Option<Box<dyn Send>>> {
    let Some(at) = at else {
        return Ok(None);
    };
    let started = admin.clone().start(at, takes_over).map_err(|error| match &error {
        StartError::InUse(_) => usage_error(
            error.to_string(),
            "name another --admin, or have the new server take over with --takeover",
        ),
        StartError::Bind { source, .. } => usage_error(
            format!("{error}: {source}"),
            "name a path in a folder that is there and that you may write to, or an IP:PORT of this machine that is free",
        ),
        _ => error.into(),
    })?;
    Ok(Some(Box::new(started)))
}

/// The admin socket's words on the servers behind proxies.
pub(super) fn upstreams(statistics: &Arc<Statistics>) -> Upstreams {
    let statistics = Arc::clone(statistics);
    Arc::new(move || {
        let each = statistics.upstreams().into_iter();
        each.map(|(pool, server)| upstream(pool, server)).collect()
    })
}

fn upstream(pool: String, it: ServerStatistics) -> UpstreamStatus {
    let failures = FAILURES.iter().zip(it.failures);
    UpstreamStatus {
        pool,
        server: it.server,
        healthy: it.is_available,
        requests: it.requests,
        in_progress: it.in_progress as u64,
        failures: failures
            .map(|(name, count)| ((*name).to_owned(), count))
            .collect(),
        retries: it.retries,
        ejections: it.ejections,
        latency_bounds_ms: LATENCY_BUCKETS_MS.into(),
        latency: it.latency.buckets.into(),
        latency_sum_s: it.latency.sum.as_secs_f64(),
        open_connections: it.open_connections,
        idle_connections: it.idle_connections,
    }
}
