//! A blocking client over altway's HTTP/3, which tells more than `altway load` does: bodies, interim
//! responses, trailers; and whose port can change.

use super::Ground;
use crate::common::TIME_LIMIT;
use altway_http3::{
    ClientConfig, Code, ConnectionHandle, Datagram, Endpoint, Event, Received, StreamId, Version,
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that nothing that a test waits for exceeds.
const EXCHANGE_TIMEOUT: Duration = TIME_LIMIT;

/// A connection of our own client.
pub(super) struct Client {
    endpoint: Endpoint,
    connection: ConnectionHandle,
    socket: UdpSocket,
    root: String,
    /// True if the server has said that it goes away.
    pub(super) told_to_go: bool,
}

/// A response, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) interim: Vec<Response<()>>,
    head: Option<Response<()>>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
    is_over: bool,
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.head.as_ref().expect("it is over").status().as_u16()
    }

    /// A field of the head; empty if it is not there.
    pub(super) fn field(&self, name: &str) -> &str {
        let head = self.head.as_ref().expect("it is over");
        let value = head.headers().get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

impl Client {
    /// Connects to a server on the loopback; done when the handshake is.
    pub(super) fn connect(ground: &Ground, port: u16) -> Self {
        Self::connect_by(Version::V1, ground, port)
    }

    /// The same by a version of QUIC.
    pub(super) fn connect_by(version: Version, ground: &Ground, port: u16) -> Self {
        let mut config = ClientConfig::new(Arc::new(trusting(&ground.authority)));
        config.quic.version = version;
        config.quic.transport.keep_alive = Some(Duration::from_millis(100));
        let mut endpoint = <Endpoint>::client(&config, [7; 32]).unwrap();
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connection = endpoint.connect(Instant::now(), server, "localhost", ());
        let mut client = Self {
            endpoint,
            connection: connection.unwrap(),
            socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            root: format!("https://localhost:{port}"),
            told_to_go: false,
        };
        client.wait(|event| matches!(event, Event::Connected).then_some(()));
        client
    }

    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.request(Method::GET, path).expect("an answer")
    }

    /// # Errors
    /// The code with which the exchange was given up.
    pub(super) fn request(&mut self, method: Method, path: &str) -> Result<Answer, Code> {
        let stream = self.send(method, path, true);
        let mut answer = Answer::default();
        while !answer.is_over {
            self.progress(stream, &mut answer)?;
        }
        Ok(answer)
    }

    /// Downloads, and calls `during` whenever more of the body has come.
    pub(super) fn download(
        &mut self,
        path: &str,
        mut during: impl FnMut(&mut Self, usize),
    ) -> Answer {
        let stream = self.send(Method::GET, path, true);
        let mut answer = Answer::default();
        while !answer.is_over {
            self.progress(stream, &mut answer).expect("an answer");
            during(self, answer.body.len());
        }
        answer
    }

    /// Uploads to a path that gives back what comes: the second half once a quarter has come back.
    pub(super) fn echo(&mut self, path: &str, body: &[u8], trailers: &HeaderMap) -> Answer {
        let stream = self.send(Method::POST, path, false);
        let mut answer = Answer::default();
        let (first, second) = body.split_at(body.len() / 2);
        self.send_body(stream, first, &mut answer);
        while answer.body.len() < body.len() / 4 {
            self.progress(stream, &mut answer).expect("an answer");
        }
        self.send_body(stream, second, &mut answer);
        let sent = self.endpoint.with(self.connection, |it, quic| {
            it.send_trailers(quic, stream, trailers)
        });
        sent.unwrap();
        while !answer.is_over {
            self.progress(stream, &mut answer).expect("an answer");
        }
        answer
    }

    /// Goes on from another port, as behind a NAT that has forgotten the former one.
    pub(super) fn move_away(&mut self) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_ne!(
            socket.local_addr().unwrap(),
            self.socket.local_addr().unwrap()
        );
        self.socket = socket;
    }

    fn send(&mut self, method: Method, path: &str, end: bool) -> StreamId {
        let request = Request::builder().method(method);
        let request = request.uri(format!("{}{path}", self.root)).body(());
        let sent = self.endpoint.with(self.connection, |it, quic| {
            it.send_request(quic, &request.unwrap(), end)
        });
        sent.unwrap()
    }

    fn send_body(&mut self, stream: StreamId, body: &[u8], answer: &mut Answer) {
        let mut body = Bytes::copy_from_slice(body);
        loop {
            let sent = self.endpoint.with(self.connection, |it, quic| {
                it.send_data(quic, stream, &mut body, false)
            });
            sent.unwrap();
            if body.is_empty() {
                return;
            }
            self.progress(stream, answer).expect("an answer");
        }
    }

    /// Waits until something happens, and adds to the answer what has come of it.
    fn progress(&mut self, stream: StreamId, answer: &mut Answer) -> Result<(), Code> {
        match self.wait(Some) {
            Event::Informational { head, .. } => answer.interim.push(head),
            Event::Response { head, end, .. } => {
                answer.head = Some(head);
                answer.is_over = end;
            }
            Event::Readable { .. } => self.read(stream, answer),
            Event::GoAway => self.told_to_go = true,
            Event::StreamReset { code, .. } => return Err(code),
            _ => {}
        }
        Ok(())
    }

    fn read(&mut self, stream: StreamId, answer: &mut Answer) {
        loop {
            let received = self
                .endpoint
                .with(self.connection, |it, quic| it.recv_data(quic, stream));
            match received.unwrap() {
                Received::Data(bytes) => answer.body.extend_from_slice(&bytes),
                Received::Trailers(fields) => answer.trailers = fields,
                Received::Pending => return,
                Received::End => {
                    answer.is_over = true;
                    return;
                }
            }
        }
    }

    /// Carries datagrams until an event is the wanted one.
    fn wait<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
        let give_up = Instant::now() + EXCHANGE_TIMEOUT;
        loop {
            while let Some((_, event)) = self.endpoint.poll_event() {
                if let Event::Closed { reason } = event {
                    panic!("closed: {reason}");
                }
                if let Some(found) = wanted(event) {
                    self.transmit();
                    return found;
                }
            }
            self.transmit();
            assert!(Instant::now() < give_up, "within {EXCHANGE_TIMEOUT:?}");
            self.receive();
        }
    }

    fn transmit(&mut self) {
        let mut batch = Vec::new();
        while let Some(transmit) = self.endpoint.poll_transmit(Instant::now(), &mut batch) {
            let size = transmit.segment_size.unwrap_or(transmit.size);
            for datagram in batch[..transmit.size].chunks(size) {
                // A failure is a loss.
                let _ = self.socket.send_to(datagram, transmit.destination);
            }
        }
    }

    fn receive(&mut self) {
        const RANGE: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(100)];
        let due = self.endpoint.poll_timeout();
        let wait = due.map_or(RANGE[1], |due| {
            due.saturating_duration_since(Instant::now())
        });
        let wait = wait.clamp(RANGE[0], RANGE[1]);
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut buffer = [0; 2048];
        if let Ok((size, remote)) = self.socket.recv_from(&mut buffer) {
            let payload = &buffer[..size];
            let datagram = Datagram {
                remote,
                local_ip: None,
                ecn: None,
                payload,
            };
            self.endpoint.handle_datagram(Instant::now(), datagram);
        }
        let now = Instant::now();
        if due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
    }
}

/// Says goodbye, lest the server wait for acknowledgements.
impl Drop for Client {
    fn drop(&mut self) {
        let code = Code::H3_NO_ERROR;
        if let Some((it, quic, _)) = self.endpoint.connection(self.connection) {
            it.close(quic, code, b"");
        }
        self.transmit();
    }
}

fn trusting(authority: &Path) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(authority).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
