//! The record of a response, noted at its end: its duration in the metrics, and its line in the access log. Its end
//! is that of the turn in which it was handed over whole; see [`turn_end`].

use crate::metrics::WorkerCounters;
use crate::request::check::RequestHead;
use crate::request::log::{AccessLog, Line, LoggedHead, LoggedOffer, Protocol};
use crate::request::requests::Requests;
use crate::request::turn_end;
use altway_select::Decision;
use http::StatusCode;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The record of a response that is on its way, which ends when dropped.
#[derive(Debug)]
pub(crate) struct ResponseRecord(Option<OpenRecord>);

/// The record of a response until its duration is known.
#[derive(Debug)]
pub(super) struct OpenRecord {
    counters: Arc<WorkerCounters>,
    protocol: Protocol,
    status: StatusCode,
    /// Time at which the request's head was screened.
    began: Instant,
    is_timed: bool,
    /// The line of the log, in a box, for most servers have no log.
    logged: Option<Box<LoggedResponse>>,
}

/// The part of the log's line that is not in the record.
#[derive(Debug)]
struct LoggedResponse {
    log: AccessLog,
    client: IpAddr,
    head: Arc<LoggedHead>,
    bytes: u64,
    /// The length that the response promises, if it does.
    expected: Option<u64>,
    is_whole: bool,
    logged_offer: Option<LoggedOffer>,
}

impl ResponseRecord {
    fn logged(&mut self) -> Option<&mut LoggedResponse> {
        self.0.as_mut()?.logged.as_deref_mut()
    }

    /// Counts bytes of the body that were handed to the transport. A body of the promised length is whole,
    /// for nobody may ask it for its end.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(logged) = self.logged() {
            logged.bytes += bytes as u64;
            logged.is_whole |= logged.expected == Some(logged.bytes);
        }
    }

    /// The response has come to its end.
    pub(crate) fn completed(&mut self) {
        self.set_whole(true);
    }

    /// Marks a response of which less was handed over than was counted, and no more will be.
    pub(crate) fn cut_off(&mut self) {
        self.set_whole(false);
    }

    /// The metrics do not tell its duration: a tunnel lasts as long as its ends like.
    pub(crate) fn untimed(&mut self) {
        if let Some(open) = &mut self.0 {
            open.is_timed = false;
        }
    }

    fn set_whole(&mut self, is_whole: bool) {
        if let Some(logged) = self.logged() {
            logged.is_whole = is_whole;
        }
    }
}

impl<I> Requests<I> {
    /// The log's words on a request's head; `None` without a log.
    pub(super) fn logged(&self, head: &impl RequestHead) -> Option<Arc<LoggedHead>> {
        self.responder.service.log.as_ref()?;
        let certificate = self.certificate.clone();
        Some(Arc::new(LoggedHead::of(head).with_certificate(certificate)))
    }

    /// The record of a response of that length, if it is known. `began`: when the request's head was screened.
    pub(super) fn new_record(
        &self,
        (head, began): (Option<Arc<LoggedHead>>, Instant),
        status: StatusCode,
        expected: Option<u64>,
        decision: Option<Decision>,
    ) -> ResponseRecord {
        let log = self.responder.service.log.as_ref();
        let logged = log.zip(head).map(|(log, head)| {
            Box::new(LoggedResponse {
                log: log.clone(),
                client: self.client(),
                head,
                bytes: 0,
                expected,
                is_whole: false,
                logged_offer: self.logged_offer(decision),
            })
        });
        ResponseRecord(Some(OpenRecord {
            counters: Arc::clone(&self.responder.counters),
            protocol: self.protocol,
            status,
            began,
            is_timed: true,
            logged,
        }))
    }

    /// The log's words on a decision.
    pub(super) fn logged_offer(&self, decision: Option<Decision>) -> Option<LoggedOffer> {
        let (decision, client) = (decision?, self.observer.client()?);
        Some(LoggedOffer {
            decision,
            key: client.key(),
            class: client.class(),
        })
    }
}

impl OpenRecord {
    /// Counts and logs the response, whose last byte was handed over by `now`.
    pub(super) fn close(self, now: Instant) {
        let duration = now.saturating_duration_since(self.began);
        if self.is_timed {
            let (protocol, status) = (self.protocol, self.status);
            self.counters.timed(protocol, status, duration, 1);
        }
        let Some(logged) = &self.logged else {
            return;
        };
        let line = Line {
            client: logged.client,
            protocol: self.protocol,
            head: &logged.head,
            status: self.status,
            bytes: logged.bytes,
            is_cut: !logged.is_whole,
            logged_offer: logged.logged_offer,
        };
        let text = line.text(logged.log.format());
        logged.log.add(SystemTime::now(), &text, duration);
    }
}

impl Drop for ResponseRecord {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            turn_end::add_record(open);
        }
    }
}
