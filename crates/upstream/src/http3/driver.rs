//! The task of a connection over HTTP/3: what requests want to the engine, what the engine has to them.

use super::link::{Link, STREAM_WINDOW};
use super::{Failed, Message, NewRequest, Piece, Pieces, Shared};
use crate::backlog::UnreadBytes;
use crate::counters::OpenConnection;
use crate::exchange::Interim;
use crate::response::SHORT;
use crate::retry::{Failure, Sent};
use altway_http3::{Code, Error, Event, Received, StreamId};
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Carries a connection until its handshake is done.
pub(super) async fn complete_handshake(link: &mut Link) -> io::Result<()> {
    let mut is_connected = false;
    loop {
        match link.poll_event() {
            Some(Event::Connected) => is_connected = true,
            Some(Event::Closed { reason }) => return Err(io::Error::other(reason.to_string())),
            Some(_) => {}
            None if is_connected => return Ok(()),
            None => link.turn().await?,
        }
    }
}

pub(super) struct Driver {
    link: Link,
    messages: UnboundedReceiver<Message>,
    shared: Arc<Shared>,
    /// Requests that wait for a stream of the server; as many as the pool's bound lets at most.
    waiting: VecDeque<(u64, Box<NewRequest>)>,
    exchanges: HashMap<u64, Exchange>,
    by_stream: HashMap<StreamId, u64>,
    _open: OpenConnection,
}

/// An exchange whose request was sent.
struct Exchange {
    stream: StreamId,
    /// The beginning of the exchange, until the response's head has come.
    begin: Option<Box<NewRequest>>,
    /// Sender of the content's pieces, from then on and while there is content.
    pieces: Option<mpsc::Sender<Piece>>,
    /// Bytes that may wait for the reader while it has not taken the piece before.
    unread: UnreadBytes,
    /// A piece of the response that there was no room for, and that is not of its content.
    end: Option<Frame<Bytes>>,
    credit: Option<mpsc::Sender<()>>,
    /// The next piece is asked for.
    is_asked: bool,
    /// True if nothing more is sent, for its end has been.
    has_sent_all: bool,
    outgoing: Bytes,
    ending: Ending,
}

/// The end to be sent once `outgoing` is empty.
#[derive(Debug, Default)]
enum Ending {
    #[default]
    Open,
    End,
    Trailers(HeaderMap),
}

