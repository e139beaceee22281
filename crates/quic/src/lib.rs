//! QUIC (RFC 9000; version 2: RFC 9369) for servers and clients behind a narrow face, sans-IO.
//!
//! A [`QuicEndpoint`] is one UDP socket's worth of [`QuicConnection`]s. It opens no socket and reads no clock:
//! datagrams and the time go in; [`Event`]s, batches of datagrams, the next time-out and
//! [`PathStatistics`] come out. So it runs in virtual time as it runs on a network. Behind these two traits
//! is quinn-proto, as [`Endpoint`] and [`Connection`]; no type of it shows, so that it can be exchanged.
//!
//! The contract: change something (take in a datagram, run timers, write to a stream of a
//! connection), then drain events, then drain transmissions, then arm a timer; repeat.
//!
//! Left to the shell: sockets with their offloads, TLS configuration with its ALPN, and what the
//! bytes on streams mean.
//!
//! ```
//! # use std::{sync::Arc, time::Instant};
//! use altway_quic::{
//!     ClientConfig, Datagram, Direction, Endpoint, Event, QuicConnection, QuicEndpoint, Read,
//!     ServerConfig,
//! };
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
//! let mut server = <Endpoint>::server(&ServerConfig::new(server_tls), [0; 32])?;
//! let mut client = <Endpoint>::client(&ClientConfig::new(client_tls), [0; 32])?;
//! let now = Instant::now();
//! client.connect(now, server_address, "localhost", ())?;
//!
//! let (mut buf, mut heard) = (Vec::new(), None);
//! while heard.is_none() {
//!     while let Some((handle, event)) = client.poll_event() {
//!         if event == Event::Connected {
//!             let connection = client.connection(handle).expect("it has just begun");
//!             let stream = connection.open(Direction::Unidirectional).expect("the first");
//!             connection.write(stream, &mut ["hello".into()])?;
//!             connection.finish(stream)?;
//!         }
//!     }
//!     while let Some((handle, event)) = server.poll_event() {
//!         if let Event::Opened { stream } = event
//!             && let Some(connection) = server.connection(handle)
//!             && let Read::Data(data) = connection.read(stream)
//!         {
//!             heard = Some(data);
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
//! assert_eq!(heard.as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(clippy::disallowed_methods)]

mod admission;
mod budget;
mod config;
mod connection;
mod connection_ids;
mod datagram;
mod delivery;
mod endpoint;
mod engine;
mod error;
mod event;
mod hystart;
mod identity;
mod initial_window;
mod long_header;
mod pacer;
mod qlog;
mod sessions;
mod statistics;
mod stream;
mod sync;
mod timers;
mod token_cache;
mod validation;
mod version;
mod version_information;
mod windows;
mod worker_id;

pub use admission::Admission;
pub use config::{ClientConfig, Congestion, Limits, ServerConfig, Transport, UnknownCongestion};
pub use connection::QuicConnection;
pub use connection_ids::{
    CONNECTION_ID_BYTES, ConnectionIds, ResetKey, ServerId, names_server, worker_of,
    worker_perhaps_of,
};
pub use datagram::{Datagram, Ecn, Transmit};
pub use endpoint::QuicEndpoint;
pub use engine::{Connection, Endpoint};
pub use error::Error;
pub use event::{CloseReason, ConnectionHandle, Event, Read};
pub use identity::PeerIdentity;
pub use qlog::{Qlog, QlogWriter};
pub use statistics::{AckProgress, EndpointStatistics, HandshakeCounts, PathStatistics};
pub use stream::{Direction, Role, StreamId};
pub use token_cache::TokenCache;
pub use validation::{Retry, Tokens};
pub use version::Version;
pub use windows::HeldShare;
pub use worker_id::{Generation, WorkerId};
