//! The service that answers requests, and the knowledge of clients: shared by all workers.

use crate::EarlyData;
use crate::embed::{Hints, RequestContext};
use crate::files::{self, Reply};
use crate::incidents::Incidents;
use crate::metrics::ServerCounters;
use crate::request::body::Body;
use crate::request::content::{Current, Route, Target};
use crate::request::framing;
use crate::request::handler::{BoxError, Peer, Pending};
use crate::request::log::AccessLog;
use crate::request::trickle;
use crate::request::tunnel::{Acceptance, ConnectionHalf};
use crate::request::upgrade::Upgrade;
use crate::selection::Selection;
use crate::throttle::Throttle;
use crate::{Challenges, ClientCertificate, RequestBody};
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode, Version};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Instant, SystemTime};

/// Lines about services that fail: a client can have each of its requests fail.
static FAILURES: Throttle = Throttle::new();

/// The site or function that answers requests, with the knowledge of clients.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) current: Current,
    /// Names are configured for which is decided separately; otherwise those of the certificates are.
    pub(crate) has_hosts: bool,
    /// The knowledge of clients, and whom HTTP/3 is offered; `None`: there is no HTTP/3 to offer.
    pub(crate) selection: Option<Selection>,
    /// Services answer requests in early data.
    pub(crate) early_services: bool,
    pub(crate) log: Option<AccessLog>,
    pub(crate) incidents: Incidents,
    pub(crate) counters: ServerCounters,
    /// `None`: nobody orders certificates.
    pub(crate) challenges: Option<Challenges>,
}

/// A response without the fields that every response has.
pub(super) enum ServiceResponse {
    Now(Response<Body>),
    /// A response that is waited for; hints go ahead of it, and it may open a tunnel.
    Later(Later, Hints, Option<Box<ConnectionHalf>>),
}

/// A response that is waited for.
pub(super) enum Later {
    /// A response of this server's own.
    Files(Pending<Response<Body>>),
    Service(Calling),
}

/// A service that was called, whose failure is a page.
pub(super) struct Calling {
    answering: Pending<Result<Response<Body>, BoxError>>,
    /// The acceptance of an upgrade, where the request is offered one.
    offer: Option<Acceptance>,
    version: Version,
    /// Path and query for the log.
    target: Option<PathAndQuery>,
}

impl Future for Later {
    type Output = Response<Body>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        match &mut *self {
            Self::Files(response) => response.as_mut().poll(cx),
            Self::Service(calling) => calling.poll(cx),
        }
    }
}

impl Calling {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        let answered = ready!(self.answering.as_mut().poll(cx));
        let is_given = self.offer.as_ref().is_some_and(Acceptance::is_given);
        let accepted = is_given && self.version < Version::HTTP_2;
        let answered = answered.and_then(|response| final_response(response, accepted));
        Poll::Ready(answered.unwrap_or_else(|error| {
            if let Some(suppressed) = FAILURES.admit(Instant::now()) {
                let path = self.target.as_ref().map_or("*", PathAndQuery::path);
                tracing::error!(%error, path, suppressed, "the service failed");
            }
            files::page(StatusCode::INTERNAL_SERVER_ERROR)
        }))
    }
}

fn is_early(request: &Request<RequestBody>) -> bool {
    request.extensions().get::<EarlyData>().is_some()
}

impl Route {
    /// Answers a request of `peer` that has passed the check, and whose head was there when it `began`. One in early data is for
    /// services only if they are `early_services`.
    pub(super) fn call(
        self,
        (peer, certificate): (Peer, Option<ClientCertificate>),
        early_services: bool,
        began: Instant,
        mut request: Request<RequestBody>,
    ) -> ServiceResponse {
        let targets = &self.snapshot.content.targets;
        let handler = match self.target.map(|index| &targets[index]) {
            Ok(Target::Files(files)) => {
                return match files.respond(&request, SystemTime::now()) {
                    Reply::Now(response) => ServiceResponse::Now(response),
                    Reply::Later(response) => {
                        ServiceResponse::Later(Later::Files(response), Hints::none(), None)
                    }
                };
            }
            Ok(Target::Handler(_)) if !early_services && is_early(&request) => {
                return ServiceResponse::Now(files::page(StatusCode::TOO_EARLY));
            }
            Ok(Target::Handler(handler)) => handler,
            Err(status) => return ServiceResponse::Now(files::page(status)),
        };
        let (mut request_context, hints) =
            RequestContext::of(&mut request, peer, certificate, began);
        let (upgrade, connection_half) = Upgrade::offer(&mut request).unzip();
        request_context.upgrade = upgrade;
        let connection_half = connection_half.map(Box::new);
        let offer = connection_half.as_deref().map(ConnectionHalf::acceptance);
        let (version, target) = (request.version(), request.uri().path_and_query().cloned());
        let calling = Calling {
            answering: handler.call(request, request_context),
            offer,
            version,
            target,
        };
        ServiceResponse::Later(Later::Service(calling), hints, connection_half)
    }
}

impl Service {
    /// The knowledge of clients, where there is something to offer them.
    pub(crate) fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }
}

/// `accepted`: the exchange may end with 101.
///
/// # Errors
/// The response is none that ends an exchange (RFC 9110 section 15.2), or does not say where it ends.
fn final_response(response: Response<Body>, accepted: bool) -> Result<Response<Body>, BoxError> {
    let status = response.status();
    let upgrades = accepted && status == StatusCode::SWITCHING_PROTOCOLS;
    if status.is_informational() && !upgrades {
        return Err(format!("answered with the interim status {status}").into());
    }
    framing::hold_to_length(response).map(trickle::mark)
}
