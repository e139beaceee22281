//! Whole files from the worker's cache: answers whose fields are made already, and a line of the log.
//!
//! A request that repeats the one before on its connection is known by its head's identity, without a
//! check and without a look-up: both were made for the one before.

use crate::files::{AcceptedCodings, Entry, Files, Reading, TargetPath, is_conditional};
use crate::request::body::Body;
use crate::request::check::RequestHead;
use crate::request::content::{Route, Target};
use crate::request::log::{Line, LineText, LoggedHead, LoggedOffer};
use crate::request::record::ResponseRecord;
use crate::request::requests::{AnswerSource, Now, Requests};
use crate::request::turn_end::{self, FileFacts};
use crate::selection::HostIndex;
use altway_select::Decision;
use http::header::STRICT_TRANSPORT_SECURITY;
use http::{Response, StatusCode};
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A file that a request asks for, whole and unconditionally.
pub(crate) struct Prepared {
    pub(crate) entry: Rc<Entry>,
    /// The request before it on the connection asked for the same.
    pub(crate) repeated: bool,
}

/// The latest request of a connection that was answered so.
pub(crate) struct LastPrepared<I> {
    id: Option<I>,
    /// The number of the snapshot by which it was answered.
    snapshot: u64,
    entry: Weak<Entry>,
    pub(super) host: HostIndex,
    /// `None` without a log.
    logged: Option<Arc<LoggedHead>>,
    line: Option<KnownLine>,
}

/// The line in the log of a file that was sent whole.
struct KnownLine {
    logged_offer: Option<LoggedOffer>,
    text: Rc<LineText>,
}

impl<I> Requests<I> {
    /// The file of a request that repeats the latest.
    pub(super) fn find_again<H>(&self, head: &H, now: Now) -> Option<Prepared>
    where
        H: RequestHead<Id = I>,
    {
        let latest = self.latest.as_ref()?;
        let is_same = latest.id.as_ref().is_some_and(|id| head.has_id(id))
            && latest.snapshot == self.responder.snapshot.borrow().number;
        let entry = is_same.then(|| latest.entry.upgrade()).flatten()?;
        entry.is_fresh(now.instant).then_some(Prepared {
            entry,
            repeated: true,
        })
    }

    /// Finds out what answers a request that has passed every check, by the number of its host. `whole`: it has no body.
    pub(super) fn route<H>(
        &mut self,
        head: &H,
        whole: bool,
        host: Result<Option<usize>, StatusCode>,
        now: Now,
    ) -> AnswerSource
    where
        H: RequestHead<Id = I>,
    {
        let snapshot = self.responder.snapshot.borrow();
        let path = head.target().map(TargetPath::of);
        let target = host.and_then(|host| snapshot.content.target(host, path));
        if whole
            && let Some(path) = path
            && let Ok(index) = target
            && let Target::Files(files) = &snapshot.content.targets[index]
            && let Some(entry) = self.find(head, files, path, now)
        {
            self.latest = Some(LastPrepared {
                id: head.id(),
                snapshot: snapshot.number,
                entry: Rc::downgrade(&entry),
                host: self.observer.host(),
                logged: self.logged(head),
                line: None,
            });
            return AnswerSource::Prepared(Prepared {
                entry,
                repeated: false,
            });
        }
        AnswerSource::Service(Route {
            snapshot: Rc::clone(&snapshot),
            target,
        })
    }

    /// The file that a request's path means among `files`, if it can be sent as it is.
    fn find(
        &self,
        head: &impl RequestHead,
        files: &Files,
        path: TargetPath<'_>,
        now: Now,
    ) -> Option<Rc<Entry>> {
        if head.method() != b"GET" || head.fields().any(|(name, _)| is_conditional(name)) {
            return None;
        }
        let mut cache = self.responder.files.borrow_mut();
        let accepted = || {
            let fields = head
                .fields()
                .filter(|(name, _)| *name == b"accept-encoding");
            AcceptedCodings::of(fields.map(|(_, value)| value))
        };
        let entry = cache.find(files, path, accepted, now.instant)?;
        // Its fields are made, and this one must not be among them (RFC 6797 section 7.2).
        let is_forbidden =
            !self.listener_policy.is_secure && entry.has_field(&STRICT_TRANSPORT_SECURITY);
        (!is_forbidden).then_some(entry)
    }

