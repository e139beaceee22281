//! What a request brings an embedder's service, whichever protocol it comes over.

use super::early_hints::{EarlyHints, Hints};
use crate::RequestBody;
use crate::request::handler::Peer;
use http::header::HOST;
use http::{HeaderValue, Request, Version};

/// Puts [`Peer`] and [`EarlyHints`] into the request's extensions, and Host where only `:authority` names
/// it. Gives the hints that the service will send.
///
/// The URI stays as the protocol has it: with scheme and authority over HTTP/2 and HTTP/3, the path alone
/// over HTTP/1.1 (RFC 9112 section 3.2.1). RFC 9113 section 8.3.1 has clients leave Host out; a service that
/// reads it works over all three.
pub(crate) fn introduce(request: &mut Request<RequestBody>, peer: Peer) -> Hints {
    if !request.headers().contains_key(HOST)
        && let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::from_str(host_and_port(authority.as_str()))
    {
        request.headers_mut().insert(HOST, host);
    }
    let takes_hints = request.version() >= Version::HTTP_2;
    let (early_hints, hints) = EarlyHints::new(takes_hints);
    let extensions = request.extensions_mut();
    extensions.insert(peer);
    extensions.insert(early_hints);
    hints
}

/// Without the user information, which Host does not hold (RFC 9110 section 7.2).
fn host_and_port(authority: &str) -> &str {
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduced(uri: &str, host: Option<&str>) -> Option<String> {
        let mut request = Request::get(uri).version(Version::HTTP_2);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let mut request = request.body(RequestBody::empty()).unwrap();
        let peer = Peer {
            address: ([127, 0, 0, 1], 9).into(),
            local: None,
            is_secure: true,
        };
        introduce(&mut request, peer);
        assert!(request.extensions().get::<Peer>().is_some());
        let host = request.headers().get(HOST)?;
        Some(host.to_str().unwrap().to_owned())
    }

    #[test]
    fn host_is_derived_from_the_authority_where_it_is_missing() {
        let derived = |uri| introduced(uri, None);
        assert_eq!(derived("https://a.test:8443/b").unwrap(), "a.test:8443");
        assert_eq!(derived("https://user@a.test/").unwrap(), "a.test");
        assert_eq!(derived("https://[::1]:1/").unwrap(), "[::1]:1");
        assert_eq!(derived("/b"), None);
        assert_eq!(introduced("https://a.test/", Some("b")).unwrap(), "b");
    }
}
