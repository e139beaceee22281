//! Requests in, responses out: what the engine's events mean to the server.
//!
//! Most requests ask for a file, whole. Those are answered from the worker's cache by fields that
//! are encoded already, without a header map; a repeated request is known by its head's id, without
//! a look-up. All others go to [`Service`](crate::service::Service), as on the other protocols.

use super::Desk;
use crate::access::{AccessLog, Exchange, Line, Protocol};
use crate::body::Body;
use crate::files::Entry;
use crate::tcp::measured::Probe;
use crate::worker::Setup;
use altway_http2::{Code, Event, FieldBlock, Head, HeadId, StreamId, Turn};
use altway_policy::Decision;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use rustc_hash::FxHashMap;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection's path is measured, and its decision taken, at most so often.
const DECISION_AGE: Duration = Duration::from_millis(100);

/// Of a request body that nobody wants, so much is read before the answer comes without the rest.
const MAX_DISCARDED: usize = 64 << 10;

/// What a connection has to answer. Bounded by the engine's limit of concurrent streams.
pub(super) struct Answers {
    setup: Arc<Setup>,
    client: IpAddr,
    probe: Rc<Probe>,
    verdict: Option<Verdict>,
    /// When the path was.
    measured: Option<Instant>,
    /// Since then something was answered.
    answered: bool,
    /// The last request's file.
    memo: Option<(HeadId, Rc<Entry>)>,
    /// And its line in the log.
    line: Option<Logged>,
    sending: FxHashMap<StreamId, Sending>,
    /// Requests whose bodies are still coming.
    discarding: FxHashMap<StreamId, Discarding>,
}

/// The file that a request asks for.
struct Found {
    entry: Rc<Entry>,
    /// The request before it asked for the same.
    again: bool,
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

struct Discarding {
    request: Request<()>,
    bytes: usize,
}

/// A body that has not been handed over whole.
struct Sending {
    source: Source,
    /// What was read of it and not sent.
    chunk: Bytes,
}

enum Source {
    Body(Body),
    File {
        entry: Rc<Entry>,
        /// Of the next chunk.
        offset: u64,
        exchange: Option<Exchange>,
    },
}

impl Answers {
    pub(super) fn new(setup: Arc<Setup>, client: IpAddr, probe: Rc<Probe>) -> Self {
        Self {
            setup,
            client,
            probe,
            verdict: None,
            measured: None,
            answered: false,
            memo: None,
            line: None,
            sending: FxHashMap::default(),
            discarding: FxHashMap::default(),
        }
    }

    /// Handles the engine's next event; false when there is none.
    pub(super) fn next(&mut self, turn: &mut Turn<'_>, input: &mut &[u8], desk: &mut Desk) -> bool {
        let Some(event) = turn.receive(input) else {
            return false;
        };
        match event {
            Event::Request {
                stream,
                head,
                end: true,
            } => match self.file_for(head, desk) {
                Some(found) => {
                    let path = self.path_for_log(&found, head);
                    self.send_file(turn, stream, &found, path, desk);
                }
                None => match head.to_request() {
                    Ok(request) => self.respond(turn, stream, &request, desk),
                    Err(_) => self.refuse(turn, stream, StatusCode::BAD_REQUEST, desk),
                },
            },
            Event::Request { stream, head, .. } => match head.to_request() {
                Ok(request) => {
                    let waiting = Discarding { request, bytes: 0 };
                    self.discarding.insert(stream, waiting);
                }
                Err(_) => self.refuse(turn, stream, StatusCode::BAD_REQUEST, desk),
            },
            Event::RequestTooLarge { stream } => {
                let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                self.refuse(turn, stream, status, desk);
            }
            Event::Data { stream, data, end } => {
                let n = data.len();
                turn.release(stream, n);
                self.discard(turn, stream, n, end, desk);
            }
            Event::Trailers { stream, .. } => self.discard(turn, stream, 0, true, desk),
            Event::StreamReset { stream, .. } => {
                self.sending.remove(&stream);
                self.discarding.remove(&stream);
            }
            Event::Closed { reason } => {
                tracing::debug!(client = %self.client, %reason, "connection closed");
                self.sending.clear();
                self.discarding.clear();
            }
            _ => {}
        }
        true
    }

