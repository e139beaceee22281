//! HTTP/1.1 over TCP, by hyper: a connection from its first request to its last, or to the end of the tunnel that it
//! becomes.
//!
//! Answers that hyper gives by itself carry none of our fields: 400 for what is no HTTP/1.1. Heads that are too large or too
//! slow are answered without it ([`rejected_head`]). Left to others: how a connection begins ([`tcp`](super)), and what a
//! request is answered ([`answer`]).

use super::answer::{answer, finished};
use super::gate::{Gate, Gated};
use super::measured::MeasuredBody;
use super::socket::Activity;
use super::tunnel::Relay;
use super::turn_budget::TurnBudget;
use super::write_ahead::{Buffering, Counting, KERNEL_UNSENT_BYTES, WriteAhead};
use super::{Client, Context, Failure, drain, kernel, rejected_head, tunnel};
use crate::RequestBody;
use crate::incidents::Incident;
use crate::request::body::Body;
use crate::request::log::Protocol;
use crate::request::requests::{Now, Requests};
use crate::selection::HostIndex;
use crate::setup::Setup;
use crate::stop::StopSignal;
use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1::{Builder, Connection};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};

/// The most bytes of a request's head that hyper takes; twice what the service answers.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Time that a connection that was asked to end may stay silent before it is dropped.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a connection may stay silent that has to make room for others.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(500);

