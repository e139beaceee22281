//! The engine that these tests run over: what they know of it is its two traits.

pub(crate) use altway_quic::{QuicConnection, QuicEndpoint};

pub(crate) type Endpoint = altway_quic::Endpoint;
pub(crate) type Connection = <Endpoint as QuicEndpoint>::Connection;
