//! The service: a request of the server, what the servers behind are told of it, and the answer.

use crate::Network;
use crate::body::{ProxyBody, Timing};
use crate::statistics::Statistics;
use crate::websocket;
use altway_serve::{
    ClientCertificate, ClientPrefix, ContentTooLong, EarlyHints, PrefixLengths, RequestBody,
    RequestContext, Responder, Upgrade,
};
use altway_upstream::heads::{Received, is_looping};
use altway_upstream::rewrite::{BadPath, FieldChanges, PathChange};
use altway_upstream::{Answer, Group, Interim, InterimHandler, Reason, Refusal, Sending};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, MAX_FORWARDS, RETRY_AFTER, SERVER};
use http::{Method, Request, Response, StatusCode};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Settings of a proxy: the fields that it adds, and the networks that it trusts.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Networks of proxies before this one that are trusted. Forwarded and X-Forwarded-For from them are extended;
    /// from anybody else these fields are replaced.
    pub trusted: Vec<Network>,
    /// Prefixes of addresses that are one client, where requests at a time are shared out.
    pub client_prefix: PrefixLengths,
    /// The change of the beginning of requests' paths. Location fields of responses are not changed back.
    pub path: PathChange,
    /// Changes of the fields of the servers' responses, made before `fields`.
    pub response_fields: FieldChanges,
    /// Fields of all responses; they replace fields of the same names that the servers send.
    pub fields: HeaderMap,
    /// Counters of what the proxy does.
    pub statistics: Arc<Statistics>,
    /// Name of the group in [`Statistics::upstreams`].
    pub pool: String,
}

/// A responder that passes requests on to a group of servers. Clones share everything.
#[derive(Debug, Clone)]
pub struct Proxy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    group: Group,
    settings: Settings,
    /// Makes numbers of clients.
    numbers: RandomState,
    unanswered_log: UnansweredLog,
}

impl Proxy {
    /// A proxy that passes requests on to `group`.
    #[must_use]
    pub fn new(group: Group, settings: Settings) -> Self {
        settings.statistics.add_group(&settings.pool, &group);
        Self(Arc::new(Shared {
            group,
            settings,
            numbers: RandomState::new(),
            unanswered_log: UnansweredLog::default(),
        }))
    }
}

impl Responder for Proxy {
    type Body = ProxyBody;
    type Future = Answering;

    fn respond(&self, request: Request<RequestBody>, request_context: RequestContext) -> Answering {
        Arc::clone(&self.0).answer(request, request_context)
    }
}

/// The answer to a request.
pub struct Answering(State);

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all wait for a server: a box would be memory for each request"
)]
enum State {
    /// A response that waits for no server. In a box: nearly all do.
    Now(Option<Box<Response<ProxyBody>>>),
    Sending(Exchange),
}

