//! An HTTP/2 engine (RFC 9113, RFC 7541) for servers and clients, sans-IO.
//!
//! A [`Connection`] opens no socket and reads no clock: bytes and the time go in; [`Event`]s, bytes
//! to send, and the next time-out come out. So it runs in virtual time as it runs on a network.
//!
//! The engine is made for servers that answer many small requests: a request whose answer is ready
//! needs no allocation, no task and no header map; responses are collected in one [`Output`] for one system
//! call; repeated request heads are recognised before they are decoded ([`HeadId`]); heads that are
//! sent often are encoded once ([`FieldBlock`]); bodies are not copied.
//!
//! The caller's loop: take a [`Turn`]; call [`receive`](Turn::receive) until there is no event, and answer
//! each; offer bodies to [`next_sendable`](Turn::next_sendable) streams; send the output; arm a timer
//! for [`poll_timeout`](Connection::poll_timeout); repeat.
//!
//! The engine has frames, HPACK, the rules for messages and streams, flow control in both directions
//! with windows that grow as the path needs it, priorities (RFC 9218), extended CONNECT (RFC 8441), ALTSVC
//! frames (RFC 7838), limits against hostile peers ([`Config`]), and graceful shutdown. Sockets, TLS and the
//! answers to requests are the caller's. There is no server push.
//!
//! ```
//! use std::{sync::Arc, time::Instant};
//! use altway_http2::{Config, Connection, Event, Output};
//! use bytes::Bytes;
//!
//! let (now, config) = (Instant::now(), Arc::new(Config::default()));
//! let mut client = Connection::client(Arc::clone(&config), now);
//! let mut server = Connection::server(config, now);
//! let (mut to_server, mut to_client) = (Output::new(), Output::new());
//!
//! let request = http::Request::get("https://altway.example/").body(())?;
//! client.turn(now, &mut to_server).send_request(&request, None, true)?;
//!
//! // The network: whatever one side sends, the other one takes in.
//! let bytes: Vec<u8> = to_server.slices().flatten().copied().collect();
//! let mut turn = server.turn(now, &mut to_client);
//! let mut input = &bytes[..];
//! while let Some(event) = turn.receive(&mut input) {
//!     if let Event::Request { stream, head, .. } = event {
//!         assert_eq!(head.path(), Some(&b"/"[..]));
//!         turn.send_response(stream, 200, &http::HeaderMap::new(), false)?;
//!         turn.send_data(stream, &Bytes::from_static(b"hello"), true)?;
//!     }
//! }
//!
//! let bytes: Vec<u8> = to_client.slices().flatten().copied().collect();
//! let mut turn = client.turn(now, &mut to_server);
//! let (mut input, mut body) = (&bytes[..], Vec::new());
//! while let Some(event) = turn.receive(&mut input) {
//!     match event {
//!         Event::Response { head, .. } => assert_eq!(head.status(), Some(200)),
//!         Event::Data { stream, data, .. } => {
//!             body.extend_from_slice(data);
//!             let n = data.len();
//!             turn.release(stream, n);
//!         }
//!         _ => {}
//!     }
//! }
//! assert_eq!(body, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod code;
mod config;
mod connection;
mod error;
mod event;
mod fault;
mod field_block;
mod fields;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod hpack;
mod output;
mod priority;
mod settings;
mod stream;
mod window;

pub use altway_fields::{Priority, Rate};
pub use altway_message::{Refusal, Scheme};
pub use code::Code;
pub use config::{Config, Floods, Timeouts};
pub use connection::{Connection, Turn};
pub use error::Error;
pub use event::{CloseReason, Event, StreamId};
pub use field_block::{FieldBlock, Indexing};
pub use fields::Fields;
pub use head::{Head, HeadId, InvalidHead};

pub use output::Output;
