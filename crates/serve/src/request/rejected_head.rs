//! Requests whose heads are rejected before their end, over whichever protocol: answered without content, for their method
//! is not known and may be HEAD.

use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::log::LoggedHead;
use crate::request::requests::{Now, Requests};
use crate::selection::HostIndex;
use http::{HeaderValue, Response, StatusCode, header};
use std::sync::Arc;

/// Reasons for which a head is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectedHead {
    /// A head that is larger than the limit.
    TooLarge,
    /// A head that was not complete in time.
    Late,
}

impl RejectedHead {
    fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }

    fn incident(self) -> Incident {
        match self {
            Self::TooLarge => Incident::HeadLimit,
            Self::Late => Incident::SlowClient,
        }
    }
}

impl<I> Requests<I> {
    /// Answers a request whose head was rejected. The access log tells of it without method and path.
    pub(crate) fn reject_head(&mut self, rejected: RejectedHead, now: Now) -> Response<Body> {
        let mut response = Body::empty_response(rejected.status());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        self.rejected(response, rejected.incident(), now)
    }

    /// Completes the response to a request of which nothing is known, which is the `incident`.
    pub(crate) fn rejected(
        &mut self,
        response: Response<Body>,
        incident: Incident,
        now: Now,
    ) -> Response<Body> {
        self.record(incident);
        self.observer.set_host(HostIndex::OTHERS);
        self.certificate = None;
        let log = self.responder.service.log.as_ref();
        let logged = log.map(|_| Arc::new(LoggedHead::unknown()));
        self.complete((logged, now.instant), response, now)
    }
}
