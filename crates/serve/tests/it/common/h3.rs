//! A blocking HTTP/3 client over the project's own engine.

use super::Running;
use super::TIME_LIMIT;
use altway_http3::{
    ClientConfig, CloseReason, Code, ConnectionHandle, Datagram, Endpoint, Event, Received,
    Sessions, StreamId,
};
use bytes::Bytes;
use http::{Method, Request, Response};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct H3 {
    endpoint: Endpoint,
    connection: ConnectionHandle,
    socket: UdpSocket,
    /// Every datagram that was sent.
    pub(crate) flight: Vec<Vec<u8>>,
}

impl H3 {
    /// Connects; done when the handshake is.
    pub(crate) fn connect(server: &Running) -> Self {
        Self::connect_with(server, server.site.client_tls(&[]))
    }

    pub(crate) fn connect_with(server: &Running, tls: rustls::ClientConfig) -> Self {
        Self::connect_to(server.address, tls)
    }

    pub(crate) fn connect_to(server: SocketAddr, tls: rustls::ClientConfig) -> Self {
        Self::connect_as("localhost", server, tls)
    }

    /// Connects to the server by that name.
    pub(crate) fn connect_as(name: &str, server: SocketAddr, tls: rustls::ClientConfig) -> Self {
        let config = ClientConfig::new(Arc::new(tls));
        let mut client = Self::begin_as(name, server, config);
        client.wait(|event| matches!(event, Event::Connected).then_some(()));
        client
    }

    /// Connects; `None` where the connection ends, or `is_over` before it is there.
    pub(crate) fn connect_unless(
        server: SocketAddr,
        config: ClientConfig,
        is_over: impl Fn() -> bool,
    ) -> Option<Self> {
        let mut client = Self::begin(server, config);
        while !is_over() {
            while let Some((_, event)) = client.endpoint.poll_event() {
                match event {
                    Event::Connected => return Some(client),
                    Event::Closed { .. } => return None,
                    _ => {}
                }
            }
            client.transmit();
            client.receive();
        }
        None
    }

    /// A client that remembers its connections in `sessions`.
    pub(crate) fn visitor(server: &Running, sessions: &Sessions) -> ClientConfig {
        let mut config = ClientConfig::new(Arc::new(server.site.client_tls(&[])));
        config.early_data = Some(sessions.clone());
        config
    }

    /// Connects; done when requests can be sent. Whether that is at once, with the first packets.
    pub(crate) fn visit(server: &Running, visitor: &ClientConfig) -> (Self, bool) {
        let mut client = Self::begin(server.address, visitor.clone());
        let first = client.endpoint.poll_event();
        let early = matches!(first, Some((_, Event::EarlyData)));
        if !early {
            client.wait(|event| matches!(event, Event::Connected).then_some(()));
        }
        (client, early)
    }

    /// Carries datagrams until something holds.
    pub(crate) fn wait_until(&mut self, mut done: impl FnMut() -> bool) {
        let give_up = Instant::now() + TIME_LIMIT;
        while !done() {
            assert!(Instant::now() < give_up, "within the time limit");
            while self.endpoint.poll_event().is_some() {}
            self.transmit();
            self.receive();
        }
    }

    /// Begins to connect; nothing is sent yet.
    pub(crate) fn begin(server: SocketAddr, config: ClientConfig) -> Self {
        Self::begin_as("localhost", server, config)
    }

