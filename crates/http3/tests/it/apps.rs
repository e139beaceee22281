//! Two small applications: a server of made-up files and a client that fetches.

use std::collections::{BTreeMap, HashMap};

use altway_http3::{
    Code, ConnectionHandle, EarlyData, Endpoint, Error, Event, Protocol, Received, StreamId,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};

/// `len` bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Bytes {
    (0..len)
        .map(|i| (i.wrapping_mul(31) >> 3).to_le_bytes()[0])
        .collect::<Vec<_>>()
        .into()
}

pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(format!("https://localhost{path}"))
        .body(())
        .unwrap()
}

pub(crate) fn post(path: &str) -> Request<()> {
    Request::post(format!("https://localhost{path}"))
        .body(())
        .unwrap()
}

/// Result of one fetch.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    pub(crate) interim: Vec<StatusCode>,
    pub(crate) head: Option<Response<()>>,
    pub(crate) body: Vec<u8>,
    pub(crate) done: bool,
    pub(crate) reset: Option<Code>,
    pub(crate) stopped: Option<Code>,
    pub(crate) trailers: Option<HeaderMap>,
    upload: Bytes,
    upload_trailers: Option<HeaderMap>,
}

/// The client's application.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) fetches: BTreeMap<StreamId, Fetch>,
    /// Fetches in the order in which they were done.
    pub(crate) order: Vec<StreamId>,
    pub(crate) streams_available: bool,
    /// Bodies are left unread.
    pub(crate) lazy: bool,
}

