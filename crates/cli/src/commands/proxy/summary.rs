//! The closing summary of a proxy: what each protocol's requests and visits took, what was offered and why, what that
//! saved, what failed.

use crate::commands::half_within;
use altway_proxy::Summary;
use altway_serve::{Metrics, PageMetrics, ProtocolMetrics};
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
    for (name, protocol) in ProtocolMetrics::NAMES.iter().zip(&metrics.protocols) {
        visits(&mut text, name, &protocol.pages);
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
            let _ = write!(text, "{comma} {} {} × ({reason})", offer.offer, offer.count);
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

/// The line of one protocol's visits: what clients loaded in one go, and what that would have taken over the other
/// transport by the predictions that the offers rest on.
fn visits(text: &mut String, name: &str, pages: &PageMetrics) {
    let count = pages.times.count();
    if count == 0 {
        return;
    }
    let mean = pages.times.sum / u32::try_from(count).unwrap_or(u32::MAX);
    let _ = write!(
        text,
        "\nvisits over {name}: {count}, {} on average, half {}",
        milliseconds(Some(mean)),
        half_within(&pages.times.buckets),
    );
    let predicted = u32::try_from(pages.predicted).unwrap_or(u32::MAX);
    if predicted == 0 {
        return;
    }
    let other = if name == "h3" { "TCP" } else { "h3" };
    let [took, elsewhere] = [pages.predicted_took, pages.predicted_elsewhere];
    let saved = saved_percent(pages).unwrap_or_default();
    let word = if saved < 0.0 { "lost" } else { "saved" };
    let _ = write!(
        text,
        "; {predicted} of them took {}, and would have taken {} over {other}, as predicted: {:.0} % {word}",
        milliseconds(Some(took / predicted)),
        milliseconds(Some(elsewhere / predicted)),
        saved.abs(),
    );
}

/// Share of the time that the pages would have taken over the other transport that they did not take, in percent;
/// `None` where nothing was predicted.
fn saved_percent(pages: &PageMetrics) -> Option<f64> {
    let [took, elsewhere] =
        [pages.predicted_took, pages.predicted_elsewhere].map(|it| it.as_secs_f64());
    (elsewhere > 0.0).then(|| 100.0 * (1.0 - took / elsewhere))
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
            "visits": {
                "count": connections.pages.times.count(),
                "took_us": micros(Some(connections.pages.times.sum)),
                "predicted": connections.pages.predicted,
                "predicted_took_us": micros(Some(connections.pages.predicted_took)),
                "predicted_elsewhere_us": micros(Some(connections.pages.predicted_elsewhere)),
                "saved_percent": saved_percent(&connections.pages),
            },
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
    fn visits_say_what_the_offer_has_saved() {
        let mut pages = PageMetrics::default();
        let mut line = String::new();
        visits(&mut line, "h3", &pages);
        assert_eq!(line, "");
        pages.times.buckets[5] = 3;
        pages.times.buckets[14] = 1;
        pages.times.sum = Duration::from_millis(400);
        visits(&mut line, "h3", &pages);
        assert_eq!(
            line,
            "\nvisits over h3: 4, 100.00 ms on average, half within 100 ms"
        );
        line.clear();
        pages.predicted = 2;
        pages.predicted_took = Duration::from_millis(150);
        pages.predicted_elsewhere = Duration::from_millis(200);
        visits(&mut line, "h3", &pages);
        let expected = "; 2 of them took 75.00 ms, and would have taken 100.00 ms over TCP, as predicted: 25 % saved";
        assert!(line.ends_with(expected), "{line}");
        pages.predicted_elsewhere = Duration::from_millis(100);
        line.clear();
        visits(&mut line, "h2", &pages);
        assert!(
            line.ends_with("50.00 ms over h3, as predicted: 50 % lost"),
            "{line}"
        );
    }

    #[test]
    fn times_are_in_milliseconds() {
        assert_eq!(milliseconds(Some(Duration::from_micros(1_234))), "1.23 ms");
        assert_eq!(milliseconds(None), "-");
    }
}
