//! One request over all its attempts: a server is chosen, the request is sent, and where that fails the decision of
//! [`retry`] follows.

use crate::balance::{Balance, HashKey};
use crate::content::{Content, Gate, Outgoing};
use crate::error::{Reason, Refusal};
use crate::group::{Group, InProgress, NoServer, Shared};
use crate::heads::{self, Received};
use crate::http1::{self, Http1, RequestHead, Switched};
use crate::pool::Connection;
use crate::response::{Lease, Pace, ResponseBody, Source};
use crate::retry::{self, Failed, Failure, Sent, Verdict};
use crate::{BoxError, Protocol};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Uri, Version, request, uri};
use http_body::Body;
use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// Time that a server has to ask for content that waits for it (RFC 9110 section 10.1.1: no client waits for ever).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// The time after which a client is to ask again that was one too many.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A callback for interim responses that pass to the client (103), as they arrive.
#[derive(Clone)]
pub struct Interim(Arc<Tell>);

type Tell = dyn Fn(StatusCode, &HeaderMap) + Send + Sync;

impl Interim {
    /// Tells `tell`, on the thread of the request, which should return at once.
    pub fn new(tell: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for Interim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interim").finish_non_exhaustive()
    }
}

/// A byte stream to a server that has switched protocols. The request counts as in progress until it is dropped.
#[derive(Debug)]
pub struct Tunnel {
    stream: Switched,
    lease: Lease,
}

impl Tunnel {
    /// The byte stream, with what keeps its place at the server.
    #[must_use]
    pub fn open(self) -> (impl AsyncRead + AsyncWrite + Send + Unpin, impl Send) {
        (self.stream, self.lease)
    }
}

/// A response, with the tunnel that it opens if its status is 101.
pub(crate) type Answer = (Response<ResponseBody>, Option<Tunnel>);

/// An attempt that failed.
struct Attempted {
    failure: Failure,
    is_reused: bool,
    sent: Sent,
    has_begun: bool,
    /// The client is the one that was too slow.
    by_client: bool,
}

/// The request and circumstances that all its attempts have in common.
struct Exchange {
    group: Arc<Shared>,
    parts: request::Parts,
    content: Content,
    received: Received<'static>,
    client_cert: Option<HeaderValue>,
    interim: Option<Interim>,
    is_upgrade: bool,
}

impl Group {
    /// Carries a request to one of the servers, and gives its response as it comes.
    ///
    /// The URI's path and query are the target; the fields are as the client sent them, Host among them, and are made
    /// those of the next hop by [`heads`]. With `Upgrade` among them, which is passed on where `is_upgrade` says that
    /// the client may have it, a response 101 brings a [`Tunnel`].
    ///
    /// Has to be called in a Tokio runtime, which is to live as long as the response.
    ///
    /// # Errors
    /// The status for the client where no server responds: 502, 503, 504; 408 and 400 where it did not send its
    /// content.
    pub fn send<B>(
        &self,
        request: Request<B>,
        received: Received<'_>,
        interim: Option<Interim>,
        is_upgrade: bool,
    ) -> impl Future<Output = Result<(Response<ResponseBody>, Option<Tunnel>), Refusal>> + Send + use<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        // A future of `async fn` would hold the request twice, and there is one for each request in progress.
        let (parts, body) = request.into_parts();
        let content = Content::new(body, &parts.method, self.0.options.keep_body);
        let exchange = Exchange {
            group: Arc::clone(&self.0),
            parts,
            content,
            client_cert: received.client_cert.cloned(),
            received: Received {
                client_cert: None,
                ..received
            },
            interim,
            is_upgrade,
        };
        async move { exchange.run().await }
    }
}

