//! The request as it comes to an embedder's service, whichever protocol it comes over.

use super::early_hints::{EarlyHints, Hints};
use crate::request::handler::Peer;
use crate::request::upgrade::Upgrade;
use crate::{ClientCertificate, EarlyData, RequestBody};
use http::header::HOST;
use http::{HeaderValue, Request};
use std::time::Instant;

/// The circumstances of a request that are not in it: what a [`tower_service::Service`] finds in the request's
/// extensions, and a [`Responder`](crate::Responder) is given beside it.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestContext {
    /// The client.
    pub peer: Peer,
    /// Sends 103 responses ahead of the response.
    pub early_hints: EarlyHints,
    /// The offer of a byte stream, where the request asks for a WebSocket.
    pub upgrade: Option<Upgrade>,
    /// The client's certificate, where its site has asked for one.
    pub certificate: Option<ClientCertificate>,
    /// The request has come in early data (RFC 8470).
    pub is_early: bool,
    /// Time at which the request's head was there.
    pub began: Instant,
}

impl RequestContext {
    /// Returns the circumstances of a request of `peer`, which is given Host where only `:authority` names it; and the hints that will be
    /// sent.
    ///
    /// The URI stays as the protocol has it: with scheme and authority over HTTP/2 and HTTP/3, the path alone
    /// over HTTP/1.1 (RFC 9112 section 3.2.1). RFC 9113 section 8.3.1 has clients leave Host out; a service that
    /// reads it works over all three.
    pub(crate) fn of(
        request: &mut Request<RequestBody>,
        peer: Peer,
        certificate: Option<ClientCertificate>,
        began: Instant,
    ) -> (Self, Hints) {
        if !request.headers().contains_key(HOST)
            && let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(host_and_port(authority.as_str()))
        {
            request.headers_mut().insert(HOST, host);
        }
        let (early_hints, hints) = EarlyHints::new(request.version());
        let request_context = Self {
            peer,
            early_hints,
            upgrade: None,
            certificate,
            is_early: request.extensions().get::<EarlyData>().is_some(),
            began,
        };
        (request_context, hints)
    }

    /// Puts them into the request's extensions, which has [`EarlyData`] there already.
    pub(crate) fn put_into(self, request: &mut Request<RequestBody>) {
        let extensions = request.extensions_mut();
        extensions.insert(self.peer);
        extensions.insert(self.early_hints);
        if let Some(upgrade) = self.upgrade {
            extensions.insert(upgrade);
        }
        if let Some(certificate) = self.certificate {
            extensions.insert(certificate);
        }
    }
}

/// The host and port without the user information, which Host does not hold (RFC 9110 section 7.2).
fn host_and_port(authority: &str) -> &str {
    authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Version;

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
        let (request_context, _) = RequestContext::of(&mut request, peer, None, Instant::now());
        request_context.put_into(&mut request);
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
