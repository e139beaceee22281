//! The server's side of QUIC: all connections on one thread and one socket.

use super::{Loop, MAX_PAYLOAD, drive, listen, seed, transport, udp};
use crate::costs::{Costs, Meter, Path};
use crate::error::{ConnectionFailure, Error};
use crate::options::ServerOptions;
use crate::payload::Payload;
use crate::protocol::{Responder, ServerAction};
use crate::sys::StopHandle;
use altway_quic::{
    ConnectionHandle, Endpoint, Event, QuicConnection, QuicEndpoint, ServerConfig, StreamId,
};
use std::collections::HashMap;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

/// Connections at a time; more are refused. Each may have the engine hold a receive window of
/// datagrams that came out of order.
const MAX_CONNECTIONS: usize = 64;

/// The application error code for a peer that isn't ours.
const NOT_OURS: u64 = 1;

/// All QUIC connections of a server.
pub(crate) struct Server {
    carrier: Loop,
    payload: Payload,
    /// The clients of the connections: [`MAX_CONNECTIONS`] at most.
    clients: HashMap<ConnectionHandle, Client>,
    stop: StopHandle,
}

struct Client {
    /// The first that the client opened; it may open no other.
    stream: Option<StreamId>,
    responder: Responder,
    meter: Option<Meter>,
    /// The most connections that there were at once since the meter began.
    connections: usize,
}

impl Server {
    /// # Errors
    /// The socket, or the engine, can't be set up.
    pub(crate) fn new(
        socket: UdpSocket,
        tls: Arc<rustls::ServerConfig>,
        options: &ServerOptions,
        payload: Payload,
        stop: StopHandle,
    ) -> Result<Self, Error> {
        let setup = |source| Error::Setup {
            what: "a UDP socket",
            source,
        };
        let udp = udp(socket, &options.tuning).map_err(setup)?;
        let seed = seed(tls.crypto_provider())?;
        let mut config = ServerConfig::new(tls);
        // Without a limit of its own it goes as far as the client lets it.
        let mtu = options.tuning.mtu.unwrap_or(MAX_PAYLOAD);
        config.transport = transport(&options.tuning, mtu, &udp, options.silence_timeout);
        config.limits.max_bidirectional_streams = 1;
        config.limits.max_unidirectional_streams = 0;
        config.limits.max_connections = MAX_CONNECTIONS;
        Ok(Self {
            carrier: Loop::new(<Endpoint>::server(&config, seed)?, udp, &options.tuning),
            payload,
            clients: HashMap::new(),
            stop,
        })
    }

    /// Serves until the stop.
    ///
    /// # Errors
    /// The kernel lacks memory.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while self.carrier.turn(Some(&self.stop))? {
            while let Some((handle, event)) = self.carrier.endpoint.poll_event() {
                self.on_event(handle, event);
            }
        }
        Ok(())
    }

    fn on_event(&mut self, handle: ConnectionHandle, event: Event) {
        match event {
            Event::Connected => self.on_connected(handle),
            Event::Opened { stream } => {
                if let Some(client) = self.clients.get_mut(&handle) {
                    client.stream = Some(stream);
                }
                self.serve_connection(handle);
            }
            Event::Readable { .. } | Event::Writable { .. } => self.serve_connection(handle),
            Event::Closed { reason } => {
                tracing::debug!(%reason, "a QUIC connection has ended");
                self.clients.remove(&handle);
            }
            _ => {}
        }
    }

    fn on_connected(&mut self, handle: ConnectionHandle) {
        let client = Client {
            stream: None,
            responder: Responder::new(&self.payload),
            meter: None,
            connections: 0,
        };
        self.clients.insert(handle, client);
        let connections = self.clients.len();
        for client in self.clients.values_mut() {
            client.connections = client.connections.max(connections);
        }
    }

    /// Reads, does what the client asks for, and answers; closes a connection that makes no sense.
    fn serve_connection(&mut self, handle: ConnectionHandle) {
        if let Err(failure) = self.try_to_converse(handle) {
            tracing::debug!(%failure, "a QUIC connection is given up");
            if let Some(connection) = self.carrier.endpoint.connection(handle) {
                connection.close(NOT_OURS, b"not altway raw");
            }
        }
    }

    fn try_to_converse(&mut self, handle: ConnectionHandle) -> Result<(), ConnectionFailure> {
        let connections = self.clients.len();
        let client = self.clients.get_mut(&handle);
        let connection = self.carrier.endpoint.connection(handle);
        let (Some(client), Some(connection)) = (client, connection) else {
            return Ok(());
        };
        let Some(stream) = client.stream else {
            return Ok(());
        };
        listen(connection, stream, &mut client.responder)?;
        match client.responder.take_action() {
            Some(ServerAction::Begin) => {
                client.meter = Some(Meter::begin(self.carrier.calls()));
                client.connections = connections;
            }
            Some(ServerAction::Report) => {
                let path = self.carrier.path(handle);
                let costs = client.costs(&self.carrier, path);
                client.responder.report(&costs.to_text());
            }
            None => {}
        }
        if let Some(connection) = self.carrier.endpoint.connection(handle) {
            drive(connection, stream, &mut client.responder).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Client {
    fn costs(&self, carrier: &Loop, path: Option<Path>) -> Costs {
        let Some(meter) = self.meter else {
            return Costs::default();
        };
        let costs = meter.costs(carrier.calls(), self.responder.moved(), path);
        Costs {
            connections: self.connections as u64,
            ..costs
        }
    }
}
