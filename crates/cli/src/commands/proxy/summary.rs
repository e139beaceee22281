//! The closing summary of a proxy: what each protocol's requests took, what was offered and why, what failed.

use altway_proxy::Summary;
use altway_serve::{Metrics, ProtocolMetrics};
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;

/// The summary for people, in a few lines.
pub(super) fn text(summary: &Summary, metrics: &Metrics) -> String {
    let all: u64 = summary.protocols.iter().map(|it| it.requests).sum();
    if all == 0 {
        return "no requests".into();
    }
    let mut text = String::from(
        "protocol  connections  requests  median to response  median to its end  errors  cut off",
    );
    let rows = ProtocolMetrics::NAMES.iter();
    let rows = rows.zip(&summary.protocols).zip(&metrics.protocols);
    for ((name, did), connections) in rows {
        // Writing to a text does not fail.
        let _ = write!(
            text,
            "\n{name:<8}  {:>11}  {:>8}  {:>18}  {:>17}  {:>6}  {:>7}",
            connections.connections,
            did.requests,
            milliseconds(did.median_head),
            milliseconds(did.median_whole),
            did.errors,
            did.cut_off,
        );
    }
    let offers: Vec<_> = metrics
        .offers
        .iter()
        .filter(|offer| offer.count > 0)
        .collect();
    if !offers.is_empty() {
        text.push_str("\noffered");
        for (place, offer) in offers.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let reason = offer.reason;
            let _ = write!(
                text,
                "{comma} {} {} times ({reason})",
                offer.offer, offer.count
            );
        }
    }
    for (reason, count) in &summary.refusals {
        let _ = write!(
            text,
            "\nnot answered by an origin: {count}, because {reason}"
        );
    }
    text
}

/// The summary for programs, in one line.
pub(super) fn json(summary: &Summary, metrics: &Metrics) -> String {
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
    let rows = ProtocolMetrics::NAMES.iter();
    let rows = rows.zip(&summary.protocols).zip(&metrics.protocols);
    let protocols = rows.map(|((name, did), connections)| {
        json!({
            "protocol": name,
            "connections": connections.connections,
            "requests": did.requests,
            "errors": did.errors,
            "cut_off": did.cut_off,
            "response_us_p50": micros(did.median_head),
            "end_us_p50": micros(did.median_whole),
        })
    });
    let offers = metrics.offers.iter();
    let offers =
        offers.map(|it| json!({ "offer": it.offer, "reason": it.reason, "count": it.count }));
    let refusals = summary.refusals.iter();
    let refusals =
        refusals.map(|(why, count)| json!({ "reason": why.to_string(), "count": count }));
    json!({
        "event": "summary",
        "protocols": protocols.collect::<Vec<_>>(),
        "offers": offers.collect::<Vec<_>>(),
        "not_answered_by_an_origin": refusals.collect::<Vec<_>>(),
    })
    .to_string()
}

/// A time in milliseconds, or a dash.
fn milliseconds(time: Option<Duration>) -> String {
    time.map_or_else(
        || "-".into(),
        |time| format!("{:.2} ms", time.as_secs_f64() * 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_requests_there_is_nothing_to_tell() {
        let summary = altway_proxy::Statistics::default().summary();
        assert_eq!(text(&summary, &Metrics::default()), "no requests");
        let line: serde_json::Value =
            serde_json::from_str(&json(&summary, &Metrics::default())).unwrap();
        assert_eq!(line["event"], "summary");
    }

    #[test]
    fn times_are_in_milliseconds() {
        assert_eq!(milliseconds(Some(Duration::from_micros(1_234))), "1.23 ms");
        assert_eq!(milliseconds(None), "-");
    }
}