impl Exchange {
    async fn run(&self) -> Result<Answer, Refusal> {
        let mut attempts_left = self.group.options.attempts.saturating_sub(1);
        let mut tried = Vec::new();
        let mut same = None;
        loop {
            let member = match same {
                Some(member) => member,
                None => self.choose(&tried)?,
            };
            let failed = match self.attempt(member, same.is_some()).await? {
                Ok(answer) => {
                    self.group.members[member].note(crate::health::Health::succeeded);
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            if self.content.has_failed() {
                return Err(refusal(StatusCode::BAD_REQUEST, Reason::Client));
            }
            if failed.by_client {
                return Err(refusal(StatusCode::REQUEST_TIMEOUT, Reason::Client));
            }
            let counters = &self.group.pool(member).counters;
            counters.failed(failed.failure, failed.is_reused);
            if self.tells_of_health(member, &failed) {
                self.group.members[member].note(crate::health::Health::failed);
            }
            let verdict = retry::decide(Failed {
                failure: failed.failure,
                is_reused: failed.is_reused,
                sent: failed.sent,
                has_begun: failed.has_begun,
                method: &self.parts.method,
                content: self.content.left(),
                attempts_left,
            });
            if !matches!(verdict, Verdict::Answer(_)) {
                counters.retried();
            }
            match verdict {
                Verdict::Answer(status) => return Err(refusal(status, reason(failed.failure))),
                Verdict::SameServer => same = Some(member),
                Verdict::Elsewhere => {
                    same = None;
                    attempts_left -= 1;
                    tried.push(member);
                }
            }
        }
    }

    /// Whether a failure counts against the server. That it has closed a connection of its own accord says nothing, and
    /// the last one that can be reached is better than none.
    fn tells_of_health(&self, member: usize, failed: &Attempted) -> bool {
        match failed.failure {
            Failure::Connect => true,
            Failure::Connection if failed.is_reused => false,
            _ => self.group.has_another(member),
        }
    }

    fn choose(&self, tried: &[usize]) -> Result<usize, Refusal> {
        let client;
        let key = match &self.group.options.balance {
            Balance::Hash(HashKey::Client) => {
                client = match self.received.peer {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                Some(&client[..])
            }
            Balance::Hash(HashKey::Field(name)) => {
                self.parts.headers.get(name).map(HeaderValue::as_bytes)
            }
            _ => None,
        };
        let chosen = self.group.choose(key, tried);
        chosen.map_err(|NoServer { retry_after }| Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: Reason::NoServer,
            retry_after: Some(retry_after),
        })
    }

    /// Sends the request to a server. `is_fresh`: over a new connection.
    async fn attempt(
        &self,
        member: usize,
        is_fresh: bool,
    ) -> Result<Result<Answer, Attempted>, Refusal> {
        let options = &self.group.options;
        let pool = self.group.pool(member);
        let connector = &self.group.members[member].connector;
        let turn = pool.turn(options.connect_timeout).await;
        let permit = turn.ok_or(Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: Reason::Busy,
            retry_after: Some(BUSY_RETRY_AFTER),
        })?;
        let in_progress = InProgress::new(&self.group, member);
        pool.counters.request();
        let began = Instant::now();
        let connection = match connector.server.protocol {
            Protocol::Http1 => {
                let idle = match is_fresh {
                    true => None,
                    false => pool.idle(retry::is_idempotent(&self.parts.method)),
                };
                let connection = match idle {
                    Some(connection) => Ok(connection),
                    None => connector.http1(&pool.counters).await,
                };
                connection.map(|it| {
                    let is_reused = it.is_reused;
                    (Connection::Http1(it), is_reused)
                })
            }
            Protocol::Http2 => {
                let connection = pool.multiplexed(connector).await;
                connection.map(|(it, is_reused)| (Connection::Http2(it), is_reused))
            }
        };
        let (connection, is_reused) = match connection {
            Ok(connection) => connection,
            Err(error) => {
                let server = &connector.server;
                tracing::debug!("no connection to the upstream {server}: {error}");
                return Ok(Err(Attempted::not_connected()));
            }
        };
        let lease = Lease::new(pool, permit, in_progress);
        let outcome = match connection {
            Connection::Http1(connection) => self.over_http1(connection, lease).await,
            Connection::Http2(sender) => {
                let scheme = match connector.server.tls {
                    Some(_) => uri::Scheme::HTTPS,
                    None => uri::Scheme::HTTP,
                };
                self.over_http2(sender, is_reused, lease, scheme).await
            }
        };
        if outcome.is_ok() {
            pool.counters.responded(began.elapsed());
        }
        Ok(outcome)
    }

    async fn over_http1(&self, connection: Http1, lease: Lease) -> Result<Answer, Attempted> {
        let is_reused = connection.is_reused;
        let mut fields = self.fields(Version::HTTP_11);
        let gate = self.gate(&mut fields);
        if self.is_upgrade {
            fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            if let Some(protocol) = self.parts.headers.get(header::UPGRADE) {
                fields.insert(header::UPGRADE, protocol.clone());
            }
        }
        let target = self.parts.uri.path_and_query();
        let head = RequestHead {
            method: &self.parts.method,
            target: target.map_or("/", uri::PathAndQuery::as_str),
            fields: &fields,
            is_upgrade: self.is_upgrade,
        };
        let mut exchange = connection.begin(head, self.content.attempt(gate.clone()));
        let interim = |status, fields| self.on_interim(status, fields, gate.as_ref());
        let outcome = self
            .in_time(exchange.response(interim), gate.as_ref())
            .await;
        let progress = exchange.progress();
        let failed = |failure, by_client| Attempted {
            failure,
            is_reused,
            sent: progress.sent,
            has_begun: progress.has_begun,
            by_client,
        };
        match outcome {
            Err(late) => Err(failed(Failure::TimedOut, late.by_client)),
            Ok(Err(fault)) => {
                tracing::debug!("no response of an upstream: {fault}");
                Err(failed(fault.failure(), false))
            }
            Ok(Ok(response)) => Ok(self.answer(response, lease)),
        }
    }

    /// An answer of a server of HTTP/1.1.
    fn answer(&self, response: http1::Response, lease: Lease) -> Answer {
        let pace = self.pace();
        let http1::Response {
            status,
            version,
            fields,
            content,
        } = response;
        match content {
            http1::Content::Http(incoming) => {
                let body = ResponseBody::new(Source::Http1(incoming), lease, pace);
                (passed(status, version, fields, body), None)
            }
            http1::Content::Switched(stream) => {
                let body = ResponseBody::empty(pace);
                let response = passed(status, version, fields, body);
                (response, Some(Tunnel { stream, lease }))
            }
        }
    }

    async fn over_http2(
        &self,
        mut sender: crate::connect::Http2,
        is_reused: bool,
        lease: Lease,
        scheme: uri::Scheme,
    ) -> Result<Answer, Attempted> {
        let failed = |failure, sent| Attempted {
            failure,
            is_reused,
            sent,
            has_begun: false,
            by_client: false,
        };
        if self.is_upgrade {
            // The client of HTTP/2 has no extended CONNECT (RFC 8441).
            return Err(failed(Failure::Malformed, Sent::Nothing));
        }
        let Some(request) = self.request_http2(scheme) else {
            return Err(failed(Failure::Malformed, Sent::Nothing));
        };
        match self.in_time(sender.try_send_request(request), None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err(mut error)) => {
                let is_whole = error.take_message().is_some();
                let sent = if is_whole { Sent::Nothing } else { Sent::Some };
                Err(failed(failure_of(error.error()), sent))
            }
            Ok(Ok(response)) => {
                let version = response.version();
                let (parts, incoming) = response.into_parts();
                let body = ResponseBody::new(Source::Http2(incoming), lease, self.pace());
                Ok((passed(parts.status, version, parts.headers, body), None))
            }
        }
    }

