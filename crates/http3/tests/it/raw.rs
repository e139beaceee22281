//! A peer that speaks QUIC and no HTTP/3: tests write what they like on its streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use altway_http3::{
    ClientConfig, CloseReason, Code, ConnectionHandle, Datagram, Endpoint, Error, Event, Received,
    ServerConfig,
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{ConnectionError, DatagramEvent, Dir, StreamEvent, StreamId, VarInt};

use crate::apps;
use crate::pair::{CLIENT, SERVER};
use crate::tls;

/// A raw peer joined with an endpoint under test, without delay.
pub(crate) struct Raw {
    pub(crate) endpoint: Endpoint,
    /// Events that the endpoint reported to its application, `Closed` left out.
    pub(crate) events: Vec<Event>,
    pub(crate) closed: Option<CloseReason>,
    /// Bytes that `read_all` has read, and the number of ends that it met.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) ended: usize,
    pub(crate) connection: ConnectionHandle,
    pub(crate) quic: quinn_proto::Connection,
    /// Reason for which the endpoint closed the connection, as the raw peer saw it.
    pub(crate) lost: Option<ConnectionError>,
    /// Streams of the raw peer that the endpoint stopped.
    pub(crate) stopped: Vec<(StreamId, VarInt)>,
    raw: quinn_proto::Endpoint,
    handle: quinn_proto::ConnectionHandle,
    under_test_is_server: bool,
    now: Instant,
}

impl Raw {
    /// A raw client against our server.
    pub(crate) fn client() -> Self {
        Self::client_with(|_, _| {})
    }

    /// The same; `change` may set up our server and the raw peer's transport.
    pub(crate) fn client_with(
        change: impl FnOnce(&mut ServerConfig, &mut quinn_proto::TransportConfig),
    ) -> Self {
        let mut server = ServerConfig::new(tls::server());
        server.limits.max_field_section_size = 1000;
        server.limits.max_concurrent_requests = 256;
        let mut transport = quinn_proto::TransportConfig::default();
        change(&mut server, &mut transport);
        Self::client_of(&tls::client(), &server, transport, |_| {})
    }

    /// The same, with what it knows of earlier connections in `tls`; `begin` comes before the first
    /// packet.
    pub(crate) fn client_of(
        tls: &rustls::ClientConfig,
        server: &ServerConfig,
        transport: quinn_proto::TransportConfig,
        begin: impl FnOnce(&mut quinn_proto::Connection),
    ) -> Self {
        let mut peer = Self::silent_client(tls, server, transport, begin);
        peer.run();
        assert!(!peer.quic.is_handshaking());
        peer
    }

