//! One request over all its attempts: a server is chosen, the request is sent, and where that fails the decision of
//! [`retry`] follows.

mod websocket;

use crate::balance::{Balance, HashKey};
use crate::connect::Connector;
use crate::content::{Content, Gate, Outgoing};
use crate::error::{Reason, Refusal};
use crate::group::{Group, InProgress, NoServer, Shared};
use crate::heads::{self, Received};
use crate::http3::{Http3, Http3Body};
use crate::pool::{Connection, Pool};
use crate::proxy_protocol;
use crate::response::{Lease, ResponseBody};
use crate::retry::{self, Failed, Failure, Sent, Verdict};
use crate::tunnel::Tunnel;
use crate::{BoxError, Protocol};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Uri, Version, request, uri};
use http_body::Body;
use hyper::body::Incoming;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
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

impl Interim {
    /// Tells of one.
    pub(crate) fn tell(&self, status: StatusCode, fields: &HeaderMap) {
        (self.0)(status, fields);
    }
}

impl fmt::Debug for Interim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interim").finish_non_exhaustive()
    }
}

/// A response, with the tunnel that it opens if it agrees to one.
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
struct Exchange<'e> {
    group: &'e Arc<Shared>,
    parts: request::Parts,
    content: Content,
    received: Received<'e>,
    interim: Option<Interim>,
    is_upgrade: bool,
}

impl Group {
    /// Carries a request to one of the servers, and gives its response as it comes.
    ///
    /// The URI's path and query are the target; the fields are as the client sent them, Host among them, and are made
    /// those of the next hop by [`heads`]. Where `is_upgrade` says that the client may have it, `Upgrade` among them
    /// is passed on, over HTTP/2 as an extended CONNECT (RFC 8441), and a response that agrees brings a [`Tunnel`].
    ///
    /// Has to be called in a Tokio runtime, which is to live as long as the response.
    ///
    /// # Errors
    /// The status for the client where no server responds: 502, 503, 504; 408 and 400 where it did not send its
    /// content.
    pub async fn send<B>(
        &self,
        request: Request<B>,
        received: Received<'_>,
        interim: Option<Interim>,
        is_upgrade: bool,
    ) -> Result<(Response<ResponseBody>, Option<Tunnel>), Refusal>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let (parts, body) = request.into_parts();
        let content = Content::new(body, &parts.method, self.0.options.keep_body);
        let exchange = Exchange {
            group: &self.0,
            parts,
            content,
            received,
            interim,
            is_upgrade,
        };
        exchange.run().await
    }
}

