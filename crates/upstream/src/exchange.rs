//! A request over all its attempts: a server is chosen, the request is sent, and where that fails the decision of
//! [`retry`] follows.

mod direct;
mod multiplexed;
mod sending;
mod websocket;

use crate::balance::{Balance, HashKey};
use crate::connect::Connector;
use crate::content::{Content, ContinueSignal, Fault};
use crate::error::{Reason, Refusal};
use crate::group::{Group, NoServer, Shared};
use crate::heads::{self, Received};
use crate::http1::{self, Fields, Http1, RequestHead};
use crate::http2::Http2;
use crate::pool::{Lease, Pool};
use crate::proxy_protocol;
use crate::response::{RateCheck, ResponseBody};
use crate::retry::{self, Failed, Failure, Sent, Verdict};
use crate::tunnel::Tunnel;
use crate::{BoxError, Protocol};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Version, request, uri};
use http_body::Body;
use sending::Attempts;
pub use sending::Sending;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Time that a server has to ask for content that waits for it (RFC 9110 section 10.1.1: no client waits for ever).
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// The time after which a client is to ask again that was one too many.
const BUSY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A callback for interim responses that pass to the client (103), as they arrive.
#[derive(Clone)]
pub struct Interim(Arc<InterimCallback>);

type InterimCallback = dyn Fn(StatusCode, &HeaderMap) + Send + Sync;

impl Interim {
    /// Tells `handle_interim`, on the thread of the request, which should return at once.
    pub fn new(handle_interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(handle_interim))
    }

    /// Passes an interim response on to `interim`, if it is one that clients are to see.
    pub(crate) fn pass(interim: Option<&Self>, head: &Response<()>) {
        if let Some(interim) = interim
            && heads::is_passed_ahead(head.status())
        {
            let mut fields = head.headers().clone();
            heads::strip_response(&mut fields);
            fields.remove(header::VIA);
            interim.handle_interim(head.status(), &fields);
        }
    }
}

/// The hearer of interim responses that pass to the client, asked by [`Sending::poll_telling`].
pub trait InterimHandler {
    /// Tells of one, on the thread of the request. Should return at once.
    fn handle_interim(&self, status: StatusCode, fields: &HeaderMap);

    /// A callback that does the same, for a request that takes more than one response to wait for.
    fn callback(&self) -> Option<Interim>;
}

impl InterimHandler for Interim {
    fn handle_interim(&self, status: StatusCode, fields: &HeaderMap) {
        (self.0)(status, fields);
    }

    fn callback(&self) -> Option<Interim> {
        Some(self.clone())
    }
}

/// Nobody hears of them.
impl InterimHandler for () {
    fn handle_interim(&self, _: StatusCode, _: &HeaderMap) {}

    fn callback(&self) -> Option<Interim> {
        None
    }
}

impl fmt::Debug for Interim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interim").finish_non_exhaustive()
    }
}

/// A response, with the tunnel that it opens if it agrees to one.
pub type Answer = (Response<ResponseBody>, Option<Box<Tunnel>>);

/// An attempt that failed.
struct Attempted {
    failure: Failure,
    is_reused: bool,
    sent: Sent,
    has_begun: bool,
    /// The client is the one that was too slow.
    by_client: bool,
    /// Address of a connection that was opened for the attempt, if there was one.
    address: Option<IpAddr>,
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
    /// The URI's path and query are the target; the fields are as the client sent them, Host among them and Cookie in one line,
    /// and are made those of the next hop by [`heads`]. Where `is_upgrade` says that the client may have it, `Upgrade` among them
    /// is passed on, over HTTP/2 as an extended CONNECT (RFC 8441), and a response that agrees brings a [`Tunnel`].
    ///
    /// Has to be called in a Tokio runtime, which is to live as long as the response.
    ///
    /// # Errors
    /// The status for the client where no server responds: 502, 503, 504; 408 and 400 where it did not send its
    /// content, and 413 where that is too long.
    pub fn send<B>(
        &self,
        request: Request<B>,
        received: Received<'_>,
        interim: Option<Interim>,
        is_upgrade: bool,
    ) -> Sending
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let (parts, body) = request.into_parts();
        let options = &self.0.options;
        let content = Content::new(body, options.kept_of(&parts.method), options.max_body);
        Sending::new(Exchange {
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
        })
    }
}