    /// The client sends nothing more: requests that are not complete never will be.
    pub(super) fn abandon_uploads(&mut self, turn: &mut Turn<'_>) {
        for (stream, _) in self.discarding.drain() {
            turn.reset_stream(stream, Code::CANCEL);
        }
    }

    /// Hands bodies over until the output is full or nothing more can be sent.
    pub(super) fn send_bodies(&mut self, turn: &mut Turn<'_>, desk: &mut Desk, limit: usize) {
        while turn.output_len() < limit {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            self.go_on(turn, stream, desk);
        }
    }

    /// The file of a request that wants one, whole and unconditionally.
    fn file_for(&mut self, head: Head<'_>, desk: &mut Desk) -> Option<Found> {
        if let Some((id, entry)) = &self.memo
            && *id == head.id()
            && entry.is_fresh(desk.now)
        {
            return Some(Found {
                entry: Rc::clone(entry),
                again: true,
            });
        }
        if head.method() != Some(b"GET") || head.fields().any(|(name, _)| changes_answer(name)) {
            return None;
        }
        let files = &self.setup.service.files;
        let entry = desk.files.find(files, head.path()?, desk.now)?;
        self.memo = Some((head.id(), Rc::clone(&entry)));
        Some(Found {
            entry,
            again: false,
        })
    }

    fn send_file(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        found: &Found,
        path: Option<String>,
        desk: &mut Desk,
    ) {
        let verdict = self.verdict(desk);
        let decision = verdict.decision;
        let entry = &found.entry;
        let (fields, common) = (found.fields(), desk.common());
        let end = entry.size == 0;
        let sent = match &verdict.offer {
            Some(offer) => turn.send_response(stream, 200, &[fields, common, &**offer], end),
            None => turn.send_response(stream, 200, &[fields, common], end),
        };
        let small = entry.whole.len();
        // The usual case: it is small, and the windows are open.
        let sent = match sent {
            Ok(()) if small > 0 => turn.send_data(stream, &entry.whole, true),
            sent => sent.map(|()| 0),
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return give_up(turn, stream, &error),
        };
        if sent as u64 == entry.size {
            return self.log(found, path, decision, desk);
        }
        let exchange = path.and_then(|path| self.exchange(&path, decision, sent));
        let source = Source::File {
            entry: Rc::clone(entry),
            offset: small as u64,
            exchange,
        };
        let chunk = entry.whole.slice(sent..);
        self.start(turn, stream, Sending { source, chunk }, desk);
    }

