//! Whole files from the worker's cache: answered in place, by fields that are encoded already,
//! without a header map. A repeated request is known by its head's id, without a look-up.

use super::outgoing::OutgoingFile;
use super::{DECISION_AGE, Outgoing};
use crate::access::{Asked, Exchange, Line, Protocol};
use crate::files::{Entry, is_conditional};
use crate::tcp::h2::Desk;
use crate::tcp::measured::Probe;
use crate::worker::Setup;
use altway_http2::{Code, FieldBlock, Head, HeadId, StreamId, Turn};
use altway_policy::Decision;
use http::{Method, StatusCode, Uri};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// What one connection remembers to answer requests for files quickly.
pub(super) struct ShortCut {
    setup: Arc<Setup>,
    client: IpAddr,
    probe: Rc<Probe>,
    verdict: Option<Verdict>,
    /// The last request's file, as long as the cache has it.
    memo: Option<(HeadId, Weak<Entry>)>,
    /// And its line in the log.
    line: Option<Logged>,
}

/// The file that a request asks for.
pub(super) struct Found {
    entry: Rc<Entry>,
    /// The request before it asked for the same.
    again: bool,
}

/// What the policy says of the client's path.
struct Verdict {
    /// Until when it stands.
    until: Instant,
    decision: Option<Decision>,
    offer: Option<Rc<FieldBlock>>,
}

/// What was logged last.
struct Logged {
    /// The file's number.
    entry: u64,
    path: String,
    decision: Option<Decision>,
    text: String,
}

impl Found {
    fn fields(&self) -> &FieldBlock {
        if self.again {
            &self.entry.repeated
        } else {
            &self.entry.fields
        }
    }
}

impl ShortCut {
    pub(super) fn new(setup: Arc<Setup>, client: IpAddr, probe: Rc<Probe>) -> Self {
        Self {
            setup,
            client,
            probe,
            verdict: None,
            memo: None,
            line: None,
        }
    }

    /// The file of a request that wants one, whole and unconditionally.
    pub(super) fn find(&mut self, head: Head<'_>, desk: &Desk) -> Option<Found> {
        if let Some((id, entry)) = &self.memo
            && *id == head.id()
            && let Some(entry) = entry.upgrade()
            && entry.is_fresh(desk.now)
        {
            return Some(Found { entry, again: true });
        }
        let files = self.setup.service.files()?;
        if head.refusal().is_some() {
            return None;
        }
        if head.method() != Some(b"GET") || head.fields().any(|(name, _)| is_conditional(name)) {
            return None;
        }
        let mut cache = desk.files.borrow_mut();
        let entry = cache.find(files, head.path()?, desk.now)?;
        self.memo = Some((head.id(), Rc::downgrade(&entry)));
        Some(Found {
            entry,
            again: false,
        })
    }

    /// Answers, with the log's `path`; what doesn't fit into one frame, or not into the windows, is given back.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        found: &Found,
        path: Option<String>,
        desk: &mut Desk,
    ) -> Option<Outgoing> {
        let verdict = self.verdict(desk);
        let decision = verdict.decision;
        let entry = &found.entry;
        let (fields, common) = (found.fields(), desk.common());
        let end = entry.size == 0;
        let sent = match &verdict.offer {
            Some(offer) => turn.send_response(stream, 200, &[fields, common, &**offer], end),
            None => turn.send_response(stream, 200, &[fields, common], end),
        };
        // The usual case: it is small, and the windows are open.
        let sent = match (sent, entry.whole()) {
            (Ok(()), Some(whole)) if !end => turn.send_data(stream, whole, true),
            (sent, _) => sent.map(|()| 0),
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                tracing::debug!(%stream, %error, "cannot answer");
                turn.reset_stream(stream, Code::INTERNAL_ERROR);
                return None;
            }
        };
        if sent as u64 == entry.size {
            self.log(found, path, decision, desk);
            return None;
        }
        Some(Outgoing::File(OutgoingFile {
            reading: entry.reading(sent),
            exchange: path.and_then(|path| self.exchange(&path, decision, sent)),
        }))
    }

    /// The path has been measured: what the policy said may be out of date.
    pub(super) fn decide_anew(&mut self) {
        self.verdict = None;
    }

    /// What the policy says.
    fn verdict(&mut self, desk: &mut Desk) -> &Verdict {
        let now = desk.now;
        if self
            .verdict
            .as_ref()
            .is_none_or(|verdict| verdict.until <= now)
        {
            self.verdict = Some(self.decide(desk));
        }
        self.verdict.as_ref().expect("set above")
    }

    fn decide(&self, desk: &mut Desk) -> Verdict {
        let service = &self.setup.service;
        let decision = service.decide(self.client, self.probe.own());
        let offer = decision
            .zip(service.alternative)
            .and_then(|(decision, port)| desk.offer(decision.alt_svc, port));
        Verdict {
            until: desk.now + DECISION_AGE,
            decision,
            offer,
        }
    }

    /// What the log needs of a request beside what is remembered; `None` too if there is no log.
    pub(super) fn path_for_log(&self, found: &Found, head: Head<'_>) -> Option<String> {
        self.setup.service.log.as_ref()?;
        let line = self.line.as_ref();
        if found.again && line.is_some_and(|line| line.entry == found.entry.number) {
            return None;
        }
        let path = head.path()?.split(|byte| *byte == b'?').next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    /// Logs a file that was sent whole. A repeated request has a line already, as long as the
    /// decision is the same.
    fn log(
        &mut self,
        found: &Found,
        path: Option<String>,
        decision: Option<Decision>,
        desk: &Desk,
    ) {
        let Some(log) = &self.setup.service.log else {
            return;
        };
        let path = match (path, self.line.take()) {
            (Some(path), _) => path,
            (None, Some(line)) if line.decision == decision => {
                log.add(desk.time, line.text.as_bytes());
                self.line = Some(line);
                return;
            }
            (None, Some(line)) => line.path,
            (None, None) => return,
        };
        let line = Line {
            client: self.client,
            protocol: Protocol::Http2,
            method: "GET",
            path: &path,
            status: 200,
            bytes: found.entry.size,
            decision,
        };
        let text = line.text();
        log.add(desk.time, text.as_bytes());
        self.line = Some(Logged {
            entry: found.entry.number,
            path,
            decision,
            text,
        });
    }

    /// The log entry of a file that takes more than one frame.
    fn exchange(&self, path: &str, decision: Option<Decision>, sent: usize) -> Option<Exchange> {
        let log = self.setup.service.log.as_ref()?;
        let asked = Asked {
            client: self.client,
            protocol: Protocol::Http2,
            method: Method::GET,
            target: Uri::try_from(path).ok()?,
        };
        let mut exchange = Exchange::begin(log, asked, StatusCode::OK, decision);
        exchange.sent(sent);
        Some(exchange)
    }
}