impl Exchange {
    async fn run(&self, mut attempts: Attempts) -> Result<Answer, Refusal> {
        loop {
            let (member, is_fresh) = match attempts.next.take() {
                Some(next) => next,
                None => (self.choose(&attempts.tried)?, false),
            };
            match self.attempt(member, is_fresh).await? {
                Ok(answer) => {
                    self.group.members[member].succeeded();
                    return Ok(answer);
                }
                Err(failed) => self.judge(member, &failed, &mut attempts)?,
            }
        }
    }

    /// Notes that an attempt has failed, and finds out what comes next.
    ///
    /// # Errors
    /// Nothing does: the answer for the client.
    fn judge(
        &self,
        member: usize,
        failed: &Attempted,
        attempts: &mut Attempts,
    ) -> Result<(), Refusal> {
        self.check_content()?;
        if failed.by_client {
            return Err(refusal(StatusCode::REQUEST_TIMEOUT, Reason::Client));
        }
        let counters = &self.group.pool(member).counters;
        counters.failed(failed.failure, failed.is_reused);
        let Connector { server, names, .. } = &self.group.members[member].connector;
        if let (Failure::Connection, false, Some(address)) =
            (failed.failure, failed.has_begun, failed.address)
        {
            names.put_last(address);
        }
        tracing::debug!("no response of the upstream {server}: {:?}", failed.failure);
        let failed = Failed {
            failure: failed.failure,
            is_reused: failed.is_reused,
            sent: failed.sent,
            has_begun: failed.has_begun,
            method: &self.parts.method,
            content: self.content.left(),
            attempts_left: attempts.left,
            resends_left: attempts.resends_left,
        };
        if self.reflects_health(member, failed) {
            let member = &self.group.members[member];
            // Of a connection it has said more.
            if failed.failure != Failure::Connect {
                member.note_failure(Reason::of(failed.failure).to_string());
            }
            member.note(crate::health::Health::failed);
        }
        let verdict = retry::decide(failed);
        if !matches!(verdict, Verdict::Answer(_)) {
            counters.retried();
        }
        match verdict {
            Verdict::Answer(status) => return Err(refusal(status, Reason::of(failed.failure))),
            Verdict::SameServer => {
                if failed.failure == Failure::Unprocessed {
                    attempts.resends_left -= 1;
                }
                attempts.next = Some((member, true));
            }
            Verdict::Elsewhere => {
                attempts.left -= 1;
                attempts.tried.push(member);
            }
        }
        Ok(())
    }

