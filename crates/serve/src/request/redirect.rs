//! The way from clear text to TLS: the answers of a listener that redirects to `https`.

use crate::challenges;
use crate::files;
use crate::host_table::host;
use crate::request::body::Body;
use crate::request::check::RequestHead;
use crate::request::content::Content;
use http::{HeaderValue, Response, StatusCode, header};

/// The port that `https` has where none is named (RFC 9110 section 4.2.2).
const HTTPS: u16 = 443;

/// The response that leads a request to the same host and path under `https`, at that port; `None` where the site
/// itself is to answer: for challenges of certificates, if it has a route for them.
///
/// GET and HEAD are answered 301 (Moved Permanently), as clients of every age follow it; other methods 308, which
/// keeps method and content (RFC 9110 section 15.4.9). A host that no site has is answered 421: nobody is led to
/// a place that this server does not know. `dispatched`: the [host](Content::host) of the request.
pub(super) fn response(
    head: &impl RequestHead,
    content: &Content,
    dispatched: Option<usize>,
    port: u16,
) -> Option<Response<Body>> {
    let authority = head.authority().unwrap_or_default();
    let target = head.target().filter(|target| target.starts_with(b"/"));
    let target = target.unwrap_or(b"/");
    if target.starts_with(challenges::PATH) && content.has_route(dispatched, target) {
        return None;
    }
    let place = dispatched.and_then(|_| location(authority, target, port));
    let Some(place) = place else {
        return Some(files::page(StatusCode::MISDIRECTED_REQUEST));
    };
    let status = match head.method() {
        b"GET" | b"HEAD" => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    let mut response = files::page(status);
    response.headers_mut().insert(header::LOCATION, place);
    Some(response)
}

/// `None` where the authority has no host.
fn location(authority: &[u8], target: &[u8], port: u16) -> Option<HeaderValue> {
    let host = host(authority);
    if host.is_empty() {
        return None;
    }
    let port = match port {
        HTTPS => String::new(),
        port => format!(":{port}"),
    };
    let parts = [b"https://", host, port.as_bytes(), target].concat();
    HeaderValue::from_bytes(&parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;
    use http::Request;

    fn answer(method: &str, uri: &str, host: &str, port: u16) -> (u16, Option<String>) {
        let content = Content::open(&Site::nothing()).unwrap();
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("host", host).body(()).unwrap();
        let dispatched = content.host(host.as_bytes()).unwrap();
        let response = response(&request, &content, dispatched, port).unwrap();
        let location = response.headers().get("location");
        let location = location.map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), location)
    }

    #[test]
    fn host_and_path_stay_and_the_port_is_that_of_https() {
        for (host, port, uri, expected) in [
            ("a.example", 443, "/x?q=1", "https://a.example/x?q=1"),
            ("a.example:80", 443, "/", "https://a.example/"),
            (
                "a.example:8080",
                8443,
                "/%20/..",
                "https://a.example:8443/%20/..",
            ),
            ("[2001:db8::1]:80", 443, "/", "https://[2001:db8::1]/"),
            (
                "[2001:db8::1]",
                8443,
                "//b.example",
                "https://[2001:db8::1]:8443//b.example",
            ),
            ("a.example", 443, "*", "https://a.example/"),
        ] {
            let (status, location) = answer("GET", uri, host, port);
            assert_eq!(
                (status, location.as_deref()),
                (301, Some(expected)),
                "{uri}"
            );
        }
    }

    #[test]
    fn methods_that_have_content_keep_it() {
        for (method, status) in [("HEAD", 301), ("POST", 308), ("PUT", 308), ("OPTIONS", 308)] {
            assert_eq!(answer(method, "/", "a.example", 443).0, status, "{method}");
        }
    }

    #[test]
    fn without_a_host_there_is_nowhere_to_go() {
        for host in ["", ":80"] {
            assert_eq!(answer("GET", "/", host, 443), (421, None));
        }
    }

    #[test]
    fn a_challenge_is_answered_by_a_site_that_has_a_route_for_it() {
        let content = Content::open(&Site::nothing()).unwrap();
        let request = Request::get("/.well-known/acme-challenge/token");
        let request = request.header("host", "a.example").body(()).unwrap();
        assert!(response(&request, &content, Some(0), 443).is_none());
    }
}
