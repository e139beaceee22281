//! A reverse proxy for an altway server: it passes requests of every protocol on to servers behind it (upstreams).
//!
//! [`Proxy`] is a responder for [`Site::responder`](altway_serve::Site::responder). It adds the client's address to
//! requests (`X-Forwarded-For`, `Forwarded`), passes on content, trailers and early hints (103) as they arrive, connects
//! WebSockets, and answers 502, 503 or 504 where no upstream has answered. [`altway_upstream`] chooses the upstream for a
//! request, and decides what to do when it fails.
//!
//! Each worker of the server has its own connections to upstreams. Nothing is cached, and no content is changed: validators,
//! ranges and encodings are passed on as they are.
//!
//! ```no_run
//! use altway_proxy::{Proxy, Settings};
//! use altway_serve::{Identity, Options, Security, Server, Site, stop_channel};
//! use altway_upstream::{Address, Group, Protocol};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = altway_upstream::Server {
//!     address: Address::Tcp("localhost".into(), 3000),
//!     protocol: Protocol::Http1,
//!     tls: None,
//! };
//! let group = Group::new(altway_upstream::Options::new(vec![server]))?;
//! let site = Site::responder(Proxy::new(group, Settings::default()));
//! let identity = Identity::from_pem_files("chain.pem", "key.pem")?;
//! let (_stop, signal) = stop_channel();
//! Server::bind(&Options::new(site, Security::tls(identity)))?.run(&signal)?;
//! # Ok(())
//! # }
//! ```

mod body;
mod service;
mod statistics;
mod websocket;

pub use altway_units::{BadNetwork, Network};
pub use body::ProxyBody;
pub use service::{Answering, Proxy, Settings};
pub use statistics::{ProtocolStatistics, Statistics, Summary};
