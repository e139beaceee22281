//! The application above an engine: exchanges, their bodies, and what is promised about them.

use std::collections::BTreeMap;

use altway_http2::{Code, Event, FieldBlock, Fields, Indexing, StreamId, Turn};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use crate::body;
use crate::speech::Role;

/// Bytes of a body that wait to be sent, at most. More would tell nothing new of a small window, and
/// take long.
const MAX_WAITING: usize = 8_000;

/// An application, of either role.
#[derive(Debug)]
pub(crate) struct Application {
    role: Role,
    /// Exchanges in the order in which they began, for good.
    pub(crate) exchanges: BTreeMap<u32, Exchange>,
    /// A request's head was late, after which the connection is of no use.
    pub(crate) must_close: bool,
}

/// A request and its response, as one side sees them.
#[derive(Debug)]
pub(crate) struct Exchange {
    id: StreamId,
    /// True until the exchange is reset or complete.
    alive: bool,
    /// Sent: the head, bytes, everything.
    head: bool,
    pub(crate) sent: usize,
    pub(crate) sent_all: bool,
    /// Bytes that there are to be sent; beside it, true if those are all.
    offered: usize,
    last: bool,
    /// No body may be sent.
    bodiless: bool,
    /// Received: bytes, everything; and what is held of it.
    pub(crate) received: usize,
    pub(crate) received_all: bool,
    held: usize,
}

