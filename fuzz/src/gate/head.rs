//! Any bytes as a raw head of HTTP/1.

use altway_message::{Authority, Framing, Request, Rules, Scanner, Scheme, Target, http1};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Uri};

use super::reading::Reading;

pub(super) fn run(bytes: &[u8], rules: Rules) {
    let checked = http1::check(bytes, rules);
    let mut scanner = Scanner::new(rules);
    let broken = scanner.scan(bytes).is_err();
    let accepted = (broken && scanner.refused().is_none()) || scanner.heads() > 0;
    assert_eq!(accepted, checked.is_ok(), "{:?}", scanner.refused());
    let Ok(request) = checked else {
        return;
    };
    let reading = Reading::by_hand(bytes).expect("an accepted head has lines");
    assert_eq!(Reading::by_httparse(bytes).as_ref(), Some(&reading));
    let held = hold(&reading).expect("an accepted head is one of the http crate");
    assert_eq!(held.method().as_str().as_bytes(), reading.method);
    check_target(&request, held.uri(), held.headers(), rules);
    assert_eq!(request.framing, framing(held.headers()));
    let old = reading.version == 0;
    assert!(
        !old || request.framing != Framing::Chunked,
        "RFC 9112 section 6.1"
    );
    let kept = reading.fields.len();
    assert_eq!(held.headers().len(), kept, "every field is there");
}

/// Builds the request as hyper does.
fn hold(reading: &Reading<'_>) -> http::Result<http::Request<()>> {
    let method = Method::from_bytes(reading.method)?;
    let mut request = http::Request::builder().method(method).uri(reading.target);
    for (name, value) in &reading.fields {
        request = request.header(*name, *value);
    }
    request.body(())
}

/// The gate and the http crate have the same target.
fn check_target(request: &Request<'_>, uri: &Uri, fields: &HeaderMap, rules: Rules) {
    let Target {
        scheme,
        authority,
        path,
    } = request.target;
    let named = uri.scheme_str().map(scheme_of);
    assert_eq!(named.or(rules.scheme), scheme);
    let held = uri.path_and_query().map(|path| path.as_str().as_bytes());
    assert_eq!(held, path);
    let [of_uri, of_host] = [
        uri.authority().map(|it| it.as_str().as_bytes()),
        fields.get(HOST).map(http::HeaderValue::as_bytes),
    ];
    assert_eq!(of_uri.or(of_host).map(parts), authority.map(pair));
    if let (Some(of_uri), Some(of_host)) = (of_uri, of_host) {
        let (one, other) = (parts(of_uri), parts(of_host));
        let port = |port: Option<u16>| port.or(scheme.map(default_port));
        assert!(one.0.eq_ignore_ascii_case(&other.0) && port(one.1) == port(other.1));
    }
}

/// Host and port as the http crate reads them.
fn parts(text: &[u8]) -> (String, Option<u16>) {
    let authority = http::uri::Authority::try_from(text).expect("an accepted authority");
    (authority.host().into(), authority.port_u16())
}

fn pair(authority: Authority<'_>) -> (String, Option<u16>) {
    let host = String::from_utf8(authority.host.to_vec());
    (host.expect("ASCII"), authority.port)
}

fn scheme_of(name: &str) -> Scheme {
    match name.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => panic!("{other} is accepted"),
    }
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}

/// RFC 9112 section 6.3, where there is one field for it at most.
fn framing(fields: &HeaderMap) -> Framing {
    let only = |name| {
        let mut values = fields.get_all(name).iter();
        let value = values.next().map(|it| it.to_str().expect("ASCII"));
        assert!(values.next().is_none(), "one field tells");
        value
    };
    match (only(TRANSFER_ENCODING), only(CONTENT_LENGTH)) {
        (None, None) => Framing::Empty,
        (None, Some(length)) => Framing::Length(length.parse().expect("a number")),
        (Some(coding), None) => {
            assert!(coding.eq_ignore_ascii_case("chunked"), "{coding}");
            Framing::Chunked
        }
        (Some(_), Some(_)) => panic!("both are accepted"),
    }
}