    /// The request for HTTP/2: `None` where its host is none.
    fn request_http2(&self, scheme: uri::Scheme) -> Option<Request<Outgoing>> {
        let mut fields = self.fields(Version::HTTP_2);
        fields.remove(header::EXPECT);
        let host = fields.remove(header::HOST)?;
        let mut parts = uri::Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(host.to_str().ok()?.parse().ok()?);
        let target = self.parts.uri.path_and_query().cloned();
        parts.path_and_query = Some(target.unwrap_or(uri::PathAndQuery::from_static("/")));
        let mut request = Request::new(self.content.attempt(None));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = fields;
        Some(request)
    }

    /// The fields as the next hop has them.
    fn fields(&self, version: Version) -> HeaderMap {
        let mut fields = self.parts.headers.clone();
        let received = Received {
            client_cert: self.client_cert.as_ref(),
            ..self.received
        };
        heads::pass_request(&mut fields, received, version);
        let options = &self.group.options;
        if let Some(host) = &options.host {
            fields.insert(header::HOST, host.clone());
        } else if !fields.contains_key(header::HOST) {
            fields.insert(header::HOST, options.servers[0].authority());
        }
        fields
    }

    /// The gate of content for which the server is to ask. Where there is no content it has nothing to ask for.
    fn gate(&self, fields: &mut HeaderMap) -> Option<Gate> {
        let expects = fields
            .get(header::EXPECT)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        if !expects || self.content.is_none() {
            fields.remove(header::EXPECT);
            return None;
        }
        Some(Gate::default())
    }

