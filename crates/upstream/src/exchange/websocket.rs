//! A WebSocket at a server that is spoken to over HTTP/2 or HTTP/3: an extended CONNECT (RFC 8441, RFC 9220).

use super::multiplexed::passed_on;
use super::{Answer, Attempted, Exchange, refusal, scheme};
use crate::counters::Counters;
use crate::error::{Reason, Refusal};
use crate::http3::Http3;
use crate::pool::Lease;
use crate::response::ResponseBody;
use crate::retry::{Failure, Sent};
use crate::tunnel::{self, Tunnel};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, uri};

/// RFC 6455 section 1.3: the key is joined with this.
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

impl Exchange {
    /// Checks that a server of HTTP/1.1 that has switched to WebSocket has read this handshake, and no other.
    ///
    /// # Errors
    /// RFC 6455 section 4.1: without a Sec-WebSocket-Accept for the key "the client MUST _Fail the WebSocket
    /// Connection_".
    pub(super) fn check_accept(
        &self,
        fields: &HeaderMap,
        counters: &Counters,
    ) -> Result<(), Refusal> {
        let Some(key) = self.parts.headers.get(header::SEC_WEBSOCKET_KEY) else {
            return Ok(());
        };
        let mut given = fields.get_all(header::SEC_WEBSOCKET_ACCEPT).iter();
        if given.next().is_some_and(|it| accepts(key, it)) && given.next().is_none() {
            return Ok(());
        }
        counters.failed(Failure::Malformed, false);
        Err(refusal(StatusCode::BAD_GATEWAY, Reason::Handshake))
    }

    /// Asks for a tunnel over a connection of its own, whose windows no other request fills.
    pub(super) async fn tunnel_over_http2(
        &self,
        member: usize,
        lease: Lease,
    ) -> Result<Result<Answer, Attempted>, Refusal> {
        let connector = &self.group.members[member].connector;
        let failed = |failure, sent| Attempted {
            failure,
            sent,
            ..Attempted::not_connected()
        };
        let header = self.proxy_protocol();
        let counters = &self.group.pool(member).counters;
        let sender = match connector.tunnel(header.as_deref(), counters).await {
            Ok(Some(sender)) => sender,
            Ok(None) => return Err(refusal(StatusCode::BAD_GATEWAY, Reason::NoTunnel)),
            Err(error) => return Ok(Err(self.not_connected(member, &error))),
        };
        let Some((mut request, protocol)) = self.extended_connect(scheme(connector)) else {
            return Ok(Err(failed(Failure::Malformed, Sent::Nothing)));
        };
        let protocol = h2::ext::Protocol::from(protocol);
        request.extensions_mut().insert(protocol);
        let pace = self.pace();
        let responding = tunnel::connect(sender, request);
        Ok(match self.in_time(responding, None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err(fault)) => {
                tracing::debug!("a WebSocket over HTTP/2 to an upstream failed: {fault}");
                // Its settings have come, by which it takes tunnels.
                Err(failed(fault.failure(false), Sent::Some))
            }
            Ok(Ok((response, stream))) if response.status().is_success() => {
                let response = passed_on(response.into_parts().0, ResponseBody::empty());
                Ok((response, Some(Box::new(Tunnel::http2(stream, lease)))))
            }
            Ok(Ok((response, stream))) => {
                let body = ResponseBody::new(stream.refused(), lease, pace);
                Ok((passed_on(response.into_parts().0, body), None))
            }
        })
    }

    /// Asks for a tunnel over the connection that all requests share.
    pub(super) async fn tunnel_over_http3(
        &self,
        member: usize,
        lease: Lease,
        is_fresh: bool,
    ) -> Result<Result<Answer, Attempted>, Refusal> {
        let head = self.extended_connect(uri::Scheme::HTTPS);
        let head = head.map(|(mut request, protocol)| {
            let protocol = altway_http3::Protocol::new(protocol);
            request.extensions_mut().insert(protocol);
            request
        });
        let send = async |connection: Http3, head, may_wait| {
            if !connection.takes_tunnels().await {
                return Ok(None);
            }
            connection.connect_tunnel(head, may_wait).await.map(Some)
        };
        let (response, stream) = match self.send_http3(member, is_fresh, head, send).await {
            Err(failed) => return Ok(Err(failed)),
            Ok(None) => return Err(refusal(StatusCode::BAD_GATEWAY, Reason::NoTunnel)),
            Ok(Some(responded)) => responded,
        };
        let (head, ()) = response.into_parts();
        Ok(Ok(if head.status.is_success() {
            let tunnel = Tunnel::http3(stream, lease);
            (
                passed_on(head, ResponseBody::empty()),
                Some(Box::new(tunnel)),
            )
        } else {
            let body = ResponseBody::new(stream.refused(&head.headers), lease, self.pace());
            (passed_on(head, body), None)
        }))
    }

    /// The head of an extended CONNECT, with the protocol that it is for; `None` where the host is none.
    fn extended_connect(&self, scheme: uri::Scheme) -> Option<(Request<()>, &str)> {
        let protocol = self.parts.headers.get(header::UPGRADE);
        let protocol = protocol.and_then(|it| it.to_str().ok());
        let mut request = self.head_http2(scheme)?;
        *request.method_mut() = Method::CONNECT;
        // The stream stands for what the key proves (RFC 8441 section 5).
        request.headers_mut().remove(header::SEC_WEBSOCKET_KEY);
        Some((request, protocol.unwrap_or("websocket")))
    }
}

/// Returns whether a Sec-WebSocket-Accept is that of a key (RFC 6455 section 4.2.2).
fn accepts(key: &HeaderValue, accept: &HeaderValue) -> bool {
    let joined = [key.as_bytes(), ACCEPT_GUID].concat();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &joined);
    STANDARD.encode(hash).as_bytes() == accept.as_bytes().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_accepted_by_its_own_answer_alone() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        let accepted = |text| accepts(&key, &HeaderValue::from_static(text));
        // RFC 6455 section 1.3.
        assert!(accepted("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for text in [
            "",
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=",
            "s3pplmbitxaq9kygzzhzrbk+xoo=",
        ] {
            assert!(!accepted(text), "{text}");
        }
    }
}
