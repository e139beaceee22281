//! HTTP/3 (RFC 9114) over `altway-quic`, for servers and clients, sans-IO.
//!
//! A [`Connection`] runs over a QUIC connection of any type that is a [`QuicConnection`], which each call borrows: events of
//! QUIC and the time go in; [`Event`]s come out. An [`Endpoint`] holds all connections of one UDP socket.
//! Neither opens a socket nor reads a clock, so that both run in virtual time as they run on a network.
//!
//! The caller's loop: hand over an event of QUIC's, or call what the application wants; take
//! [events](Connection::poll_event) until there is none; [`flush`](Connection::flush); have QUIC's endpoint make
//! datagrams; arm a timer; repeat.
//!
//! The crate has frames, QPACK (RFC 9204), the rules for messages and for streams, priorities (RFC 9218),
//! extended CONNECT (RFC 9220), early data on request ([`Event::EarlyData`]), limits against hostile
//! peers ([`Limits`]) and graceful shutdown. Sockets with their offloads, the TLS configuration and the
//! answers to requests are the caller's. There is no server push, and datagrams (RFC 9297) are not offered.
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! use altway_http3::quic::{self, QuicEndpoint};
//! use altway_http3::{ClientConfig, Connection, Datagram, Event, ServerConfig, SharedConfig};
//!
//! # let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! # let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
//! # let tls = rustls::ServerConfig::builder()
//! #     .with_no_client_auth()
//! #     .with_single_cert(vec![made.cert.der().clone()], key)?;
//! # let server_tls = Arc::new(tls);
//! # let mut roots = rustls::RootCertStore::empty();
//! # roots.add(made.cert.der().clone())?;
//! # let tls = rustls::ClientConfig::builder().with_root_certificates(roots);
//! # let client_tls = Arc::new(tls.with_no_client_auth());
//! # let (client_address, server_address) = ("10.0.0.1:1000".parse()?, "10.0.0.2:443".parse()?);
//! let (server, client) = (ServerConfig::new(server_tls), ClientConfig::new(client_tls));
//! let mut server_quic = <quic::Endpoint>::server(&server.over(), [0; 32])?;
//! let mut client_quic = <quic::Endpoint>::client(&client.over(), [0; 32])?;
//! let now = Instant::now();
//! client_quic.connect(now, server_address, "localhost", ())?;
//! let mut server = Connection::new(&Arc::new(SharedConfig::server(&server)?), 0, now);
//! let mut client = Connection::new(&Arc::new(SharedConfig::client(&client)?), 0, now);
//!
//! let (mut buf, mut status) = (Vec::new(), None);
//! while status.is_none() {
//!     while let Some((handle, event)) = client_quic.poll_event() {
//!         let quic = client_quic.connection(handle).expect("it goes on");
//!         client.on_quic_event(quic, event, now);
//!         while let Some(event) = client.poll_event() {
//!             match event {
//!                 Event::Connected => {
//!                     let request = http::Request::get("https://localhost/").body(())?;
//!                     client.send_request(quic, &request, true)?;
//!                 }
//!                 Event::Response { head, .. } => status = Some(head.status()),
//!                 _ => {}
//!             }
//!         }
//!         client.flush(quic);
//!     }
//!     while let Some((handle, event)) = server_quic.poll_event() {
//!         let quic = server_quic.connection(handle).expect("it goes on");
//!         server.on_quic_event(quic, event, now);
//!         while let Some(event) = server.poll_event() {
//!             if let Event::Request { stream, .. } = event {
//!                 let response = http::Response::builder().status(204).body(())?;
//!                 server.send_response(quic, stream, &response, true)?;
//!             }
//!         }
//!         server.flush(quic);
//!     }
//!     // The network: whatever one side sends, the other one takes in.
//!     while let Some(transmit) = client_quic.poll_transmit(now, &mut buf) {
//!         for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
//!             let from_client =
//!                 Datagram { remote: client_address, local_ip: None, ecn: None, payload };
//!             server_quic.handle_datagram(now, from_client);
//!         }
//!     }
//!     while let Some(transmit) = server_quic.poll_transmit(now, &mut buf) {
//!         for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
//!             let from_server =
//!                 Datagram { remote: server_address, local_ip: None, ecn: None, payload };
//!             client_quic.handle_datagram(now, from_server);
//!         }
//!     }
//! }
//! assert_eq!(status, Some(http::StatusCode::NO_CONTENT));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod budget;
mod code;
mod config;
mod connection;
mod endpoint;
mod error;
mod event;
mod failure;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod grease;
mod message;
mod qpack;
mod receive;
mod send;
mod sessions;
mod settings;
mod shared_config;
mod unidirectional;
mod varint;

pub use altway_fields::Rate;
pub use altway_quic::{
    self as quic, AckProgress, Admission, Congestion, ConnectionHandle, ConnectionIds, Datagram,
    Ecn, EndpointStatistics, Generation, HandshakeCounts, HeldShare, PathStatistics, PeerIdentity,
    Qlog, QlogWriter, QuicConnection, QuicEndpoint, ResetKey, Retry, ServerId, StreamId, Tokens,
    Transmit, Transport, UnknownCongestion, Version, WorkerId, names_server, worker_of,
    worker_perhaps_of,
};
pub use code::Code;
pub use config::{ClientConfig, Limits, ServerConfig};
pub use connection::{Connection, EarlyData};
pub use endpoint::{Endpoint, Slot};
pub use error::Error;
pub use event::{CloseReason, Event, Received};
pub use message::Protocol;
pub use sessions::Sessions;
pub use shared_config::SharedConfig;

pub(crate) use altway_quic::Role;
