//! One handler for all three protocols: the file, the decision, the fields that every response has.

use crate::access::{AccessLog, Exchange};
use crate::body::Body;
use crate::files::{self, Files};
use crate::path_meter::Paths;
use altway_policy::{Decision, Policy};
use http::header::{self, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use std::net::IpAddr;
use std::time::SystemTime;

/// Heads of requests (names and values of their fields) over this are answered with 431. The
/// engines below refuse twice as much by themselves, where no `Alt-Svc` can be said.
pub(crate) const MAX_HEAD_BYTES: usize = 32 * 1024;

const SERVER: HeaderValue = HeaderValue::from_static("altway");

/// Answers requests; shared by all workers.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) files: Files,
    pub(crate) paths: Paths,
    pub(crate) policy: Policy,
    /// The port number for `Alt-Svc`; `None` when there is no HTTP/3 to offer.
    pub(crate) alternative: Option<u16>,
    pub(crate) log: Option<AccessLog>,
}

impl Service {
    /// Answers one request of `client`, whatever it asks for.
    pub(crate) fn respond<B>(&self, client: IpAddr, request: &Request<B>) -> Response<Body> {
        let now = SystemTime::now();
        let mut response = match flaw(request) {
            Some(status) => files::page(status),
            None => self.files.respond(request, now),
        };
        let decision = self.decide(client);
        self.complete(response.headers_mut(), decision.as_ref(), now);
        let status = response.status();
        let log = self.log.as_ref();
        let exchange = log.map(|log| Exchange::begin(log, client, request, status, decision));
        response.map(|body| body.with_exchange(exchange))
    }

    /// Answers a request that can't be understood; it is not logged, for there is nothing to log.
    pub(crate) fn refuse(&self, client: IpAddr, status: StatusCode) -> Response<Body> {
        let mut response = files::page(status);
        let decision = self.decide(client);
        self.complete(response.headers_mut(), decision.as_ref(), SystemTime::now());
        response
    }

    /// What the policy says of a client; `None` where there is nothing to offer.
    pub(crate) fn decide(&self, client: IpAddr) -> Option<Decision> {
        self.alternative?;
        Some(self.policy.decide(self.paths.get(client).as_ref()))
    }

    fn complete(&self, headers: &mut HeaderMap, decision: Option<&Decision>, now: SystemTime) {
        date_and_server(headers, now);
        let offer = decision.zip(self.alternative);
        let value = offer.and_then(|(decision, port)| decision.alt_svc.field_value(port));
        if let Some(value) = value {
            let value = HeaderValue::try_from(value).expect("visible ASCII");
            headers.insert(header::ALT_SVC, value);
        }
    }
}

/// The fields that every response has.
pub(crate) fn date_and_server(headers: &mut HeaderMap, now: SystemTime) {
    let date = HeaderValue::try_from(httpdate::fmt_http_date(now));
    headers.insert(header::DATE, date.expect("a date is visible ASCII"));
    headers.insert(header::SERVER, SERVER);
}

/// What is wrong with a request, whatever it asks for.
fn flaw<B>(request: &Request<B>) -> Option<StatusCode> {
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
    use crate::path_meter::{Counters, Meter};
    use altway_path::Transport;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Site {
        service: Service,
        _dir: tempfile::TempDir,
    }

    fn site(policy: &str, alternative: Option<u16>) -> Site {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "a").unwrap();
        let service = Service {
            files: Files::open(dir.path()).unwrap(),
            paths: Paths::new(),
            policy: policy.parse().unwrap(),
            alternative,
            log: None,
        };
        Site { service, _dir: dir }
    }

    impl Site {
        fn get(&self, path: &str) -> Response<Body> {
            let request = Request::get(path).version(Version::HTTP_2).body(());
            self.service.respond(CLIENT, &request.unwrap())
        }

        fn alt_svc(&self, path: &str) -> Option<String> {
            let response = self.get(path);
            let value = response.headers().get(header::ALT_SVC)?;
            Some(value.to_str().unwrap().to_owned())
        }

        fn measured(&self, min_rtt: Duration, packets_sent: u64, packets_lost: u64) {
            let counters = Counters {
                min_rtt: Some(min_rtt),
                packets_sent,
                packets_lost,
            };
            Meter::new(CLIENT, Transport::Tcp).observe(counters, &self.service.paths);
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
            site.service.respond(CLIENT, &request.body(()).unwrap())
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
            let response = site.service.respond(CLIENT, &request.body(()).unwrap());
            response.status().as_u16()
        };
        assert_eq!(status(Version::HTTP_11, 0), 400);
        assert_eq!(status(Version::HTTP_11, 1), 200);
        assert_eq!(status(Version::HTTP_11, 2), 400);
        assert_eq!(status(Version::HTTP_10, 0), 200);
        assert_eq!(status(Version::HTTP_2, 0), 200);
    }
}
