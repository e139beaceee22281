//! What all three protocols do with a request: who answers it, what the policy decides, and the
//! fields that every response has.

use crate::RequestBody;
use crate::access::{AccessLog, Asked, Exchange};
use crate::body::Body;
use crate::embed::{Answering, introduce};
use crate::files::{self, Files};
use crate::handler::{BoxError, Handler};
use crate::incidents::{Incident, Incidents};
use crate::path_meter::Paths;
use crate::throttle::Throttle;
use altway_path::PathStatistics;
use altway_policy::{Decision, Policy};
use http::header::{self, HeaderMap};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Heads of requests (names and values of their fields) over this are answered with 431. The
/// engines below refuse twice as much by themselves, where no `Alt-Svc` can be said.
pub(crate) const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Seconds after which a request that was one too many may come again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

const SERVER: HeaderValue = HeaderValue::from_static("altway");

/// Lines about services that fail: a client can have each of its requests fail.
static FAILURES: Throttle = Throttle::new();

/// Answers requests; shared by all workers.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) content: Content,
    pub(crate) paths: Paths,
    pub(crate) policy: Policy,
    /// The port number for `Alt-Svc`; `None` when there is no HTTP/3 to offer.
    pub(crate) alternative: Option<u16>,
    pub(crate) log: Option<AccessLog>,
    pub(crate) incidents: Incidents,
}

/// What requests are answered with.
#[derive(Debug)]
pub(crate) enum Content {
    Files(Files),
    Handler(Arc<dyn Handler>),
}

/// The answer to a request.
pub(crate) enum Answer {
    /// It is here.
    Now(Response<Body>),
    /// It must be waited for.
    Later(Answering),
}

impl Service {
    /// Answers one request of `peer`, whatever it asks for, on a connection that has measured `own` of its
    /// path.
    pub(crate) fn respond(
        self: &Arc<Self>,
        peer: SocketAddr,
        own: Option<PathStatistics>,
        mut request: Request<RequestBody>,
    ) -> Answer {
        let asked = Asked::of(peer.ip(), &request);
        if let Some(status) = flaw(&request) {
            self.incidents.record(peer.ip(), Incident::RefusedRequest);
            return Answer::Now(self.finish(asked, own, files::page(status)));
        }
        match &self.content {
            Content::Files(files) => {
                let response = files.respond(&request, SystemTime::now());
                Answer::Now(self.finish(asked, own, response))
            }
            Content::Handler(handler) => {
                let hints = introduce(&mut request, peer);
                let answering = handler.call(request);
                let service = Arc::clone(self);
                let response = Box::pin(async move {
                    let answered = answering.await.and_then(final_response);
                    let response = answered.unwrap_or_else(|error| {
                        let path = asked.target.path();
                        if let Some(suppressed) = FAILURES.admit(Instant::now()) {
                            tracing::error!(%error, path, suppressed, "the service failed");
                        }
                        files::page(StatusCode::INTERNAL_SERVER_ERROR)
                    });
                    service.finish(asked, own, response)
                });
                Answer::Later(Answering::new(response, hints))
            }
        }
    }

    /// Answers a request that can't be understood: the access log has no line for it, but the
    /// minute's sums count it.
    pub(crate) fn refuse(
        &self,
        client: IpAddr,
        own: Option<PathStatistics>,
        status: StatusCode,
    ) -> Response<Body> {
        self.incidents.record(client, Incident::RefusedRequest);
        let mut response = files::page(status);
        let decision = self.decide(client, own);
        self.complete(response.headers_mut(), decision.as_ref());
        response
    }