    /// What the log needs of a request beside what is remembered; `None` too if there is no log.
    fn path_for_log(&self, found: &Found, head: Head<'_>) -> Option<String> {
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

    fn respond(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        request: &Request<()>,
        desk: &mut Desk,
    ) {
        self.answered = true;
        let response = self.setup.service.respond(self.client, request);
        self.send(turn, stream, response, desk);
    }

    fn refuse(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        status: StatusCode,
        desk: &mut Desk,
    ) {
        let response = self.setup.service.refuse(self.client, status);
        self.send(turn, stream, response, desk);
    }

    fn send(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        response: Response<Body>,
        desk: &mut Desk,
    ) {
        let (parts, body) = response.into_parts();
        let end = body.remaining() == 0;
        let sent = turn.send_response(stream, parts.status.as_u16(), &parts.headers, end);
        match sent {
            Err(error) => give_up(turn, stream, &error),
            Ok(()) if end => {}
            Ok(()) => {
                let sending = Sending {
                    source: Source::Body(body),
                    chunk: Bytes::new(),
                };
                self.start(turn, stream, sending, desk);
            }
        }
    }

    fn start(&mut self, turn: &mut Turn<'_>, stream: StreamId, sending: Sending, desk: &mut Desk) {
        self.sending.insert(stream, sending);
        self.go_on(turn, stream, desk);
    }

    /// Sends the next frame of a body.
    fn go_on(&mut self, turn: &mut Turn<'_>, stream: StreamId, desk: &mut Desk) {
        let Some(sending) = self.sending.get_mut(&stream) else {
            return;
        };
        match sending.send(turn, stream, desk) {
            Ok(false) => {}
            Ok(true) => {
                self.sending.remove(&stream);
            }
            Err(error) => {
                tracing::error!(%error, "cannot send a body on");
                self.sending.remove(&stream);
                // The promised length can't be kept, and the client must notice.
                turn.reset_stream(stream, Code::INTERNAL_ERROR);
            }
        }
    }

    /// Files need no request body: it is read to its end, or as far as is decent.
    fn discard(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        bytes: usize,
        end: bool,
        desk: &mut Desk,
    ) {
        let Some(discarding) = self.discarding.get_mut(&stream) else {
            return;
        };
        discarding.bytes += bytes;
        if !end && discarding.bytes <= MAX_DISCARDED {
            return;
        }
        if let Some(Discarding { request, .. }) = self.discarding.remove(&stream) {
            self.respond(turn, stream, &request, desk);
        }
    }

    /// To be called when a turn is about to send what it has to say: measures now and then.
    pub(super) fn measure(&mut self, now: Instant) {
        let is_new = |measured: Instant| now.saturating_duration_since(measured) < DECISION_AGE;
        if std::mem::take(&mut self.answered) && !self.measured.is_some_and(is_new) {
            self.probe.observe(&self.setup.service.paths);
            self.measured = Some(now);
            self.verdict = None;
        }
    }

    /// What the policy says.
    fn verdict(&mut self, desk: &mut Desk) -> &Verdict {
        self.answered = true;
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
        let decision = service.decide(self.client);
        let offer = decision
            .zip(service.alternative)
            .and_then(|(decision, port)| desk.offer(decision.alt_svc, port));
        Verdict {
            until: desk.now + DECISION_AGE,
            decision,
            offer,
        }
    }

    /// The log entry of a file that takes more than one frame.
    fn exchange(&self, path: &str, decision: Option<Decision>, sent: usize) -> Option<Exchange> {
        let log: &AccessLog = self.setup.service.log.as_ref()?;
        let request = Request::get(path).version(http::Version::HTTP_2).body(());
        let mut exchange =
            Exchange::begin(log, self.client, &request.ok()?, StatusCode::OK, decision);
        exchange.sent(sent);
        Some(exchange)
    }
}

impl Sending {
    /// Sends one frame, as far as the windows allow; whether it was the last.
    fn send(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        desk: &mut Desk,
    ) -> Result<bool, SendError> {
        if self.chunk.is_empty() {
            self.chunk = self.source.next_chunk(desk)?;
        }
        let end = self.source.is_read();
        let sent = turn.send_data(stream, &self.chunk, end)?;
        self.chunk = self.chunk.slice(sent..);
        self.source.sent(sent);
        Ok(end && self.chunk.is_empty())
    }
}

/// Why a body can't be sent on.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("cannot read it")]
    Read(#[from] io::Error),
    #[error("the stream is gone")]
    Stream(#[from] altway_http2::Error),
}

impl Source {
    fn next_chunk(&mut self, desk: &mut Desk) -> io::Result<Bytes> {
        match self {
            Source::Body(body) => Ok(body.next_chunk()?.unwrap_or_default()),
            Source::File { entry, offset, .. } => {
                let chunk = desk.files.read(entry, *offset)?;
                *offset += chunk.len() as u64;
                Ok(chunk)
            }
        }
    }

    /// Whether the last chunk was the last.
    fn is_read(&self) -> bool {
        match self {
            Source::Body(body) => body.remaining() == 0,
            Source::File { entry, offset, .. } => *offset >= entry.size,
        }
    }

    /// For the log; a body counts by itself.
    fn sent(&mut self, bytes: usize) {
        if let Source::File {
            exchange: Some(exchange),
            ..
        } = self
        {
            exchange.sent(bytes);
        }
    }
}

/// Whether a field can make the answer anything but the whole file: ranges and conditions.
fn changes_answer(name: &[u8]) -> bool {
    name == b"range" || name.starts_with(b"if-")
}

fn give_up(turn: &mut Turn<'_>, stream: StreamId, error: &altway_http2::Error) {
    tracing::debug!(%stream, %error, "cannot answer");
    turn.reset_stream(stream, Code::INTERNAL_ERROR);
}
