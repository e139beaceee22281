//! Services of the kernel that altway's loops need and the standard library doesn't give.
//!
//! - [`Udp`]: a UDP socket whose calls carry many datagrams each way (GRO, GSO), with ECN, and with
//!   each of these to be switched off, so that its worth can be measured.
//! - [`WatchedUdp`]: such a socket in tokio's event loop, without being woken for what was sent.
//! - [`Timer`]: a timer as exact as the kernel's.
//! - [`steer_by_connection_id`]: to each worker the datagrams of its own connections.
//! - [`tcp_info`]: the kernel's counters of a TCP connection.
//! - [`Keepalive`]: a TCP peer that has vanished is found out, also where both ends are silent.
//!
//! The server (`serve`), connections to the servers behind it (`upstream`), the clients (`load`) and the raw transports
//! (`raw`) share it. What the datagrams mean is the engine's (`altway-quic`), when to wait is the loop's.
//!
//! ```
//! use altway_socket::{SendOutcome, Settings, Udp};
//! use std::net::UdpSocket;
//!
//! let peer = UdpSocket::bind("127.0.0.1:0")?;
//! let socket = UdpSocket::bind("127.0.0.1:0")?;
//! socket.connect(peer.local_addr()?)?;
//! let mut udp = Udp::new(socket, Settings::default())?;
//! peer.send_to(b"hello", udp.socket().local_addr()?)?;
//!
//! let mut received = Vec::new();
//! while received.is_empty() {
//!     udp.receive(|datagram| received.extend_from_slice(datagram.payload))?;
//! }
//! assert_eq!(received, b"hello");
//! assert_eq!(udp.send(|_batch| None)?, SendOutcome::Drained);
//! # Ok::<(), std::io::Error>(())
//! ```

mod keepalive;
mod steering;
mod sys;
mod tcp_info;
mod timer;
mod udp;
mod watched;

pub use keepalive::{Keepalive, KeepaliveWatch};
pub use steering::steer_by_connection_id;
pub use sys::{raise_udp_buffers, route_udp_payload, watch};
pub use tcp_info::{TcpDeliveryRate, TcpInfo, tcp_info};
pub use timer::Timer;
pub use udp::{Calls, NonBlocking, SendOutcome, Settings, Udp, is_final};
pub use watched::WatchedUdp;