impl Exchange<'_> {
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
        let in_progress = InProgress::new(self.group, member);
        if self.is_upgrade && connector.server.protocol != Protocol::Http1 {
            let lease = Lease::new(pool, permit, in_progress, self.content.clone());
            return match connector.server.protocol {
                Protocol::Http3 => self.tunnel_over_http3(member, lease, is_fresh).await,
                _ => self.tunnel_over_http2(member, lease).await,
            };
        }
        let connection = self.connection(pool, connector, is_fresh).await;
        let (connection, is_reused) = match connection {
            Ok(connection) => connection,
            Err(error) => {
                let server = &connector.server;
                tracing::debug!("no connection to the upstream {server}: {error}");
                self.group.members[member].not_connected(&error);
                return Ok(Err(Attempted::not_connected()));
            }
        };
        // Once more over the shared connection tells as much of the server as a new one would, and is not for ever.
        let is_reused = is_reused && !is_fresh;
        let lease = Lease::new(pool, permit, in_progress, self.content.clone());
        Ok(match connection {
            Connection::Http1(connection) => self.over_http1(connection, is_reused, lease).await,
            Connection::Http2(sender) => {
                let scheme = scheme(connector);
                self.over_http2(sender, is_reused, lease, scheme).await
            }
            Connection::Http3(connection) => self.over_http3(connection, is_reused, lease).await,
        })
    }

    /// A connection, and whether it has carried requests before. `is_fresh`: a new one.
    async fn connection(
        &self,
        pool: &Pool,
        connector: &Connector,
        is_fresh: bool,
    ) -> io::Result<(Connection, bool)> {
        let header = self.proxy_protocol();
        match (connector.server.protocol, header) {
            (Protocol::Http1, None) if !is_fresh => match pool.idle().await {
                Some(connection) => Ok((Connection::Http1(connection), true)),
                None => Ok((Connection::Http1(connector.http1(None).await?), false)),
            },
            (Protocol::Http1, header) => {
                let connection = connector.http1(header.as_deref()).await?;
                Ok((Connection::Http1(connection), false))
            }
            (Protocol::Http2, None) => {
                let (connection, is_reused) = pool.multiplexed(connector).await?;
                Ok((Connection::Http2(connection), is_reused))
            }
            (Protocol::Http3, _) => {
                let pause = self.group.options.idle_timeout;
                let (connection, is_reused) = pool.http3(connector, pause).await?;
                Ok((Connection::Http3(connection), is_reused))
            }
            (Protocol::Http2, header) => {
                let connection = connector.http2(header.as_deref()).await?;
                Ok((Connection::Http2(connection), false))
            }
        }
    }

    /// The header that names the client, where the servers are sent one.
    fn proxy_protocol(&self) -> Option<Vec<u8>> {
        let client = (self.received.peer, self.received.port).into();
        let is_sent = self.group.options.send_proxy_protocol;
        is_sent.then(|| proxy_protocol::header(Some(client)))
    }

    async fn over_http1(
        &self,
        mut connection: crate::connect::Http1,
        is_reused: bool,
        mut lease: Lease,
    ) -> Result<Answer, Attempted> {
        let (read, written) = (connection.meter.read(), connection.meter.written());
        let mut fields = self.fields(Version::HTTP_11);
        let gate = self.gate(&mut fields);
        if self.is_upgrade {
            fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            if let Some(protocol) = self.parts.headers.get(header::UPGRADE) {
                fields.insert(header::UPGRADE, protocol.clone());
            }
        }
        let target = self.parts.uri.path_and_query().cloned();
        let mut request = Request::new(self.content.attempt(gate.clone()));
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
        *request.headers_mut() = fields;
        self.listen_for_interim(&mut request, gate.as_ref());
        let responding = connection.sender.try_send_request(request);
        let outcome = self.in_time(responding, gate.as_ref()).await;
        let sent = match connection.meter.written() > written {
            true => Sent::Some,
            false => Sent::Nothing,
        };
        let has_begun = connection.meter.read() > read;
        let failed = |failure| Attempted {
            failure,
            is_reused,
            sent,
            has_begun,
            by_client: false,
        };
        match outcome {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut)
            }),
            Ok(Err(mut error)) => {
                // Whole again: it was never begun.
                let is_whole = error.take_message().is_some();
                let sent = if is_whole { Sent::Nothing } else { sent };
                let failure = failure_of(error.error());
                Err(Attempted {
                    sent,
                    ..failed(failure)
                })
            }
            Ok(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                match self.is_upgrade {
                    true => Ok(switched(response, lease, self.group.options.idle_timeout)),
                    false => Err(failed(Failure::Malformed)),
                }
            }
            Ok(Ok(response)) => {
                lease.keep(connection);
                Ok((self.finish(response, lease), None))
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
        let Some(head) = self.head_http2(scheme) else {
            return Err(failed(Failure::Malformed, Sent::Nothing));
        };
        let request = head.map(|()| self.content.attempt(None));
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
            Ok(Ok(response)) => Ok((self.finish(response, lease), None)),
        }
    }

    async fn over_http3(
        &self,
        connection: Http3,
        is_reused: bool,
        lease: Lease,
    ) -> Result<Answer, Attempted> {
        let failed = |failure, sent| Attempted {
            failure,
            is_reused,
            sent,
            ..Attempted::not_connected()
        };
        let Some(head) = self.head_http2(uri::Scheme::HTTPS) else {
            return Err(failed(Failure::Malformed, Sent::Nothing));
        };
        let responding = connection.send(head, self.content.attempt(None), self.interim.clone());
        match self.in_time(responding, None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err((failure, sent))) => Err(failed(failure, sent)),
            Ok(Ok(response)) => {
                let idle_timeout = self.group.options.idle_timeout;
                let body = |body: Http3Body| ResponseBody::new(body.into(), lease, idle_timeout);
                Ok((passed(response.map(body)), None))
            }
        }
    }

    /// The head of the request for HTTP/2 and HTTP/3: `None` where its host is none.
    fn head_http2(&self, scheme: uri::Scheme) -> Option<Request<()>> {
        let mut fields = self.fields(Version::HTTP_2);
        fields.remove(header::EXPECT);
        let host = fields.remove(header::HOST)?;
        let mut parts = uri::Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(host.to_str().ok()?.parse().ok()?);
        let target = self.parts.uri.path_and_query().cloned();
        parts.path_and_query = Some(target.unwrap_or(uri::PathAndQuery::from_static("/")));
        let mut request = Request::new(());
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = fields;
        Some(request)
    }

    /// The fields as the next hop has them.
    fn fields(&self, version: Version) -> HeaderMap {
        let mut fields = self.parts.headers.clone();
        heads::pass_request(&mut fields, self.received, version);
        let options = &self.group.options;
        if let Some(host) = &options.host {
            fields.insert(header::HOST, host.clone());
        } else if !fields.contains_key(header::HOST) {
            fields.insert(header::HOST, options.servers[0].authority());
        }
        options.request_fields.apply(&mut fields);
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

    fn listen_for_interim(&self, request: &mut Request<Outgoing>, gate: Option<&Gate>) {
        if gate.is_none() && self.interim.is_none() {
            return;
        }
        let (gate, interim) = (gate.cloned(), self.interim.clone());
        hyper::ext::on_informational(request, move |response| {
            let status = response.status();
            if status == StatusCode::CONTINUE
                && let Some(gate) = &gate
            {
                gate.open();
            }
            if heads::is_passed_ahead(status)
                && let Some(interim) = &interim
            {
                let mut fields = response.headers().clone();
                heads::pass_response(&mut fields, Version::HTTP_11);
                fields.remove(header::VIA);
                interim.tell(status, &fields);
            }
        });
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

    fn finish(&self, response: Response<Incoming>, lease: Lease) -> Response<ResponseBody> {
        let idle_timeout = self.group.options.idle_timeout;
        passed(response.map(|body| ResponseBody::new(body.into(), lease, idle_timeout)))
    }
}

/// A response as the hop to the client has it.
fn passed(response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (parts, body) = response.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    *response.headers_mut() = parts.headers;
    heads::pass_response(response.headers_mut(), parts.version);
    response
}

fn scheme(connector: &Connector) -> uri::Scheme {
    match connector.server.tls {
        Some(_) => uri::Scheme::HTTPS,
        None => uri::Scheme::HTTP,
    }
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

fn switched(mut response: Response<Incoming>, lease: Lease, idle_timeout: Duration) -> Answer {
    let upgrade = hyper::upgrade::on(&mut response);
    let response = response.map(|_| ResponseBody::empty(idle_timeout));
    (passed(response), Some(Tunnel::http1(upgrade, lease)))
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
            return failure_over_http2(error);
        }
        source = cause.source();
    }
    Failure::Connection
}

fn failure_over_http2(error: &h2::Error) -> Failure {
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // Of a server that goes, only streams that it has not begun fail so (RFC 9113 section 6.8).
    let has_gone =
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
    match is_refused || has_gone {
        true => Failure::Unprocessed,
        false => Failure::Connection,
    }
}