    fn pace(&self) -> Pace {
        Pace {
            idle_timeout: self.group.options.idle_timeout,
            slowest: self.group.options.slowest,
        }
    }

    /// An interim response has arrived.
    fn on_interim(&self, status: StatusCode, mut fields: HeaderMap, gate: Option<&Gate>) {
        if status == StatusCode::CONTINUE
            && let Some(gate) = gate
        {
            gate.open();
        }
        if heads::is_passed_ahead(status)
            && let Some(interim) = &self.interim
        {
            heads::pass_response(&mut fields, Version::HTTP_11);
            fields.remove(header::VIA);
            (interim.0)(status, &fields);
        }
    }

    /// Waits for the head of a response, as long as the client sends, and then for its time.
    async fn in_time<T>(
        &self,
        responding: impl Future<Output = T>,
        gate: Option<&Gate>,
    ) -> Result<T, Late> {
        let mut responding = pin!(responding);
        if let Some(gate) = gate {
            if let Ok(response) = timeout(CONTINUE_WAIT, responding.as_mut()).await {
                return Ok(response);
            }
            gate.open();
        }
        let mut before = self.content.progress();
        loop {
            let wait = self.group.options.head_timeout;
            if let Ok(response) = timeout(wait, responding.as_mut()).await {
                return Ok(response);
            }
            let now = self.content.progress();
            if now.frames == before.frames && now.is_finished == before.is_finished {
                return Err(Late {
                    by_client: !now.is_finished && now.is_waiting,
                });
            }
            before = now;
        }
    }
}

/// A response as the next hop has it.
fn passed(
    status: StatusCode,
    version: Version,
    mut fields: HeaderMap,
    body: ResponseBody,
) -> Response<ResponseBody> {
    heads::pass_response(&mut fields, version);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

/// Time went by without a response.
struct Late {
    by_client: bool,
}

impl Attempted {
    fn not_connected() -> Self {
        Self {
            failure: Failure::Connect,
            is_reused: false,
            sent: Sent::Nothing,
            has_begun: false,
            by_client: false,
        }
    }
}

fn refusal(status: StatusCode, reason: Reason) -> Refusal {
    Refusal {
        status,
        reason,
        retry_after: None,
    }
}

fn reason(failure: Failure) -> Reason {
    match failure {
        Failure::Connect => Reason::Connect,
        Failure::Connection | Failure::Unprocessed => Reason::Closed,
        Failure::TimedOut => Reason::TimedOut,
        Failure::Malformed => Reason::Malformed,
    }
}

/// Tells what the protocol's error says of the server.
fn failure_of(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        return Failure::Malformed;
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            // Of a server that goes, only streams that it has not begun fail so (RFC 9113 section 6.8).
            let has_gone = error.is_go_away()
                && error.is_remote()
                && error.reason() == Some(h2::Reason::NO_ERROR);
            if is_refused || has_gone {
                return Failure::Unprocessed;
            }
        }
        source = cause.source();
    }
    Failure::Connection
}
