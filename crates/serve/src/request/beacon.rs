//! The beacon: a script that a page may name, and what browsers report by it (Resource Timing).
//!
//! Off unless a site turns it on; then it has two paths there, before the site's own routes. The script draws whether
//! this page view reports, waits until the page is loaded, and sends a line of numbers to its own origin. What arrives
//! is read strictly ([`BeaconReport`]), kept as numbers and shown; nothing is decided by it.

use super::body::Body;
use super::requests::{Now, Requests, selection};
use super::service::Service;
use crate::files;
use crate::selection::HostIndex;
use crate::{RequestBody, request::check::RequestHead};
use altway_select::{
    BeaconReport, Client, Decision, LoggedProtocol, MAX_BEACON_BYTES, Page, TooManyBeacons,
};
use altway_units::Ratio;
use bytes::Buf;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Path of the script.
const SCRIPT_PATH: &[u8] = b"/.well-known/altway/beacon.js";

/// Path that reports are sent to.
const REPORT_PATH: &[u8] = b"/.well-known/altway/beacon";

/// The script, in which SHARE stands for the probability that a page view reports.
const SCRIPT: &str = include_str!("beacon.js");

/// Browsers keep the script for an hour, so that another share is in use soon.
const SCRIPT_LIFE: HeaderValue = HeaderValue::from_static("max-age=3600");

/// Seconds after which a network may report again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("60");

/// The part of the beacon that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BeaconRequest {
    Script,
    Report,
}

impl BeaconRequest {
    fn of(target: &[u8]) -> Option<Self> {
        match target {
            SCRIPT_PATH => Some(Self::Script),
            REPORT_PATH => Some(Self::Report),
            _ => None,
        }
    }
}

/// The connection on which a report comes, as far as the server knows it.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) service: Arc<Service>,
    pub(crate) client: Client,
    pub(crate) host: HostIndex,
    pub(crate) protocol: LoggedProtocol,
    /// The latest page of the connection, if one is complete.
    pub(crate) page: Option<Page>,
    pub(crate) decision: Option<Decision>,
    /// The shortest round trip of the connection.
    pub(crate) min_rtt: Option<Duration>,
}

impl<I> Requests<I> {
    /// The share of page views that report, where the site of a request has the beacon.
    fn beacon_share(&mut self, head: &impl RequestHead) -> Option<Ratio> {
        selection(&self.responder, self.listener_policy)?;
        self.host_facts(head).named.beacon
    }

    /// The beacon's answer to a request that it can answer without the request's content: all but reports.
    pub(super) fn beacon_response(&mut self, head: &impl RequestHead) -> Option<Response<Body>> {
        let asked = BeaconRequest::of(head.target()?)?;
        let share = self.beacon_share(head)?;
        let (allowed, is_allowed) = match asked {
            BeaconRequest::Script => ("GET, HEAD", matches!(head.method(), b"GET" | b"HEAD")),
            BeaconRequest::Report => ("POST", head.method() == b"POST"),
        };
        if !is_allowed {
            let mut response = files::page(StatusCode::METHOD_NOT_ALLOWED);
            let allowed = HeaderValue::from_static(allowed);
            response.headers_mut().insert(header::ALLOW, allowed);
            return Some(response);
        }
        match asked {
            BeaconRequest::Script => Some(script(share)),
            // Browsers say where a request comes from; pages of other origins have nothing to report here.
            BeaconRequest::Report => {
                let mut origins = head.fields().filter(|(name, _)| *name == b"sec-fetch-site");
                let is_foreign = origins.any(|(_, value)| value != b"same-origin");
                is_foreign.then(|| files::page(StatusCode::FORBIDDEN))
            }
        }
    }

    /// Returns true if a request that no [`beacon_response`](Self::beacon_response) has answered is a report.
    pub(super) fn is_report(&mut self, head: &impl RequestHead) -> bool {
        head.method() == b"POST"
            && head.target().and_then(BeaconRequest::of) == Some(BeaconRequest::Report)
            && self.beacon_share(head).is_some()
    }

    /// Returns the state of this connection, for a report that has come on it.
    pub(super) fn reporter(&mut self, now: Now) -> Option<Reporter> {
        let decision = self.decision(None, now);
        self.observer.invalidate();
        Some(Reporter {
            service: Arc::clone(&self.responder.service),
            client: *self.observer.client()?,
            host: self.observer.host(),
            protocol: self.observer.logged_protocol(),
            page: self.observer.latest_page(),
            decision,
            min_rtt: self.observer.min_rtt(),
        })
    }
}

impl Reporter {
    /// Reads the report and takes it.
    pub(super) async fn answer(self, request: Request<RequestBody>) -> Response<Body> {
        let text = match read(request.into_body()).await {
            Ok(text) => text,
            Err(status) => return files::page(status),
        };
        match BeaconReport::parse(&text).map(|report| self.take(&report)) {
            Ok(Ok(())) => Body::empty_response(StatusCode::NO_CONTENT),
            Ok(Err(TooManyBeacons)) => {
                let mut response = files::page(StatusCode::TOO_MANY_REQUESTS);
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, RETRY_AFTER);
                response
            }
            Err(_) => files::page(StatusCode::BAD_REQUEST),
        }
    }

    fn take(&self, report: &BeaconReport) -> Result<(), TooManyBeacons> {
        let Some(selection) = self.service.selection() else {
            return Ok(());
        };
        let now = Now::read().unix;
        selection.beacon(self, report, now)
    }
}

/// The script, which everybody may keep for a while.
fn script(share: Ratio) -> Response<Body> {
    let text = SCRIPT.replacen("SHARE", &share.as_f64().to_string(), 1);
    let mut response = Response::new(Body::bytes(text));
    let headers = response.headers_mut();
    let script = HeaderValue::from_static("text/javascript; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, script);
    headers.insert(header::CACHE_CONTROL, SCRIPT_LIFE);
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// The whole content of a report.
///
/// # Errors
/// The status that refuses it: it is too long, or the client did not send all of it.
async fn read(body: RequestBody) -> Result<Vec<u8>, StatusCode> {
    let mut body = pin!(body);
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        if text.len() + data.remaining() > MAX_BEACON_BYTES {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            text.extend_from_slice(chunk);
            let length = chunk.len();
            data.advance(length);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beacon_has_two_paths_and_no_other_spelling_of_them() {
        assert_eq!(BeaconRequest::of(SCRIPT_PATH), Some(BeaconRequest::Script));
        assert_eq!(BeaconRequest::of(REPORT_PATH), Some(BeaconRequest::Report));
        for other in [
            "/.well-known/altway/beacon?x",
            "/.well-known/altway/beacon/",
            "/.well-known/altway/",
            "/.WELL-KNOWN/altway/beacon",
        ] {
            assert_eq!(BeaconRequest::of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_script_has_its_share_and_sends_what_is_read() {
        let response = script("1%".parse().unwrap());
        let size = response.body().size_hint().exact().unwrap();
        assert!(size < 2_048, "{size}");
        assert_eq!(SCRIPT.matches("SHARE").count(), 1);
        for part in [
            "v=1&p=",
            "&n=",
            "&s=",
            "&b=",
            "&t=",
            "&l=",
            "/.well-known/altway/beacon",
        ] {
            assert!(SCRIPT.contains(part), "{part}");
        }
    }
}
