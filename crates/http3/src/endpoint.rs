//! One UDP socket's worth of HTTP/3 connections.
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;

use crate::{
    ClientConfig, Code, ConnectionHandle, Datagram, Error, Event, PathStatistics, Received,
    ServerConfig, StreamId, Transmit,
};

/// Many connections over one UDP socket, in either role.
pub struct Endpoint {}

macro_rules! face {
    ($($(#[$doc:meta])* fn $name:ident($($arg:tt)*) $(-> $out:ty)?;)*) => {
        impl Endpoint { $($(#[$doc])* #[allow(unused_variables, reason = "declared for callers")] pub fn $name($($arg)*) $(-> $out)? {
            unimplemented!("follows in the next commit")
        })* }
    };
}
face! {
    /// A server.
    fn server(config: ServerConfig, seed: [u8; 32]) -> Result<Self, Error>;
    /// A client.
    fn client(config: ClientConfig, seed: [u8; 32]) -> Result<Self, Error>;
    /// Opens a connection.
    fn connect(&mut self, now: Instant, remote: SocketAddr, server_name: &str) -> Result<ConnectionHandle, Error>;
    /// Takes in one datagram.
    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<'_>);
    /// Runs timers that are due.
    fn handle_timeout(&mut self, now: Instant);
    /// When to call `handle_timeout` at the latest.
    fn poll_timeout(&mut self) -> Option<Instant>;
    /// The next event.
    fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)>;
    /// The next batch of datagrams.
    fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit>;
    /// Sends a request's head.
    fn send_request(&mut self, connection: ConnectionHandle, head: &http::Request<()>, end: bool) -> Result<StreamId, Error>;
    /// Sends a response's head.
    fn send_response(&mut self, connection: ConnectionHandle, stream: StreamId, head: &http::Response<()>, end: bool) -> Result<(), Error>;
    /// Sends body bytes.
    fn send_data(&mut self, connection: ConnectionHandle, stream: StreamId, data: &mut Bytes, end: bool) -> Result<(), Error>;
    /// Reads body bytes.
    fn recv_data(&mut self, connection: ConnectionHandle, stream: StreamId) -> Result<Received, Error>;
    /// Abandons an exchange.
    fn reset_stream(&mut self, connection: ConnectionHandle, stream: StreamId, code: Code);
    /// Wants no more of the peer's body.
    fn stop_reading(&mut self, connection: ConnectionHandle, stream: StreamId, code: Code);
    /// Begins a graceful shutdown.
    fn shutdown(&mut self, now: Instant);
    /// Closes a connection.
    fn close(&mut self, now: Instant, connection: ConnectionHandle, code: Code, reason: &[u8]);
    /// Connections that are not closed.
    fn open_connections(&self) -> usize;
    /// Nothing is left to deliver or acknowledge.
    fn is_idle(&self) -> bool;
    /// A connection's path.
    fn path_statistics(&mut self, connection: ConnectionHandle) -> Option<PathStatistics>;
}