/// A request that was given to the servers.
struct Exchange {
    proxy: Arc<Shared>,
    sending: Sending,
    hints: InterimResponses,
    upgrade: Option<Upgrade>,
    /// `None`: the response has it.
    timing: Option<Timing>,
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl Future for Answering {
    type Output = Response<ProxyBody>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<ProxyBody>> {
        let exchange = match &mut self.0 {
            State::Sending(exchange) => exchange,
            State::Now(response) => {
                let response = response.take();
                return response.map_or(Poll::Pending, |response| Poll::Ready(*response));
            }
        };
        let sent = ready!(exchange.sending.poll_telling(cx, &exchange.hints));
        let Some(timing) = exchange.timing.take() else {
            return Poll::Pending;
        };
        let upgrade = exchange.upgrade.take();
        Poll::Ready(exchange.proxy.finish(sent, upgrade, timing))
    }
}

impl Shared {
    fn answer(
        self: Arc<Self>,
        mut request: Request<RequestBody>,
        request_context: RequestContext,
    ) -> Answering {
        let version = request.version();
        let timing = Timing {
            statistics: Arc::clone(&self.settings.statistics),
            version,
            began: request_context.began,
            whole_after: None,
            is_whole: false,
            is_own: false,
        };
        timing.statistics.request(version);
        let client = request_context.peer;
        let peer = client.address.ip().to_canonical();
        let certificate = request_context.certificate.as_ref().and_then(client_cert);
        let upgrade = request_context.upgrade;
        let hints = InterimResponses(request_context.early_hints);
        if upgrade.is_some() {
            websocket::as_http1(&mut request);
        } else if request.method() == Method::CONNECT {
            return self.at_once(StatusCode::NOT_IMPLEMENTED, timing);
        }
        if is_looping(request.headers()) {
            return self.refuse_loop(timing);
        }
        if let Some(status) = count_forwarding(&mut request) {
            return self.at_once(status, timing);
        }
        if self.change_path(&mut request).is_err() {
            return self.at_once(StatusCode::BAD_REQUEST, timing);
        }
        let is_trusted = self.settings.trusted.iter().any(|it| it.contains(peer));
        let prefix = || ClientPrefix::of(peer, self.settings.client_prefix);
        let received = Received {
            peer,
            port: client.address.port(),
            client: (!is_trusted).then(|| self.numbers.hash_one(prefix())),
            local: client.local,
            is_trusted,
            scheme: if client.is_secure { "https" } else { "http" },
            version,
            is_early: request_context.is_early,
            began: request_context.began,
            client_cert: certificate.as_ref(),
        };
        let sending = self.group.send(request, received, None, upgrade.is_some());
        Answering(State::Sending(Exchange {
            proxy: self,
            sending,
            hints,
            upgrade,
            timing: Some(timing),
        }))
    }

    /// The response to a request that was sent.
    fn finish(
        &self,
        sent: Result<Answer, Refusal>,
        upgrade: Option<Upgrade>,
        mut timing: Timing,
    ) -> Response<ProxyBody> {
        let version = timing.version;
        let mut response = match sent {
            Err(refusal) => self.refuse(refusal, timing),
            Ok((mut response, None)) => {
                self.settings.response_fields.apply(response.headers_mut());
                let (status, after) = (response.status(), timing.began.elapsed());
                timing.statistics.head(version, status, Some(after));
                let mut response = response.map(|body| ProxyBody::upstream(body, timing, after));
                if let Some(memory) = response.body().memory() {
                    response.extensions_mut().insert(memory);
                }
                response
            }
            Ok((response, Some(tunnel))) => {
                timing.is_whole = true;
                let mut fields = response.into_parts().0.headers;
                self.settings.response_fields.apply(&mut fields);
                let joined = upgrade.map(|upgrade| websocket::join(upgrade, &fields, *tunnel));
                match joined {
                    Some(Ok(response)) => return response,
                    _ => page(StatusCode::BAD_GATEWAY, timing),
                }
            }
        };
        self.complete(response.headers_mut());
        response
    }

    fn change_path(&self, request: &mut Request<RequestBody>) -> Result<(), BadPath> {
        let change = &self.settings.path;
        let target = request.uri().path_and_query();
        let changed = target.map_or(Ok(None), |target| change.apply(target))?;
        if let Some(target) = changed {
            *request.uri_mut() = target.into();
        }
        Ok(())
    }

    /// An answer of the proxy's own that waits for no server.
    fn at_once(&self, status: StatusCode, timing: Timing) -> Answering {
        let mut response = page(status, timing);
        self.complete(response.headers_mut());
        Answering(State::Now(Some(Box::new(response))))
    }

    /// The answer to a request that goes round, which is told of as what servers don't answer.
    fn refuse_loop(&self, timing: Timing) -> Answering {
        let refusal = Refusal {
            status: StatusCode::LOOP_DETECTED,
            reason: Reason::Loop,
            retry_after: None,
        };
        let mut response = self.refuse(refusal, timing);
        self.complete(response.headers_mut());
        Answering(State::Now(Some(Box::new(response))))
    }