impl Driver {
    pub(super) fn new(
        link: Link,
        messages: UnboundedReceiver<Message>,
        shared: Arc<Shared>,
        open: OpenConnection,
    ) -> Self {
        Self {
            link,
            messages,
            shared,
            waiting: VecDeque::new(),
            exchanges: HashMap::new(),
            by_stream: HashMap::new(),
            _open: open,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            while let Some(event) = self.link.poll_event() {
                if let Event::Closed { reason } = event {
                    tracing::debug!("a connection to an upstream over HTTP/3 ended: {reason}");
                    return self.fail_all();
                }
                self.on_event(event);
            }
            if self.link.takes_tunnels() {
                self.shared.takes_tunnels.store(true, Ordering::Relaxed);
            }
            let mut message = tokio::select! {
                biased;
                message = self.messages.recv() => match message {
                    Some(message) => Some(message),
                    // Nobody wants anything any more.
                    None => return,
                },
                turned = self.link.turn() => match turned {
                    Ok(()) => None,
                    Err(error) => {
                        tracing::debug!("a connection to an upstream over HTTP/3 ended: {error}");
                        return self.fail_all();
                    }
                },
            };
            while let Some(next) = message {
                self.on_message(next);
                message = self.messages.try_recv().ok();
            }
        }
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::NewRequest(_, begin) if !begin.may_wait && !self.waiting.is_empty() => {
                begin.give_back();
            }
            Message::NewRequest(number, begin) => {
                self.waiting.push_back((number, begin));
                self.begin();
            }
            Message::Content(number, frame) => {
                let Some(exchange) = self.exchanges.get_mut(&number) else {
                    return;
                };
                exchange.is_asked = false;
                match frame.map(Frame::into_data) {
                    Some(Ok(data)) => exchange.outgoing = data,
                    Some(Err(frame)) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        exchange.ending = Ending::Trailers(trailers);
                    }
                    None => exchange.ending = Ending::End,
                }
                self.send(number);
            }
            Message::Room(number) => self.receive(number),
            Message::Gone(number) => {
                self.waiting.retain(|(waiting, _)| *waiting != number);
                let exchange = self.remove(number);
                // Of one that is over what was sent last may still be on its way.
                if let Some(exchange) = exchange.filter(|it| !it.is_over()) {
                    self.link.cancel(exchange.stream);
                }
            }
        }
    }

    /// Sends requests while the server has streams for them.
    fn begin(&mut self) {
        self.shared.is_full.store(false, Ordering::Relaxed);
        while let Some((number, mut begin)) = self.waiting.pop_front() {
            let (failure, sent) = match self.link.request(&begin.head, begin.credit.is_none()) {
                Ok(stream) => {
                    let mut exchange = Exchange {
                        stream,
                        has_sent_all: begin.credit.is_none(),
                        credit: begin.credit.take(),
                        begin: Some(begin),
                        pieces: None,
                        unread: self.shared.backlog.begin(),
                        end: None,
                        is_asked: false,
                        outgoing: Bytes::new(),
                        ending: Ending::Open,
                    };
                    exchange.ask();
                    self.by_stream.insert(stream, number);
                    self.exchanges.insert(number, exchange);
                    continue;
                }
                Err(Error::StreamsExhausted) => {
                    self.shared.is_full.store(true, Ordering::Relaxed);
                    match begin.may_wait {
                        true => self.waiting.push_front((number, begin)),
                        false => begin.give_back(),
                    }
                    return;
                }
                Err(Error::GoingAway) => (Failure::Unprocessed, Sent::Nothing),
                Err(Error::InvalidMessage { .. } | Error::HeadTooLarge { .. }) => {
                    (Failure::Malformed, Sent::Nothing)
                }
                Err(_) => (Failure::Connection, Sent::Nothing),
            };
            let _ = begin.answer.send(Err(Failed::NoResponse(failure, sent)));
        }
    }

    /// Gives the engine what it takes of a request's content, and asks for more once all of it is taken.
    fn send(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let stream = exchange.stream;
        if !exchange.outgoing.is_empty() {
            let sent = self.link.send(stream, &mut exchange.outgoing, false);
            if sent.is_err() {
                // The server wants no more.
                exchange.stop_sending();
                return;
            }
            if !exchange.outgoing.is_empty() {
                return;
            }
        }
        let sent = match std::mem::take(&mut exchange.ending) {
            Ending::Open => return exchange.ask(),
            Ending::End => self.link.send(stream, &mut Bytes::new(), true),
            Ending::Trailers(fields) => self.link.send_trailers(stream, &fields),
        };
        match sent {
            Ok(()) => exchange.has_sent_all = true,
            Err(error) => tracing::debug!("the end of a request's content was not sent: {error}"),
        }
        exchange.stop_sending();
    }

    /// Gives what the engine has of a response to whoever waits, while there is room.
    fn receive(&mut self, number: u64) {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&number) else {
                return;
            };
            let Some(pieces) = &exchange.pieces else {
                return;
            };
            let place = match pieces.try_reserve() {
                Ok(place) => place,
                // Whoever takes a piece says so; whoever has gone says so, too.
                Err(TrySendError::Full(()) | TrySendError::Closed(())) => {
                    return exchange.unread.set(STREAM_WINDOW as usize);
                }
            };
            exchange.unread.set(0);
            if let Some(trailers) = exchange.end.take() {
                place.send(Ok(Some(trailers)));
                continue;
            }
            match self.link.receive(exchange.stream) {
                Ok(Received::Data(data)) => place.send(Ok(Some(Frame::data(data)))),
                Ok(Received::Trailers(fields)) => exchange.end = Some(Frame::trailers(fields)),
                Ok(Received::Pending) => return,
                Ok(Received::End) => {
                    place.send(Ok(None));
                    exchange.pieces = None;
                    return;
                }
                Err(error) => {
                    place.send(Err(error.into()));
                    exchange.pieces = None;
                    return;
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Informational { stream, head } => {
                let exchange = self.number(stream).and_then(|it| self.exchanges.get(&it));
                if let Some(begin) = exchange.and_then(|it| it.begin.as_ref()) {
                    Interim::pass(begin.interim.as_ref(), &head);
                }
            }
            Event::Response { stream, head, end } => self.on_response(stream, head, end),
            Event::Readable { stream } => {
                if let Some(number) = self.number(stream) {
                    self.receive(number);
                }
            }
            Event::Writable { stream } => {
                if let Some(number) = self.number(stream) {
                    self.send(number);
                }
            }
            Event::SendStopped { stream, .. } => {
                let number = self.number(stream);
                if let Some(exchange) = number.and_then(|it| self.exchanges.get_mut(&it)) {
                    exchange.stop_sending();
                }
            }
            Event::StreamReset { stream, code } => {
                tracing::debug!("a request over HTTP/3 to an upstream was reset: {code}");
                let number = self.number(stream);
                if let Some(exchange) = number.and_then(|it| self.remove(it)) {
                    exchange.fail(failure(code));
                }
            }
            Event::StreamsAvailable => self.begin(),
            Event::GoAway => {
                self.shared.is_going.store(true, Ordering::Relaxed);
                self.begin();
            }
            _ => {}
        }
    }

    fn on_response(&mut self, stream: StreamId, head: Response<()>, end: bool) {
        let Some(number) = self.number(stream) else {
            return;
        };
        let Some(exchange) = self.exchanges.get_mut(&number) else {
            return;
        };
        let Some(begin) = exchange.begin.take() else {
            return;
        };
        let pieces = match end {
            true => (Bytes::new(), None),
            false => exchange.first_pieces(&mut self.link),
        };
        // Else nobody waits, as a message says.
        let _ = begin.answer.send(Ok((head, pieces)));
        self.receive(number);
    }

    fn number(&self, stream: StreamId) -> Option<u64> {
        self.by_stream.get(&stream).copied()
    }

    fn remove(&mut self, number: u64) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&number)?;
        self.by_stream.remove(&exchange.stream);
        Some(exchange)
    }

    /// The connection has ended.
    fn fail_all(mut self) {
        for (_, begin) in self.waiting.drain(..) {
            let failed = Failed::NoResponse(Failure::Connection, Sent::Nothing);
            let _ = begin.answer.send(Err(failed));
        }
        for (_, exchange) in self.exchanges.drain() {
            exchange.fail(Failure::Connection);
        }
    }
}

