//! A WebSocket at a server that is spoken to over HTTP/2: an extended CONNECT (RFC 8441).

use super::{Answer, Attempted, Exchange, failure_over_http2, passed, refusal, scheme};
use crate::error::{Reason, Refusal};
use crate::response::{Lease, ResponseBody};
use crate::retry::{Failure, Sent};
use crate::tunnel::{self, Tunnel};
use http::{Method, StatusCode, header};

impl Exchange<'_> {
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
        let sender = match connector.tunnel(header.as_deref()).await {
            Ok(Some(sender)) => sender,
            Ok(None) => return Err(refusal(StatusCode::BAD_GATEWAY, Reason::NoTunnel)),
            Err(error) => {
                self.group.members[member].not_connected(&error);
                return Ok(Err(Attempted::not_connected()));
            }
        };
        let Some(mut request) = self.head_http2(scheme(connector)) else {
            return Ok(Err(failed(Failure::Malformed, Sent::Nothing)));
        };
        let protocol = self.parts.headers.get(header::UPGRADE);
        let protocol = protocol.and_then(|it| it.to_str().ok());
        let protocol = h2::ext::Protocol::from(protocol.unwrap_or("websocket"));
        *request.method_mut() = Method::CONNECT;
        request.extensions_mut().insert(protocol);
        // The stream stands for what the key proves (RFC 8441 section 5).
        request.headers_mut().remove(header::SEC_WEBSOCKET_KEY);
        let idle_timeout = self.group.options.idle_timeout;
        let responding = tunnel::connect(sender, request);
        Ok(match self.in_time(responding, None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err(error)) => Err(failed(failure_over_http2(&error), Sent::Some)),
            Ok(Ok((response, stream))) if response.status().is_success() => {
                let response = response.map(|()| ResponseBody::empty(idle_timeout));
                Ok((passed(response), Some(Tunnel::http2(stream, lease))))
            }
            Ok(Ok((response, stream))) => {
                let body = ResponseBody::new(stream.refused().into(), lease, idle_timeout);
                Ok((passed(response.map(|()| body)), None))
            }
        })
    }
}