    fn begin_as(name: &str, server: SocketAddr, mut config: ClientConfig) -> Self {
        config.quic.transport.keep_alive = Some(Duration::from_millis(100));
        let mut endpoint = <Endpoint>::client(&config, [7; 32]).unwrap();
        let connection = endpoint.connect(Instant::now(), server, name, ()).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self {
            endpoint,
            connection,
            socket,
            flight: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, path: &str) -> StreamId {
        self.request(Method::GET, path)
    }

    pub(crate) fn request(&mut self, method: Method, path: &str) -> StreamId {
        let uri = format!("https://localhost{path}");
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(()).unwrap();
        self.endpoint
            .with(self.connection, |it, quic| {
                it.send_request(quic, &request, true)
            })
            .unwrap()
    }

    /// POST with a body; the response is still to be asked for.
    pub(crate) fn post(&mut self, path: &str, body: Vec<u8>) -> StreamId {
        let request = Request::post(format!("https://localhost{path}")).body(());
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, &request.unwrap(), false)
        });
        let (stream, mut body) = (stream.unwrap(), Bytes::from(body));
        loop {
            let sent = self.endpoint.with(self.connection, |it, quic| {
                it.send_data(quic, stream, &mut body, true)
            });
            sent.unwrap();
            if body.is_empty() {
                return stream;
            }
            self.wait(|event| match event {
                Event::Writable { stream: writable } => (writable == stream).then_some(()),
                _ => None,
            });
        }
    }

    /// POST with as much of a body as leaves at once.
    pub(crate) fn begin_post(&mut self, path: &str, body: Vec<u8>) -> StreamId {
        let request = Request::post(format!("https://localhost{path}")).body(());
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, &request.unwrap(), false)
        });
        let (stream, mut body) = (stream.unwrap(), Bytes::from(body));
        let sent = endpoint.with(connection, |it, quic| {
            it.send_data(quic, stream, &mut body, true)
        });
        sent.unwrap();
        stream
    }

    /// POST with as much of a body as leaves at once, without an end.
    pub(crate) fn begin_endless_post(&mut self, path: &str, body: Vec<u8>) -> StreamId {
        self.begin_endless("POST", path, body)
    }

    /// The same with another method.
    pub(crate) fn begin_endless(&mut self, method: &str, path: &str, body: Vec<u8>) -> StreamId {
        let request = Request::builder().method(method);
        let request = request.uri(format!("https://localhost{path}")).body(());
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, &request.unwrap(), false)
        });
        let (stream, mut body) = (stream.unwrap(), Bytes::from(body));
        let sent = endpoint.with(connection, |it, quic| {
            it.send_data(quic, stream, &mut body, false)
        });
        sent.unwrap();
        stream
    }

    /// POST without an end, whose content is sent once it `is_awaited`. Without effect on a connection that is about to end.
    pub(crate) fn post_awaited(
        &mut self,
        path: &str,
        mut content: Bytes,
        is_awaited: impl FnMut() -> bool,
    ) {
        let request = Request::post(format!("https://localhost{path}")).body(());
        let request = request.unwrap();
        let sent = self.endpoint.with(self.connection, |it, quic| {
            it.send_request(quic, &request, false)
        });
        let Ok(stream) = sent else { return };
        self.wait_until(is_awaited);
        let _ = self.endpoint.with(self.connection, |it, quic| {
            it.send_data(quic, stream, &mut content, false)
        });
        self.transmit();
    }

    /// Begins a request whose content is still to be [given](Self::give).
    pub(crate) fn open(&mut self, request: &Request<()>) -> StreamId {
        let opened = self.endpoint.with(self.connection, |it, quic| {
            it.send_request(quic, request, false)
        });
        opened.unwrap()
    }

    /// Sends content as far as it leaves at once, and the end of the request where all of it does.
    pub(crate) fn give(&mut self, stream: StreamId, mut content: Bytes, end: bool) {
        let sent = self.endpoint.with(self.connection, |it, quic| {
            it.send_data(quic, stream, &mut content, end)
        });
        sent.unwrap();
        self.transmit();
    }

    /// Resets a request whose content is not complete, and wants no response.
    pub(crate) fn give_up(&mut self, stream: StreamId) {
        let code = Code::H3_REQUEST_CANCELLED;
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.reset_stream(quic, stream, code);
            it.stop_reading(quic, stream, code);
        }
        self.transmit();
    }

    /// GET, and STOP_SENDING for its response in the same packet; false where no stream is free.
    pub(crate) fn ask_and_stop(&mut self, path: &str) -> bool {
        let uri = format!("https://localhost{path}");
        let request = Request::get(uri).body(()).unwrap();
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let Ok(stream) =
            endpoint.with(connection, |it, quic| it.send_request(quic, &request, true))
        else {
            return false;
        };
        if let Some((it, quic, _)) = endpoint.connection(connection) {
            it.stop_reading(quic, stream, Code::H3_REQUEST_CANCELLED);
        }
        self.transmit();
        true
    }

    /// Wants no more of a response.
    pub(crate) fn stop(&mut self, stream: StreamId) {
        let code = Code::H3_REQUEST_CANCELLED;
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.stop_reading(quic, stream, code);
        }
        self.transmit();
    }

    /// Carries datagrams for a moment.
    pub(crate) fn pump(&mut self) {
        for _ in 0..4 {
            self.transmit();
            self.receive();
        }
    }

    /// Why the connection ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        while let Some((_, event)) = self.endpoint.poll_event() {
            if let Event::Closed { reason } = event {
                return Some(reason.to_string());
            }
        }
        None
    }

    /// The response's head, and whether that is all of it.
    pub(crate) fn head(&mut self, wanted: StreamId) -> (Response<()>, bool) {
        self.wait(|event| match event {
            Event::Response { stream, head, end } if stream == wanted => Some((head, end)),
            _ => None,
        })
    }

    /// The body up to its end.
    pub(crate) fn body(&mut self, stream: StreamId) -> Vec<u8> {
        let mut body = Vec::new();
        while let Some(bytes) = self.part(stream) {
            body.extend_from_slice(&bytes);
        }
        body
    }

    /// The next bytes of the body; `None` at its end.
    pub(crate) fn part(&mut self, stream: StreamId) -> Option<Bytes> {
        self.next_part(stream)
            .unwrap_or_else(|code| panic!("reset: {code}"))
    }

    /// The next bytes of a body that the server gives up; `None` when it has.
    pub(crate) fn part_or_cut_off(&mut self, stream: StreamId) -> Option<Bytes> {
        let part = self.next_part(stream).ok()?;
        Some(part.expect("the body is not complete"))
    }

    fn next_part(&mut self, stream: StreamId) -> Result<Option<Bytes>, Code> {
        loop {
            match self
                .endpoint
                .with(self.connection, |it, quic| it.recv_data(quic, stream))
                .unwrap()
            {
                Received::Data(bytes) => return Ok(Some(bytes)),
                Received::Trailers(fields) => panic!("trailers: {fields:?}"),
                Received::End => return Ok(None),
                Received::Pending => self.wait(|event| match event {
                    Event::Readable { stream: readable } => (readable == stream).then_some(Ok(())),
                    Event::StreamReset { code, .. } => Some(Err(code)),
                    _ => None,
                })?,
            }
        }
    }

    pub(crate) fn get(&mut self, path: &str) -> (Response<()>, Vec<u8>) {
        let stream = self.send(path);
        match self.head(stream) {
            (head, true) => (head, Vec::new()),
            (head, false) => (head, self.body(stream)),
        }
    }

    /// A whole exchange: interim responses, the final one, its body.
    pub(crate) fn ask(
        &mut self,
        request: Request<Bytes>,
    ) -> (Vec<Response<()>>, Response<()>, Vec<u8>) {
        let (head, mut content) = request.into_parts();
        let head = Request::from_parts(head, ());
        let (endpoint, connection) = (&mut self.endpoint, self.connection);
        let stream = endpoint.with(connection, |it, quic| {
            it.send_request(quic, &head, content.is_empty())
        });
        let stream = stream.unwrap();
        let (mut interim, mut head, mut body) = (Vec::new(), None, Vec::new());
        loop {
            // A server that has answered may stop reading.
            while !content.is_empty()
                && let before = content.len()
                && let Ok(()) = self.endpoint.with(connection, |it, quic| {
                    it.send_data(quic, stream, &mut content, true)
                })
                && content.len() < before
            {}
            while head.is_some()
                && let Ok(received) = self
                    .endpoint
                    .with(connection, |it, quic| it.recv_data(quic, stream))
            {
                match received {
                    Received::Data(bytes) => body.extend_from_slice(&bytes),
                    Received::End => return (interim, head.unwrap(), body),
                    Received::Trailers(_) => {}
                    Received::Pending => break,
                }
            }
            match self.exchange(Some) {
                Event::Informational { stream: of, head } if of == stream => interim.push(head),
                Event::Response {
                    stream: of,
                    head: last,
                    end,
                } if of == stream => {
                    if end {
                        return (interim, last, body);
                    }
                    head = Some(last);
                }
                Event::StreamReset {
                    stream: of, code, ..
                } if of == stream => panic!("reset: {code}"),
                Event::Closed { reason } => panic!("closed: {reason}"),
                _ => {}
            }
        }
    }

    /// Waits for the server to give a response up.
    pub(crate) fn cut_off(&mut self, wanted: StreamId) {
        self.wait(|event| match event {
            Event::StreamReset { stream, .. } if stream == wanted => Some(()),
            _ => None,
        });
    }

    /// Goes on from another port, as behind a NAT that has forgotten the former one.
    pub(crate) fn move_away(&mut self) {
        let former = self.socket.local_addr().unwrap();
        self.move_to(Ipv4Addr::LOCALHOST);
        assert_ne!(self.socket.local_addr().unwrap(), former);
    }

    /// Goes on from another address.
    pub(crate) fn move_to(&mut self, address: Ipv4Addr) {
        self.socket = UdpSocket::bind((address, 0)).unwrap();
    }

    /// Sends what there is to send.
    pub(crate) fn flush(&mut self) {
        self.transmit();
    }

    /// Closes the connection.
    pub(crate) fn close(mut self) {
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        self.transmit();
    }

    /// Waits for the end of the connection, and tells why.
    pub(crate) fn closed(&mut self) -> CloseReason {
        self.exchange(|event| match event {
            Event::Closed { reason } => Some(reason),
            _ => None,
        })
    }

    fn wait<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        self.exchange(|event| match event {
            Event::Closed { reason } => panic!("closed: {reason}"),
            event => wanted(event),
        })
    }

    /// Carries datagrams until an event is the wanted one.
    fn exchange<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let give_up = Instant::now() + TIME_LIMIT;
        loop {
            while let Some((_, event)) = self.endpoint.poll_event() {
                if let Some(found) = wanted(event) {
                    self.transmit();
                    return found;
                }
            }
            self.transmit();
            assert!(Instant::now() < give_up, "within the time limit");
            self.receive();
        }
    }

    fn transmit(&mut self) {
        let mut batch = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(Instant::now(), &mut batch) {
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in batch[..transmit.size].chunks(size) {
                self.flight.push(datagram.to_vec());
                // A failure is a loss.
                let _ = self.socket.send_to(datagram, transmit.destination);
            }
        }
    }

    /// Takes what comes from the socket, so that the kernel drops nothing, and hands it to the engine once `done`: nothing
    /// is acknowledged meanwhile.
    pub(crate) fn hold_until(&mut self, done: impl Fn() -> bool) {
        let wait = Some(Duration::from_millis(20));
        self.socket.set_read_timeout(wait).unwrap();
        let (mut held, mut buffer) = (Vec::new(), [0; 65_535]);
        loop {
            let is_last = done();
            while let Ok((size, remote)) = self.socket.recv_from(&mut buffer) {
                held.push((remote, buffer[..size].to_vec()));
            }
            if is_last {
                break;
            }
        }
        for (remote, payload) in held {
            self.handle(remote, &payload);
        }
    }

    fn handle(&mut self, remote: SocketAddr, payload: &[u8]) {
        let datagram = Datagram {
            remote,
            local_ip: None,
            ecn: None,
            payload,
        };
        self.endpoint.handle_datagram(Instant::now(), datagram);
    }

    fn receive(&mut self) {
        let now = Instant::now();
        let due = self.endpoint.poll_timeout();
        let wait = due.map_or(Duration::from_millis(100), |due| {
            due.saturating_duration_since(now)
        });
        let wait = wait.clamp(Duration::from_micros(100), Duration::from_millis(100));
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = [0; 65_535];
        if let Ok((size, remote)) = self.socket.recv_from(&mut buffer) {
            self.handle(remote, &buffer[..size]);
        }
        if due.is_some_and(|due| due <= Instant::now()) {
            self.endpoint.handle_timeout(Instant::now());
        }
    }
}

/// Says goodbye, lest the server wait for acknowledgements.
impl Drop for H3 {
    fn drop(&mut self) {
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, Code::H3_NO_ERROR, b"");
        }
        self.transmit();
    }
}