impl NewRequest {
    /// Tells whoever waits for the response that another connection is needed.
    fn give_back(self) {
        let _ = self.answer.send(Err(Failed::NoStream(Box::new(self.head))));
    }
}

impl Exchange {
    /// Returns whether both ends have sent all.
    fn is_over(&self) -> bool {
        self.has_sent_all && self.begin.is_none() && self.pieces.is_none()
    }

    /// Asks for the next piece of the request's content, once.
    fn ask(&mut self) {
        if !self.is_asked
            && let Some(credit) = &self.credit
        {
            self.is_asked = credit.try_send(()).is_ok();
        }
    }

    /// Takes the content that has come with the head, as far as it is [short](SHORT).
    fn first_pieces(&mut self, link: &mut Link) -> Pieces {
        let mut first = Bytes::new();
        let (pieces, taken) = mpsc::channel(1);
        while first.len() <= SHORT {
            match link.receive(self.stream) {
                Ok(Received::Data(data)) if first.is_empty() => first = data,
                Ok(Received::Data(data)) => first = [first, data].concat().into(),
                Ok(Received::Pending) => break,
                Ok(Received::End) => return (first, None),
                Ok(Received::Trailers(fields)) => {
                    self.end = Some(Frame::trailers(fields));
                    break;
                }
                Err(error) => {
                    let _ = pieces.try_send(Err(error.into()));
                    return (first, Some(taken));
                }
            }
        }
        self.pieces = Some(pieces);
        (first, Some(taken))
    }

    /// Stops sending the request.
    fn stop_sending(&mut self) {
        self.credit = None;
        self.outgoing = Bytes::new();
    }

    /// Tells whoever waits. Content that is cut off is missed where there is no room to say so: no end comes.
    fn fail(self, failure: Failure) {
        if let Some(begin) = self.begin {
            let failed = Failed::NoResponse(failure, Sent::Some);
            let _ = begin.answer.send(Err(failed));
        }
        if let Some(pieces) = self.pieces {
            let _ = pieces.try_send(Err("the upstream broke off".into()));
        }
    }
}

fn failure(code: Code) -> Failure {
    if code == Code::H3_REQUEST_REJECTED {
        // RFC 9114 section 4.1.1: it was not processed.
        Failure::Unprocessed
    } else if [Code::H3_MESSAGE_ERROR, Code::H3_EXCESSIVE_LOAD].contains(&code) {
        // The latter, too: the head is too large for this end.
        Failure::Malformed
    } else {
        Failure::Connection
    }
}