impl Application {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            exchanges: BTreeMap::new(),
            must_close: false,
        }
    }

    /// Bytes of all bodies that are not released.
    pub(crate) fn held(&self) -> usize {
        self.exchanges.values().map(|exchange| exchange.held).sum()
    }

    /// Selects one of the exchanges that are alive.
    pub(crate) fn nth(&self, nth: u8) -> Option<u32> {
        let alive = || self.exchanges.iter().filter(|(_, exchange)| exchange.alive);
        let nth = usize::from(nth).checked_rem(alive().count())?;
        alive().nth(nth).map(|(id, _)| *id)
    }

    /// Client: sends a request.
    pub(crate) fn request(&mut self, turn: &mut Turn<'_>, shape: u8, fields: u8) {
        let method = [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS];
        let method = &method[usize::from(shape % 4)];
        let has_body = method == Method::POST;
        let promised = (has_body && shape & 4 != 0).then(|| usize::from(fields) * 16);
        let mut request = Request::builder()
            .method(method)
            .uri("https://a.example/path");
        *request.headers_mut().expect("a good request") = headers(shape, fields, promised);
        let request = request.body(()).expect("a good request");
        if let Ok(id) = turn.send_request(&request, None, !has_body) {
            let mut exchange = Exchange::new(id);
            (exchange.head, exchange.sent_all) = (true, !has_body);
            exchange.offer(promised.unwrap_or(0), promised.is_some());
            self.exchanges.insert(id.get(), exchange);
        }
    }

    /// Server: sends the head of a response.
    pub(crate) fn respond(&mut self, turn: &mut Turn<'_>, id: u32, shape: u8, fields: u8) {
        let exchange = self.exchanges.get_mut(&id).expect("it was chosen");
        if exchange.head {
            return;
        }
        let status = [200, 204, 304, 404, 599][usize::from(shape % 5)];
        let bodiless = exchange.bodiless || status == 204 || status == 304;
        let end = bodiless || shape & 0x40 != 0;
        let untouched = exchange.offered == 0 && !exchange.last;
        let promises = !end && untouched && shape & 0x20 != 0;
        let promised = promises.then(|| usize::from(fields) * 16);
        let headers = headers(shape, fields, promised);
        let block = FieldBlock::from_headers(&headers, Indexing::Incremental);
        let blocks = [&block, &block];
        let fields = if shape & 0x10 == 0 {
            Fields::from(&headers)
        } else {
            Fields::from(&blocks[..=usize::from(promised.is_none())])
        };
        let sent = turn.send_response(exchange.id, status, fields, end);
        sent.expect("the exchange is alive");
        (exchange.head, exchange.sent_all) = (true, end);
        exchange.offer(promised.unwrap_or(0), promised.is_some());
        exchange.settle();
    }

    /// Server: sends an interim response.
    pub(crate) fn inform(&mut self, turn: &mut Turn<'_>, id: u32, status: u8) {
        let exchange = &self.exchanges[&id];
        let status = 100 + u16::from(status) % 100;
        if !exchange.head && status != 101 {
            let sent = turn.send_informational(exchange.id, status, &HeaderMap::new());
            sent.expect("the exchange is alive");
        }
    }

    /// Gives more of a body to the exchange to send.
    pub(crate) fn offer(&mut self, turn: &mut Turn<'_>, id: u32, len: usize, last: bool) {
        let exchange = self.exchanges.get_mut(&id).expect("it was chosen");
        exchange.offer(len, last);
        self.send(turn, id);
    }

    /// Ends a body by fields, if all of it is sent that was there.
    pub(crate) fn trailers(&mut self, turn: &mut Turn<'_>, id: u32) {
        let exchange = self.exchanges.get_mut(&id).expect("it was chosen");
        let ready = exchange.head && !exchange.sent_all && exchange.sent == exchange.offered;
        if !ready || (exchange.last && exchange.offered > 0) {
            return;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("t", HeaderValue::from_static("x"));
        let sent = turn.send_trailers(exchange.id, &trailers);
        sent.expect("the exchange is alive");
        exchange.sent_all = true;
        exchange.settle();
    }

    pub(crate) fn reset(&mut self, turn: &mut Turn<'_>, id: u32, code: u8) {
        let exchange = self.exchanges.get_mut(&id).expect("it was chosen");
        // None that accuses the peer.
        let codes = [Code::CANCEL, Code::INTERNAL_ERROR, Code::NO_ERROR];
        turn.reset_stream(exchange.id, codes[usize::from(code) % codes.len()]);
        exchange.alive = false;
    }

    /// Releases up to `len` bytes of a body, be it of an exchange that is long over.
    pub(crate) fn release(&mut self, turn: &mut Turn<'_>, nth: u8, len: usize) {
        let nth = usize::from(nth).checked_rem(self.exchanges.len());
        let exchange = nth.and_then(|nth| self.exchanges.values_mut().nth(nth));
        if let Some(exchange) = exchange {
            let len = len.min(exchange.held);
            exchange.held -= len;
            turn.release(exchange.id, len);
        }
    }

    /// Sends up to so many frames of bodies, by whose turn it is.
    pub(crate) fn pump(&mut self, turn: &mut Turn<'_>, frames: usize) {
        for _ in 0..frames {
            let Some(stream) = turn.next_sendable() else {
                return;
            };
            let exchange = &self.exchanges[&stream.get()];
            let (before, waits) = (exchange.sent, exchange.offered > exchange.sent);
            self.send(turn, stream.get());
            let sent = self.exchanges[&stream.get()].sent - before;
            assert!(sent > 0 || !waits, "named, so it can send");
        }
    }

    /// Says all that there is to say, and takes all that came.
    pub(crate) fn conclude(&mut self, turn: &mut Turn<'_>) {
        let ids: Vec<u32> = self.exchanges.keys().copied().collect();
        for id in ids {
            let exchange = self.exchanges.get_mut(&id).expect("it is there");
            turn.release(exchange.id, std::mem::take(&mut exchange.held));
            if !exchange.alive {
                continue;
            }
            exchange.last = true;
            if self.role == Role::Server && !exchange.head {
                self.respond(turn, id, 0, 0);
            }
            self.send(turn, id);
        }
        self.pump(turn, usize::MAX);
    }

    /// Gives every exchange up.
    pub(crate) fn give_up(&mut self, turn: &mut Turn<'_>) {
        for exchange in self.exchanges.values_mut() {
            turn.release(exchange.id, std::mem::take(&mut exchange.held));
            turn.reset_stream(exchange.id, Code::CANCEL);
            exchange.alive = false;
        }
    }

    /// Takes in an event. Returns the stream whose message it completes.
    pub(crate) fn event(&mut self, event: &Event<'_>) -> Option<u32> {
        let (stream, end) = match event {
            Event::Request { stream, head, end } => {
                let mut exchange = Exchange::new(*stream);
                exchange.bodiless = head.method() == Some(b"HEAD");
                self.begin(exchange);
                (stream, *end)
            }
            Event::RequestTooLarge { stream } => {
                // It may be a HEAD.
                let mut exchange = Exchange::new(*stream);
                exchange.bodiless = true;
                self.begin(exchange);
                (stream, false)
            }
            Event::RequestLate { stream } => {
                let mut exchange = Exchange::new(*stream);
                exchange.bodiless = true;
                exchange.received_all = true;
                self.begin(exchange);
                self.must_close = true;
                return None;
            }
            Event::Response { stream, end, .. } => (stream, *end),
            Event::Data { stream, data, end } => {
                self.take(stream.get(), data);
                (stream, *end)
            }
            Event::Trailers { stream, .. } => (stream, true),
            Event::StreamReset { stream, .. } => {
                self.alive(stream.get()).alive = false;
                return None;
            }
            _ => return None,
        };
        let exchange = self.alive(stream.get());
        assert!(!exchange.received_all, "it goes on after its end");
        exchange.received_all = end;
        exchange.settle();
        end.then_some(stream.get())
    }

    /// The engine is closed.
    pub(crate) fn closed(&mut self) {
        for exchange in self.exchanges.values_mut() {
            exchange.alive = false;
        }
    }

    fn begin(&mut self, exchange: Exchange) {
        let before = self.exchanges.insert(exchange.id.get(), exchange);
        assert!(before.is_none(), "a stream begins twice");
    }

    fn alive(&mut self, id: u32) -> &mut Exchange {
        let exchange = self.exchanges.get_mut(&id);
        let exchange = exchange.filter(|exchange| exchange.alive);
        exchange.expect("events come of exchanges that are alive")
    }

    fn take(&mut self, id: u32, data: &[u8]) {
        let from_server = self.role == Role::Client;
        let exchange = self.alive(id);
        let expected = body::piece(id, from_server, exchange.received, data.len());
        assert_eq!(data, expected, "stream {id} at {}", exchange.received);
        exchange.received += data.len();
        exchange.held += data.len();
    }

    /// Sends of a body what goes out in one frame.
    fn send(&mut self, turn: &mut Turn<'_>, id: u32) {
        let from_server = self.role == Role::Server;
        let exchange = self.exchanges.get_mut(&id).expect("it is there");
        let len = exchange.offered - exchange.sent;
        let can_send = exchange.alive && exchange.head && !exchange.sent_all;
        if !can_send || (len == 0 && !exchange.last) {
            return;
        }
        let piece = body::piece(id, from_server, exchange.sent, len);
        let sent = turn.send_data(exchange.id, &piece, exchange.last);
        let sent = sent.expect("the exchange is alive");
        exchange.sent += sent;
        exchange.sent_all = exchange.last && sent == len;
        exchange.settle();
    }
}

