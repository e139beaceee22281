//! The usual case of an attempt: a request without content for a server of HTTP/1.1 to which a connection is open.
//!
//! It waits for nothing but its response, so that it needs no future of its own. Every other case, and every second
//! attempt, is an `async` function of [`Exchange`].

use super::{Answer, Attempted, Exchange, InterimHandler};
use crate::Protocol;
use crate::http1::{self, Fields, ForwardedHead, RequestHead};
use crate::pool::Lease;
use crate::retry::{self, Failure};
use http::header::{EXPECT, HOST};
use http::{Version, uri};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// A request with its connection, whose response is waited for.
pub(super) struct Direct {
    pub(super) member: usize,
    exchange: http1::Exchange,
    is_sent: bool,
    /// `None`: the response has it.
    lease: Option<Lease>,
    /// The time by which the head of the response is to be there.
    late: tokio::time::Instant,
}

impl Exchange {
    /// Takes a connection that waits for a request; `None`: there is none, or the request needs more.
    pub(super) fn begin_direct(&self, member: usize) -> Option<Direct> {
        let options = &self.group.options;
        let protocol = self.group.members[member].connector.server.protocol;
        let is_usual = protocol == Protocol::Http1 && self.content.is_none() && !self.is_upgrade;
        if !is_usual || options.send_proxy_protocol {
            return None;
        }
        let pool = self.group.pool(member);
        let lease = pool.turn_now(self.received.client)?;
        let began = self.received.began;
        let names = &self.group.members[member].connector.names;
        let connection = pool.idle(names, retry::is_idempotent(&self.parts.method), began)?;
        pool.counters.request();
        Some(Direct {
            member,
            exchange: connection.begin_later(),
            is_sent: false,
            lease: Some(lease),
            late: after(began, options.head_timeout).into(),
        })
    }

    /// Sends the request.
    fn send_direct(&self, exchange: &mut http1::Exchange) {
        let options = &self.group.options;
        let authority;
        let host = match options.host.as_ref().or(self.parts.headers.get(HOST)) {
            Some(host) => host,
            None => {
                authority = options.servers[0].authority();
                &authority
            }
        };
        let mut changed;
        let fields = if options.request_fields.is_empty() {
            Fields::ForwardedHead(ForwardedHead {
                fields: &self.parts.headers,
                received: self.received(),
                host: Some(host),
            })
        } else {
            changed = self.fields(Version::HTTP_11);
            // There is no content for which the server could ask.
            changed.remove(EXPECT);
            Fields::Made(&changed)
        };
        let target = self.parts.uri.path_and_query();
        exchange.send(RequestHead {
            method: &self.parts.method,
            target: target.map_or("/", uri::PathAndQuery::as_str),
            fields,
            is_upgrade: false,
        });
    }

    /// Sends the request when it is called for the first time, and waits for the response.
    pub(super) fn poll_direct(
        &self,
        direct: &mut Direct,
        cx: &mut Context<'_>,
        interims: &dyn InterimHandler,
    ) -> Poll<Result<Answer, Attempted>> {
        if !direct.is_sent {
            direct.is_sent = true;
            self.send_direct(&mut direct.exchange);
        }
        let mut interim = |status, fields| self.on_interim(status, fields, None, interims);
        let failure = match direct.exchange.poll_response(cx, &mut interim) {
            Poll::Ready(Ok(response)) => {
                let lease = direct.lease.take();
                let lease = lease.expect("a request has one response");
                let now = Instant::now();
                let counters = &self.group.pool(direct.member).counters;
                counters.responded(now.saturating_duration_since(self.received.began));
                self.group.members[direct.member].succeeded();
                return Poll::Ready(Ok(self.answer(response, lease, now)));
            }
            Poll::Ready(Err(fault)) => {
                fault.log();
                fault.failure()
            }
            Poll::Pending => {
                ready!(direct.exchange.poll_late(direct.late, cx));
                Failure::TimedOut
            }
        };
        let progress = direct.exchange.progress();
        Poll::Ready(Err(Attempted {
            failure,
            is_reused: true,
            sent: progress.sent,
            has_begun: progress.has_begun,
            by_client: false,
            address: None,
        }))
    }
}

/// The time so long after `began`; a time that the clock does not reach is one that nobody waits for.
fn after(began: Instant, wait: Duration) -> Instant {
    began.checked_add(wait).unwrap_or(began + NEVER)
}

/// A time that is as good as for ever.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