    /// Adds the fields of the settings.
    fn complete(&self, fields: &mut HeaderMap) {
        for name in self.settings.fields.keys() {
            fields.remove(name);
        }
        for (name, value) in &self.settings.fields {
            fields.append(name, value.clone());
        }
    }

    fn refuse(&self, refusal: Refusal, timing: Timing) -> Response<ProxyBody> {
        timing.statistics.refused(refusal.reason);
        let is_too_long = matches!(refusal.reason, Reason::TooLong);
        timing.statistics.head(timing.version, refusal.status, None);
        self.unanswered_log.log_unanswered(refusal);
        let mut response = page(refusal.status, timing);
        if is_too_long {
            response.extensions_mut().insert(ContentTooLong);
        }
        if let Some(after) = refusal.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Counts a request's passing on in its Max-Forwards, by which clients ask one of the proxies on the way (RFC 9110 section
/// 7.6.2). Returns the status of the answer where that is this one.
fn count_forwarding(request: &mut Request<RequestBody>) -> Option<StatusCode> {
    let of_last = match *request.method() {
        Method::OPTIONS => StatusCode::NO_CONTENT,
        // To say what has come would tell the client of the fields that a proxy before this one gives.
        Method::TRACE => StatusCode::NOT_IMPLEMENTED,
        _ => return None,
    };
    let value = request.headers_mut().get_mut(MAX_FORWARDS)?;
    let passes: u64 = value.to_str().ok()?.parse().ok()?;
    let Some(left) = passes.checked_sub(1) else {
        return Some(of_last);
    };
    *value = left.into();
    None
}

/// The status in words.
fn page(status: StatusCode, mut timing: Timing) -> Response<ProxyBody> {
    let reason = status.canonical_reason().unwrap_or_default();
    timing.is_own = true;
    let text = format!("{} {reason}\n", status.as_u16());
    let mut response = Response::new(ProxyBody::text(text, timing));
    *response.status_mut() = status;
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// The value of Client-Cert (RFC 9440 section 2.2): a byte sequence of structured fields.
fn client_cert(certificate: &ClientCertificate) -> Option<HeaderValue> {
    let text = format!(":{}:", STANDARD.encode(certificate.der()));
    HeaderValue::try_from(text).ok()
}

/// Passes interim responses on as they come (RFC 9110 section 15.2): early hints (RFC 8297) to clients of HTTP/2 and HTTP/3,
/// others to all whose protocol has them.
struct InterimResponses(EarlyHints);

impl InterimHandler for InterimResponses {
    fn handle_interim(&self, status: StatusCode, fields: &HeaderMap) {
        let mut fields = fields.clone();
        for own in [DATE, SERVER] {
            fields.remove(own);
        }
        // One that comes too late is of no use.
        let _ = self.0.send_interim(status, fields);
    }

    fn callback(&self) -> Option<Interim> {
        let hints = Self(self.0.clone());
        Some(Interim::new(move |status, fields| {
            hints.handle_interim(status, fields);
        }))
    }
}

/// Tells the operator of requests that no server has answered: once a second at most, with a count of the others.
#[derive(Debug, Default)]
struct UnansweredLog {
    began: OnceLock<Instant>,
    /// Seconds since then, and one.
    latest: AtomicU64,
    untold: AtomicU64,
}

impl UnansweredLog {
    fn log_unanswered(&self, refusal: Refusal) {
        let Refusal { status, reason, .. } = refusal;
        // What clients do is in the access log.
        if matches!(reason, Reason::Client | Reason::TooLong) {
            return;
        }
        let second = self.began.get_or_init(Instant::now).elapsed().as_secs() + 1;
        if self.latest.swap(second, Ordering::Relaxed) == second {
            self.untold.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let status = status.as_u16();
        match self.untold.swap(0, Ordering::Relaxed) {
            0 => tracing::warn!("answered {status}: {reason}"),
            more => tracing::warn!("answered {status}: {reason} ({more} more like it before)"),
        }
    }
}