    /// Looks for a fault of the client's in what it has sent.
    ///
    /// # Errors
    /// The client is at fault: the answer for it.
    fn check_content(&self) -> Result<(), Refusal> {
        match self.content.fault() {
            None => Ok(()),
            Some(Fault::Broken) => Err(refusal(StatusCode::BAD_REQUEST, Reason::Client)),
            Some(Fault::TooLong) => Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, Reason::TooLong)),
        }
    }

    /// Returns whether a failure counts against the server. The last one that can be reached is better than none.
    fn reflects_health(&self, member: usize, failed: Failed<'_>) -> bool {
        let counts = || failed.failure == Failure::Connect || self.group.has_another(member);
        retry::tells_of_server(failed) && counts()
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
        let turn = pool
            .turn(self.received.client, options.connect_timeout)
            .await;
        let lease = turn.ok_or(Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: Reason::Busy,
            retry_after: Some(BUSY_RETRY_AFTER),
        })?;
        pool.counters.request();
        let began = Instant::now();
        let outcome = match (self.is_upgrade, connector.server.protocol) {
            // Boxed: they are few, and the future of every other request would have room for them.
            (true, Protocol::Http2) => Box::pin(self.tunnel_over_http2(member, lease)).await?,
            (true, Protocol::Http3) => {
                Box::pin(self.tunnel_over_http3(member, lease, is_fresh)).await?
            }
            _ => self.carry(member, lease, is_fresh).await,
        };
        if let Ok((response, Some(_))) = &outcome
            && connector.server.protocol == Protocol::Http1
        {
            self.check_accept(response.headers(), &pool.counters)?;
        }
        if outcome.is_ok() {
            pool.counters.responded(began.elapsed());
        }
        Ok(outcome)
    }

    /// Sends the request over a connection. `is_fresh`: a new one, where requests don't share it.
    async fn carry(
        &self,
        member: usize,
        lease: Lease,
        is_fresh: bool,
    ) -> Result<Answer, Attempted> {
        let connector = &self.group.members[member].connector;
        let pool = self.group.pool(member);
        let not_connected = |error| self.not_connected(member, &error);
        match connector.server.protocol {
            Protocol::Http1 => {
                let connection = self.http1(pool, connector, is_fresh).await;
                let (connection, address) = connection.map_err(not_connected)?;
                let outcome = self.over_http1(connection, lease).await;
                outcome.map_err(|failed| Attempted { address, ..failed })
            }
            Protocol::Http2 => {
                let connection = self.http2(pool, connector).await;
                let (connection, is_reused) = connection.map_err(not_connected)?;
                // Once more over the shared connection tells as much of the server as a new one would, and is not for ever.
                let is_reused = is_reused && !is_fresh;
                let scheme = scheme(connector);
                self.over_http2(connection, is_reused, lease, scheme).await
            }
            Protocol::Http3 => self.over_http3(member, is_fresh, lease).await,
        }
    }

    /// The failure of an attempt for which no connection could be opened.
    fn not_connected(&self, member: usize, error: &io::Error) -> Attempted {
        let member = &self.group.members[member];
        let server = &member.connector.server;
        tracing::debug!("no connection to the upstream {server}: {error}");
        member.note_failure(format!("there is no connection: {error}"));
        Attempted::not_connected()
    }

    /// A connection over HTTP/1.1, and the address that it is to if it is new.
    async fn http1(
        &self,
        pool: &Pool,
        connector: &Connector,
        is_fresh: bool,
    ) -> io::Result<(Http1, Option<IpAddr>)> {
        let header = self.proxy_protocol();
        if header.is_none() && !is_fresh {
            let can_repeat = retry::is_idempotent(&self.parts.method);
            if let Some(idle) = pool.idle(&connector.names, can_repeat, Instant::now()) {
                return Ok((idle, None));
            }
        }
        connector.http1(header.as_deref(), &pool.counters).await
    }

    /// A connection over HTTP/2, and whether it has carried requests before.
    async fn http2(&self, pool: &Arc<Pool>, connector: &Connector) -> io::Result<(Http2, bool)> {
        match self.proxy_protocol() {
            None => pool.multiplexed(connector).await,
            header => {
                let opening = connector.http2(header.as_deref(), 1, &pool.counters);
                Ok((opening.await?, false))
            }
        }
    }

    /// The header that names the client, where the servers are sent one.
    fn proxy_protocol(&self) -> Option<Vec<u8>> {
        let client = (self.received.peer, self.received.port).into();
        let is_sent = self.group.options.send_proxy_protocol;
        is_sent.then(|| proxy_protocol::header(Some((client, self.received.local))))
    }

    async fn over_http1(&self, connection: Http1, lease: Lease) -> Result<Answer, Attempted> {
        let is_reused = connection.is_reused;
        let mut fields = self.fields(Version::HTTP_11);
        let continue_signal = self.continue_signal(&mut fields);
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
            fields: Fields::Made(&fields),
            is_upgrade: self.is_upgrade,
        };
        let mut exchange = connection.begin(head, self.content.attempt(continue_signal.clone()));
        let interim =
            |status, fields| self.on_interim(status, fields, continue_signal.as_ref(), &());
        let outcome = self
            .in_time(exchange.response(interim), continue_signal.as_ref())
            .await;
        let progress = exchange.progress();
        let failed = |failure, by_client| Attempted {
            failure,
            is_reused,
            sent: progress.sent,
            has_begun: progress.has_begun,
            by_client,
            address: None,
        };
        match outcome {
            Err(late) => Err(failed(Failure::TimedOut, late.by_client)),
            Ok(Err(fault)) => {
                fault.log();
                Err(failed(fault.failure(), false))
            }
            Ok(Ok(response)) => Ok(self.answer(response, lease, Instant::now())),
        }
    }

    /// An answer of a server of HTTP/1.1, whose head has come `now`.
    fn answer(&self, response: http1::Response, lease: Lease, now: Instant) -> Answer {
        let pace = self.pace();
        let http1::Response {
            status,
            version,
            mut fields,
            content,
        } = response;
        let (body, tunnel) = match content {
            http1::Content::Whole(content, connection) => {
                lease.release(connection, now);
                (ResponseBody::whole(content), None)
            }
            http1::Content::Http(incoming) => (ResponseBody::new(incoming, lease, pace), None),
            http1::Content::Switched(stream) => {
                let tunnel = Tunnel::http1(*stream, lease);
                (ResponseBody::empty(), Some(Box::new(tunnel)))
            }
        };
        heads::append_via(&mut fields, version);
        if status == StatusCode::UPGRADE_REQUIRED {
            heads::pass_required_upgrade(&mut fields, self.received.version);
        }
        (passed(status, fields, body), tunnel)
    }

    fn received(&self) -> Received<'_> {
        Received {
            client_cert: self.client_cert.as_ref(),
            ..self.received
        }
    }

    /// The fields as the next hop has them.
    fn fields(&self, version: Version) -> HeaderMap {
        let mut fields = self.parts.headers.clone();
        heads::pass_request(&mut fields, self.received(), version);
        let options = &self.group.options;
        if let Some(host) = &options.host {
            fields.insert(header::HOST, host.clone());
        } else if !fields.contains_key(header::HOST) {
            fields.insert(header::HOST, options.servers[0].authority());
        }
        options.request_fields.apply(&mut fields);
        fields
    }

    /// The signal to send content for which the server is to ask. Where there is no content it has nothing to ask for.
    fn continue_signal(&self, fields: &mut HeaderMap) -> Option<ContinueSignal> {
        let expects = fields
            .get(header::EXPECT)
            .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        if !expects || self.content.is_none() {
            fields.remove(header::EXPECT);
            return None;
        }
        Some(ContinueSignal::default())
    }

    fn pace(&self) -> RateCheck {
        RateCheck {
            idle_timeout: self.group.options.idle_timeout,
            min_rate: self.group.options.min_rate,
        }
    }

    /// An interim response has arrived. `interims`: hears of it where the request has no callback.
    fn on_interim(
        &self,
        status: StatusCode,
        mut fields: HeaderMap,
        continue_signal: Option<&ContinueSignal>,
        interims: &dyn InterimHandler,
    ) {
        if status == StatusCode::CONTINUE
            && let Some(continue_signal) = continue_signal
        {
            continue_signal.open();
        }
        if heads::is_passed_ahead(status) {
            heads::pass_response(&mut fields, Version::HTTP_11);
            fields.remove(header::VIA);
            match &self.interim {
                Some(interim) => interim.handle_interim(status, &fields),
                None => interims.handle_interim(status, &fields),
            }
        }
    }

    /// Waits for the head of a response, as long as the client sends, and then for its time.
    async fn in_time<T>(
        &self,
        responding: impl Future<Output = T>,
        continue_signal: Option<&ContinueSignal>,
    ) -> Result<T, ResponseTimeout> {
        let mut responding = pin!(responding);
        if let Some(continue_signal) = continue_signal {
            if let Ok(response) = timeout(CONTINUE_WAIT, responding.as_mut()).await {
                return Ok(response);
            }
            continue_signal.open();
        }
        let mut before = self.content.progress();
        loop {
            let wait = self.group.options.head_timeout;
            if let Ok(response) = timeout(wait, responding.as_mut()).await {
                return Ok(response);
            }
            let now = self.content.progress();
            if now.frames == before.frames && now.is_finished == before.is_finished {
                return Err(ResponseTimeout {
                    by_client: !now.is_finished && now.is_waiting,
                });
            }
            before = now;
        }
    }
}

/// A response with the fields that the hop to the client has.
fn passed(status: StatusCode, fields: HeaderMap, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

fn scheme(connector: &Connector) -> uri::Scheme {
    match connector.server.tls {
        Some(_) => uri::Scheme::HTTPS,
        None => uri::Scheme::HTTP,
    }
}

/// Time went by without a response.
struct ResponseTimeout {
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
            address: None,
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
