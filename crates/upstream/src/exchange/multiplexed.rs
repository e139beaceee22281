//! A request over a connection that others share: HTTP/2 and HTTP/3.

use super::{Answer, Attempted, Exchange, passed};
use crate::heads;
use crate::http2::Http2;
use crate::http3::{self, Http3};
use crate::pool::{Lease, SharedConnection as _};
use crate::response::ResponseBody;
use crate::retry::{Failure, Sent};
use http::{Request, Response, Uri, Version, header, response, uri};

impl Exchange {
    pub(super) async fn over_http2(
        &self,
        connection: Http2,
        is_reused: bool,
        lease: Lease,
        scheme: uri::Scheme,
    ) -> Result<Answer, Attempted> {
        let address = (!is_reused).then(|| connection.address()).flatten();
        let failed = |failure, sent| Attempted {
            failure,
            is_reused,
            sent,
            address,
            ..Attempted::not_connected()
        };
        // Over TLS it has been agreed on (ALPN), and whoever has responded has spoken it.
        let may_be_http1 = !is_reused && scheme == uri::Scheme::HTTP;
        let Some(head) = self.head_http2(scheme) else {
            return Err(failed(Failure::Malformed, Sent::Nothing));
        };
        let content = self.content.attempt(None);
        let responding = connection.send(head, content, self.interim.as_ref());
        match self.in_time(responding, None).await {
            Err(late) => Err(Attempted {
                by_client: late.by_client,
                ..failed(Failure::TimedOut, Sent::Some)
            }),
            Ok(Err((fault, sent))) => {
                tracing::debug!("a request over HTTP/2 to an upstream failed: {fault}");
                Err(failed(fault.failure(may_be_http1), sent))
            }
            Ok(Ok(response)) => {
                let (mut head, content) = response.into_parts();
                if heads::content_length(&mut head.headers).is_err() {
                    return Err(failed(Failure::Malformed, Sent::Some));
                }
                let body = ResponseBody::new(content, lease, self.pace());
                Ok((passed_on(head, body), None))
            }
        }
    }

    pub(super) async fn over_http3(
        &self,
        member: usize,
        is_fresh: bool,
        lease: Lease,
    ) -> Result<Answer, Attempted> {
        let head = self.head_http2(uri::Scheme::HTTPS);
        let send = |connection: Http3, head, may_wait| {
            let content = self.content.attempt(None);
            let interim = self.interim.clone();
            async move { connection.send(head, may_wait, content, interim).await }
        };
        let response = self.send_http3(member, is_fresh, head, send).await?;
        let (head, content) = response.into_parts();
        let body = ResponseBody::new(content, lease, self.pace());
        Ok((passed_on(head, body), None))
    }

    /// Has `send` send a request with `head` over a connection that other requests share. One that finds no stream left there is
    /// sent over another connection, and waits for a stream where there is none.
    pub(super) async fn send_http3<T, F>(
        &self,
        member: usize,
        is_fresh: bool,
        mut head: Option<Request<()>>,
        send: impl Fn(Http3, Request<()>, bool) -> F,
    ) -> Result<T, Attempted>
    where
        F: Future<Output = Result<T, http3::Failed>>,
    {
        let connector = &self.group.members[member].connector;
        let pool = self.group.pool(member);
        loop {
            let connection = pool.http3(connector, self.group.options.idle_timeout).await;
            let (connection, is_reused) =
                connection.map_err(|it| self.not_connected(member, &it))?;
            let failed = |failure, sent| Attempted {
                failure,
                // Of a second attempt as over HTTP/2: see `carry`.
                is_reused: is_reused && !is_fresh,
                sent,
                ..Attempted::not_connected()
            };
            let Some(request) = head else {
                return Err(failed(Failure::Malformed, Sent::Nothing));
            };
            let may_wait = !is_reused || !connection.has_room();
            let responding = send(connection, request, may_wait);
            match self.in_time(responding, None).await {
                Err(late) => {
                    return Err(Attempted {
                        by_client: late.by_client,
                        ..failed(Failure::TimedOut, Sent::Some)
                    });
                }
                Ok(Err(http3::Failed::NoResponse(failure, sent))) => {
                    return Err(failed(failure, sent));
                }
                Ok(Err(http3::Failed::NoStream(request))) => head = Some(*request),
                Ok(Ok(response)) => return Ok(response),
            }
        }
    }

    /// The head of the request for HTTP/2 and HTTP/3: `None` where its host is none.
    pub(super) fn head_http2(&self, scheme: uri::Scheme) -> Option<Request<()>> {
        let mut fields = self.fields(Version::HTTP_2);
        fields.remove(header::EXPECT);
        let host = fields.remove(header::HOST)?;
        let mut parts = uri::Parts::default();
        parts.scheme = Some(scheme);
        parts.authority = Some(host.to_str().ok()?.parse().ok()?);
        let target = self.parts.uri.path_and_query().cloned();
        parts.path_and_query = Some(target.unwrap_or(uri::PathAndQuery::from_static("/")));
        let mut request = Request::new(());
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = fields;
        Some(request)
    }
}

/// A response as the hop to the client has it.
pub(super) fn passed_on(mut head: response::Parts, body: ResponseBody) -> Response<ResponseBody> {
    heads::pass_response(&mut head.headers, head.version);
    passed(head.status, head.headers, body)
}