/// The settings that hyper serves connections by.
pub(super) fn builder(setup: &Setup) -> Builder {
    let mut http = Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(setup.limits.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    http
}

impl Context {
    /// Serves a connection to its end.
    pub(super) async fn http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Buffering + Unpin + 'static,
        client: &Client,
        activity: &Activity,
        stop: StopSignal,
    ) -> Result<(), Failure> {
        let unread = Arc::default();
        let requests = Rc::new(RefCell::new(self.requests(client)));
        let served = self.serve_http1(stream, client, activity, &unread, &requests, stop);
        let served = served.await;
        requests.borrow_mut().ended(|| client.probe.counters());
        // Whatever hyper refuses to read on in, a request's body or what is no HTTP, lies there unread.
        match served {
            Ok(()) if !unread.load(Ordering::Relaxed) => Ok(()),
            Ok(()) => Ok(drain::drain(&client.stream).await?),
            Err(failure) => {
                self.count_refusal(client, &failure);
                let _ = drain::drain(&client.stream).await;
                Err(failure)
            }
        }
    }

    /// Counts the request that hyper has refused by itself, if it has.
    fn count_refusal(&self, client: &Client, failure: &Failure) {
        let refused = failure.downcast_ref::<hyper::Error>();
        let Some(refused) = refused.filter(|error| error.is_parse()) else {
            return;
        };
        let status = match refused.is_parse_too_large() {
            true => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            false => StatusCode::BAD_REQUEST,
        };
        self.record(client, Incident::of_refusal(status));
        let counters = &self.responder.counters;
        counters.responded(Protocol::Http1, status, HostIndex::OTHERS, None);
    }

    pub(super) fn requests(&self, client: &Client) -> Requests<Infallible> {
        let responder = Rc::clone(&self.responder);
        Requests::new(responder, Protocol::Http1, self.facts(client))
    }

    async fn serve_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Buffering + Unpin + 'static,
        client: &Client,
        activity: &Activity,
        unread: &Arc<AtomicBool>,
        requests: &Rc<RefCell<Requests<Infallible>>>,
        stop: StopSignal,
    ) -> Result<(), Failure> {
        let ends = &Ends::default();
        kernel::limit_unsent(&client.stream, KERNEL_UNSENT_BYTES);
        let ahead = WriteAhead::new(&client.admitted.held());
        let gate = Gate::new(self.listener.scheme, &client.admitted.held());
        let counting = Counting::new(stream, ahead.clone());
        let stream = Gated::new(counting, gate.clone(), activity.clone());
        // Set once the response that opens a tunnel is there, which is the last.
        let opened = &Cell::new(None);
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            if let Some(refusal) = gate.next_refusal() {
                request.extensions_mut().insert(refusal);
                ends.last.set(true);
            }
            activity.engaged(true);
            let now = Now::read();
            let read = || client.probe.counters();
            let version = request.version();
            ends.asked(&request);
            let mut incoming = tunnel::Incoming::of(&mut request);
            let answer = answer(&mut requests.borrow_mut(), request, now, read, |body| {
                let body = RequestBody::http1(body, activity.reading(), Arc::clone(unread));
                incoming.as_mut().map_or(body, tunnel::Incoming::body)
            });
            let requests = Rc::clone(requests);
            let admitted = Rc::clone(&client.admitted);
            let (activity, probe) = (activity.clone(), Rc::clone(&client.probe));
            let (ahead, gate, turns) = (ahead.clone(), gate.clone(), Rc::clone(&self.file_turns));
            async move {
                ends.turn_budget.keep().await;
                let queue_interim = |status, fields: &HeaderMap| gate.queue_interim(status, fields);
                let mut response = activity
                    .asked(finished(answer, &requests, queue_interim))
                    .await;
                gate.discard_interim();
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    let outgoing = std::mem::replace(response.body_mut(), Body::empty());
                    opened.set(incoming.map(|incoming| (incoming, outgoing)));
                    ends.left_open.set(false);
                } else {
                    leave_reason_empty(&mut response);
                    end_if_due(&mut response, version, ends.last.get(), unread);
                }
                ahead.begin();
                let measured = |body| {
                    MeasuredBody::new(body, activity, admitted, ahead, turns, probe, requests)
                };
                Ok::<_, Infallible>(response.map(measured))
            }
        });
        let mut connection = self.http1.serve_connection(TokioIo::new(stream), service);
        let driven = self.drive_http1(&mut connection, ends, client, activity, stop);
        let driven = driven.await;
        self.turns.step().await;
        if let Err(failure) = driven {
            // What is being answered ends as it is: nothing may look like a part of it.
            let rejected = gate.rejection(is_late(&failure));
            if let Some(rejected) = rejected.filter(|_| !activity.is_engaged()) {
                let response = requests.borrow_mut().reject_head(rejected, Now::read());
                let stream = connection.into_parts().io.into_inner();
                // In boxes what few connections come to: each would have room for it all its life.
                let _ = Box::pin(rejected_head::send(stream, response)).await;
            }
            return Err(failure);
        }
        let Some(tunnel) = opened.take() else {
            return Ok(());
        };
        // hyper ends when it has written everything, the response included.
        let parts = connection.into_parts();
        let stream = parts.io.into_inner().into_inner();
        let tunnel = self.tunnel(stream, parts.read_buf, tunnel, client, activity, requests);
        Box::pin(tunnel).await
    }

    /// Runs an HTTP/1.1 connection to its end, or to that of its last request.
    async fn drive_http1<I, S>(
        &self,
        connection: &mut Connection<I, S>,
        ends: &Ends,
        client: &Client,
        activity: &Activity,
        mut stop: StopSignal,
    ) -> Result<(), Failure>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
        S: HttpService<Incoming, ResBody = MeasuredBody> + Unpin,
        S::Error: Into<Failure>,
    {
        let mut connection = Pin::new(connection);
        let mut evicted = false;
        let limits = &self.setup.limits;
        let (idle, (stalled, _)) = (limits.idle_timeout, limits.least_progress());
        tokio::select! {
            biased; // What was asked before the stop is answered.
            end = ends.run(connection.as_mut()) => return Ok(end?),
            () = activity.until_idle(idle, stalled) => {
                if activity.is_engaged() {
                    self.record(client, Incident::SlowClient);
                    // The kernel would keep for minutes what the client doesn't read.
                    kernel::abort_on_close(&client.stream);
                    return Ok(());
                }
            }
            () = activity.left(&client.stream) => return Ok(()),
            () = client.admitted.evicted() => evicted = true,
            () = stop.requested() => {}
        }
        if stop.is_handed_over() && !evicted {
            // Closed now, it would lose the request that may be on its way to us.
            ends.last.set(true);
            tokio::select! {
                end = ends.run(connection.as_mut()) => return Ok(end?),
                () = activity.until_idle(DRAIN_IDLE_TIMEOUT, stalled) => {}
            }
        }
        connection.as_mut().graceful_shutdown();
        let linger = if evicted {
            EVICTION_TIMEOUT
        } else {
            DRAIN_IDLE_TIMEOUT
        };
        tokio::select! {
            end = ends.run(connection) => Ok(end?),
            () = activity.silence(linger) => Ok(()),
        }
    }

    /// Carries the bytes of a tunnel to its end. At a stop it has the server's grace, as running requests have.
    async fn tunnel(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        read: Bytes,
        (incoming, outgoing): (tunnel::Incoming, Body),
        client: &Client,
        activity: &Activity,
        requests: &RefCell<Requests<Infallible>>,
    ) -> Result<(), Failure> {
        activity.engaged(true);
        client.admitted.set_requests(1);
        let sent = |bytes: usize| {
            let now = Instant::now();
            let counters = || client.probe.counters();
            requests.borrow_mut().sent(bytes as u64, now, counters);
        };
        let held = client.admitted.held().holder();
        let relay = Relay::new(stream, read, incoming, outgoing, activity.clone(), held);
        let end = tokio::select! {
            biased;
            end = relay.run(sent) => end,
            () = activity.silence(self.setup.limits.idle_timeout) => {
                self.record(client, Incident::SlowClient);
                kernel::abort_on_close(&client.stream);
                Ok(())
            }
            () = tunnel::vanished(&client.stream) => {
                kernel::abort_on_close(&client.stream);
                Ok(())
            }
            () = client.admitted.evicted() => Ok(()),
        };
        client.admitted.set_requests(0);
        end
    }
}

