//! Chromium, by `fetch` from a page of the application: started once, it goes from page to page.

use super::answer::Answer;
use super::cases::{Case, cases};
use axum::Router;
use axum::extract::State;
use axum::response::Html;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Fields of requests that a page may not set: the requests that have them are left out.
const FORBIDDEN: [&str; 3] = ["accept-encoding", "access-control-request-method", "origin"];

/// Makes all requests, reports the answers as scripts see them, and goes on to the page that comes with the report's
/// answer, if one does.
const PAGE: &str = r#"<!doctype html><title>same</title><script type="module">
const ask = async ({ method, target, headers, content, streamed }) => {
  const init = { method, headers, cache: "no-store", credentials: "omit" };
  const bytes = Uint8Array.fromBase64(content);
  if (bytes.length) init.body = streamed ? new Blob([bytes]).stream() : bytes;
  if (streamed) init.duplex = "half";
  const answer = await fetch(location.origin + target, init);
  const body = new Uint8Array(await answer.arrayBuffer());
  const { status, redirected } = answer;
  return { status, redirected, fields: [...answer.headers], content: body.toBase64() };
};
const cases = CASES;
performance.setResourceTimingBufferSize(2 * cases.length);
const answers = [];
for (const it of cases) answers.push(await ask(it).catch((error) => ({ error: String(error) })));
const entries = performance.getEntriesByType("resource");
const protocols = [...new Set(entries.map((entry) => entry.nextHopProtocol))];
const body = JSON.stringify({ origin: location.origin, protocols, answers });
const next = await (await fetch("/report", { method: "POST", body })).text();
if (next) location = next;
</script>"#;

/// The requests that a page may make.
pub(super) fn asked() -> Vec<Case> {
    let may = |case: &Case| {
        let fields = case.request.headers();
        FORBIDDEN.iter().all(|name| !fields.contains_key(*name))
    };
    cases().into_iter().filter(may).collect()
}

/// Answers that one page saw.
pub(super) struct Report {
    pub(super) origin: String,
    /// Protocols by which the answers came.
    pub(super) protocols: Vec<String>,
    pub(super) answers: Vec<Answer>,
}

/// Pages to go to, one after the other.
type Next = Arc<Mutex<VecDeque<String>>>;

/// The page and the place of its reports, as routes.
pub(super) struct Pages {
    pub(super) routes: Router,
    /// The pages that follow the first.
    pub(super) next: Next,
    reports: mpsc::UnboundedReceiver<String>,
}

impl Pages {
    pub(super) fn new() -> Self {
        let page = PAGE.replace("CASES", &described().to_string());
        let (report, reports) = mpsc::unbounded_channel();
        let next = Next::default();
        let routes = Router::new()
            .route("/page", get(async || Html(page)))
            .route("/report", post(reported))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state((report, Arc::clone(&next)));
        Self {
            routes,
            next,
            reports,
        }
    }

    pub(super) async fn report(&mut self) -> Report {
        let text = self.reports.recv().await.unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let protocols = report["protocols"].as_array().unwrap().iter();
        Report {
            origin: report["origin"].as_str().unwrap().to_owned(),
            protocols: protocols
                .map(|it| it.as_str().unwrap().to_owned())
                .collect(),
            answers: report["answers"]
                .as_array()
                .unwrap()
                .iter()
                .map(answer)
                .collect(),
        }
    }
}

async fn reported(
    State((report, next)): State<(mpsc::UnboundedSender<String>, Next)>,
    text: String,
) -> String {
    let _ = report.send(text);
    next.lock().unwrap().pop_front().unwrap_or_default()
}

fn described() -> Value {
    let describe = |case: &Case| {
        let fields = case.request.headers().iter();
        let pair = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            json!([name.as_str(), value.to_str().unwrap()])
        };
        json!({
            "method": case.request.method().as_str(),
            "target": case.target(),
            "headers": fields.map(pair).collect::<Vec<_>>(),
            "content": STANDARD.encode(case.request.body()),
            "streamed": case.without_length,
        })
    };
    asked().iter().map(describe).collect()
}

/// Scripts see no cookies, and the end of redirects.
fn answer(seen: &Value) -> Answer {
    assert!(seen["error"].is_null(), "{seen}");
    let redirected = seen["redirected"].to_string();
    let fields = seen["fields"].as_array().unwrap().iter();
    let fields = fields.map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()));
    let fields = fields.map(|(name, value)| (name, value.as_bytes()));
    let fields = fields.chain([("redirected", redirected.as_bytes())]);
    let content = STANDARD.decode(seen["content"].as_str().unwrap()).unwrap();
    let status = seen["status"].as_u64().unwrap();
    Answer::new(status.try_into().unwrap(), fields, content)
}
