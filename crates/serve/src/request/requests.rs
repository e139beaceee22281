//! The requests of one connection, whatever its protocol: the order in which limits, the check of the
//! head, prepared answers and the service have their say, and what is done to every response.

use crate::RequestBody;
use crate::client_auth::{ClientCertificate, Presented};
use crate::clients::AdmittedConnection;
use crate::embed::{Answering, Hints};
use crate::files::{self, FileCache};
use crate::incidents::{ContentTooLong, HiddenName, Incident};
use crate::limits::Limits;
use crate::metrics::{LatestVisit, OpenConnection, WorkerCounters};
use crate::request::body::Body;
use crate::request::check::{RequestHead, check, hints};
use crate::request::content::{Route, Snapshot};
use crate::request::content_limit::{self, Overrun};
use crate::request::fields::CommonFields;
use crate::request::handler::Peer;
use crate::request::identify::Identified;
use crate::request::known_host::{HostFacts, KnownHost};
use crate::request::listener_policy::ListenerPolicy;
use crate::request::log::{LoggedHead, Protocol};
pub(crate) use crate::request::now::Now;
use crate::request::prepared::{LastPrepared, Prepared};
use crate::request::redirect;
use crate::request::service::{Later, Service, ServiceResponse};
use crate::request::tunnel::ConnectionHalf;
use crate::request::upgrade;
use crate::selection::counters::Counters;
use crate::selection::load::Load;
use crate::selection::observer::{Complete, ConnectionObserver};
use crate::selection::{HostIndex, Selection};
use altway_select::Decision;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use std::cell::{RefCell, RefMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Seconds after which a request that was one too many may come again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// The state that the requests of all connections of a worker share.
pub(crate) struct Responder {
    pub(crate) service: Arc<Service>,
    /// The newest snapshot that a request of this worker has seen, in a copy of its own: workers would wait for one another
    /// to count references to what they share.
    pub(super) snapshot: RefCell<Rc<Snapshot>>,
    pub(crate) files: Rc<RefCell<FileCache>>,
    pub(crate) fields: RefCell<CommonFields>,
    pub(crate) load: Load,
    /// The time without a byte after which a tunnel ends.
    idle_timeout: Duration,
    /// The most bytes of a request's content.
    max_body: u64,
    pub(crate) counters: Arc<WorkerCounters>,
}

/// The state that a connection's requests share. `I` tells its heads apart.
pub(crate) struct Requests<I> {
    pub(super) responder: Rc<Responder>,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    admitted: Rc<AdmittedConnection>,
    pub(super) protocol: Protocol,
    pub(super) observer: ConnectionObserver,
    pub(super) latest: Option<LastPrepared<I>>,
    /// The host of the latest request, in a box that a connection gives back when it idles.
    pub(super) known_host: Option<Box<KnownHost>>,
    has_responded: bool,
    /// Authority of the latest request of a client that may be told of HTTP/3 when the connection idles.
    pub(super) authority: Option<Box<[u8]>>,
    pub(super) listener_policy: ListenerPolicy,
    pub(super) presented: Option<Rc<Presented>>,
    pub(super) identified: Option<Identified>,
    /// The certificate that counts for the latest request.
    pub(super) certificate: Option<ClientCertificate>,
    _open: OpenConnection,
}

/// The facts of a connection that hold for all its requests.
pub(crate) struct ConnectionFacts {
    /// The client, or the last proxy before the server.
    pub(crate) peer: SocketAddr,
    /// The address of this server that the client has come to; `None`: it is not known.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) admitted: Rc<AdmittedConnection>,
    /// Time at which the connection was accepted.
    pub(crate) began: Instant,
    /// The policy of its listener.
    pub(crate) listener_policy: ListenerPolicy,
    /// The name and the certificates that the client has shown in its handshake; `None` in clear text, and where nobody
    /// is asked.
    pub(crate) presented: Option<Rc<Presented>>,
}

/// The source of a request's answer.
pub(crate) enum AnswerSource {
    /// Nobody: it is refused, or led elsewhere.
    Refused(Response<Body>),
    /// The cache of files.
    Prepared(Prepared),
    /// [`Requests::ask`].
    Service(Route),
}

/// The answer of a service or of the files.
pub(crate) enum Answer {
    Now(Response<Body>),
    /// An answer to be waited for, and then to be [finished](Requests::finish).
    Later(Answering<PendingAnswer>),
}

/// A response without the fields that every response has, and what was asked.
pub(crate) struct UnfinishedResponse {
    asked: RequestFacts,
    response: Response<Body>,
}

/// A response that is waited for, and what was asked.
pub(crate) struct PendingAnswer {
    /// `None`: it has been answered.
    asked: Option<RequestFacts>,
    response: Later,
}

impl Future for PendingAnswer {
    type Output = UnfinishedResponse;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<UnfinishedResponse> {
        let response = ready!(Pin::new(&mut self.response).poll(cx));
        let asked = self.asked.take();
        let asked = asked.expect("nobody polls a future again that is over");
        Poll::Ready(UnfinishedResponse { asked, response })
    }
}

/// The facts of a request that its response and the log depend on.
struct RequestFacts {
    method: Method,
    host: HostIndex,
    /// Time at which its head was screened.
    began: Instant,
    /// `None` without a log.
    logged: Option<Arc<LoggedHead>>,
    /// The connection's end of the tunnel, where the request is offered an upgrade.
    connection_half: Option<Box<ConnectionHalf>>,
    /// The answer was not there at once.
    has_waited: bool,
    /// Note of content that is longer than allowed, where its length is not known at first.
    overrun: Option<Overrun>,
}

impl Responder {
    pub(crate) fn new(
        service: Arc<Service>,
        files: Rc<RefCell<FileCache>>,
        limits: &Limits,
    ) -> Self {
        Self {
            fields: RefCell::new(CommonFields::new()),
            load: Load::new(Instant::now()),
            snapshot: RefCell::new(Rc::new(Snapshot::clone(&service.current.get()))),
            counters: service.counters.worker(),
            service,
            files,
            idle_timeout: limits.idle_timeout,
            max_body: limits.max_body.unwrap_or(u64::MAX),
        }
    }

    /// Takes over a newer snapshot, if there is one.
    fn refresh(&self) {
        let mut snapshot = self.snapshot.borrow_mut();
        if let Some(newer) = self.service.current.newer_than(&snapshot) {
            *snapshot = Rc::new(Snapshot::clone(&newer));
        }
    }
}

impl<I> Requests<I> {
    pub(crate) fn new(
        responder: Rc<Responder>,
        protocol: Protocol,
        connection: ConnectionFacts,
    ) -> Self {
        let peer = connection.peer;
        Self {
            listener_policy: connection.listener_policy,
            _open: responder.counters.open(protocol),
            responder,
            peer,
            local: connection.local,
            admitted: connection.admitted,
            protocol,
            observer: ConnectionObserver::new(peer.ip(), protocol, connection.began),
            latest: None,
            known_host: None,
            has_responded: false,
            authority: None,
            presented: connection.presented,
            identified: None,
            certificate: None,
        }
    }

    pub(crate) fn client(&self) -> IpAddr {
        self.peer.ip()
    }

    pub(crate) fn admitted(&self) -> &Rc<AdmittedConnection> {
        &self.admitted
    }

    /// The fields that every response has.
    pub(crate) fn fields(&self) -> RefMut<'_, CommonFields> {
        self.responder.fields.borrow_mut()
    }

    /// Returns whether a new request is to be sent back unanswered (RFC 9113 section 8.7, RFC 9114 section
    /// 4.1.1), because the client has not taken what it asked for before (`unsent`), and it, or the
    /// worker, holds as much as it may.
    pub(crate) fn must_take_first(&self, unsent: bool) -> bool {
        unsent && self.admitted.held().is_full()
    }

    /// Follows the client to the address that it is at now. The log, limits and services go by that of the handshake, which it
    /// has shown to be its own.
    pub(crate) fn follow(&mut self, address: IpAddr, is_validated: bool, now: Now) {
        if !self.observer.counts_for(address)
            && let Some(selection) = selection(&self.responder, self.listener_policy)
        {
            let (now, unix) = (now.instant, now.unix);
            self.observer
                .follow(selection, address, is_validated, now, unix);
            self.count_page();
        }
    }

    /// Finds out who answers a request: the one place where limits, the check of the head and prepared
    /// answers meet. `whole`: it has no body. `in_progress`: the connection's requests, this one included.
    /// `read` reads the transport's counters.
    pub(crate) fn screen<H: RequestHead<Id = I>>(
        &mut self,
        head: &H,
        whole: bool,
        in_progress: usize,
        now: Now,
        read: impl FnMut() -> Option<Counters>,
    ) -> AnswerSource {
        self.responder.refresh();
        let host = self.first_host(head);
        if let Some(selection) = selection(&self.responder, self.listener_policy) {
            self.observer.request(
                selection,
                in_progress,
                now.instant,
                now.unix,
                || (hints(head), host),
                read,
            );
            self.count_page();
        }
        if !self.admitted.set_requests(in_progress) {
            return AnswerSource::Refused(self.overloaded(head, now));
        }
        if let Err(wait) = self.admitted.request(now.instant) {
            return AnswerSource::Refused(self.too_fast(head, wait, now));
        }
        if whole && let Some(prepared) = self.find_again(head, now) {
            let host = self.latest.as_ref().map(|latest| latest.host);
            self.observer.set_host(host.unwrap_or_default());
            return AnswerSource::Prepared(prepared);
        }
        let facts = self.host_facts(head);
        if selection(&self.responder, self.listener_policy).is_some() {
            self.observer.set_host(facts.named.index);
        }
        if let Err(status) = check(head) {
            return AnswerSource::Refused(self.refuse(head, status, now));
        }
        if let Some(response) = self.answered_by_listener(head, facts) {
            return AnswerSource::Refused(self.complete_for(head, response, now));
        }
        if let Err(status) = self.identify(facts.asked, now) {
            return AnswerSource::Refused(self.refuse(head, status, now));
        }
        self.note_authority(head);
        if let Some(response) = self.beacon_response(head) {
            return AnswerSource::Refused(self.complete_for(head, response, now));
        }
        self.route(head, whole, facts.dispatched, now)
    }

    /// Asks the service, or the files, to which a request was [led](Self::screen) for its answer.
    pub(crate) fn ask(
        &mut self,
        route: Route,
        mut request: Request<RequestBody>,
        now: Now,
    ) -> Answer {
        let mut asked = RequestFacts {
            method: request.method().clone(),
            host: self.observer.host(),
            began: now.instant,
            logged: self.logged(&request),
            connection_half: None,
            has_waited: false,
            overrun: None,
        };
        if self.is_report(&request)
            && let Some(reporter) = self.reporter(now)
        {
            let response = Box::pin(async move { reporter.answer(request).await });
            let response = Later::Files(response);
            asked.has_waited = true;
            self.observer.waits(now.instant);
            let asked = Some(asked);
            return Answer::Later(Answering::new(
                PendingAnswer { asked, response },
                Hints::none(),
            ));
        }
        match content_limit::apply(&mut request, self.responder.max_body) {
            Ok(overrun) => asked.overrun = overrun,
            Err(ContentTooLong) => {
                let response = content_limit::refusal();
                return Answer::Now(self.finish(UnfinishedResponse { asked, response }, now));
            }
        }
        let peer = Peer {
            address: self.peer,
            local: self.local,
            is_secure: self.listener_policy.is_secure,
        };
        let from = (peer, self.certificate.clone());
        let early_services = self.responder.service.early_services;
        match route.call(from, early_services, now.instant, request) {
            ServiceResponse::Now(response) => {
                Answer::Now(self.finish(UnfinishedResponse { asked, response }, now))
            }
            ServiceResponse::Later(response, hints, connection_half) => {
                asked.connection_half = connection_half;
                asked.has_waited = true;
                self.observer.waits(now.instant);
                let asked = Some(asked);
                Answer::Later(Answering::new(PendingAnswer { asked, response }, hints))
            }
        }
    }

    /// Makes an answer one that can be sent, and begins its record.
    pub(crate) fn finish(&mut self, answered: UnfinishedResponse, now: Now) -> Response<Body> {
        let (asked, mut response) = (answered.asked, answered.response);
        self.observer.set_host(asked.host);
        if asked.has_waited {
            self.observer.begins(now.instant);
        }
        if let Some(connection_half) = asked.connection_half {
            response = upgrade::join(*connection_half, response, self.responder.idle_timeout);
        }
        response = content_limit::replace(response, asked.overrun);
        if response.status() == StatusCode::PAYLOAD_TOO_LARGE
            && let Some(ContentTooLong) = response.extensions_mut().remove()
        {
            self.record(Incident::ContentLimit);
        }
        if let Some(HiddenName) = response.extensions_mut().remove() {
            self.record(Incident::HiddenName);
        }
        let response = fit(&asked.method, response);
        self.complete((asked.logged, asked.began), response, now)
    }

    /// Counts a request that the protocol has answered by itself, without our fields. The access log has nothing
    /// of it.
    pub(crate) fn answered_below(&self, status: StatusCode) {
        self.record(Incident::of_refusal(status));
        let counters = &self.responder.counters;
        counters.responded(self.protocol, status, HostIndex::OTHERS, None);
    }

    /// Counts bytes of responses' bodies that were handed over to the protocol.
    pub(crate) fn sent(
        &mut self,
        bytes: u64,
        now: Instant,
        read: impl FnOnce() -> Option<Counters>,
    ) {
        self.responder.counters.sent(self.protocol, bytes);
        self.observer.sent(bytes, now, read);
    }

    /// Counts a response, and the connection with its first one.
    pub(super) fn count(&mut self, status: StatusCode, decision: Option<&Decision>, now: Now) {
        let (counters, protocol) = (&self.responder.counters, self.protocol);
        counters.responded(protocol, status, self.observer.host(), decision);
        if status.is_server_error() {
            self.observer.failed();
        }
        if !self.has_responded {
            self.has_responded = true;
            if let Some((decision, client)) = decision.zip(self.observer.client()) {
                let offered = self.observer.was_offered();
                counters.arrived(protocol, self.observer.host(), offered);
                let class = client.class();
                counters.visited(LatestVisit::new(
                    now.system, protocol, class, offered, decision,
                ));
            }
        }
    }

    /// A response was handed over whole.
    pub(crate) fn completed(
        &mut self,
        now: Now,
        read: impl FnOnce() -> Option<Counters>,
    ) -> Complete {
        match selection(&self.responder, self.listener_policy) {
            Some(selection) => {
                let (now, unix) = (now.instant, now.unix);
                let complete = self.observer.complete(selection, now, unix, read);
                self.count_page();
                complete
            }
            None => Complete::Done,
        }
    }

    /// Counts a page that is known as finished, if there is one.
    pub(super) fn count_page(&mut self) {
        if let Some(page) = self.observer.take_finished() {
            self.responder.counters.loaded(self.protocol, page);
        }
    }

    /// The way in which its client takes responses, as the connection has shown it.
    pub(crate) fn observer(&mut self) -> &mut ConnectionObserver {
        &mut self.observer
    }

    /// The connection has ended.
    pub(crate) fn ended(&mut self, read: impl FnOnce() -> Option<Counters>) {
        if let Some(selection) = selection(&self.responder, self.listener_policy) {
            let now = Now::read();
            self.observer.end(selection, now.instant, now.unix, read);
            self.count_page();
        }
    }

    /// Counts an incident that the client has brought about.
    pub(crate) fn record(&self, incident: Incident) {
        let incidents = &self.responder.service.incidents;
        incidents.record(self.client(), incident);
    }

    /// The answer of the listener itself: to a challenge of a certificate authority, or one that leads to `https`
    /// where the listener is for that.
    fn answered_by_listener(
        &self,
        head: &impl RequestHead,
        facts: HostFacts,
    ) -> Option<Response<Body>> {
        let challenges = self.responder.service.challenges.as_ref();
        let challenges = challenges.filter(|_| !self.listener_policy.is_secure);
        let answer = challenges.and_then(|challenges| challenges.response(head));
        if answer.is_some() {
            return answer;
        }
        let port = self.listener_policy.redirect?;
        let host = facts.dispatched.ok()?;
        let content = &self.responder.snapshot.borrow().content;
        redirect::response(head, content, host, port)
    }

    /// Refuses a request that was understood and breaks a rule.
    pub(crate) fn refuse(
        &mut self,
        head: &impl RequestHead,
        status: StatusCode,
        now: Now,
    ) -> Response<Body> {
        self.record(Incident::of_refusal(status));
        self.complete_for(head, files::page(status), now)
    }

    /// Refuses a request for which the client, or the worker, has too many in progress. The table of clients
    /// has counted it.
    fn overloaded(&mut self, head: &impl RequestHead, now: Now) -> Response<Body> {
        let response = retry_after(StatusCode::SERVICE_UNAVAILABLE, RETRY_AFTER);
        self.complete_for(head, response, now)
    }

    /// Refuses a request that comes by so much earlier than the client's rate allows. The table of clients has
    /// counted it.
    fn too_fast(&mut self, head: &impl RequestHead, wait: Duration, now: Now) -> Response<Body> {
        // In whole seconds (RFC 9110 section 10.2.3), so rather later than too early.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let response = retry_after(StatusCode::TOO_MANY_REQUESTS, seconds.into());
        self.complete_for(head, response, now)
    }

    fn complete_for(
        &mut self,
        head: &impl RequestHead,
        response: Response<Body>,
        now: Now,
    ) -> Response<Body> {
        let method = Method::from_bytes(head.method()).unwrap_or_default();
        let response = fit(&method, response);
        let logged = self.logged(head);
        self.complete((logged, now.instant), response, now)
    }

    /// Adds the fields that every response has, and its record. `asked`: what the log says of the request, and when it
    /// was screened.
    pub(super) fn complete(
        &mut self,
        asked: (Option<Arc<LoggedHead>>, Instant),
        mut response: Response<Body>,
        now: Now,
    ) -> Response<Body> {
        let decision = self.decision(response.body().size_hint().exact(), now);
        self.count(response.status(), decision.as_ref(), now);
        let offered = self.offered(decision.as_ref());
        self.fields()
            .complete(response.headers_mut(), offered, now.unix);
        if !self.listener_policy.is_secure {
            // RFC 6797 section 7.2: it "MUST NOT" be in responses over non-secure transport.
            response
                .headers_mut()
                .remove(header::STRICT_TRANSPORT_SECURITY);
        }
        let fields = asked.0.as_ref().map(|_| response.headers());
        let length = fields.and_then(|fields| fields.get(header::CONTENT_LENGTH));
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let record = self.new_record(asked, response.status(), length, decision);
        response.map(|body| body.with_record(record))
    }
}

