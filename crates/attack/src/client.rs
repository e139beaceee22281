//! Clients that do as they like: HTTP/1 bytes and HTTP/2 frames over TLS by hand, HTTP/3 over a QUIC
//! connection whose datagrams can be withheld, sent from elsewhere, or made by hand.

mod fields;
pub mod h2;
pub mod h3;
mod keys;
pub mod packet;
pub mod quic;
pub mod tls;