impl Client {
    pub(crate) fn start(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionHandle,
        head: &Request<()>,
        body: Bytes,
    ) -> Result<StreamId, Error> {
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, head, body.is_empty())
        })?;
        self.fetches.insert(
            stream,
            Fetch {
                upload: body,
                ..Fetch::default()
            },
        );
        self.write(endpoint, connection, stream);
        Ok(stream)
    }

    pub(crate) fn on_event(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionHandle,
        event: Event,
    ) {
        match event {
            Event::Informational { stream, head } => {
                self.fetches
                    .get_mut(&stream)
                    .unwrap()
                    .interim
                    .push(head.status());
            }
            Event::Response { stream, head, end } => {
                let fetch = self.fetches.get_mut(&stream).unwrap();
                assert!(fetch.head.replace(head).is_none());
                fetch.done = end;
                if end {
                    self.order.push(stream);
                }
            }
            Event::Readable { stream } if !self.lazy => self.read(endpoint, connection, stream),
            Event::Readable { .. } => {}
            Event::Writable { stream } => self.write(endpoint, connection, stream),
            Event::StreamReset { stream, code } => {
                let fetch = self.fetches.get_mut(&stream).unwrap();
                assert!(fetch.reset.replace(code).is_none());
            }
            Event::SendStopped { stream, code } => {
                self.fetches.get_mut(&stream).unwrap().stopped = Some(code);
            }
            Event::StreamsAvailable => self.streams_available = true,
            Event::Stalled { .. } => {}
            other => panic!("unexpected on a client: {other:?}"),
        }
    }

    pub(crate) fn read(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionHandle,
        stream: StreamId,
    ) {
        let fetch = self.fetches.get_mut(&stream).unwrap();
        loop {
            match endpoint.with(connection, |it, quic| it.recv_data(quic, stream)) {
                Ok(Received::Data(data)) => {
                    assert!(fetch.trailers.is_none());
                    fetch.body.extend_from_slice(&data);
                }
                Ok(Received::Trailers(fields)) => {
                    assert!(!fetch.done);
                    assert!(fetch.trailers.replace(fields).is_none());
                }
                Ok(Received::Pending) => return,
                Ok(Received::End) => {
                    assert!(!fetch.done);
                    fetch.done = true;
                    self.order.push(stream);
                    return;
                }
                Err(Error::StreamReset { code }) => {
                    fetch.reset = Some(code);
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn all_done(&self) -> bool {
        self.fetches
            .values()
            .all(|fetch| fetch.done || fetch.reset.is_some())
    }

    /// A request whose head is sent goes on with these; [`write`](Self::write) begins.
    pub(crate) fn upload(&mut self, stream: StreamId, body: Bytes, trailers: HeaderMap) {
        let fetch = Fetch {
            upload: body,
            upload_trailers: Some(trailers),
            ..Fetch::default()
        };
        self.fetches.insert(stream, fetch);
    }

    pub(crate) fn write(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionHandle,
        stream: StreamId,
    ) {
        let fetch = self.fetches.get_mut(&stream).unwrap();
        if !fetch.upload.is_empty() {
            let end = fetch.upload_trailers.is_none();
            match endpoint.with(connection, |it, quic| {
                it.send_data(quic, stream, &mut fetch.upload, end)
            }) {
                Ok(()) | Err(Error::UnknownStream) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if fetch.upload.is_empty()
            && let Some(trailers) = fetch.upload_trailers.take()
        {
            endpoint
                .with(connection, |it, quic| {
                    it.send_trailers(quic, stream, &trailers)
                })
                .unwrap();
        }
    }
}

/// A request in progress on the server.
struct Work {
    path: String,
    method: Method,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    answer: Bytes,
    done: bool,
}

/// Answers a request whose head was not heard, if the event tells of one.
pub(crate) fn answer_unheard(endpoint: &mut Endpoint, connection: ConnectionHandle, event: &Event) {
    let (stream, status) = match event {
        Event::RequestTooLarge { stream } => (*stream, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        Event::RequestLate { stream } => (*stream, StatusCode::REQUEST_TIMEOUT),
        _ => return,
    };
    let mut head = Response::new(());
    *head.status_mut() = status;
    let answered = endpoint.with(connection, |it, quic| {
        it.send_response(quic, stream, &head, true)
    });
    answered.unwrap();
}

/// The server's application: `/bytes/N` gives N bytes, `/echo` the request's body and trailers,
/// `/early` an answer without a look at the body, `/hints` an interim response first, `/hang` never answers,
/// `/abort` resets, `/trickle` gives a head and no more; anything else is 204.
#[derive(Default)]
pub(crate) struct Server {
    work: HashMap<(ConnectionHandle, StreamId), Work>,
    pub(crate) requests: u64,
    /// Number of these that were marked as early.
    pub(crate) early_requests: u64,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) resets: Vec<Code>,
    /// Number of malformed requests that the application was told of as such.
    pub(crate) malformed: u64,
    /// Number of times that nothing was left to acknowledge.
    pub(crate) delivered: u64,
    /// Number of times that nothing was left to acknowledge of what had ended, while something was in progress.
    pub(crate) watched: u64,
    /// True if the server asks to be told of that with each response that ends.
    pub(crate) watches: bool,
    /// Request bodies are left unread.
    pub(crate) lazy: bool,
    pub(crate) received: u64,
}

impl Server {
    pub(crate) fn on_event(
        &mut self,
        endpoint: &mut Endpoint,
        connection: ConnectionHandle,
        event: Event,
    ) {
        match event {
            Event::Request { stream, head, end } => {
                self.requests += 1;
                let early = head.extensions().get::<EarlyData>().is_some();
                self.early_requests += u64::from(early);
                self.protocols.extend(head.extensions().get().cloned());
                let work = Work {
                    path: head.uri().path().to_owned(),
                    method: head.method().clone(),
                    body: Vec::new(),
                    trailers: None,
                    answer: Bytes::new(),
                    done: false,
                };
                self.work.insert((connection, stream), work);
                if end || head.uri().path() == "/early" {
                    self.answer(endpoint, connection, stream);
                }
            }
            Event::Readable { stream } => self.read(endpoint, connection, stream),
            Event::Writable { stream } => self.write(endpoint, connection, stream),
            Event::StreamReset { stream, code } => {
                self.work.remove(&(connection, stream));
                self.resets.push(code);
            }
            Event::RequestTooLarge { .. } | Event::RequestLate { .. } => {
                answer_unheard(endpoint, connection, &event);
            }
            Event::RequestMalformed => self.malformed += 1,
            Event::GoAway | Event::Answered { .. } | Event::Stalled { .. } => {}
            Event::Delivered { in_progress: false } => self.delivered += 1,
            Event::Delivered { in_progress: true } => self.watched += 1,
            other => panic!("unexpected on a server: {other:?}"),
        }
    }

    fn read(&mut self, endpoint: &mut Endpoint, connection: ConnectionHandle, stream: StreamId) {
        let Some(work) = self.work.get_mut(&(connection, stream)) else {
            return;
        };
        if self.lazy || work.done {
            return;
        }
        loop {
            match endpoint.with(connection, |it, quic| it.recv_data(quic, stream)) {
                Ok(Received::Data(data)) => {
                    self.received += data.len() as u64;
                    work.body.extend_from_slice(&data);
                }
                Ok(Received::Trailers(fields)) => work.trailers = Some(fields),
                Ok(Received::Pending) => return,
                Ok(Received::End) => return self.answer(endpoint, connection, stream),
                Err(Error::StreamReset { code }) => {
                    self.work.remove(&(connection, stream));
                    self.resets.push(code);
                    return;
                }
                Err(Error::UnknownConnection) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn answer(&mut self, endpoint: &mut Endpoint, connection: ConnectionHandle, stream: StreamId) {
        let work = self.work.get_mut(&(connection, stream)).unwrap();
        work.done = true;
        let mut head = Response::new(());
        match work.path.as_str() {
            "/hang" => return,
            "/abort" => {
                if let Some((it, quic, _)) = endpoint.connection(connection) {
                    it.reset_stream(quic, stream, Code::H3_INTERNAL_ERROR);
                }
                return;
            }
            "/trickle" => {
                endpoint
                    .with(connection, |it, quic| {
                        it.send_response(quic, stream, &head, false)
                    })
                    .unwrap();
                return;
            }
            "/hints" => {
                *head.status_mut() = StatusCode::EARLY_HINTS;
                endpoint
                    .with(connection, |it, quic| {
                        it.send_response(quic, stream, &head, false)
                    })
                    .unwrap();
                *head.status_mut() = StatusCode::OK;
                work.answer = pattern(10);
            }
            "/echo" => work.answer = std::mem::take(&mut work.body).into(),
            "/early" => {
                if let Some((it, quic, _)) = endpoint.connection(connection) {
                    it.stop_reading(quic, stream, Code::H3_NO_ERROR);
                }
            }
            path => match path.strip_prefix("/bytes/") {
                Some(len) => work.answer = pattern(len.parse().unwrap()),
                None => *head.status_mut() = StatusCode::NO_CONTENT,
            },
        }
        head.headers_mut()
            .insert("content-length", work.answer.len().into());
        if work.method == Method::HEAD {
            work.answer = Bytes::new();
        }
        let end = work.answer.is_empty() && work.trailers.is_none();
        endpoint
            .with(connection, |it, quic| {
                it.send_response(quic, stream, &head, end)
            })
            .unwrap();
        self.write(endpoint, connection, stream);
    }

    fn write(&mut self, endpoint: &mut Endpoint, connection: ConnectionHandle, stream: StreamId) {
        let Some(work) = self.work.get_mut(&(connection, stream)) else {
            return;
        };
        if !work.answer.is_empty() {
            let end = work.trailers.is_none();
            endpoint
                .with(connection, |it, quic| {
                    it.send_data(quic, stream, &mut work.answer, end)
                })
                .unwrap();
        }
        if work.answer.is_empty() {
            if let Some(trailers) = work.trailers.take() {
                endpoint
                    .with(connection, |it, quic| {
                        it.send_trailers(quic, stream, &trailers)
                    })
                    .unwrap();
            }
            self.work.remove(&(connection, stream));
            if self.watches
                && let Some((it, _, _)) = endpoint.connection(connection)
            {
                it.watch_delivery();
            }
        }
    }
}