impl Exchange {
    fn new(id: StreamId) -> Self {
        Self {
            id,
            alive: true,
            head: false,
            sent: 0,
            sent_all: false,
            offered: 0,
            last: false,
            bodiless: false,
            received: 0,
            received_all: false,
            held: 0,
        }
    }

    fn offer(&mut self, len: usize, last: bool) {
        if !self.last {
            self.offered = (self.offered + len).min(self.sent + MAX_WAITING);
            self.last = last;
        }
    }

    /// Ends the exchange when both have sent all. A request that outlives its response is reset by
    /// the engine later.
    fn settle(&mut self) {
        if self.sent_all && self.received_all {
            self.alive = false;
        }
    }
}

/// Some fields, up to 32 KB of them, which come again or don't.
fn headers(shape: u8, fields: u8, promised: Option<usize>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(promised) = promised {
        headers.insert("content-length", promised.into());
        return headers;
    }
    let names = ["x-a", "x-b", "priority", "set-cookie", "server", "x-c"];
    let name = HeaderName::from_static(names[usize::from(fields) % names.len()]);
    // A block of many frames takes long, so few are.
    let unit = if shape & 8 != 0 && fields > 250 {
        130
    } else {
        2
    };
    let value = [b'a' + fields % 26].repeat(usize::from(fields) * unit);
    let mut value = HeaderValue::from_bytes(&value).expect("letters");
    value.set_sensitive(fields % 7 == 3);
    headers.insert(name, value);
    headers
}
