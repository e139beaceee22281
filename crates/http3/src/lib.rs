//! HTTP/3 over quinn-proto, both roles, sans-IO.
#![warn(clippy::disallowed_methods)]

mod code;
mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod failure;
mod frame;
mod message;
mod meter;
mod qpack;
mod receive;
mod send;
mod settings;
mod statistics;
mod timers;
mod transport;
mod unidirectional;
mod varint;

pub use code::Code;
pub use config::{ClientConfig, Congestion, Limits, ServerConfig, Transport};
pub use endpoint::Endpoint;
pub use error::Error;
pub use event::{
    CloseReason, ConnectionHandle, Datagram, Ecn, Event, Received, StreamId, Transmit,
};
pub use statistics::PathStatistics;
