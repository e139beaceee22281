//! Fields that every response has, whatever answers.

use super::*;
use crate::clients::{Clients, Transport};
use crate::files::Files;
use crate::held::HeldBytes;
use crate::incidents::Incidents;
use crate::limits::Limits;
use crate::metrics::ServerCounters;
use crate::request::check::MAX_HEAD_BYTES;
use crate::request::content::{Content, Current, Target};
use crate::selection::counters::told;
use crate::selection::{HostNames, Selection};
use crate::{Body, PrefixLengths};
use http::Version;
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Policy of a listener with TLS.
const SECURE: ListenerPolicy = ListenerPolicy {
    is_secure: true,
    port: 443,
    http3: Some(8443),
    redirect: None,
};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Site {
    responder: Rc<Responder>,
    clients: Clients,
    /// The counters of the next connection's transport.
    counters: Cell<Option<Counters>>,
    _dir: tempfile::TempDir,
}

fn site(policy: &str, has_http3: bool) -> Site {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "a").unwrap();
    let service = Service {
        current: Current::new(
            Content::of(Target::Files(Files::open(dir.path()).unwrap())),
            HostNames::default(),
        ),
        has_hosts: false,
        selection: has_http3.then(|| Selection::of(&policy.parse().unwrap())),
        early_services: false,
        log: None,
        incidents: Incidents::new(PrefixLengths::default(), Instant::now()),
        counters: ServerCounters::default(),
        challenges: None,
    };
    let files = Rc::new(RefCell::new(FileCache::new(1 << 20, 10)));
    let limits = Limits::default();
    Site {
        responder: Rc::new(Responder::new(Arc::new(service), files, &limits)),
        clients: Clients::new(&limits, HeldBytes::new(1 << 20), |_, _| {}),
        counters: Cell::new(None),
        _dir: dir,
    }
}

impl Site {
    fn get(&self, path: &str) -> Response<Body> {
        let request = Request::get(path).version(Version::HTTP_2);
        self.ask(request.body(RequestBody::empty()).unwrap())
    }

    fn ask(&self, request: Request<RequestBody>) -> Response<Body> {
        let now = Now::read();
        let admitted = self.clients.admit(CLIENT, Transport::Tcp, now.instant);
        let responder = Rc::clone(&self.responder);
        let connection = ConnectionFacts {
            peer: (CLIENT, 50_000).into(),
            local: None,
            admitted: admitted.unwrap(),
            began: now.instant,
            listener_policy: SECURE,
            presented: None,
        };
        let mut requests = Requests::new(responder, Protocol::Http1, connection);
        let response = match requests.screen(&request, true, 1, now, || self.counters.get()) {
            AnswerSource::Refused(response) => response,
            AnswerSource::Prepared(prepared) => requests.respond_prepared(&prepared, now),
            AnswerSource::Service(route) => match requests.ask(route, request, now) {
                Answer::Now(response) => response,
                Answer::Later(_) => panic!("files are there at once"),
            },
        };
        requests.ended(|| self.counters.get());
        response
    }

    fn alt_svc(&self, path: &str) -> Option<String> {
        let response = self.get(path);
        let value = response.headers().get(header::ALT_SVC)?;
        Some(value.to_str().unwrap().to_owned())
    }

    fn measured(&self, min_rtt: Duration, packets_sent: u64, packets_lost: u64) {
        let counters = told(Some(min_rtt), packets_sent, packets_lost);
        self.counters.set(Some(counters));
    }
}

const OFFER: &str = r#"h3=":8443"; ma=2592000"#;

#[test]
fn every_response_says_date_server_and_alternative() {
    let site = site("h3", true);
    for path in ["/a.txt", "/none", "/%zz"] {
        let response = site.get(path);
        assert_eq!(response.headers()[header::ALT_SVC], OFFER, "{path}");
        assert_eq!(response.headers()[header::SERVER], "altway", "{path}");
        assert!(response.headers().contains_key(header::DATE), "{path}");
    }
}

#[test]
fn a_clear_text_server_offers_nothing() {
    assert_eq!(site("h3", false).alt_svc("/a.txt"), None);
    assert_eq!(site("h2", false).alt_svc("/a.txt"), None);
}

#[test]
fn fixed_http2_revokes_earlier_offers() {
    assert_eq!(site("h2", true).alt_svc("/a.txt").unwrap(), "clear");
}

#[test]
fn the_threshold_follows_what_is_measured() {
    for (lost, offer) in [(9, "clear"), (11, OFFER)] {
        let site = site("threshold", true);
        let unknown = site.alt_svc("/a.txt");
        assert_eq!(unknown.as_deref(), Some(OFFER), "unknown");
        site.measured(Duration::from_millis(49), 1000, lost);
        site.get("/a.txt");
        let known = site.alt_svc("/a.txt");
        assert_eq!(known.as_deref(), Some(offer), "{lost} of 1,000 lost");
    }
}

#[test]
fn too_large_a_head_is_answered_with_431_and_the_offer() {
    let site = site("h3", true);
    let request = Request::get("/a.txt").version(Version::HTTP_2);
    let request = request.header("x", "y".repeat(MAX_HEAD_BYTES));
    let refused = site.ask(request.body(RequestBody::empty()).unwrap());
    assert_eq!(
        refused.status(),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
    assert_eq!(refused.headers()[header::ALT_SVC], OFFER);
}

#[test]
fn a_204_says_no_length_of_content_whatever_its_service_says() {
    for (status, length, expected) in [
        (200, "7", Some("7")),
        (204, "7", None),
        (204, "0", Some("0")),
        (304, "7", Some("7")),
    ] {
        let response = Response::builder().status(status);
        let response = response.header(header::CONTENT_LENGTH, length);
        let response = response.body(Body::bytes("content")).unwrap();
        let fields = fit(&Method::GET, response).into_parts().0.headers;
        let said = fields.get(header::CONTENT_LENGTH);
        let said = said.map(|length| length.to_str().unwrap());
        assert_eq!(said, expected, "{status}");
    }
}
