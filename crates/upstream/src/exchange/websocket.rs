//! A WebSocket at a server that is spoken to over HTTP/2 or HTTP/3: an extended CONNECT (RFC 8441, RFC 9220).

use super::multiplexed::{failure_over_http2, passed_on};
use super::{Answer, Attempted, Exchange, refusal, scheme};
use crate::error::{Reason, Refusal};
use crate::response::{Lease, ResponseBody};
use crate::retry::{Failure, Sent};
use crate::tunnel::{self, Tunnel};
use http::{Method, Request, StatusCode, header, uri};

impl Exchange {
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
            Err(error) => {
                self.group.members[member].not_connected(&error);
                return Ok(Err(Attempted::not_connected()));
            }
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
            Ok(Err(error)) => Err(failed(failure_over_http2(&error), Sent::Some)),
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
        let pace = self.pace();
        let connector = &self.group.members[member].connector;
        let pool = self.group.pool(member);
        let connection = pool.http3(connector, pace.idle_timeout).await;
        let (connection, is_reused) = match connection {
            Ok(connection) => connection,
            Err(error) => {
                self.group.members[member].not_connected(&error);
                return Ok(Err(Attempted::not_connected()));
            }
        };
        let failed = |failure, sent| Attempted {
            failure,
            is_reused: is_reused && !is_fresh,
            sent,
            ..Attempted::not_connected()
        };
        if !connection.takes_tunnels().await {
            return Err(refusal(StatusCode::BAD_GATEWAY, Reason::NoTunnel));
        }
        let Some((mut request, protocol)) = self.extended_connect(uri::Scheme::HTTPS) else {
            return Ok(Err(failed(Failure::Malformed, Sent::Nothing)));
        };
        let protocol = altway_http3::Protocol::new(protocol);
        request.extensions_mut().insert(protocol);
        let responding = connection.connect_tunnel(request);
        Ok(match self.in_time(responding, None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err((failure, sent))) => Err(failed(failure, sent)),
            Ok(Ok((response, stream))) if response.status().is_success() => {
                let response = passed_on(response.into_parts().0, ResponseBody::empty());
                Ok((response, Some(Box::new(Tunnel::http3(stream, lease)))))
            }
            Ok(Ok((response, stream))) => {
                let (head, ()) = response.into_parts();
                let body = ResponseBody::new(stream.refused(&head.headers), lease, pace);
                Ok((passed_on(head, body), None))
            }
        })
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
