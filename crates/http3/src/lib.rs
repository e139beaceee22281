//! HTTP/3 (RFC 9114) over `altway-quic`, for servers and clients, sans-IO.
//!
//! An [`Endpoint`] is one UDP socket's worth of connections. It opens no socket and reads no clock:
//! datagrams and the time go in; [`Event`]s, batches of datagrams, the next time-out and
//! [`PathStatistics`] come out. So it runs in virtual time as it runs on a network.
//!
//! The contract: change something (take in a datagram, run timers, call for the application), then
//! drain events, then drain transmissions, then arm a timer; repeat.
//!
//! Here are frames, QPACK (RFC 9204), the rules for messages and for streams, priorities (RFC 9218),
//! extended CONNECT (RFC 9220), early data on request ([`Event::EarlyData`]), limits against hostile
//! peers ([`Limits`]) and graceful shutdown. Left to the shell: sockets with their offloads, TLS
//! configuration, what to answer. There is no server push, and datagrams (RFC 9297) are not offered.
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! use altway_http3::{ClientConfig, Datagram, Endpoint, Event, ServerConfig};
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
//! let mut server = Endpoint::server(ServerConfig::new(server_tls), [0; 32])?;
//! let mut client = Endpoint::client(ClientConfig::new(client_tls), [0; 32])?;
//! let now = Instant::now();
//! client.connect(now, server_address, "localhost")?;
//!
//! let (mut buf, mut status) = (Vec::new(), None);
//! while status.is_none() {
//!     while let Some((connection, event)) = client.poll_event() {
//!         match event {
//!             Event::Connected => {
//!                 let request = http::Request::get("https://localhost/").body(())?;
//!                 client.send_request(connection, &request, true)?;
//!             }
//!             Event::Response { head, .. } => status = Some(head.status()),
//!             _ => {}
//!         }
//!     }
//!     while let Some((connection, event)) = server.poll_event() {
//!         if let Event::Request { stream, .. } = event {
//!             let response = http::Response::builder().status(204).body(())?;
//!             server.send_response(connection, stream, &response, true)?;
//!         }
//!     }
//!     // The network: whatever one side sends, the other one takes in.
//!     while let Some(transmit) = client.poll_transmit(now, &mut buf) {
//!         for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
//!             let from_client =
//!                 Datagram { remote: client_address, local_ip: None, ecn: None, payload };
//!             server.handle_datagram(now, from_client);
//!         }
//!     }
//!     while let Some(transmit) = server.poll_transmit(now, &mut buf) {
//!         for payload in buf.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
//!             let from_server =
//!                 Datagram { remote: server_address, local_ip: None, ecn: None, payload };
//!             client.handle_datagram(now, from_server);
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
mod delivery;
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
mod unidirectional;
mod varint;

pub use altway_fields::Priority;
pub use altway_quic::{
    Admission, Admit, Congestion, ConnectionHandle, ConnectionIds, Datagram, Ecn,
    EndpointStatistics, Generation, Guard, HeldShare, PathStatistics, PeerIdentity, Qlog,
    QlogWriter, ResetKey, Retry, ServerId, StreamId, Tokens, Transmit, Transport, Version,
    WorkerId, worker_of, worker_perhaps_of,
};
pub use budget::Rate;
pub use code::Code;
pub use config::{ClientConfig, Limits, ServerConfig};
pub use connection::EarlyData;
pub use delivery::{Deliveries, Delivery};
pub use endpoint::Endpoint;
pub use error::Error;
pub use event::{CloseReason, Event, Received};
pub use message::Protocol;
pub use sessions::Sessions;

pub(crate) use altway_quic::Role;