/// The way of a connection to its end.
#[derive(Default)]
struct Ends {
    turn_budget: TurnBudget,
    /// The next response is to be the connection's last.
    last: Cell<bool>,
    /// A request has asked for another protocol and has not got it. hyper leaves such a connection at its end as it is, for
    /// whoever goes on with it: without TLS' close_notify, and perhaps before all of the last response has left.
    left_open: Cell<bool>,
}

impl Ends {
    /// Notes what a request asks for.
    fn asked<B>(&self, request: &hyper::Request<B>) {
        if tunnel::is_upgradable(request) {
            self.left_open.set(true);
        }
    }

    /// Polls a connection in turns to its end.
    async fn run<I, S>(&self, mut connection: Pin<&mut Connection<I, S>>) -> hyper::Result<()>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
        S: HttpService<Incoming, ResBody = MeasuredBody> + Unpin,
        S::Error: Into<Failure>,
    {
        self.turn_budget.turns(connection.as_mut()).await?;
        match self.left_open.take() {
            // Polled once more it ends the stream as any other.
            true => self.turn_budget.turns(connection).await,
            false => Ok(()),
        }
    }
}

/// Returns true if hyper has waited in vain.
fn is_late(failure: &Failure) -> bool {
    let failed = failure.downcast_ref::<hyper::Error>();
    failed.is_some_and(hyper::Error::is_timeout)
}

/// Leaves the reason of a status that has none empty (RFC 9112 section 4), where hyper would write `<none>`.
fn leave_reason_empty(response: &mut Response<Body>) {
    if response.status().canonical_reason().is_none() {
        let empty = ReasonPhrase::from_static(b"");
        response.extensions_mut().insert(empty);
    }
}

/// Has a response to a request of that version say that it is its connection's last where it is to be, and where it is for another
/// reason: the request's body is `unread`, or the end of the content can be told by that of the connection alone, as HTTP/1.0 has no
/// chunks.
fn end_if_due(response: &mut Response<Body>, version: Version, is_last: bool, unread: &AtomicBool) {
    let is_http10 = version == Version::HTTP_10;
    let is_open = is_http10 && response.body().size_hint().exact().is_none();
    if !is_last && !unread.load(Ordering::Relaxed) && !is_open {
        return;
    }
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    if is_http10 {
        // To one of HTTP/1.1 hyper adds `keep-alive` where the client has asked for that.
        *response.version_mut() = Version::HTTP_10;
    }
}
