//! Bulk transfer and request/response over plain TCP, TCP with TLS 1.3, and QUIC, and what each costs.
//!
//! No HTTP: a [`Server`] and [`send`] exchange payload of any size in any direction over one
//! connection, so that what differs between two runs is the transport alone. A [`Run`] tells the rate,
//! and for both ends processor time, system calls, packets, retransmissions and round-trip times.
//!
//! Measurements:
//! - Processor time is that of the thread that carries the connection. Over loopback the kernel
//!   handles what arrives in the sender's time.
//! - System calls are counted where the loop makes them: recv, send and writev, recvmmsg, sendmsg,
//!   ppoll. See [`Calls`].
//! - All transports are driven alike: non-blocking calls, and a wait in ppoll(2) until the socket is
//!   ready or the engine's next timer is due. No event loop's own costs are in the figures.
//! - Payload is made once, and offered 256 KiB at a time.
//!
//! Left to others: printing and certificates (`cli`), whose certificates are believed (`load`), the
//! QUIC engine (`quic`), emulated links (`emulate`).
//!
//! ```
//! use altway_raw::{Direction, Options, TransportKind, Server, ServerOptions, Sizes, send};
//!
//! # let dir = tempfile::tempdir()?;
//! # let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
//! # let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! # std::fs::write(&certificate, made.cert.pem())?;
//! # std::fs::write(&key, made.signing_key.serialize_pem())?;
//! let options = ServerOptions::new(Some("127.0.0.1".parse()?), 0, certificate, key);
//! let server = Server::bind(&options)?;
//! let (port, stop) = (server.local_addr().port(), server.stop_handle());
//! let serving = std::thread::spawn(move || server.run());
//!
//! let sizes = Sizes::bulk(Direction::Down, 1_000_000);
//! let run = send(&Options::new("127.0.0.1", port, TransportKind::Tcp, sizes))?;
//! assert_eq!((run.up_bytes, run.down_bytes), (0, 1_000_000));
//!
//! stop.stop();
//! serving.join().expect("the server doesn't panic")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod costs;
mod error;
mod nocipher;
mod options;
mod payload;
mod protocol;
mod quic;
mod report;
mod server;
mod session;
mod shares;
mod sys;
mod tcp;
mod tls;
mod wire;
mod zero_copy;

pub use altway_load::Trust;
pub use altway_quic::{Congestion, Version};
pub use client::send;
pub use costs::{Calls, Costs, Cpu, Path};
pub use error::Error;
pub use options::{
    Cipher, DEFAULT_PORT, Direction, Options, ServerOptions, Sizes, TransportKind, Tuning,
    UnknownDirection,
};
pub use report::{Run, Side};
pub use server::Server;
pub use shares::{Measured, Separated, Share, Shares, SharesOptions, Spread, Variant, shares};
pub use sys::StopHandle;