    /// The head of a prepared answer, as it is for a second.
    pub(crate) fn prepared_head(
        &self,
        prepared: &Prepared,
        decision: Option<&Decision>,
        now: Now,
    ) -> Arc<Response<()>> {
        let offered = self.offered(decision);
        let fields = &self.responder.fields;
        prepared.entry.head(now.unix, offered, |headers| {
            fields.borrow_mut().complete(headers, offered, now.unix);
        })
    }

    /// Notes that a prepared answer was sent with `sent` bytes of its body: logs one that was sent whole, and gives the
    /// rest of another.
    pub(crate) fn sent_prepared(
        &mut self,
        prepared: &Prepared,
        decision: Option<&Decision>,
        sent: usize,
        now: Now,
    ) -> Option<(Reading, Option<ResponseRecord>)> {
        self.count(StatusCode::OK, decision, now);
        let entry = &prepared.entry;
        if sent as u64 == entry.size {
            self.end_whole(entry.size, decision, now);
            return None;
        }
        Some((
            entry.reading(sent),
            Some(self.prepared_record(entry.size, decision.copied(), sent, now)),
        ))
    }

    /// A prepared answer for HTTP/1.1.
    pub(crate) fn respond_prepared(&mut self, prepared: &Prepared, now: Now) -> Response<Body> {
        let decision = self.decision(Some(prepared.entry.size), now);
        self.count(StatusCode::OK, decision.as_ref(), now);
        let head = self.prepared_head(prepared, decision.as_ref(), now);
        let body = match prepared.entry.reading(0) {
            Reading::Memory(bytes) => Body::bytes(bytes),
            Reading::Shared(bytes) => Body::shared(bytes),
            Reading::File(range) => Body::file(range),
        };
        let body = body.with_record(self.prepared_record(prepared.entry.size, decision, 0, now));
        (*head).clone().map(|()| body)
    }

    /// Forgets the latest request if it can't come again.
    pub(crate) fn forget_latest_if(&mut self, is_gone: impl Fn(&I) -> bool) {
        self.latest
            .take_if(|latest| latest.id.as_ref().is_none_or(&is_gone));
    }

    /// Ends a file that was sent whole in the turn in which its request was screened.
    fn end_whole(&mut self, size: u64, decision: Option<&Decision>, now: Now) {
        let line = self.whole_line(size, decision);
        let counters = &self.responder.counters;
        let facts = || FileFacts {
            counters: Arc::clone(counters),
            protocol: self.protocol,
            log: self.responder.service.log.clone(),
            began: now.instant,
            system: now.system,
        };
        turn_end::add_file((counters, self.protocol, now.instant), line, facts);
    }

    /// The line in the log of a file that was sent whole. A repeated request has a line already, as long as the
    /// decision is the same.
    fn whole_line(&mut self, size: u64, decision: Option<&Decision>) -> Option<Rc<LineText>> {
        let log = self.responder.service.log.as_ref()?;
        let (client, protocol) = (self.client(), self.protocol);
        let logged_offer = self.logged_offer(decision.copied());
        let latest = self.latest.as_mut()?;
        let head = latest.logged.as_ref()?;
        latest
            .line
            .take_if(|line| line.logged_offer != logged_offer);
        let line = latest.line.get_or_insert_with(|| {
            let line = Line {
                client,
                protocol,
                head,
                status: StatusCode::OK,
                bytes: size,
                is_cut: false,
                logged_offer,
            };
            KnownLine {
                logged_offer,
                text: Rc::new(line.text(log.format())),
            }
        });
        Some(Rc::clone(&line.text))
    }

    /// The record of a file of which `sent` bytes were sent so far.
    fn prepared_record(
        &self,
        size: u64,
        decision: Option<Decision>,
        sent: usize,
        now: Now,
    ) -> ResponseRecord {
        let head = self.latest.as_ref().and_then(|it| it.logged.clone());
        let mut record = self.new_record((head, now.instant), StatusCode::OK, Some(size), decision);
        record.sent(sent);
        record
    }
}