    /// The same, before anything is sent.
    pub(crate) fn silent_client(
        tls: &rustls::ClientConfig,
        server: &ServerConfig,
        transport: quinn_proto::TransportConfig,
        begin: impl FnOnce(&mut quinn_proto::Connection),
    ) -> Self {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let mut config = quinn_proto::ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport));
        let mut raw = raw_endpoint(None);
        let now = Instant::now();
        let (handle, mut quic) = raw
            .connect(now, config, SERVER.parse().unwrap(), "localhost")
            .unwrap();
        begin(&mut quic);
        let endpoint = <Endpoint>::server(server, [2; 32]).unwrap();
        let connection = ConnectionHandle(0);
        Self::join(endpoint, connection, raw, handle, quic, true, now)
    }

    /// A raw server against our client.
    pub(crate) fn server() -> Self {
        Self::server_of(&tls::server(), &ClientConfig::new(tls::client()))
    }

    /// The same, with these configurations.
    pub(crate) fn server_of(tls: &rustls::ServerConfig, client: &ClientConfig) -> Self {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let config = quinn_proto::ServerConfig::with_crypto(Arc::new(crypto));
        let mut raw = raw_endpoint(Some(config));
        let now = Instant::now();
        let mut endpoint = <Endpoint>::client(client, [1; 32]).unwrap();
        let connection = endpoint
            .connect(now, SERVER.parse().unwrap(), "localhost", ())
            .unwrap();
        let (mut buf, mut answer) = (Vec::new(), Vec::new());
        endpoint.poll_transmit(now, &mut buf).unwrap();
        let data = BytesMut::from(&buf[..]);
        let event = raw.handle(now, CLIENT.parse().unwrap(), None, None, data, &mut answer);
        let Some(DatagramEvent::NewConnection(incoming)) = event else {
            panic!("no connection")
        };
        let (handle, quic) = raw.accept(incoming, now, &mut answer, None).unwrap();
        let mut peer = Self::join(endpoint, connection, raw, handle, quic, false, now);
        peer.run();
        assert!(!peer.quic.is_handshaking());
        peer
    }

    fn join(
        endpoint: Endpoint,
        connection: ConnectionHandle,
        raw: quinn_proto::Endpoint,
        handle: quinn_proto::ConnectionHandle,
        quic: quinn_proto::Connection,
        under_test_is_server: bool,
        now: Instant,
    ) -> Self {
        Self {
            endpoint,
            events: Vec::new(),
            closed: None,
            body: Vec::new(),
            trailers: None,
            ended: 0,
            connection,
            quic,
            lost: None,
            stopped: Vec::new(),
            raw,
            handle,
            under_test_is_server,
            now,
        }
    }

    /// Opens a unidirectional stream and writes to it.
    pub(crate) fn uni(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.quic.streams().open(Dir::Uni).unwrap();
        self.write(id, bytes);
        id
    }

    /// Opens a bidirectional stream and writes to it.
    pub(crate) fn bi(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.quic.streams().open(Dir::Bi).unwrap();
        self.write(id, bytes);
        id
    }

    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8]) {
        self.write_now(id, bytes);
        self.run();
    }

    /// The same, without time passing.
    pub(crate) fn write_now(&mut self, id: StreamId, bytes: &[u8]) {
        assert_eq!(self.quic.send_stream(id).write(bytes), Ok(bytes.len()));
        self.turns();
    }

    pub(crate) fn finish(&mut self, id: StreamId) {
        self.quic.send_stream(id).finish().unwrap();
        self.run();
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u32) {
        self.quic.send_stream(id).reset(code.into()).unwrap();
        self.run();
    }

    /// Everything that the endpoint sent on a stream, or the code with which it reset it.
    pub(crate) fn read(&mut self, id: StreamId) -> Result<Vec<u8>, VarInt> {
        let mut out = Vec::new();
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return Ok(out);
        };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => out.extend_from_slice(&chunk.bytes),
                Err(quinn_proto::ReadError::Reset(code)) => break Err(code),
                Ok(None) | Err(quinn_proto::ReadError::Blocked) => break Ok(out),
            }
        };
        let _ = chunks.finalize();
        result
    }

    /// Plays the application: reads every body, keeps a reset as an event.
    pub(crate) fn read_all(&mut self) {
        let mut seen = 0;
        while seen < self.events.len() {
            let news = self.events[seen..].iter();
            let streams: Vec<_> = news
                .filter_map(|event| match event {
                    Event::Readable { stream } => Some(*stream),
                    _ => None,
                })
                .collect();
            seen = self.events.len();
            for stream in streams {
                self.read_body(stream);
            }
            self.run();
        }
    }

    fn read_body(&mut self, stream: altway_http3::StreamId) {
        loop {
            match self
                .endpoint
                .with(self.connection, |it, quic| it.recv_data(quic, stream))
            {
                Ok(Received::Data(data)) => self.body.extend_from_slice(&data),
                Ok(Received::Trailers(fields)) => {
                    assert!(self.trailers.replace(fields).is_none());
                }
                Ok(Received::End) => return self.ended += 1,
                Err(Error::StreamReset { code }) => {
                    return self.events.push(Event::StreamReset { stream, code });
                }
                Ok(Received::Pending) | Err(_) => return,
            }
        }
    }

    /// The code of the first reset that the application was told.
    pub(crate) fn reset_code(&self) -> Option<Code> {
        self.events.iter().find_map(|event| match event {
            Event::StreamReset { code, .. } => Some(*code),
            _ => None,
        })
    }

    /// Returns the number of requests that were reported to the application.
    pub(crate) fn requests(&self) -> usize {
        let requests = self.events.iter();
        requests
            .filter(|event| matches!(event, Event::Request { .. }))
            .count()
    }

    /// The stream of the request that the application was told last.
    pub(crate) fn stream_of_request(&self) -> altway_http3::StreamId {
        let mut events = self.events.iter().rev();
        let stream = events.find_map(|event| match event {
            Event::Request { stream, .. } => Some(*stream),
            _ => None,
        });
        stream.unwrap()
    }

    /// The application gives up all requests that it was told, and forgets them.
    pub(crate) fn drop_requests(&mut self) {
        for event in std::mem::take(&mut self.events) {
            if let Event::Request { stream, .. } = event {
                let code = Code::H3_REQUEST_REJECTED;
                if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
                    it.reset_stream(quic, stream, code);
                }
            }
        }
        self.turns();
    }

    /// Exchanges datagrams as long as there are any, without time passing.
    pub(crate) fn turns(&mut self) {
        while self.turn() {}
    }

    /// The application code with which the endpoint closed the connection.
    #[track_caller]
    pub(crate) fn close_code(&self) -> u64 {
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => close.error_code.into_inner(),
            other => panic!("not closed by the application: {other:?}"),
        }
    }

    /// Exchanges datagrams and fires timers for a second of virtual time.
    pub(crate) fn run(&mut self) {
        let end = self.now + Duration::from_secs(1);
        loop {
            self.turns();
            let timers = [self.endpoint.poll_timeout(), self.quic.poll_timeout()];
            match timers.into_iter().flatten().min() {
                Some(next) if next <= end => self.now = next.max(self.now),
                _ => break,
            }
            self.endpoint.handle_timeout(self.now);
            self.quic.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn turn(&mut self) -> bool {
        self.listen();
        self.poll_raw();
        let ours = match self.under_test_is_server {
            true => SERVER,
            false => CLIENT,
        };
        let mut moved = false;
        let mut buf = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(self.now, &mut buf) {
            moved = true;
            for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
                self.deliver_to_raw(ours.parse().unwrap(), payload);
            }
        }
        self.send_raw() || moved
    }

    /// The endpoint's application hears what there is.
    pub(crate) fn listen(&mut self) {
        while let Some((connection, event)) = self.endpoint.poll_event() {
            self.connection = connection;
            match event {
                Event::Closed { reason } => self.closed = Some(reason),
                event => {
                    apps::answer_unheard(&mut self.endpoint, connection, &event);
                    self.events.push(event);
                }
            }
        }
    }

    /// The endpoint takes in what the raw peer has to send.
    pub(crate) fn send_raw(&mut self) -> bool {
        let theirs = match self.under_test_is_server {
            true => CLIENT,
            false => SERVER,
        };
        let mut moved = false;
        let mut buf = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(self.now, 1, &mut buf) {
            moved = true;
            let payload = &buf[..transmit.size];
            let datagram = Datagram {
                remote: theirs.parse().unwrap(),
                local_ip: None,
                ecn: None,
                payload,
            };
            self.endpoint.handle_datagram(self.now, datagram);
            buf.clear();
        }
        moved
    }

    fn deliver_to_raw(&mut self, from: std::net::SocketAddr, payload: &[u8]) {
        let mut answer = Vec::new();
        let data = BytesMut::from(payload);
        match self
            .raw
            .handle(self.now, from, None, None, data, &mut answer)
        {
            Some(DatagramEvent::ConnectionEvent(_, event)) => self.quic.handle_event(event),
            Some(_) => panic!("the raw peer has one connection"),
            None => {}
        }
    }

    fn poll_raw(&mut self) {
        while let Some(event) = self.quic.poll() {
            match event {
                quinn_proto::Event::ConnectionLost { reason } => self.lost = Some(reason),
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    while self.quic.streams().accept(dir).is_some() {}
                }
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stopped.push((id, error_code));
                }
                _ => {}
            }
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.raw.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
    }
}

fn raw_endpoint(server: Option<quinn_proto::ServerConfig>) -> quinn_proto::Endpoint {
    let config = quinn_proto::EndpointConfig::default();
    quinn_proto::Endpoint::new(Arc::new(config), server.map(Arc::new), true, None)
}

/// A frame.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap() | 0x4000;
    [&[kind][..], &len.to_be_bytes(), payload].concat()
}

/// A frame whose type takes four bytes.
pub(crate) fn long_frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap() | 0x4000;
    let kind = kind | 0x8000_0000;
    [&kind.to_be_bytes()[..], &len.to_be_bytes(), payload].concat()
}

/// A field section of literals.
pub(crate) fn section(fields: &[(&str, &str)]) -> Bytes {
    let mut out = vec![0, 0];
    for (name, value) in fields {
        let (name_len, value_len) = (name.len() as u8, value.len() as u8);
        if name_len < 7 {
            out.push(0x20 | name_len);
        } else {
            out.extend_from_slice(&[0x27, name_len - 7]);
        }
        out.extend_from_slice(name.as_bytes());
        assert!(value_len < 127);
        out.push(value_len);
        out.extend_from_slice(value.as_bytes());
    }
    out.into()
}