/// The knowledge of clients, where those of the listener are offered something.
pub(super) fn selection(
    responder: &Responder,
    listener_policy: ListenerPolicy,
) -> Option<&Selection> {
    let selection = responder.service.selection();
    selection.filter(|_| listener_policy.http3.is_some())
}

/// A refusal for now, without content: a client that gives no credit for any could keep it, and its place, otherwise.
fn retry_after(status: StatusCode, seconds: HeaderValue) -> Response<Body> {
    let mut response = Body::empty_response(status);
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// Says the content's length where it is known, and leaves out content where there is none to be
/// (RFC 9110 sections 6.4.1 and 8.6).
fn fit(asked: &Method, mut response: Response<Body>) -> Response<Body> {
    let status = response.status();
    if asked == Method::CONNECT && status.is_success() {
        // RFC 9110 section 9.3.6: what follows is the tunnel, and it "MUST NOT" have a length. Without one there is nothing.
        response.headers_mut().remove(header::CONTENT_LENGTH);
        return response.map(Body::tunnel_alone);
    }
    let without = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = response.body().size_hint().exact();
    // A response to HEAD that comes without content does not tell what GET would give.
    let unknown = |length: u64| asked == Method::HEAD && length == 0;
    if let Some(length) = length.filter(|length| !without && !unknown(*length)) {
        let entry = response.headers_mut().entry(header::CONTENT_LENGTH);
        entry.or_insert_with(|| length.into());
    }
    let length = response.headers().get(header::CONTENT_LENGTH);
    if status == StatusCode::NO_CONTENT && length.is_some_and(|length| length != "0") {
        // RFC 9110 section 8.6: it "MUST NOT" have one. A 0, as of axum, harms nobody; of one above that clients of HTTP/2
        // say that the content is missing.
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if without || asked == Method::HEAD {
        return response.map(|_| Body::empty());
    }
    response
}

#[cfg(test)]
mod tests;