    /// Answers a request for which the client, or the worker, has too many in progress. The table of
    /// clients has counted it.
    pub(crate) fn overloaded(&self, client: IpAddr, own: Option<PathStatistics>) -> Response<Body> {
        let mut response = files::page(StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        self.complete(headers, self.decide(client, own).as_ref());
        response
    }

    /// The files that are all that is served, if they are.
    pub(crate) fn files(&self) -> Option<&Files> {
        match &self.content {
            Content::Files(files) => Some(files),
            Content::Handler(_) => None,
        }
    }

    fn finish(
        &self,
        asked: Asked,
        own: Option<PathStatistics>,
        response: Response<Body>,
    ) -> Response<Body> {
        let decision = self.decide(asked.client, own);
        let mut response = fit(&asked.method, response);
        self.complete(response.headers_mut(), decision.as_ref());
        let status = response.status();
        let log = self.log.as_ref();
        let exchange = log.map(|log| Exchange::begin(log, asked, status, decision));
        response.map(|body| body.with_exchange(exchange))
    }

    /// What the policy says of a client, one of whose connections asks and has measured `own` of its path;
    /// `None` where there is nothing to offer.
    pub(crate) fn decide(&self, client: IpAddr, own: Option<PathStatistics>) -> Option<Decision> {
        self.alternative?;
        Some(self.policy.decide(self.paths.get(client, own).as_ref()))
    }

    /// Adds the fields that every response has.
    pub(crate) fn complete(&self, headers: &mut HeaderMap, decision: Option<&Decision>) {
        date_and_server(headers, SystemTime::now());
        let offer = decision.zip(self.alternative);
        let value = offer.and_then(|(decision, port)| decision.alt_svc.field_value(port));
        if let Some(value) = value {
            let value = HeaderValue::try_from(value).expect("visible ASCII");
            headers.insert(header::ALT_SVC, value);
        }
    }
}

/// The fields that every response has, where a service has not said them itself.
pub(crate) fn date_and_server(headers: &mut HeaderMap, now: SystemTime) {
    let date = || HeaderValue::try_from(httpdate::fmt_http_date(now));
    let entry = headers.entry(header::DATE);
    entry.or_insert_with(|| date().expect("a date is visible ASCII"));
    headers.entry(header::SERVER).or_insert(SERVER);
}

/// # Errors
/// The response is none that ends an exchange (RFC 9110 section 15.2).
fn final_response(response: Response<Body>) -> Result<Response<Body>, BoxError> {
    if response.status().is_informational() {
        let status = response.status();
        return Err(format!("answered with the interim status {status}").into());
    }
    Ok(response)
}

/// Says the content's length where it is known, and leaves out content where there is none to be
/// (RFC 9110 sections 6.4.1 and 8.6).
fn fit(asked: &Method, mut response: Response<Body>) -> Response<Body> {
    let status = response.status();
    let without = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = response.body().size_hint().exact();
    // A response to HEAD that comes without content does not tell what GET would give.
    let unknown = |length: u64| asked == Method::HEAD && length == 0;
    if let Some(length) = length.filter(|length| !without && !unknown(*length)) {
        let entry = response.headers_mut().entry(header::CONTENT_LENGTH);
        entry.or_insert_with(|| length.into());
    }
    if without || asked == Method::HEAD {
        return response.map(|_| Body::empty());
    }
    response
}

/// What is wrong with a request, whatever it asks for.
pub(crate) fn flaw<B>(request: &Request<B>) -> Option<StatusCode> {
    if head_size(request.headers()) > MAX_HEAD_BYTES {
        return Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    // RFC 9112 section 3.2: "A server MUST respond with a 400 (Bad Request) status code to any
    // HTTP/1.1 request message that lacks a Host header field and to any request message that
    // contains more than one Host header field line".
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let lacks_host = request.version() == Version::HTTP_11 && hosts == 0;
    (hosts > 1 || lacks_host).then_some(StatusCode::BAD_REQUEST)
}

/// As RFC 9113 section 6.5.2 and RFC 9114 section 4.2.2 count it: 32 bytes for each field on top.
fn head_size(headers: &HeaderMap) -> usize {
    let size =
        |(name, value): (&header::HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 32;
    headers.iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrefixLengths;
    use crate::path_meter::{Meter, told};
    use std::net::Ipv4Addr;
    use std::time::Duration;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Site {
        service: Arc<Service>,
        _dir: tempfile::TempDir,
    }

    fn site(policy: &str, alternative: Option<u16>) -> Site {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "a").unwrap();
        let service = Service {
            content: Content::Files(Files::open(dir.path()).unwrap()),
            paths: Paths::new(),
            policy: policy.parse().unwrap(),
            alternative,
            log: None,
            incidents: Incidents::new(PrefixLengths::default(), Instant::now()),
        };
        Site {
            service: Arc::new(service),
            _dir: dir,
        }
    }

    impl Site {
        fn get(&self, path: &str) -> Response<Body> {
            let request = Request::get(path).version(Version::HTTP_2);
            self.ask(request.body(RequestBody::empty()).unwrap())
        }

        fn ask(&self, request: Request<RequestBody>) -> Response<Body> {
            match self.service.respond((CLIENT, 50_000).into(), None, request) {
                Answer::Now(response) => response,
                Answer::Later(_) => panic!("files are there at once"),
            }
        }

        fn alt_svc(&self, path: &str) -> Option<String> {
            let response = self.get(path);
            let value = response.headers().get(header::ALT_SVC)?;
            Some(value.to_str().unwrap().to_owned())
        }

        fn measured(&self, min_rtt: Duration, packets_sent: u64, packets_lost: u64) {
            let statistics = told(Some(min_rtt), packets_sent, packets_lost);
            Meter::new(CLIENT).observe(statistics, &self.service.paths);
        }
    }

    const OFFER: &str = r#"h3=":8443"; ma=60"#;

    #[test]
    fn every_response_says_date_server_and_alternative() {
        let site = site("h3", Some(8443));
        for path in ["/a.txt", "/none", "/%zz"] {
            let response = site.get(path);
            assert_eq!(response.headers()[header::ALT_SVC], OFFER, "{path}");
            assert_eq!(response.headers()[header::SERVER], "altway", "{path}");
            assert!(response.headers().contains_key(header::DATE), "{path}");
        }
    }

    #[test]
    fn a_clear_text_server_offers_nothing() {
        assert_eq!(site("h3", None).alt_svc("/a.txt"), None);
        assert_eq!(site("h2", None).alt_svc("/a.txt"), None);
    }

    #[test]
    fn fixed_http2_revokes_earlier_offers() {
        assert_eq!(site("h2", Some(1)).alt_svc("/a.txt").unwrap(), "clear");
    }

    #[test]
    fn the_threshold_follows_what_is_measured() {
        let site = site("threshold", Some(8443));
        assert_eq!(site.alt_svc("/a.txt").as_deref(), Some(OFFER), "unknown");
        site.measured(Duration::from_millis(49), 1000, 9);
        assert_eq!(site.alt_svc("/a.txt"), None, "short and clean");
        site.measured(Duration::from_millis(49), 1000, 11);
        assert_eq!(site.alt_svc("/a.txt").as_deref(), Some(OFFER), "lossy");
    }

    #[test]
    fn too_large_a_head_is_answered_with_431_and_the_offer() {
        let site = site("h3", Some(8443));
        let request = |size: usize| {
            let request = Request::get("/a.txt").version(Version::HTTP_2);
            let request = request.header("x", "y".repeat(size - 33));
            site.ask(request.body(RequestBody::empty()).unwrap())
        };
        assert_eq!(request(MAX_HEAD_BYTES).status(), StatusCode::OK);
        let refused = request(MAX_HEAD_BYTES + 1);
        assert_eq!(
            refused.status(),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        );
        assert_eq!(refused.headers()[header::ALT_SVC], OFFER);
    }

    #[test]
    fn http_1_1_names_its_host_once() {
        let site = site("h3", None);
        let status = |version: Version, hosts: usize| {
            let mut request = Request::get("/a.txt").version(version);
            for _ in 0..hosts {
                request = request.header("host", "altway.test");
            }
            let response = site.ask(request.body(RequestBody::empty()).unwrap());
            response.status().as_u16()
        };
        assert_eq!(status(Version::HTTP_11, 0), 400);
        assert_eq!(status(Version::HTTP_11, 1), 200);
        assert_eq!(status(Version::HTTP_11, 2), 400);
        assert_eq!(status(Version::HTTP_10, 0), 200);
        assert_eq!(status(Version::HTTP_2, 0), 200);
    }
}
