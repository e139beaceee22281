//! Requests in, responses out: what the engine's events mean to the server.

use crate::body::Body;
use crate::path_meter::{Counters, Meter};
use crate::worker::Setup;
use altway_http3::{Code, ConnectionHandle, Endpoint, Event, PathStatistics, Received, StreamId};
use altway_path::Transport;
use bytes::Bytes;
use http::{Request, Response, Version};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// All responses that are on their way. Bounded by the engine's limits of connections and of
/// requests on each; a response holds one chunk of its body.
pub(super) struct Responses {
    setup: Arc<Setup>,
    connections: HashMap<ConnectionHandle, Connection>,
}

struct Connection {
    client: IpAddr,
    meter: Meter,
    sending: HashMap<StreamId, Sending>,
}

/// A body that has not been handed over whole.
struct Sending {
    body: Body,
    chunk: Bytes,
    moved: Instant,
}

/// What became of a body when it was handed over as far as it went.
#[derive(PartialEq, Eq)]
enum Sent {
    All,
    Part,
    Failed,
}

impl Responses {
    pub(super) fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            connections: HashMap::new(),
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_empty(&self) -> bool {
        let mut connections = self.connections.values();
        connections.all(|connection| connection.sending.is_empty())
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.connections.keys().copied()
    }

    /// Handles every event that the engine has.
    pub(super) fn answer(&mut self, endpoint: &mut Endpoint) {
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::Connected => self.connected(handle, endpoint),
                Event::Request { stream, head, .. } => {
                    self.request(handle, stream, head, endpoint);
                }
                Event::Readable { stream } => discard(handle, stream, endpoint),
                Event::Writable { stream } => self.go_on(handle, stream, endpoint),
                Event::StreamReset { stream, .. } => self.forget(handle, stream),
                Event::Closed { reason } => {
                    tracing::debug!(?handle, %reason, "connection closed");
                    self.observe(handle, endpoint);
                    self.connections.remove(&handle);
                }
                _ => {}
            }
        }
    }

    /// Gives up responses whose clients have taken nothing of them for the idle time-out.
    pub(super) fn cut_off_stalled(&mut self, endpoint: &mut Endpoint) {
        let limit = self.setup.limits.idle_timeout;
        for (handle, connection) in &mut self.connections {
            connection.sending.retain(|stream, sending| {
                let stalled = sending.moved.elapsed() >= limit;
                if stalled {
                    endpoint.reset_stream(*handle, *stream, Code::H3_REQUEST_CANCELLED);
                }
                !stalled
            });
        }
    }

    fn connected(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let Some(path) = endpoint.path_statistics(handle) else {
            return;
        };
        let client = path.remote.ip().to_canonical();
        let connection = Connection {
            client,
            meter: Meter::new(client, Transport::Quic),
            sending: HashMap::new(),
        };
        self.connections.insert(handle, connection);
    }

    fn request(
        &mut self,
        handle: ConnectionHandle,
        stream: StreamId,
        mut head: Request<()>,
        endpoint: &mut Endpoint,
    ) {
        let Some(connection) = self.connections.get_mut(&handle) else {
            return;
        };
        *head.version_mut() = Version::HTTP_3;
        let response = self.setup.service.respond(connection.client, &head);
        let (parts, body) = response.into_parts();
        let head = Response::from_parts(parts, ());
        let end = body.remaining() == 0;
        if let Err(error) = endpoint.send_response(handle, stream, &head, end) {
            tracing::debug!(?handle, %error, "cannot answer");
            return endpoint.reset_stream(handle, stream, Code::H3_INTERNAL_ERROR);
        }
        if end {
            return self.observe(handle, endpoint);
        }
        let sending = Sending {
            body,
            chunk: Bytes::new(),
            moved: Instant::now(),
        };
        connection.sending.insert(stream, sending);
        self.go_on(handle, stream, endpoint);
    }

    fn go_on(&mut self, handle: ConnectionHandle, stream: StreamId, endpoint: &mut Endpoint) {
        let connection = self.connections.get_mut(&handle);
        let Some(sending) = connection.and_then(|it| it.sending.get_mut(&stream)) else {
            return;
        };
        match sending.hand_over(handle, stream, endpoint) {
            Sent::Part => {}
            Sent::All => {
                self.forget(handle, stream);
                self.observe(handle, endpoint);
            }
            Sent::Failed => {
                self.forget(handle, stream);
                // The promised length can't be kept, and the client must notice.
                endpoint.reset_stream(handle, stream, Code::H3_INTERNAL_ERROR);
            }
        }
    }

    fn forget(&mut self, handle: ConnectionHandle, stream: StreamId) {
        if let Some(connection) = self.connections.get_mut(&handle) {
            connection.sending.remove(&stream);
        }
    }

    fn observe(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        let connection = self.connections.get_mut(&handle);
        let path = endpoint.path_statistics(handle);
        if let Some((connection, path)) = connection.zip(path) {
            let paths = &self.setup.service.paths;
            connection.meter.observe(counters(&path), paths);
        }
    }
}

impl Sending {
    /// Hands over as much as the engine takes.
    fn hand_over(
        &mut self,
        handle: ConnectionHandle,
        stream: StreamId,
        endpoint: &mut Endpoint,
    ) -> Sent {
        loop {
            if self.chunk.is_empty() {
                match self.body.next_chunk() {
                    Ok(chunk) => self.chunk = chunk.unwrap_or_default(),
                    Err(error) => {
                        tracing::error!(%error, "cannot read a file on");
                        return Sent::Failed;
                    }
                }
            }
            let end = self.body.remaining() == 0;
            let before = self.chunk.len();
            if endpoint
                .send_data(handle, stream, &mut self.chunk, end)
                .is_err()
            {
                return Sent::Failed;
            }
            if self.chunk.len() < before {
                self.moved = Instant::now();
            }
            if !self.chunk.is_empty() {
                return Sent::Part;
            }
            if end {
                return Sent::All;
            }
        }
    }
}

/// Files need no request body: the end of an empty one is taken note of, a real one refused.
fn discard(handle: ConnectionHandle, stream: StreamId, endpoint: &mut Endpoint) {
    if let Ok(Received::Data(_)) = endpoint.recv_data(handle, stream) {
        endpoint.stop_reading(handle, stream, Code::H3_NO_ERROR);
    }
}

fn counters(path: &PathStatistics) -> Counters {
    Counters {
        min_rtt: (!path.min_rtt.is_zero()).then_some(path.min_rtt),
        packets_sent: path.packets_sent,
        packets_lost: path.packets_lost,
    }
}
